//! Calls counted and timed at the front door, without a lock: atomic counters that a scrape reads.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use histogram::{Durations, Histogram};

use crate::call::Call;
use crate::code::Code;

/// The calls that are metered; the `api` label.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Api {
    /// A call about keys over HTTP.
    Http(Call),
    /// The same over gRPC.
    Grpc(Call),
    /// `POST /v1/check/batch`.
    HttpBatch,
    /// `GET /v1/forward-auth`.
    ForwardAuth,
    /// gRPC `CheckBatch`.
    GrpcBatch,
    /// One batch on gRPC `CheckStream`.
    GrpcStream,
}

impl Api {
    /// How many there are.
    pub const COUNT: usize = 2 * Call::ALL.len() + 4;

    /// All of them, in the order in which they are stored.
    pub fn all() -> impl Iterator<Item = Api> {
        let calls = Call::ALL.map(Api::Http).into_iter().chain(Call::ALL.map(Api::Grpc));
        calls.chain([Api::HttpBatch, Api::ForwardAuth, Api::GrpcBatch, Api::GrpcStream])
    }

    /// The word that the label uses.
    pub fn word(self) -> String {
        match self {
            Api::Http(call) => format!("http_{}", call.word()),
            Api::Grpc(call) => format!("grpc_{}", call.word()),
            Api::HttpBatch => "http_batch".to_owned(),
            Api::ForwardAuth => "forward_auth".to_owned(),
            Api::GrpcBatch => "grpc_batch".to_owned(),
            Api::GrpcStream => "grpc_stream".to_owned(),
        }
    }

    const fn place(self) -> usize {
        const CALLS: usize = Call::ALL.len();
        match self {
            Api::Http(call) => call as usize,
            Api::Grpc(call) => CALLS + call as usize,
            Api::HttpBatch => 2 * CALLS,
            Api::ForwardAuth => 2 * CALLS + 1,
            Api::GrpcBatch => 2 * CALLS + 2,
            Api::GrpcStream => 2 * CALLS + 3,
        }
    }
}

/// Upper bounds of the duration buckets, in microseconds; the last bucket is open.
pub const BUCKETS_MICROS: [u64; 12] = [25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 25_000, 100_000, 250_000, 1_000_000];

/// The statuses that are counted apart; others count as `other`.
pub const STATUSES: [u16; 12] = [200, 400, 401, 403, 404, 408, 409, 413, 415, 429, 500, 503];

#[derive(Debug)]
struct Counters {
    statuses: [AtomicU64; STATUSES.len() + 1],
    times: Histogram,
}

impl Default for Counters {
    fn default() -> Counters {
        Counters { statuses: Default::default(), times: Histogram::new(&BUCKETS_MICROS) }
    }
}

/// The counters of every call.
#[derive(Debug, Default)]
pub struct Meter {
    apis: [Counters; Api::COUNT],
    policies: [AtomicU64; PolicyOutcome::ALL.len()],
    results: [[AtomicU64; CameOf::ALL.len()]; Call::ALL.len()],
}

/// What came of a call that decides nothing; the `result` label.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CameOf {
    /// It did what it was to do.
    Done,
    /// There was nothing to do it to: no such charge, reserve or lease, or nothing used.
    Nothing,
    /// It could not be put.
    Refused,
    /// No owner could be asked in time.
    Unavailable,
}

impl CameOf {
    /// All of them, in the order in which they are stored.
    pub const ALL: [CameOf; 4] = [CameOf::Done, CameOf::Nothing, CameOf::Refused, CameOf::Unavailable];

    /// The word that the label uses.
    pub const fn as_str(self) -> &'static str {
        match self {
            CameOf::Done => "done",
            CameOf::Nothing => "nothing",
            CameOf::Refused => "refused",
            CameOf::Unavailable => "unavailable",
        }
    }
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
        Timer { counters: &self.apis[api.place()], started: Instant::now() }
    }

    /// Counts a policy that was sent here.
    pub fn count_policy(&self, outcome: PolicyOutcome) {
        self.policies[outcome as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// Counts what came of a call that decides nothing.
    pub fn count_result(&self, call: Call, came: CameOf) {
        self.results[call as usize][came as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// Calls that decide nothing, by what came of them.
    pub fn results(&self) -> impl Iterator<Item = (Call, CameOf, u64)> + '_ {
        let calls = Call::ALL.into_iter().zip(&self.results).filter(|(call, _)| !call.decides());
        calls.flat_map(|(call, counts)| {
            CameOf::ALL.into_iter().zip(counts).map(move |(came, count)| (call, came, count.load(Ordering::Relaxed)))
        })
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
        let counters = &self.apis[api.place()].statuses;
        STATUSES.iter().copied().chain([0]).zip(counters).map(|(status, count)| (status, count.load(Ordering::Relaxed)))
    }

    /// How long calls took.
    pub fn durations(&self, api: Api) -> Durations {
        self.apis[api.place()].times.read()
    }
}

impl Timer<'_> {
    /// Counts the call under its HTTP status (gRPC calls: the status that HTTP would have).
    pub fn stop(self, status: u16) {
        let place = STATUSES.iter().position(|known| *known == status).unwrap_or(STATUSES.len());
        self.counters.statuses[place].fetch_add(1, Ordering::Relaxed);
        self.counters.times.count(self.started.elapsed());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_call_has_counters_of_its_own() {
        let places: Vec<_> = Api::all().map(Api::place).collect();
        assert_eq!(places, (0..Api::COUNT).collect::<Vec<_>>());
        let words: std::collections::BTreeSet<_> = Api::all().map(Api::word).collect();
        assert_eq!(words.len(), Api::COUNT);
    }

    #[test]
    fn calls_are_counted_by_status_and_by_duration() {
        let meter = Meter::default();
        for status in [200, 200, 429, 418] {
            meter.start(Api::Http(Call::Check)).stop(status);
        }
        let counted: Vec<_> = meter.statuses(Api::Http(Call::Check)).filter(|(_, count)| *count > 0).collect();
        assert_eq!(counted, [(200, 2), (429, 1), (0, 1)]);
        assert_eq!(meter.durations(Api::Http(Call::Check)).count(), 4);
        assert_eq!(meter.statuses(Api::Grpc(Call::Check)).map(|(_, count)| count).sum::<u64>(), 0);
    }
}
