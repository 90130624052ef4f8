//! What a leader does: it begins with an entry of its term, sends each follower what that lacks, commits what most have,
//! and confirms that it still leads. An entry of an earlier term is committed only together with one of its own (Ongaro
//! and Ousterhout, section 5.4.2).

use std::collections::BTreeMap;

use limits::Moment;

use super::asks::{Ask, NotAsked, Outcome};
use super::core::{Consensus, Role};
use super::disk::{Entry, Position};
use super::message::Body;
use super::{CONFIRM_WITHIN, CONFIRMATIONS_MAX, ENTRIES_MAX, HEARTBEAT};

/// What a leader keeps while it leads.
#[derive(Clone, Debug)]
pub(super) struct Leading {
    pub(super) heartbeat_at: Moment,
    /// The index of the first entry of its term.
    pub(super) first: u64,
    followers: BTreeMap<u8, Follower>,
    /// The number of the newest round of confirmation.
    round: u64,
    under_way: Option<Round>,
    /// Who asked while a round was under way, and has part in the next.
    waiting: Vec<Ask>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Follower {
    /// Up to where its log is known to be the leader's.
    matched: u64,
    /// Up to where it may be: it is sent what follows.
    sent_after: u64,
    /// The newest round that it has answered.
    round: u64,
}

#[derive(Clone, Debug)]
struct Round {
    asked: Vec<Ask>,
    until: Moment,
    /// What must be committed before it counts: all that was when it began, and the first entry of the term.
    index: u64,
}

impl<P: Clone> Consensus<P> {
    pub(super) fn lead(&mut self, now: Moment) {
        let end = self.disk.end().index;
        let unknown = Follower { matched: 0, sent_after: end, round: 0 };
        self.leader = Some(self.me);
        self.role = Role::Leads(Leading {
            heartbeat_at: now,
            first: end + 1,
            followers: self.others().map(|node| (node, unknown)).collect(),
            round: 0,
            under_way: None,
            waiting: Vec::new(),
        });
        self.append(None, now);
    }

    /// Stops leading, if it did, or standing: it has seen a newer term. Confirmations fail; proposals may yet succeed.
    pub(super) fn stop_leading(&mut self, now: Moment) {
        let Role::Leads(mut leading) = std::mem::replace(&mut self.role, Role::Follows) else { return };
        let asked = leading.under_way.take().map(|round| round.asked).unwrap_or_default();
        let all = asked.into_iter().chain(leading.waiting);
        self.outcomes.extend(all.map(|ask| Outcome::Unconfirmed { ask }));
        self.wait_for_leader(limits::Span::ZERO, now);
    }

    /// A proposal that may have waited for the disk goes into the log, unless this node leads no more.
    pub(super) fn write(&mut self, ask: Ask, payload: P, now: Moment) {
        if !matches!(self.role, Role::Leads(_)) {
            if self.asks.forget(ask) {
                self.outcomes.push_back(Outcome::Undecided { ask });
            }
            return;
        }
        self.asks.place(ask, self.disk.end().index + 1);
        self.append(Some(payload), now);
    }

    fn append(&mut self, payload: Option<P>, now: Moment) {
        self.disk.log.push(Entry { term: self.disk.term, payload });
        self.show_life(now);
        self.commit(now);
    }

    /// Sends every follower what it lacks, or the mere sign that this leader lives.
    pub(super) fn show_life(&mut self, now: Moment) {
        let Role::Leads(leading) = &mut self.role else { return };
        leading.heartbeat_at = now.saturating_add(HEARTBEAT);
        self.others().for_each(|to| self.send_append(to));
    }

    fn send_append(&mut self, to: u8) {
        let Role::Leads(leading) = &self.role else { return };
        let Some(follower) = leading.followers.get(&to) else { return };
        let index = follower.sent_after;
        let term = self.disk.term_at(index).expect("a follower is sent what follows an entry of this log");
        let entries = self.disk.after(index, ENTRIES_MAX).to_vec();
        let (committed, round) = (self.disk.committed, leading.round);
        self.send(to, Body::Append { after: Position { index, term }, entries, committed, round });
    }

    pub(super) fn take_appended(&mut self, from: u8, matched: Result<u64, u64>, round: u64, now: Moment) {
        let end = self.disk.end().index;
        let Role::Leads(leading) = &mut self.role else { return };
        let Some(follower) = leading.followers.get_mut(&from) else { return };
        follower.round = follower.round.max(round);
        let before = *follower;
        match matched {
            Ok(matched) => follower.matched = follower.matched.max(matched),
            Err(perhaps) => follower.sent_after = perhaps.min(follower.sent_after),
        }
        if matched.is_ok() {
            follower.sent_after = follower.matched;
        }
        follower.sent_after = follower.sent_after.max(follower.matched);
        // Answers come twice and overtake each other; one that says nothing new waits for the next heartbeat.
        let is_news = follower.matched > before.matched || follower.sent_after < before.sent_after;
        if is_news && follower.sent_after < end {
            self.send_append(from);
        }
        self.commit(now);
        self.end_round(now);
    }

    /// Commits what most nodes have, if the last of it is of this term, and says so at once.
    fn commit(&mut self, now: Moment) {
        let (majority, end) = (self.majority(), self.disk.end().index);
        let Role::Leads(leading) = &self.role else { return };
        let mut matched: Vec<u64> = leading.followers.values().map(|follower| follower.matched).collect();
        matched.push(end);
        matched.sort_unstable_by(|a, b| b.cmp(a));
        let index = matched[majority - 1];
        if index > self.disk.committed && self.disk.term_at(index) == Some(self.disk.term) {
            self.disk.committed = index;
            self.show_life(now);
        }
    }

    pub(super) fn ask_for_round(&mut self, now: Moment) -> Result<Ask, NotAsked> {
        let Role::Leads(leading) = &mut self.role else { return Err(NotAsked::NotLeader { leader: self.leader }) };
        if leading.waiting.len() >= CONFIRMATIONS_MAX {
            return Err(NotAsked::Busy);
        }
        let ask = self.asks.next();
        leading.waiting.push(ask);
        self.begin_round(now);
        Ok(ask)
    }

    /// Begins a round for all who wait, unless one is under way. A message that is lost is made up for by the next
    /// heartbeat, which carries the number of the round as well.
    fn begin_round(&mut self, now: Moment) {
        let committed = self.disk.committed;
        let Role::Leads(leading) = &mut self.role else { return };
        if leading.under_way.is_some() || leading.waiting.is_empty() {
            return;
        }
        leading.round += 1;
        let asked = std::mem::take(&mut leading.waiting);
        let (until, index) = (now.saturating_add(CONFIRM_WITHIN), committed.max(leading.first));
        leading.under_way = Some(Round { asked, until, index });
        self.show_life(now);
        self.end_round(now);
    }

    /// Ends the round that most have answered, and begins the next.
    fn end_round(&mut self, now: Moment) {
        let (majority, committed, term) = (self.majority(), self.disk.committed, self.disk.term);
        let Role::Leads(leading) = &mut self.role else { return };
        let answered = leading.followers.values().filter(|follower| follower.round == leading.round).count() + 1;
        let is_over = |round: &mut Round| answered >= majority && round.index <= committed;
        let Some(Round { asked, index, .. }) = leading.under_way.take_if(is_over) else { return };
        self.outcomes.extend(asked.into_iter().map(|ask| Outcome::Confirmed { ask, term, index }));
        self.begin_round(now);
    }

    pub(super) fn round_timeout(&self) -> Option<Moment> {
        match &self.role {
            Role::Leads(leading) => leading.under_way.as_ref().map(|round| round.until),
            Role::Follows | Role::Stands { .. } => None,
        }
    }

    /// Gives up the round that takes too long, and begins the next.
    pub(super) fn end_late_round(&mut self, now: Moment) {
        let Role::Leads(leading) = &mut self.role else { return };
        let Some(Round { asked, .. }) = leading.under_way.take_if(|round| round.until <= now) else { return };
        self.outcomes.extend(asked.into_iter().map(|ask| Outcome::Unconfirmed { ask }));
        self.begin_round(now);
    }
}
