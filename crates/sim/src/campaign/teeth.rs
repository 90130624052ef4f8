//! The mistakes that somebody could make, and which check has to notice each of them within how many seeds. A proof that
//! notices none of them proves nothing; one that notices them by another check than it should does so by luck.

use ownership::Bug;

/// A mistake and who has to notice it.
#[derive(Clone, Copy, Debug)]
pub struct Tooth {
    /// The mistake.
    pub bug: Bug,
    /// The checks, each of which has to fail.
    pub checks: &'static [&'static str],
    /// Within so many seeds, from 0.
    pub seeds: u64,
}

/// Every mistake once.
pub const TEETH: &[Tooth] = &[
    Tooth { bug: Bug::SuccessorFresh, checks: &["C1", "C2"], seeds: 60 },
    Tooth { bug: Bug::SnapshotAsTruth, checks: &["C1", "C2"], seeds: 2000 },
    Tooth { bug: Bug::RestartReusesLease, checks: &["S5"], seeds: 60 },
    Tooth { bug: Bug::RestartKeepsEpoch, checks: &["S2"], seeds: 60 },
    Tooth { bug: Bug::LeaseFromAck, checks: &["S4"], seeds: 60 },
    Tooth { bug: Bug::SleepingClock, checks: &["S3", "S4"], seeds: 500 },
    Tooth { bug: Bug::NoCallerDeadline, checks: &["S12"], seeds: 60 },
    Tooth { bug: Bug::NoRoomForAnswer, checks: &["S3"], seeds: 120 },
    Tooth { bug: Bug::UnconfirmedRenewals, checks: &["S4"], seeds: 200 },
    Tooth { bug: Bug::NewLeaderDoesNotWait, checks: &["S4"], seeds: 60 },
    Tooth { bug: Bug::SuspicionEndsSession, checks: &["S4"], seeds: 300 },
    Tooth { bug: Bug::AnyLifeOfTheStore, checks: &["S11"], seeds: 500 },
    Tooth { bug: Bug::RunAlone, checks: &["S11"], seeds: 2000 },
    Tooth { bug: Bug::SpendsUnwritten, checks: &["S10"], seeds: 60 },
    Tooth { bug: Bug::FreeBeforeTheLog, checks: &["S10"], seeds: 500 },
    Tooth { bug: Bug::OlderEpochAccepted, checks: &["S12"], seeds: 1000 },
    Tooth { bug: Bug::AcksNotProven, checks: &["liveness"], seeds: 200 },
    Tooth { bug: Bug::OpenReadsFull, checks: &["open"], seeds: 200 },
    Tooth { bug: Bug::PartitionSpeaksForAll, checks: &["S10"], seeds: 2000 },
    Tooth { bug: Bug::WriteMakesHeader, checks: &["S10"], seeds: 2000 },
    Tooth { bug: Bug::ClockBeforeGate, checks: &["S3"], seeds: 60 },
    Tooth { bug: Bug::ReignsUnappointed, checks: &["S1"], seeds: 60 },
    Tooth { bug: Bug::NoRecord, checks: &["S14"], seeds: 200 },
    Tooth { bug: Bug::NoTombstone, checks: &["S14"], seeds: 1000 },
    Tooth { bug: Bug::CancelNotSent, checks: &["charges"], seeds: 200 },
    Tooth { bug: Bug::CancelIgnored, checks: &["justified"], seeds: 1000 },
    Tooth { bug: Bug::CancelUnheard, checks: &["charges"], seeds: 200 },
    Tooth { bug: Bug::ShareUndivided, checks: &["emergency"], seeds: 500 },
    Tooth { bug: Bug::FloorStays, checks: &["justified"], seeds: 60 },
    Tooth { bug: Bug::WaitsTwice, checks: &["takeover-time"], seeds: 200 },
];

/// Mistakes that other tests have to notice: what, and where.
pub const ELSEWHERE: &[(&str, &str)] = &[
    (
        "16: claim and read in two calls",
        "one script does both, and what it answers is held against what lay there: `crates/store/tests/redis/records.rs`",
    ),
    (
        "a reign takes in what the claim of another was told",
        "`crates/ownership/tests/kept`: within one process a session does not end and another begin while a claim is answered",
    ),
    (
        "an operator's word for one life of the store counts for another",
        "`crates/ownership/src/kept/verdict.rs`: it takes a claim that is answered in one life and not heard, and again in the next",
    ),
    (
        "a refund is capped at full instead of undoing one charge",
        "the laws of `crates/limits`, and histories of `ownership`",
    ),
];

/// Mistakes in parts that are not built: nobody can make them yet.
pub const ABSENT: &[&str] = &[
    "12: a certificate before the seal",
    "13: an unseal without a renounce",
    "14: an abort waits for the old owner only",
    "19, 20: escrow",
    "21: records that do not move",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_judge_is_proven_by_a_mistake() {
        let proven = |name: &&str| TEETH.iter().any(|tooth| tooth.checks.contains(name));
        assert_eq!(crate::oracles::names().find(|name| !proven(name)), None);
        let known = |check: &&str| crate::oracles::names().any(|name| name == *check);
        assert!(TEETH.iter().all(|tooth| tooth.checks.iter().all(known)));
    }

    #[test]
    fn every_mistake_has_its_row() {
        let listed: Vec<Bug> = TEETH.iter().map(|tooth| tooth.bug).collect();
        assert_eq!(listed, Bug::ALL);
        assert!(TEETH.iter().all(|tooth| !tooth.checks.is_empty() && tooth.seeds > 0));
    }
}
