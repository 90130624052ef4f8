//! What a way answered to one call, in the words of the public API, so that three ways can be held against one table.

use limits::{LegDecision, Span, Wait};

/// What came of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Said {
    /// An answer.
    Answer(Answer),
    /// The call was no question that can be answered.
    Rejected {
        /// The stable word for why.
        code: String,
        /// The HTTP status, where there is a front door.
        status: Option<u16>,
    },
}

impl Said {
    /// No question, where there is no front door.
    pub fn rejected(code: impl Into<String>) -> Said {
        Said::Rejected { code: code.into(), status: None }
    }
}

/// A decision, or what came of an act that speaks of an earlier one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// Whether the caller may go ahead; of an act that speaks of something earlier, whether that was found.
    pub allowed: bool,
    /// Why.
    pub reason: String,
    /// The limit that speaks for the decision.
    pub limit: Option<String>,
    /// Units left under it.
    pub remaining: Option<u64>,
    /// The wait, of a denial that waiting helps.
    pub retry_after_ms: Option<u64>,
    /// Until that limit's key is as new.
    pub reset_after_ms: Option<u64>,
    /// Units granted or given back, keys reset; milliseconds that a renewed lease lasts.
    pub units: u64,
    /// What each limit said.
    pub limits: Vec<LimitSaid>,
    /// What only a front door has.
    pub door: Option<Door>,
}

/// What one limit said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LimitSaid {
    /// Its name.
    pub limit: String,
    /// Whether it admits.
    pub allowed: bool,
    /// The most that can be spent at once; `None` when unlimited.
    pub capacity: Option<u64>,
    /// Units left.
    pub remaining: Option<u64>,
    /// The wait.
    pub retry_after_ms: Option<u64>,
    /// Until it is as new.
    pub reset_after_ms: Option<u64>,
}

/// An HTTP answer apart from its body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Door {
    /// The status.
    pub status: u16,
    /// Header fields by their lower-case names.
    pub headers: Vec<(String, String)>,
}

/// One limit with its decision, before it is told.
#[derive(Clone, Debug)]
pub struct Spoken {
    /// The limit's name.
    pub limit: String,
    /// Whether it only watches.
    pub shadow: bool,
    /// What it says.
    pub decision: LegDecision,
}

impl Answer {
    /// The answer of a check that no limit applies to.
    pub fn without_limits() -> Answer {
        Answer { allowed: true, reason: "no_limit".to_owned(), ..Answer::default() }
    }

    /// The answer of a check that lacks an attribute which this limit counts by.
    pub fn missing(limit: String) -> Answer {
        let (limit, reason) = (Some(limit), "missing_attribute".to_owned());
        Answer { limit, reason, ..Answer::default() }
    }

    /// The answer of an act that speaks of something earlier.
    pub fn found(found: bool, units: u64) -> Answer {
        Answer { allowed: found, units, reason: "ok".to_owned(), ..Answer::default() }
    }

    /// One answer out of what each limit says. Of those that refuse the one to wait for longest speaks, else the tightest:
    /// the least that remains, then the latest reset, then the order of the rule (law 7). What only watches does not.
    pub fn of(spoken: &[Spoken]) -> Answer {
        let enforced = || spoken.iter().filter(|spoken| !spoken.shadow).map(|spoken| (&*spoken.limit, spoken.decision));
        let allowed = enforced().all(|(_, decision)| decision.allowed);
        let refusal = enforced().filter(|(_, decision)| !decision.allowed).rev().max_by_key(|(_, said)| said.wait);
        let tightest = enforced().min_by_key(|(_, said)| (said.remaining, std::cmp::Reverse(said.reset_after)));
        let Some((name, said)) = refusal.or(tightest) else {
            return Answer { limits: told(spoken), ..Answer { reason: "ok".to_owned(), ..Answer::without_limits() } };
        };
        let (reason, wait) = match said.wait {
            Wait::Now => ("ok", None),
            Wait::After(wait) => ("limit", Some(wait)),
            Wait::Never => ("never", None),
        };
        Answer {
            allowed,
            reason: reason.to_owned(),
            limit: Some(name.to_owned()),
            remaining: counted(said.remaining),
            retry_after_ms: wait.map(Span::as_millis_ceil),
            reset_after_ms: Some(said.reset_after.as_millis_ceil()),
            limits: told(spoken),
            ..Answer::default()
        }
    }
}

fn told(spoken: &[Spoken]) -> Vec<LimitSaid> {
    let told = |Spoken { limit, decision, .. }: &Spoken| LimitSaid {
        limit: limit.clone(),
        allowed: decision.allowed,
        capacity: counted(decision.capacity),
        remaining: counted(decision.remaining),
        retry_after_ms: match decision.wait {
            Wait::After(wait) => Some(wait.as_millis_ceil()),
            Wait::Now | Wait::Never => None,
        },
        reset_after_ms: Some(decision.reset_after.as_millis_ceil()),
    };
    spoken.iter().map(told).collect()
}

/// A number, where there is one: an unlimited limit has none.
fn counted(units: u64) -> Option<u64> {
    (units < u64::MAX).then_some(units)
}
