//! Elections, and what a follower does: it votes once in a term, and only for a log that is no older than its own; and
//! it takes entries where they join on to its log.

use limits::{Moment, Span};

use super::ELECTION_MAX;
use super::asks::Outcome;
use super::core::{Consensus, Role};
use super::disk::{Entry, Position};
use super::message::Body;

impl<P: Clone> Consensus<P> {
    /// Whether it heard a leader so lately that it helps nobody to depose it. A node that was cut off and comes back with
    /// a high term is thus no reason for an election.
    pub(super) fn has_leader(&self, now: Moment) -> bool {
        self.leader.is_some() && self.heard.is_some_and(|heard| now < heard.saturating_add(ELECTION_MAX))
    }

    /// Enters a newer term, in which it has voted for nobody and knows of no leader.
    pub(super) fn enter(&mut self, term: u64, now: Moment) {
        debug_assert!(term > self.disk.term, "terms only rise");
        self.stop_leading(now);
        (self.disk.term, self.disk.vote) = (term, None);
        (self.leader, self.heard) = (None, None);
    }

    /// Stands for election in the next term.
    pub(super) fn stand(&mut self, now: Moment) {
        self.enter(self.disk.term + 1, now);
        self.disk.vote = Some(self.me);
        self.role = Role::Stands { votes: 0 };
        self.wait_for_leader(Span::ZERO, now);
        let end = self.disk.end();
        self.others().for_each(|to| self.send(to, Body::AskVote { end }));
        self.take_vote(self.me, now);
    }

    /// Somebody whose log is no older than this one asks for a vote.
    pub(super) fn take_ask(&mut self, from: u8, is_current: bool, now: Moment) {
        let is_free = self.disk.vote.is_none_or(|vote| vote == from);
        let granted = is_current && is_free;
        if granted {
            self.disk.vote = Some(from);
            self.wait_for_leader(Span::ZERO, now);
        }
        self.send(from, Body::Vote { granted });
    }

    pub(super) fn take_vote(&mut self, from: u8, now: Moment) {
        let majority = self.majority();
        let Role::Stands { votes } = &mut self.role else { return };
        *votes |= 1 << from;
        if votes.count_ones() as usize >= majority {
            self.lead(now);
        }
    }

    /// The leader of this term shows that it lives. Up to where this log is its own then, or where it may be.
    pub(super) fn take_append(
        &mut self,
        from: u8,
        after: Position,
        entries: Vec<Entry<P>>,
        committed: u64,
        now: Moment,
    ) -> Result<u64, u64> {
        debug_assert!(!matches!(self.role, Role::Leads(_)), "one leader in a term");
        self.role = Role::Follows;
        (self.leader, self.heard) = (Some(from), Some(now));
        self.wait_for_leader(ELECTION_MAX, now);
        if self.disk.term_at(after.index) != Some(after.term) {
            return Err(self.disk.end().index.min(after.index.saturating_sub(1)));
        }
        let matched = after.index + entries.len() as u64;
        for (index, entry) in (after.index + 1..).zip(entries) {
            self.take_entry(index, entry);
        }
        self.disk.committed = self.disk.committed.max(committed.min(matched));
        Ok(matched)
    }

    fn take_entry(&mut self, index: u64, entry: Entry<P>) {
        match self.disk.term_at(index) {
            Some(term) if term == entry.term => return,
            Some(_) => self.cut(index),
            None => {}
        }
        self.disk.log.push(entry);
    }

    /// Drops the log from that entry on: another leader's says something else there.
    fn cut(&mut self, index: u64) {
        debug_assert!(index > self.disk.committed, "what is committed is never dropped");
        self.disk.log.truncate(usize::try_from(index - 1).expect("an index below the length of a vector"));
        self.outcomes.extend(self.asks.cut(index).into_iter().map(|ask| Outcome::Undecided { ask }));
    }
}
