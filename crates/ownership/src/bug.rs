//! Mistakes put in on purpose, to see that the proofs notice them. Without the feature `seeded-bugs` there are none: the
//! question is a constant and costs nothing. With it, each thread of a test or of the simulator carries at most one.

/// A mistake that somebody could make.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Bug {
    /// 1: a successor reads absent keys as fresh.
    SuccessorFresh,
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
    /// 22: an ingress acts on answers of an epoch that it knows to be over.
    OlderEpochAccepted,
    /// 23: a renewal need not prove that acknowledgements arrive.
    AcksNotProven,
    /// 24: a limit that fails open reads absent keys as used up after a takeover.
    OpenReadsFull,
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
        Bug::RestartReusesLease,
        Bug::RestartKeepsEpoch,
        Bug::LeaseFromAck,
        Bug::SleepingClock,
        Bug::NoCallerDeadline,
        Bug::NoRoomForAnswer,
        Bug::UnconfirmedRenewals,
        Bug::NewLeaderDoesNotWait,
        Bug::SuspicionEndsSession,
        Bug::OlderEpochAccepted,
        Bug::AcksNotProven,
        Bug::OpenReadsFull,
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
