//! The partitions of this node behind their gates, and what every decision here needs: the lease, the book of limits, and
//! the time. The shell locks a gate, reads what must be read inside it, and lets the partition decide; nothing else
//! happens here.

mod kept;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use arc_swap::ArcSwap;
use control::event::ActivatedState;
use control::{Appointment, Event};
use limits::{LimitId, Moment, Now, Span, WallTime};
use ownership::cluster_time::ClusterTime;
use ownership::kept::{Claim, FOUND_WITHIN, Keeper};
use ownership::{
    Answer, Asker, Cancelled, Check, CheckId, CheckLeg, Epoch, Floor, LeaseBound, Partition, SessionId, Unknown,
};
use parking_lot::{Mutex, MutexGuard};
use ring::{PartitionCount, PartitionId};

pub(crate) use self::kept::state_of;
use crate::clock;
use crate::events::Events;
use crate::keeping::Keeping;
use crate::quiet::Quiet;
use crate::views::{Policies, Views};

/// Checks decided on one reading of the clock; the next one reads it again.
pub const CHECKS_PER_READING: usize = 256;

/// Entries that one turn of the sweeper looks at in one partition.
pub const SWEEP_STEPS: usize = 64;

/// All partitions of one node.
#[derive(Debug)]
pub struct Owner {
    gates: Box<[Mutex<Partition>]>,
    lease: ArcSwap<LeaseBound>,
    time: ArcSwap<ClusterTime>,
    views: Arc<Views>,
    events: Arc<Events>,
    /// When it was last told of which limit that there was no room for its keys.
    full: Mutex<Quiet<LimitId>>,
    /// Whether this node has given up for good what it owned, and takes nothing any more.
    sealed: AtomicBool,
    /// Where partitions say that they have something to write; `None` without a store.
    keeping: Option<Arc<Keeping>>,
    /// Which partition was found first not to be kept whole when that was looked for last.
    not_whole: AtomicUsize,
    /// Of each partition, at which epoch its reign was counted last.
    counted: Box<[AtomicU64]>,
    fresh_reigns: AtomicU64,
    allowance_reigns: AtomicU64,
    worst_case_reigns: AtomicU64,
}

/// What proves a batch of answers: under which epoch, and at which reading of the clock.
#[derive(Clone, Debug)]
pub struct Witness {
    /// The epoch of the partition.
    pub epoch: Epoch,
    /// The session that decides there, if this node owns it.
    pub session: Option<SessionId>,
    /// The last clock reading that a decision rests on.
    pub clock: Moment,
    /// The policies it was decided with.
    pub policies: Arc<Policies>,
}

/// One reading of the clock for many checks. It is read again when it has served [`CHECKS_PER_READING`] checks, and
/// after every wait at a gate: a reading from before a wait could outlive the lease it is compared with.
#[derive(Debug)]
pub struct Reading {
    now: Option<Now>,
    served: usize,
}

impl Reading {
    /// A clock that has not been read.
    pub const fn new() -> Reading {
        Reading { now: None, served: 0 }
    }
}

impl Owner {
    /// A node that owns nothing yet, and has no lease: `lease` ends at the boot. There is a gate for every partition that
    /// a cluster can have; those that this one does not have stay shut.
    pub(crate) fn new(
        views: Arc<Views>,
        lease: LeaseBound,
        events: Arc<Events>,
        keeping: Option<Arc<Keeping>>,
    ) -> Owner {
        Owner {
            gates: (0..PartitionCount::MAX.get()).map(|_| Mutex::new(Partition::vacant())).collect(),
            lease: ArcSwap::from_pointee(lease),
            time: ArcSwap::from_pointee(ClusterTime::unknown()),
            views,
            events,
            full: Mutex::new(Quiet::new()),
            sealed: AtomicBool::new(false),
            keeping,
            not_whole: AtomicUsize::new(0),
            counted: (0..PartitionCount::MAX.get()).map(|_| AtomicU64::new(0)).collect(),
            fresh_reigns: AtomicU64::new(0),
            allowance_reigns: AtomicU64::new(0),
            worst_case_reigns: AtomicU64::new(0),
        }
    }

    /// Decides these checks of one partition and appends one answer for each to `out`. A partition number that the
    /// cluster does not have is nobody's.
    pub fn decide(
        &self,
        partition: PartitionId,
        checks: &[Check],
        reading: &mut Reading,
        out: &mut Vec<Answer>,
    ) -> Witness {
        let Some((mut gate, waited)) = self.enter(partition) else {
            out.extend(checks.iter().map(|_| Answer::NotOwner { epoch: Epoch(0), hint: None }));
            let policies = self.views.policies.load_full();
            return Witness { epoch: Epoch(0), session: None, clock: clock::now(), policies };
        };
        // Loaded under the gate: the table may hold shapes that an older book does not know, and the lease may have
        // ended while this thread waited.
        let policies = self.views.policies.load_full();
        let before = out.len();
        for checks in checks.chunks(CHECKS_PER_READING) {
            let now = self.read(reading, waited, checks.len());
            let lease = clock::on_limit_time(**self.lease.load(), now);
            gate.decide_batch(checks, &policies.catalogue, now, &lease, out);
        }
        let witness = Witness { epoch: gate.epoch(), session: gate.session(), clock: gate.last().moment, policies };
        let wants_write = gate.wants_write();
        drop(gate);
        if wants_write {
            self.want_write(partition);
        }
        for (check, answer) in checks.iter().zip(&out[before..]) {
            match answer {
                Answer::Unknown(Unknown::TableFull { leg }) => {
                    if let Some(leg) = check.legs.get(usize::from(*leg)) {
                        self.note_full(leg.limit, &witness.policies);
                    }
                }
                Answer::Unknown(why @ (Unknown::Loading | Unknown::Allowance)) => self.note_put_off(partition, *why),
                Answer::Unknown(Unknown::Lease | Unknown::Record | Unknown::Policy | Unknown::Clock)
                | Answer::Decided(_)
                | Answer::NotOwner { .. }
                | Answer::StaleRevision { .. }
                | Answer::IdReused => {}
            }
        }
        witness
    }

    fn want_write(&self, partition: PartitionId) {
        if let Some(keeping) = &self.keeping {
            keeping.want_write(partition);
        }
    }

    #[cold]
    fn note_put_off(&self, partition: PartitionId, why: Unknown) {
        let Some(keeping) = &self.keeping else { return };
        keeping.count_put_off(why == Unknown::Loading);
        if why == Unknown::Loading {
            keeping.hurry(partition);
        }
    }

    #[cold]
    fn note_full(&self, limit: LimitId, policies: &Policies) {
        if let Some(tally) = policies.tally.limit(limit) {
            tally.count_full();
        }
        let now = clock::now();
        if let Some(known) = policies.limit(limit).filter(|_| self.full.lock().lets(limit, now)) {
            let (domain, limit) = (known.domain.to_string(), known.name.to_string());
            self.events.tell(Event::TableFull { domain, limit });
        }
    }

    /// Takes back what the check `id` charged in this partition, if nobody but `asker` was told of it.
    pub fn cancel(&self, partition: PartitionId, id: CheckId, asker: Asker) -> Cancelled {
        match self.enter(partition) {
            Some((mut gate, _)) => gate.cancel(id, asker, &self.views.policies.load().catalogue, self.now()),
            None => Cancelled::NotOwner,
        }
    }

    /// Cuts what the check `id` was granted in this partition down to `units`.
    pub fn trim(&self, partition: PartitionId, id: CheckId, asker: Asker, units: u64) -> bool {
        self.enter(partition)
            .is_some_and(|(mut gate, _)| gate.trim(id, asker, units, &self.views.policies.load().catalogue, self.now()))
    }

    /// Books what a caller spent under `id` without an answer.
    pub fn debt(&self, partition: PartitionId, id: CheckId, asker: Asker, legs: &[CheckLeg]) -> bool {
        self.enter(partition)
            .is_some_and(|(mut gate, _)| gate.debt(id, asker, legs, &self.views.policies.load().catalogue, self.now()))
    }

    /// Sees to it that an appointment of this node is followed. A reign of another session or epoch ends first, with all its
    /// memory; one that runs already goes on; on a node that has sealed what it owned none begins. Says what is known of what
    /// was used, if that is news: with a store it is found out first, and checks wait.
    pub(crate) fn reign(&self, appointment: &Appointment) -> Option<ActivatedState> {
        let Appointment { partition, epoch, session, index, before } = *appointment;
        let (mut gate, _) = self.enter(partition)?;
        // Read under the gate: the seal goes through all gates after it was announced, so it meets whatever began before.
        if self.sealed.load(Ordering::SeqCst) || (gate.session() == Some(session) && gate.epoch() == epoch) {
            return None;
        }
        if gate.is_active() {
            let known = gate.epoch();
            gate.deactivate(known, None, &self.views.policies.load().catalogue);
        }
        let full = Floor::FullAsOf { at: self.now(), takeover_index: index };
        if let Some(keeping) = &self.keeping {
            let until = self.now().moment.saturating_add(FOUND_WITHIN);
            gate.activate_waiting(epoch, session, full, until);
            drop(gate);
            let keeper = Keeper { epoch, session };
            keeping.claim(Claim { partition, keeper, before, since: clock::now(), again: false });
            return None;
        }
        let floor = if appointment.has_predecessor() { full } else { Floor::Fresh };
        gate.activate(epoch, session, floor);
        let state = if floor == Floor::Fresh { ActivatedState::Fresh } else { ActivatedState::WorstCase };
        self.count_reign(partition, epoch, state);
        Some(state)
    }

    /// Counts a reign by what was known when it began, once: what was kept may be found later than that.
    fn count_reign(&self, partition: PartitionId, epoch: Epoch, state: ActivatedState) {
        let counted =
            self.counted.get(usize::from(partition.0)).map(|counted| counted.swap(epoch.0, Ordering::Relaxed));
        if counted == Some(epoch.0) {
            return;
        }
        let reigns = match state {
            ActivatedState::Fresh => &self.fresh_reigns,
            ActivatedState::Allowance => &self.allowance_reigns,
            ActivatedState::WorstCase => &self.worst_case_reigns,
        };
        reigns.fetch_add(1, Ordering::Relaxed);
    }

    /// How old the oldest is of what the store has of what is owned here, and of what it is to have.
    pub(crate) fn store_ages(&self) -> StoreAges {
        let oldest = |known: Option<Moment>, found: Option<Moment>| known.into_iter().chain(found).min();
        let (kept, unwritten) = self.gates.iter().fold((None, None), |(kept, unwritten), gate| {
            let gate = gate.lock();
            (oldest(kept, gate.kept_since()), oldest(unwritten, gate.unwritten_since()))
        });
        let now = self.now().moment;
        StoreAges { snapshot: kept.map(|at| now.since(at)), unwritten: unwritten.map(|at| now.since(at)) }
    }

    /// What this node has in the store; `None` without a store.
    pub(crate) fn keeping(&self) -> Option<&Arc<Keeping>> {
        self.keeping.as_ref()
    }

    /// Gives up for good all that this node owns, and whatever it may be appointed to from now on: when this returns, every
    /// decision that was under way has been made, and none follows, whatever the lease says. A partition ends its reign at
    /// an epoch once and never begins it again (S8), so there is nothing that could take this back.
    pub fn seal(&self) {
        self.sealed.store(true, Ordering::SeqCst);
        for gate in &self.gates {
            let mut gate = gate.lock();
            if gate.is_active() {
                let epoch = gate.epoch();
                gate.deactivate(epoch, None, &self.views.policies.load().catalogue);
            }
        }
    }

    /// Reigns that began here, by what was known of what had been used.
    pub fn reigns(&self) -> [(&'static str, u64); 3] {
        [
            (ActivatedState::Fresh.as_str(), self.fresh_reigns.load(Ordering::Relaxed)),
            (ActivatedState::Allowance.as_str(), self.allowance_reigns.load(Ordering::Relaxed)),
            (ActivatedState::WorstCase.as_str(), self.worst_case_reigns.load(Ordering::Relaxed)),
        ]
    }

    /// Ends a reign, or takes note of somebody else's.
    pub fn deactivate(&self, partition: PartitionId, epoch: Epoch, hint: Option<SessionId>) {
        if let Some((mut gate, _)) = self.enter(partition) {
            gate.deactivate(epoch, hint, &self.views.policies.load().catalogue);
        }
    }

    /// Forgets some of what is as fresh in one partition; called in turn for all of them, beside the decisions.
    pub fn sweep(&self, partition: PartitionId) -> usize {
        // A gate that is busy sweeps as it decides.
        let Some(mut gate) = self.gates.get(usize::from(partition.0)).and_then(Mutex::try_lock) else { return 0 };
        let gone = gate.sweep(&self.views.policies.load().catalogue, self.now(), SWEEP_STEPS);
        let wants_write = gate.wants_write();
        drop(gate);
        if wants_write {
            self.want_write(partition);
        }
        gone
    }

    /// Until when, and in whose name, this node may decide.
    pub fn set_lease(&self, lease: LeaseBound) {
        self.lease.store(Arc::new(lease));
    }

    /// The lease as it stands.
    pub fn lease(&self) -> LeaseBound {
        **self.lease.load()
    }

    /// Replaces what is known of cluster time.
    pub fn set_time(&self, time: ClusterTime) {
        self.time.store(Arc::new(time));
    }

    /// A reading of this node's clock with the cluster time that belongs to it.
    pub fn now(&self) -> Now {
        clock::limit_time(&self.time.load())
    }

    /// Cluster time by this node's clock, whatever limits go by, if it is known.
    pub fn cluster_time(&self) -> Option<WallTime> {
        self.time.load().now(clock::now())
    }

    /// Cluster time as limits go by it, if it is known.
    pub fn wall(&self) -> Option<WallTime> {
        self.now().wall
    }

    /// Keys held, partitions decided for here.
    pub fn holdings(&self) -> Holdings {
        self.gates.iter().fold(Holdings::default(), |sum, gate| {
            let gate = gate.lock();
            Holdings { keys: sum.keys + gate.keys(), active: sum.active + usize::from(gate.is_active()) }
        })
    }

    fn enter(&self, partition: PartitionId) -> Option<(MutexGuard<'_, Partition>, bool)> {
        let gate = self.gates.get(usize::from(partition.0))?;
        match gate.try_lock() {
            Some(entered) => Some((entered, false)),
            None => Some((gate.lock(), true)),
        }
    }

    fn read(&self, reading: &mut Reading, waited: bool, checks: usize) -> Now {
        reading.served += checks;
        match reading.now {
            Some(now) if !waited && reading.served <= CHECKS_PER_READING => now,
            Some(_) | None => {
                reading.served = checks;
                *reading.now.insert(self.now())
            }
        }
    }
}

/// What a node holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Holdings {
    /// Keys with an entry.
    pub keys: usize,
    /// Partitions that this node decides for.
    pub active: usize,
}

/// How long ago the oldest of it was.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoreAges {
    /// Since a partition with a key in it was written as a whole, and the store has it; `None` where there is no such.
    pub snapshot: Option<Span>,
    /// Since there was something to write that the store has not acknowledged yet; `None` where there is nothing.
    pub unwritten: Option<Span>,
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use std::num::NonZeroU64;

    use ring::NodeId;

    use super::*;

    const SESSION: SessionId = SessionId { node: NodeId(NonZeroU64::MIN), nonce: 1, counter: 1 };

    fn owner() -> Owner {
        let forever = LeaseBound { session: SESSION, end: Moment::MAX, margin: limits::Span::ZERO };
        Owner::new(Arc::new(Views::unknown()), forever, Arc::default(), None)
    }

    fn appointed(partition: PartitionId, epoch: u64) -> Appointment {
        Appointment { partition, epoch: Epoch(epoch), session: SESSION, index: 1, before: None }
    }

    fn check(id: u128) -> Check {
        Check {
            id: CheckId(id),
            asker: Asker(1),
            attempt: 1,
            indexed: false,
            revision: 0,
            question: 0,
            act: ownership::Act::Spend,
            legs: Default::default(),
        }
    }

    fn decides(owner: &Owner, partition: PartitionId) -> bool {
        let mut answers = Vec::new();
        owner.decide(partition, &[check(7)], &mut Reading::new(), &mut answers);
        matches!(answers[..], [Answer::Decided(_)])
    }

    #[test]
    fn nothing_is_decided_after_a_seal_whatever_the_lease_says_and_whoever_is_appointed() {
        let owner = owner();
        for partition in (0..8).map(PartitionId) {
            assert_eq!(owner.reign(&appointed(partition, 1)), Some(ActivatedState::Fresh));
        }
        let sealed = AtomicBool::new(false);
        let (before, after) = (AtomicU64::new(0), AtomicU64::new(0));
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let (owner, sealed, before, after) = (&owner, &sealed, &before, &after);
                scope.spawn(move || {
                    for number in 0..20_000u16 {
                        // Known to be sealed before the question is put.
                        let late = sealed.load(Ordering::SeqCst);
                        let decided = decides(owner, PartitionId((number + thread) % 8));
                        if decided {
                            let counter = if late { after } else { before };
                            counter.fetch_add(1, Ordering::Relaxed);
                        }
                        // The log goes on appointing, the same epoch again and the next.
                        owner.reign(&appointed(PartitionId(number % 8), 1));
                    }
                });
            }
            while before.load(Ordering::Relaxed) < 100 {
                std::thread::yield_now();
            }
            owner.seal();
            sealed.store(true, Ordering::SeqCst);
        });
        assert_eq!(after.load(Ordering::Relaxed), 0);
        assert_eq!(owner.reign(&appointed(PartitionId(0), 2)), None);
        assert!(!decides(&owner, PartitionId(0)));
        assert_eq!(owner.holdings().active, 0);
    }
}
