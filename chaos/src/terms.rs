//! What each limit of the suite's policy promises, computed from the document and from nothing that a node says: the
//! judge must not learn the law from the accused.

use anyhow::{Context as _, Result, anyhow};
use limits::{Algorithm, Align, Basis, DomainId, FailMode, LimitId, Rate, Shape, Span};
use policy::{Document, Numbers};
use sim::judge::Share;
use sim::{Edges, Promise, Terms};

/// The suite's policy.
pub const POLICY: &str = include_str!("../policy.yaml");

/// The policy of scenarios with a Redis.
pub const KEPT: &str = include_str!("../kept.yaml");

/// The limit of it that is asked about all the time and never used up.
pub const ROOMY: &str = "closed-roomy";

/// What one write allows of it beyond what is used.
pub const ROOMY_CHUNK: u64 = 24;

/// The limit that the load leaves alone: what is used of it is what a script charged.
pub const LEDGER: &str = "closed-ledger";

/// Units that the ledger has when nothing was charged.
pub const LEDGER_CAPACITY: u64 = 100_000;

/// The domain that it is for.
pub const DOMAIN: &str = "chaos";

/// What is promised of every limit in a policy, among `nodes` nodes. `edges` tells where aligned windows of a length begin.
///
/// # Errors
/// When the document is no policy.
pub fn of_policy(text: &str, nodes: u64, edges: &dyn Fn(Span) -> Edges) -> Result<Vec<Terms>> {
    let document = Document::parse(text)
        .map_err(|errors| anyhow!("{}", errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")))?;
    let limits = document.limits().iter();
    limits
        .map(|limit| {
            let Numbers { rate, algorithm } =
                limit.numbers.context("the suite's policy has no limits that go by a plan")?;
            let (id, domain) = (LimitId(1), DomainId(0));
            let whole = Shape { limit: id, domain, rate, algorithm, basis: Basis::Hi };
            let edges = aligned(&whole).map(edges);
            let promise = |parts: u64, of: u64| {
                Promise::of(&part(whole, parts, of), edges).context("the suite's policy has no unlimited limits")
            };
            let (owner, share) = match limit.fail {
                FailMode::Closed | FailMode::Open => (promise(1, 1)?, None),
                FailMode::Emergency { percent, reserved } => {
                    let percent = u64::from(percent);
                    let rest = if reserved { 100 - percent } else { 100 };
                    let share = Share { together: promise(percent, 100)?, each: promise(percent, 100 * nodes)? };
                    (promise(rest, 100)?, Some(share))
                }
            };
            Ok(Terms { limit: limit.name.as_str().into(), fail: limit.fail, owner, share })
        })
        .collect()
}

/// The length of windows that are aligned to the time of day.
fn aligned(shape: &Shape) -> Option<Span> {
    match shape.algorithm {
        Algorithm::FixedWindow { align: Align::Epoch } => shape.rate.map(Rate::period),
        Algorithm::FixedWindow { align: Align::First | Align::Hashed }
        | Algorithm::TokenBucket { .. }
        | Algorithm::SlidingLog { .. }
        | Algorithm::SlidingCounter
        | Algorithm::Calendar { .. }
        | Algorithm::Concurrency { .. } => None,
    }
}

/// A part of a limit: amount and burst, rounded down, over the same period.
fn part(whole: Shape, parts: u64, of: u64) -> Shape {
    let part = |amount: u64| amount * parts / of;
    let rate =
        whole.rate.map(|rate| Rate::new(part(rate.amount()), rate.period()).expect("a part is at most the whole"));
    let algorithm = match whole.algorithm {
        Algorithm::TokenBucket { burst } => Algorithm::TokenBucket { burst: part(burst) },
        other @ (Algorithm::SlidingLog { .. }
        | Algorithm::FixedWindow { .. }
        | Algorithm::SlidingCounter
        | Algorithm::Calendar { .. }
        | Algorithm::Concurrency { .. }) => other,
    };
    Shape { rate, algorithm, ..whole }
}

/// The word for a failure mode in tables.
pub fn mode_word(fail: FailMode) -> &'static str {
    match fail {
        FailMode::Closed => "closed",
        FailMode::Open => "open",
        FailMode::Emergency { .. } => "emergency",
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use limits::Moment;
    use sim::Counted;

    use super::*;

    fn terms() -> Vec<Terms> {
        of(POLICY)
    }

    fn of(policy: &str) -> Vec<Terms> {
        of_policy(policy, 3, &|period| Edges { at: Moment::from_nanos(period.as_nanos()), unsure: Span::ZERO }).unwrap()
    }

    fn named(name: &str) -> Terms {
        terms().into_iter().find(|terms| &*terms.limit == name).unwrap()
    }

    #[test]
    fn the_policy_has_every_failure_mode_and_every_algorithm() {
        let modes: std::collections::BTreeSet<_> = terms().iter().map(|terms| mode_word(terms.fail)).collect();
        assert_eq!(modes.into_iter().collect::<Vec<_>>(), ["closed", "emergency", "open"]);
        assert_eq!(named("closed-log").owner.counted, Counted::Log);
        assert!(matches!(named("closed-bucket").owner.counted, Counted::Bucket { burst: 40 }));
        assert!(matches!(named("closed-window").owner.counted, Counted::Window { edges: Some(_) }));
    }

    #[test]
    fn shares_are_divided_and_rounded_down() {
        let additive = named("emergency-bucket");
        assert!(matches!(additive.owner.counted, Counted::Bucket { burst: 40 }));
        let share = additive.share.unwrap();
        assert!(matches!(share.together.counted, Counted::Bucket { burst: 12 }));
        assert!(matches!(share.each.counted, Counted::Bucket { burst: 4 }));
        assert_eq!((share.together.rate.amount(), share.each.rate.amount()), (9, 3));
        let reserved = named("emergency-log");
        assert_eq!((reserved.owner.rate.amount(), reserved.share.unwrap().each.rate.amount()), (21, 3));
    }

    #[test]
    fn the_ledger_has_the_capacity_that_scripts_count_from() {
        assert_eq!(named(LEDGER).owner.counted, Counted::Bucket { burst: LEDGER_CAPACITY });
    }

    #[test]
    fn the_policy_beside_redis_has_every_failure_mode_and_one_limit_with_room() {
        let terms = of(KEPT);
        let modes: std::collections::BTreeSet<_> = terms.iter().map(|terms| mode_word(terms.fail)).collect();
        assert_eq!(modes.into_iter().collect::<Vec<_>>(), ["closed", "emergency", "open"]);
        let roomy = terms.iter().find(|terms| &*terms.limit == ROOMY).unwrap();
        assert_eq!(roomy.owner.rate.amount() / limits::KEPT_PARTS, ROOMY_CHUNK);
        assert!(roomy.owner.rate.period() > limits::KEPT_ABOVE);
    }

    #[test]
    fn what_is_no_policy_is_refused_with_its_place() {
        let error = of_policy("ringfence: 1\nlimits: 3\n", 3, &|_| unreachable!("there are no windows"));
        assert!(error.unwrap_err().to_string().contains("limits"));
    }
}
