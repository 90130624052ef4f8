//! What raft promises, as checks that know everything: election safety, log matching, leader completeness, committed
//! entries that stay, answers that are true, and confirmations that no deposed leader gets.

use std::collections::BTreeMap;

use super::super::*;
use super::group::{Seen, Violation};

/// A process: its node, and how many ran there before.
type Process = (u8, u64);

#[derive(Default)]
pub(super) struct Checks {
    /// Who led each term.
    leaders: BTreeMap<u64, u8>,
    /// What was committed, by anybody's account.
    ledger: Vec<(u64, Option<u64>)>,
    /// How much of it each process was handed.
    handed: BTreeMap<Process, u64>,
    proposed: BTreeMap<(Process, Ask), u64>,
    asked: BTreeMap<(Process, Ask), Asked>,
    undecided: Vec<u64>,
}

/// A confirmation that somebody waits for.
struct Asked {
    term: u64,
    /// How much was committed when it was asked for.
    committed: u64,
    /// Whether a later term had a leader already.
    is_too_late: bool,
}

impl Checks {
    pub(super) fn proposed(&mut self, by: Process, ask: Ask, payload: u64) {
        self.proposed.insert((by, ask), payload);
    }

    pub(super) fn asked(&mut self, by: Process, ask: Ask, term: u64, seen: &mut Seen) {
        let is_too_late = self.newest_term() > term;
        seen.believed_too_long += u64::from(is_too_late);
        self.asked.insert((by, ask), Asked { term, committed: self.ledger_len(), is_too_late });
    }

    /// Each index says the same for ever, to everybody, and the answer to a proposal is about what was proposed.
    pub(super) fn committed(&mut self, node: u8, life: u64, entry: &Committed<u64>) -> Result<(), Violation> {
        let by = (node, life);
        let handed = self.handed.entry(by).or_default();
        *handed += 1;
        if *handed != entry.index {
            return Err(format!("node {node} is handed {} where {handed} comes next", entry.index));
        }
        let said = (entry.term, entry.payload);
        let at = usize::try_from(entry.index - 1).unwrap();
        match self.ledger.get(at) {
            None => self.ledger.push(said),
            Some(before) if *before == said => {}
            Some(before) => return Err(format!("at {}: {before:?}, and at node {node} {said:?}", entry.index)),
        }
        if let Some(ask) = entry.answers
            && self.proposed.remove(&(by, ask)) != entry.payload
        {
            return Err(format!("node {node} takes {said:?} for another's proposal"));
        }
        Ok(())
    }

    pub(super) fn outcome(
        &mut self,
        by: Process,
        outcome: Outcome,
        stuck: bool,
        seen: &mut Seen,
    ) -> Result<(), Violation> {
        match outcome {
            Outcome::Undecided { ask } => {
                let payload = self.proposed.remove(&(by, ask)).ok_or("an answer to what nobody asked")?;
                self.undecided.push(payload);
            }
            Outcome::Unconfirmed { ask } => {
                self.asked.remove(&(by, ask)).ok_or("an answer to what nobody asked")?;
                seen.unconfirmed += 1;
            }
            Outcome::Confirmed { ask, term, index } => self.confirmed(by, ask, (term, index), stuck, seen)?,
        }
        Ok(())
    }

    fn confirmed(
        &mut self,
        by: Process,
        ask: Ask,
        (term, index): (u64, u64),
        stuck: bool,
        seen: &mut Seen,
    ) -> Result<(), Violation> {
        let asked = self.asked.remove(&(by, ask)).ok_or("an answer to what nobody asked")?;
        let handed = self.handed.get(&by).copied().unwrap_or_default();
        let first = self.ledger.iter().position(|(of, _)| *of == term);
        let is_wrong = [
            (asked.is_too_late, "after its successor was elected"),
            (asked.term != term, "in another term"),
            (stuck, "with a stuck disk"),
            (index < asked.committed, "without all that was committed"),
            (handed < index, "before it was handed what it counts on"),
            (first.is_none_or(|first| index <= first as u64), "before the first entry of its term"),
        ];
        if let Some((_, why)) = is_wrong.iter().find(|(is_wrong, _)| *is_wrong) {
            return Err(format!("node {} is confirmed in term {term}, {why}", by.0));
        }
        seen.confirmed += 1;
        seen.confirmed_late += u64::from(self.newest_term() > term);
        Ok(())
    }

    /// Election safety, and leader completeness.
    pub(super) fn leads(&mut self, node: u8, process: &Consensus<u64>, seen: &mut Seen) -> Result<(), Violation> {
        let Leadership { term, is_me, .. } = process.leadership();
        if !is_me {
            return Ok(());
        }
        match self.leaders.insert(term, node) {
            Some(before) if before != node => return Err(format!("{before} and {node} lead term {term}")),
            Some(_) => return Ok(()),
            None => seen.elections += 1,
        }
        let earlier = self.ledger.iter().take_while(|(of, _)| *of < term);
        let log = process.disk().log().iter().map(|entry| (entry.term, entry.payload));
        let has_all =
            earlier.clone().count() <= log.len() && earlier.zip(log).all(|(committed, own)| *committed == own);
        if !has_all {
            return Err(format!("node {node} leads term {term} without all that was committed before"));
        }
        Ok(())
    }

    /// Log matching: where two logs have an entry of one term at one index, they are equal up to there.
    pub(super) fn logs<'a>(&self, disks: impl Iterator<Item = &'a Disk<u64>> + Clone) -> Result<(), Violation> {
        for (number, one) in disks.clone().enumerate() {
            for other in disks.clone().skip(number + 1) {
                let both = || one.log().iter().zip(other.log());
                let meet = both().rposition_by(|(a, b)| a.term == b.term);
                let equal = both().take(meet).all(|(a, b)| a == b);
                if !equal {
                    return Err(format!("two logs meet at {meet} and differ before"));
                }
            }
        }
        Ok(())
    }

    pub(super) fn ledger_len(&self) -> u64 {
        self.ledger.len() as u64
    }

    /// Whether something of what was proposed lately was committed.
    pub(super) fn committed_of_late(&self, newest: u64) -> bool {
        self.ledger.iter().rev().take(30).any(|(_, payload)| payload.is_some_and(|payload| payload + 60 > newest))
    }

    pub(super) fn count_undecided(&self, seen: &mut Seen) {
        for payload in &self.undecided {
            match self.ledger.iter().any(|(_, committed)| *committed == Some(*payload)) {
                true => seen.undecided_and_committed += 1,
                false => seen.undecided_and_gone += 1,
            }
        }
    }

    fn newest_term(&self) -> u64 {
        self.leaders.keys().next_back().copied().unwrap_or_default()
    }
}

/// Where two rows agree for the last time, as a length.
trait Meet: Iterator + Sized {
    fn rposition_by(self, agree: impl Fn(&Self::Item) -> bool) -> usize {
        self.enumerate().filter(|(_, both)| agree(both)).last().map_or(0, |(place, _)| place + 1)
    }
}

impl<I: Iterator> Meet for I {}
