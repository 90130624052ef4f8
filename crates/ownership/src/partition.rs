//! One partition at one node: the one place where a check is decided. The shell locks it (the lock is the partition's
//! *gate*), hands in checks and a reading of the clock, and carries the answers away; nothing in here waits or knows who
//! asked. Whoever is not the owner, or not for long enough, says so and spends nothing.

mod acts;
mod certain;
mod keeping;
mod recovering;

use limits::{Book, Decided, Hold, HoldId, Leg, Moment, Now, Settled, Span, Table};
use smallvec::SmallVec;

use crate::bug::Bug;
use crate::check::{Answer, Asker, Check, CheckId, CheckLeg, Unknown, Verdict};
use crate::floor::Floor;
use crate::kept::ledger::Ledger;
use crate::partition::acts::resolve;
use crate::partition::certain::Returnable;
use crate::partition::keeping::Beginning;
use crate::records::{Ending, Fate, Recall, Records, Slot};
use crate::refunds::Refunds;
use crate::session::{Epoch, SessionId};
pub use certain::DENIAL_CERTAIN_MAX;
pub use keeping::{Found, RENEWED_EVERY, Recovered, WORD_AWAITED_FOR, Write};

/// The smallest batch whose keys are looked up ahead: for fewer there is nothing to wait for side by side.
const LOOK_AHEAD_MIN: usize = 2;

/// Until when answers may be given, and in whose name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaseBound {
    /// The session that holds the lease. A partition that was activated for another session of the same process does not
    /// live off this one's lease (S5).
    pub session: SessionId,
    /// The reading of the holder's clock at which the lease ends.
    pub end: Moment,
    /// How long an answer may be under way and still be believed: `D_max (1 + 3 rho)`. An owner decides only if an
    /// answer given now is dead before the lease is.
    pub margin: Span,
}

/// What a cancel found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cancelled {
    /// A decision, whose charges (possibly none) were taken back, now or by an earlier cancel.
    Undone,
    /// Nothing yet: a tombstone now waits for the check.
    Tombstone,
    /// A question that its caller has settled by a debt: what was booked stays.
    Settled,
    /// A decision of which another asker was told, or that was made for another: it stands, since that one may have let
    /// its caller pass.
    Stands,
    /// This node does not own the partition, and holds no charge that could be taken back.
    NotOwner,
}

/// The state of one partition at one node, active or not.
///
/// # The gate
///
/// Every method runs under the partition's lock. What is read *inside* it: the limit [`Book`], because entries of the
/// table may carry shape ids that a book loaded before the lock does not know; the lease, because it may have ended while
/// the lock was waited for; and for the same reason the clock, unless nobody had to wait.
#[derive(Clone, Debug)]
pub struct Partition {
    state: State,
    /// The newest epoch that this node has heard of; the epoch of the reign while active.
    epoch: Epoch,
    /// The epoch of the last reign this node began here.
    reign: Epoch,
    floor: Floor,
    table: Table,
    records: Records,
    refunds: Refunds,
    returnable: Returnable,
    ledger: Ledger,
    beginning: Beginning,
    last: Now,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    NotOwner { hint: Option<SessionId> },
    Active { session: SessionId },
}

/// Buffers that one batch reuses from check to check.
#[derive(Default)]
struct Scratch {
    legs: SmallVec<[Leg; 2]>,
    decided: Decided,
}

impl Partition {
    /// A partition that nobody is known to own.
    pub fn vacant() -> Partition {
        Partition {
            state: State::NotOwner { hint: None },
            epoch: Epoch(0),
            reign: Epoch(0),
            floor: Floor::Fresh,
            table: Table::new(),
            records: Records::new(0),
            refunds: Refunds::default(),
            returnable: Returnable::default(),
            ledger: Ledger::default(),
            beginning: Beginning::default(),
            last: Now::at(Moment::ZERO),
        }
    }

    /// Begins a reign: from now on `session` decides here, reading absent keys through `floor`. The partition must not
    /// be active, and `epoch` must be above that of every reign before and not below any that was heard of; otherwise
    /// nothing happens, for whoever is appointed at an older epoch is not appointed.
    pub fn activate(&mut self, epoch: Epoch, session: SessionId, floor: Floor) {
        debug_assert!(!self.is_active(), "S8: a reign ends before the next begins");
        debug_assert!(epoch > self.reign, "S2: epochs of a partition only rise");
        if self.is_active() || epoch <= self.reign || epoch < self.epoch {
            return;
        }
        debug_assert!(self.table.is_empty() && self.records.len() == 0, "S5: no memory of one session serves another");
        self.state = State::Active { session };
        self.epoch = epoch;
        self.reign = epoch;
        self.floor = floor;
        self.records = Records::new(session.nonce);
        self.close_books();
        self.last = later(self.last, Now::at(floor.since()));
    }

    /// Ends the reign, if there is one, and takes note of who is believed to own the partition at `epoch`. All state is
    /// dropped and the domains get the room of its keys back. A notice that is older than what is known is ignored.
    ///
    /// Stopping is always safe: a hint suffices for it, where activating needs the log.
    pub fn deactivate(&mut self, epoch: Epoch, hint: Option<SessionId>, book: &impl Book) {
        if epoch < self.epoch {
            return;
        }
        if self.is_active() {
            self.table.clear(book.shapes(), book.budgets());
            self.records = Records::new(0);
            self.refunds = Refunds::default();
            self.returnable = Returnable::default();
            self.close_books();
        }
        self.state = State::NotOwner { hint };
        self.epoch = epoch;
    }

    /// Decides a batch, in order, and appends one answer per check to `out`. `now` is read once per batch by the caller.
    ///
    /// Time here is the later of `now` and the last reading this partition acted on, so that the moments of decisions
    /// never go back. Not the owner, or a lease that ends too soon: every check is told so, and nothing is spent. A
    /// question that is known gets its recorded answer, unless that is a denial by another revision of the policy. Everything
    /// else is decided by the table, all legs or none.
    pub fn decide_batch(
        &mut self,
        checks: &[Check],
        book: &impl Book,
        now: Now,
        lease: &LeaseBound,
        out: &mut Vec<Answer>,
    ) {
        let now = self.advance(now);
        if let Some(bar) = self.bar(now, lease) {
            out.extend(checks.iter().map(|_| bar.clone()));
            return;
        }
        if self.is_waiting(now) {
            out.extend(checks.iter().map(|_| Answer::Unknown(Unknown::Loading)));
            return;
        }
        self.look_ahead(checks);
        let mut scratch = Scratch::default();
        out.extend(checks.iter().map(|check| self.answer(check, book, now, &mut scratch)));
    }

    /// Looks all keys of a batch up before the first is decided: the look-ups wait for memory side by side.
    fn look_ahead(&self, checks: &[Check]) {
        if checks.len() < LOOK_AHEAD_MIN {
            return;
        }
        for leg in checks.iter().flat_map(|check| &check.legs) {
            std::hint::black_box(self.table.holds(&leg.key));
        }
    }

    /// Takes back exactly what the check `id` charged, or leaves a tombstone that keeps it from being charged when it
    /// arrives after its cancel. `asker` promises to discard any answer to `id`. That is its own promise only: where
    /// another asker was told of the decision, it stands. Cancelling twice changes nothing.
    pub fn cancel(&mut self, id: CheckId, asker: Asker, book: &impl Book, now: Now) -> Cancelled {
        if !self.is_active() || Bug::CancelUnheard.is_here() {
            return Cancelled::NotOwner;
        }
        let now = self.advance(now);
        if self.records.stands_for_others(id, asker, now.moment) {
            return Cancelled::Stands;
        }
        match self.records.end(id, Fate::Cancelled, now.moment) {
            Ending::Decided(slot) => {
                self.take_back(id, slot, book, now);
                Cancelled::Undone
            }
            Ending::Cancelled => Cancelled::Undone,
            Ending::Settled => Cancelled::Settled,
            Ending::Unknown { .. } => Cancelled::Tombstone,
        }
    }

    /// Cuts what the check `id` was granted ([`crate::Act::UpTo`]) down to `units`, since another of its partitions granted no
    /// more, and undoes the rest. Where another asker was told of the grant, it stands, and so does a cut that was made
    /// before. Returns whether anything was cut.
    pub fn trim(&mut self, id: CheckId, asker: Asker, units: u64, book: &impl Book, now: Now) -> bool {
        if !self.is_active() {
            return false;
        }
        let now = self.advance(now);
        if self.records.stands_for_others(id, asker, now.moment) {
            return false;
        }
        let Some((slot, granted)) = self.records.cut(id, units, now.moment) else { return false };
        // Only whole charges are remembered for refunds; what is left of this one stays.
        self.refunds.take(id, now.moment);
        for charge in self.records.charges(slot) {
            let kept = charge.cost() / granted * units;
            self.table.undo(&charge.part(charge.cost() - kept), book.shapes(), now);
        }
        true
    }

    /// Books what a caller spent under `id` without waiting for the answer: afterwards exactly `legs` are charged on
    /// that question's account, whether or not the check was decided, denied or cancelled before, and no later attempt
    /// is charged again. Does nothing a second time, nor where the question may already be charged under a record that
    /// was lost for space, nor where another asker was told of a decision: that one's caller went by it, and what an open
    /// limit gives twice is not booked twice. One that comes later than the records last
    /// ([`RECORD_HORIZON`](crate::RECORD_HORIZON)) is booked beside what the question may have been charged: nobody can tell
    /// any more. Limits that the book does not know are passed over. Returns whether anything was booked.
    pub fn debt(&mut self, id: CheckId, asker: Asker, legs: &[CheckLeg], book: &impl Book, now: Now) -> bool {
        if !self.is_active() {
            return false;
        }
        let now = self.advance(now);
        if self.records.stands_for_others(id, asker, now.moment) {
            return false;
        }
        match self.records.end(id, Fate::Settled, now.moment) {
            Ending::Decided(slot) => drop(self.take_back(id, slot, book, now)),
            Ending::Cancelled | Ending::Unknown { perhaps_lost: false } => {}
            Ending::Settled | Ending::Unknown { perhaps_lost: true } => return false,
        }
        let (mut booked, floor) = (false, self.floor);
        // Slots that an open limit lent unseen are given back by the id that they were asked for under.
        let hold = Hold { id: HoldId::from(id.0), ttl: None };
        for leg in legs.iter().filter_map(|leg| resolve(leg, floor, book)) {
            booked |= self.table.force(&leg, Some(&hold), book.shapes(), book.budgets(), now);
        }
        booked
    }

    /// Forgets keys that are as fresh ones, and records whose time is over: at most `steps` of each are looked at.
    /// Returns how many were forgotten. No decision depends on it (law 4).
    pub fn sweep(&mut self, book: &impl Book, now: Now, steps: usize) -> usize {
        if !self.is_active() {
            return 0;
        }
        let now = self.advance(now);
        self.refunds.forget_over(now.moment, steps);
        self.sweep_ledger(now, steps);
        self.table.sweep(book.shapes(), book.budgets(), now, steps) + self.records.sweep(now.moment, steps)
    }

    /// What every key of this partition has used, as a successor would have to know it; for handing a partition over.
    pub fn export<'a>(&'a self, book: &'a impl Book, now: Now) -> impl Iterator<Item = limits::Usage> + 'a {
        self.table.export(book.shapes(), later(self.last, now))
    }

    /// The newest epoch of this partition that this node has heard of; while active, the epoch it decides at.
    pub const fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// The session that decides here, or `None` when this node is not the owner.
    pub const fn session(&self) -> Option<SessionId> {
        match self.state {
            State::Active { session } => Some(session),
            State::NotOwner { .. } => None,
        }
    }

    /// Whether this node decides here, its lease permitting.
    pub const fn is_active(&self) -> bool {
        self.session().is_some()
    }

    /// The latest reading that this partition acted on: after a batch, the time at which it was decided.
    pub const fn last(&self) -> Now {
        self.last
    }

    /// Keys that have an entry.
    pub fn keys(&self) -> usize {
        self.table.len()
    }

    /// Moves this partition's time on to `now`, or leaves it where it is when `now` is earlier.
    fn advance(&mut self, now: Now) -> Now {
        self.last = later(self.last, now);
        self.floor = self.floor.with_cluster_time(self.last);
        self.last
    }

    /// Why nothing can be decided here at all, if so.
    fn bar(&self, now: Now, lease: &LeaseBound) -> Option<Answer> {
        let session = match self.state {
            State::NotOwner { hint } => return Some(Answer::NotOwner { epoch: self.epoch, hint }),
            State::Active { session } => session,
        };
        let room = if Bug::NoRoomForAnswer.is_here() { Span::ZERO } else { lease.margin };
        let covered = session == lease.session && now.moment.saturating_add(room) <= lease.end;
        (!covered).then_some(Answer::Unknown(Unknown::Lease))
    }

    fn answer(&mut self, check: &Check, book: &impl Book, now: Now, scratch: &mut Scratch) -> Answer {
        debug_assert!(self.is_active() && self.epoch == self.reign, "S1: who decides is appointed at this epoch");
        debug_assert!(now.moment >= self.floor.since(), "S3: reigns are disjoint");
        if check.is_peek() {
            return self.carry_out(check, book, now, scratch).map_or_else(Answer::from, Answer::Decided);
        }
        match self.records.recall(check, now.moment) {
            Recall::Unasked => self.act_and_keep(check, book, now, scratch),
            Recall::Otherwise => self.act_anew(check, book, now, scratch),
            // Told again, it would be believed to be held. Whoever asks afresh takes up the id for a new question; an attempt
            // that comes late is the old one.
            Recall::Decided(verdict) if self.is_over(check, &verdict, now) => match check.attempt {
                ..=1 => self.act_anew(check, book, now, scratch),
                2.. => Answer::Unknown(Unknown::Record),
            },
            Recall::Decided(verdict) => Answer::Decided(self.told_again(check, verdict, now)),
            Recall::Over | Recall::Lost => Answer::Unknown(Unknown::Record),
            Recall::OtherQuestion => Answer::IdReused,
        }
    }

    fn act_and_keep(&mut self, check: &Check, book: &impl Book, now: Now, scratch: &mut Scratch) -> Answer {
        match self.carry_out(check, book, now, scratch) {
            Ok(verdict) => self.keep(check, verdict, book, now, scratch),
            Err(why) => why.into(),
        }
    }

    /// Decides what was decided before, and remembers it instead. Without a verdict what was known stays known.
    fn act_anew(&mut self, check: &Check, book: &impl Book, now: Now, scratch: &mut Scratch) -> Answer {
        match self.carry_out(check, book, now, scratch) {
            Ok(verdict) => {
                self.records.give_way(check.id, now.moment);
                self.keep(check, verdict, book, now, scratch)
            }
            Err(why) => why.into(),
        }
    }

    fn keep(&mut self, check: &Check, verdict: Verdict, book: &impl Book, now: Now, scratch: &Scratch) -> Answer {
        let charges = &scratch.decided.charges;
        self.note_spent(check, &scratch.legs, charges, book, now);
        if !Bug::NoRecord.is_here() {
            self.records.keep(check, &verdict, charges, now.moment);
        }
        if !charges.is_empty() {
            self.note_charged(check, now.moment);
        }
        if check.indexed && check.act.is_refundable() && !charges.is_empty() {
            self.refunds.put(check.id, charges.clone(), now.moment);
        }
        Answer::Decided(verdict)
    }

    /// Takes back what a record charged, and tells how many units came back where the most did. A reserve is settled at
    /// nothing: what it charged is the reserve's to give back, once.
    fn take_back(&mut self, id: CheckId, slot: Slot, book: &impl Book, now: Now) -> u64 {
        if Bug::CancelIgnored.is_here() {
            return 0;
        }
        self.refunds.take(id, now.moment);
        if self.records.is_reserve(slot) {
            return match self.table.settle(HoldId::from(id.0), 0, book.shapes(), book.budgets(), now) {
                Settled::Closed { back } => back,
                Settled::Above(_) | Settled::NotOpen => 0,
            };
        }
        // A charge is undone once, and this one was in part.
        let charges = self.records.charges(slot).filter(|_| self.records.is_whole(slot));
        charges.map(|charge| self.table.undo(charge, book.shapes(), now)).max().unwrap_or(0)
    }
}

/// The later of two readings of one clock. Cluster time goes along: shifted by as much as the reading is moved, never
/// back, and carried on when it is not known any more.
fn later(last: Now, now: Now) -> Now {
    let moment = last.moment.max(now.moment);
    let heard = now.wall.map(|wall| wall.saturating_add(moment.since(now.moment)));
    let wall = match (last.wall, heard) {
        (Some(before), Some(heard)) => Some(before.max(heard)),
        (Some(before), None) => Some(before.saturating_add(moment.since(last.moment))),
        (None, heard) => heard,
    };
    Now { moment, wall }
}

#[cfg(test)]
mod tests {
    use limits::WallTime;

    use super::*;

    const fn at(moment: u64, wall: u64) -> Now {
        Now::with_wall(Moment::from_nanos(moment), WallTime::from_unix_nanos(wall))
    }

    #[test]
    fn a_clock_that_goes_back_stands_still_and_cluster_time_stands_still_with_it() {
        assert_eq!(later(at(100, 1_100), at(70, 1_070)), at(100, 1_100));
        assert_eq!(later(at(100, 1_100), at(130, 1_130)), at(130, 1_130));
    }

    #[test]
    fn cluster_time_that_is_steered_back_waits_and_never_falls() {
        assert_eq!(later(at(100, 1_100), at(130, 1_090)), at(130, 1_100));
        assert_eq!(later(at(100, 1_100), at(130, 1_120)), at(130, 1_120), "slower than the clock is not back");
    }

    #[test]
    fn cluster_time_once_heard_of_is_carried_on_and_never_invented() {
        assert_eq!(later(at(100, 1_100), Now::at(Moment::from_nanos(130))), at(130, 1_130));
        assert_eq!(later(Now::at(Moment::from_nanos(100)), at(70, 1_070)), at(100, 1_100));
        assert_eq!(later(Now::at(Moment::ZERO), Now::at(Moment::from_nanos(5))), Now::at(Moment::from_nanos(5)));
    }
}
