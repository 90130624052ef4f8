//! Calls counted and timed at the front door, without a lock: atomic counters that a scrape reads.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use crate::code::Code;

/// The calls that are metered; the `api` label.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Api {
    /// `POST /v1/check`.
    HttpCheck,
    /// `POST /v1/check/batch`.
    HttpBatch,
    /// gRPC `Check`.
    GrpcCheck,
    /// gRPC `CheckBatch`.
    GrpcBatch,
    /// One batch on gRPC `CheckStream`.
    GrpcStream,
}

impl Api {
    /// All of them, in the order in which they are stored.
    pub const ALL: [Api; 5] = [Api::HttpCheck, Api::HttpBatch, Api::GrpcCheck, Api::GrpcBatch, Api::GrpcStream];

    /// The word that the label uses.
    pub const fn as_str(self) -> &'static str {
        match self {
            Api::HttpCheck => "http_check",
            Api::HttpBatch => "http_batch",
            Api::GrpcCheck => "grpc_check",
            Api::GrpcBatch => "grpc_batch",
            Api::GrpcStream => "grpc_stream",
        }
    }
}

/// Upper bounds of the duration buckets, in microseconds; the last bucket is open.
pub const BUCKETS_MICROS: [u64; 12] = [25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 25_000, 100_000, 250_000, 1_000_000];

/// The statuses that are counted apart; others count as `other`.
pub const STATUSES: [u16; 11] = [200, 400, 401, 403, 404, 408, 413, 415, 429, 500, 503];

#[derive(Debug, Default)]
struct Counters {
    statuses: [AtomicU64; STATUSES.len() + 1],
    buckets: [AtomicU64; BUCKETS_MICROS.len() + 1],
    sum_micros: AtomicU64,
}

/// The counters of every call.
#[derive(Debug, Default)]
pub struct Meter {
    apis: [Counters; Api::ALL.len()],
    policies: [AtomicU64; PolicyOutcome::ALL.len()],
}

/// What came of a policy that was sent here; the `result` label.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PolicyOutcome {
    /// It is in force.
    Applied,
    /// The document is wrong.
    Invalid,
    /// Another revision was there first.
    Conflict,
    /// The log could not take it, or what became of it is not known.
    NoLeader,
    /// The request was wrong, or its caller may not do this.
    Refused,
}

impl PolicyOutcome {
    /// All of them, in the order in which they are stored.
    pub const ALL: [PolicyOutcome; 5] = [
        PolicyOutcome::Applied,
        PolicyOutcome::Invalid,
        PolicyOutcome::Conflict,
        PolicyOutcome::NoLeader,
        PolicyOutcome::Refused,
    ];

    /// The word that the label uses.
    pub const fn as_str(self) -> &'static str {
        match self {
            PolicyOutcome::Applied => "applied",
            PolicyOutcome::Invalid => "invalid",
            PolicyOutcome::Conflict => "conflict",
            PolicyOutcome::NoLeader => "no_leader",
            PolicyOutcome::Refused => "refused",
        }
    }

    /// The outcome that an answer with this code tells.
    pub const fn of(code: Code) -> PolicyOutcome {
        #[expect(
            clippy::wildcard_enum_match_arm,
            reason = "whatever is not told apart was refused before it was tried"
        )]
        match code {
            Code::PolicyInvalid => PolicyOutcome::Invalid,
            Code::RevisionConflict => PolicyOutcome::Conflict,
            Code::NoLeader => PolicyOutcome::NoLeader,
            _ => PolicyOutcome::Refused,
        }
    }
}

/// A call in progress.
#[derive(Debug)]
pub struct Timer<'a> {
    counters: &'a Counters,
    started: Instant,
}

impl Meter {
    /// Starts timing a call.
    pub fn start(&self, api: Api) -> Timer<'_> {
        Timer { counters: &self.apis[api as usize], started: Instant::now() }
    }

    /// Counts a policy that was sent here.
    pub fn count_policy(&self, outcome: PolicyOutcome) {
        self.policies[outcome as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// Policies that were sent here, by what came of them.
    pub fn policies(&self) -> impl Iterator<Item = (PolicyOutcome, u64)> + '_ {
        PolicyOutcome::ALL
            .into_iter()
            .zip(&self.policies)
            .map(|(outcome, count)| (outcome, count.load(Ordering::Relaxed)))
    }

    /// Calls by status, `0` for any that is not counted apart.
    pub fn statuses(&self, api: Api) -> impl Iterator<Item = (u16, u64)> + '_ {
        let counters = &self.apis[api as usize].statuses;
        STATUSES.iter().copied().chain([0]).zip(counters).map(|(status, count)| (status, count.load(Ordering::Relaxed)))
    }

    /// Durations: the sum in seconds, and the calls per bucket, each with its upper bound in seconds.
    pub fn durations(&self, api: Api) -> (f64, Vec<(f64, u64)>) {
        let counters = &self.apis[api as usize];
        let bounds = BUCKETS_MICROS.iter().map(|micros| *micros as f64 / 1e6).chain([f64::INFINITY]);
        let buckets = bounds.zip(&counters.buckets).map(|(bound, count)| (bound, count.load(Ordering::Relaxed)));
        (counters.sum_micros.load(Ordering::Relaxed) as f64 / 1e6, buckets.collect())
    }
}

impl Timer<'_> {
    /// Counts the call under its HTTP status (gRPC calls: the status that HTTP would have).
    pub fn stop(self, status: u16) {
        let place = STATUSES.iter().position(|known| *known == status).unwrap_or(STATUSES.len());
        self.counters.statuses[place].fetch_add(1, Ordering::Relaxed);
        let micros = u64::try_from(self.started.elapsed().as_micros()).unwrap_or(u64::MAX);
        let bucket = BUCKETS_MICROS.iter().position(|bound| micros <= *bound).unwrap_or(BUCKETS_MICROS.len());
        self.counters.buckets[bucket].fetch_add(1, Ordering::Relaxed);
        self.counters.sum_micros.fetch_add(micros, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_counted_by_status_and_by_duration() {
        let meter = Meter::default();
        for status in [200, 200, 429, 418] {
            meter.start(Api::HttpCheck).stop(status);
        }
        let counted: Vec<_> = meter.statuses(Api::HttpCheck).filter(|(_, count)| *count > 0).collect();
        assert_eq!(counted, [(200, 2), (429, 1), (0, 1)]);
        let (_, buckets) = meter.durations(Api::HttpCheck);
        assert_eq!(buckets.iter().map(|(_, count)| count).sum::<u64>(), 4);
        assert_eq!(meter.statuses(Api::GrpcCheck).map(|(_, count)| count).sum::<u64>(), 0);
    }
}
