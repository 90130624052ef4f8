//! Mistakes put in on purpose, to see that the proofs notice them. Without the feature `seeded-bugs` there are none: the
//! question is a constant and costs nothing. With it, each thread of a test or of the simulator carries at most one.

/// A mistake that somebody could make.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Bug {
    /// 1: a successor reads absent keys as fresh.
    SuccessorFresh,
    /// 2: a successor takes what was written for all that was used.
    SnapshotAsTruth,
    /// 3: a process that starts anew goes on under the lease of the one before.
    RestartReusesLease,
    /// 4: a process that starts anew goes on at the epochs of the one before, without its memory.
    RestartKeepsEpoch,
    /// 5: a lease is counted from the receipt of its acknowledgement.
    LeaseFromAck,
    /// 6: leases are read by a clock that stands still while the machine sleeps.
    SleepingClock,
    /// 7: an ingress acts on answers however old they are.
    NoCallerDeadline,
    /// 8: an owner decides up to the last moment of its lease.
    NoRoomForAnswer,
    /// 9: renewals are acknowledged without a confirmation of leadership.
    UnconfirmedRenewals,
    /// 10: a new leader takes every lease for one that was granted long ago.
    NewLeaderDoesNotWait,
    /// 11: a suspicion of gossip ends a session.
    SuspicionEndsSession,
    /// 15: a record counts from whatever life of the store it comes.
    AnyLifeOfTheStore,
    /// 15: lives of the store are told apart by their runs alone, though a process that has its place back goes on in its run.
    RunAlone,
    /// 17: an owner admits more than is written down.
    SpendsUnwritten,
    /// 18: an owner spends as it likes before the log has said that its records count nowhere.
    FreeBeforeTheLog,
    /// 22: an ingress acts on answers of an epoch that it knows to be over.
    OlderEpochAccepted,
    /// 23: a renewal need not prove that acknowledgements arrive.
    AcksNotProven,
    /// 24: a limit that fails open reads absent keys as used up after a takeover.
    OpenReadsFull,
    /// 25: where records count is said of a session as soon as one of its partitions is written.
    PartitionSpeaksForAll,
    /// A script of the store makes a header where there is none.
    WriteMakesHeader,
    /// A decision goes by a clock that was read before the gate was waited for.
    ClockBeforeGate,
    /// A node reigns where it believes that it should, and is not appointed.
    ReignsUnappointed,
    /// An owner keeps no record of what it decided.
    NoRecord,
    /// A cancel that comes before its check leaves no tombstone.
    NoTombstone,
    /// An ingress sends no cancel of what nobody was let pass with.
    CancelNotSent,
    /// An owner answers a cancel and takes nothing back.
    CancelIgnored,
    /// An owner does not hear of cancels.
    CancelUnheard,
    /// An ingress lends the share of all of them by itself.
    ShareUndivided,
    /// What a takeover left unknown never wears off.
    FloorStays,
    /// A leader waits for a silent holder twice as long as it needs to.
    WaitsTwice,
}

impl Bug {
    /// All of them.
    pub const ALL: &[Bug] = &[
        Bug::SuccessorFresh,
        Bug::SnapshotAsTruth,
        Bug::RestartReusesLease,
        Bug::RestartKeepsEpoch,
        Bug::LeaseFromAck,
        Bug::SleepingClock,
        Bug::NoCallerDeadline,
        Bug::NoRoomForAnswer,
        Bug::UnconfirmedRenewals,
        Bug::NewLeaderDoesNotWait,
        Bug::SuspicionEndsSession,
        Bug::AnyLifeOfTheStore,
        Bug::RunAlone,
        Bug::SpendsUnwritten,
        Bug::FreeBeforeTheLog,
        Bug::OlderEpochAccepted,
        Bug::AcksNotProven,
        Bug::OpenReadsFull,
        Bug::PartitionSpeaksForAll,
        Bug::WriteMakesHeader,
        Bug::ClockBeforeGate,
        Bug::ReignsUnappointed,
        Bug::NoRecord,
        Bug::NoTombstone,
        Bug::CancelNotSent,
        Bug::CancelIgnored,
        Bug::CancelUnheard,
        Bug::ShareUndivided,
        Bug::FloorStays,
        Bug::WaitsTwice,
    ];

    /// Whether this thread carries it.
    #[cfg(not(feature = "seeded-bugs"))]
    #[inline(always)]
    pub const fn is_here(self) -> bool {
        false
    }

    /// Whether this thread carries it.
    #[cfg(feature = "seeded-bugs")]
    pub fn is_here(self) -> bool {
        CARRIED.get() == Some(self)
    }

    /// What this thread carries from now on.
    #[cfg(feature = "seeded-bugs")]
    pub fn carry(bug: Option<Bug>) {
        CARRIED.set(bug);
    }
}

#[cfg(feature = "seeded-bugs")]
thread_local! {
    static CARRIED: std::cell::Cell<Option<Bug>> = const { std::cell::Cell::new(None) };
}
