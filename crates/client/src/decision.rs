//! The answer: allowed or not, by which limit, what remains, when to come back, who said so, and how sure. The fields are
//! those of the JSON API. Words that this client does not know are kept as they came, so that a newer node can be asked
//! by an older client.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use wire::v1 as proto;

/// What was decided about a check. A denial is an answer like the other one.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "a decision that nobody reads limits nobody"]
pub struct Decision {
    /// Whether the request may go ahead.
    pub allowed: bool,
    /// The check's id: the text it was given, or its 16 bytes in hexadecimal digits.
    pub id: String,
    /// The policy's name space.
    pub domain: String,
    /// Units that the check asked for.
    pub cost: u64,
    /// The limit that refused, or the tightest; `None` when no limit applies.
    pub limit: Option<String>,
    /// Units left under that limit; `None` when nobody could count.
    pub remaining: Option<u64>,
    /// When the same check may be allowed, counted from now; `None` when allowed, and when waiting does not help.
    pub retry_after: Option<Duration>,
    /// When the limit will be as if never used, counted from now.
    pub reset_after: Option<Duration>,
    /// Why.
    pub reason: Reason,
    /// Who says so.
    pub source: Source,
    /// Whether any limit was answered without its owner, by its failure mode.
    pub degraded: bool,
    /// The node that decided, by name; `None` when no owner did.
    pub owner: Option<String>,
    /// The epoch that the owner decided in; `None` when no owner did.
    pub epoch: Option<u64>,
    /// The policy revision that the limits were decided under.
    pub revision: u64,
    /// Whether this is the recorded answer to an id that was asked before.
    pub replayed: bool,
    /// What each limit said, in the order of the policy's rule.
    pub limits: Vec<LimitDecision>,
    /// The address of the node that gave this answer, as the client was told it.
    pub answered_by: Arc<str>,
    /// How often the client had asked by then: 1, unless a node failed.
    pub attempts: u32,
}

/// What one limit said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LimitDecision {
    /// The limit's name.
    pub limit: String,
    /// Whether it admits the check.
    pub allowed: bool,
    /// Burst, or the window's amount; `None` when unlimited or unknown.
    pub capacity: Option<u64>,
    /// Units left; `None` when nobody could count.
    pub remaining: Option<u64>,
    /// When this limit may admit the same check, counted from now.
    pub retry_after: Option<Duration>,
    /// When this limit will be as if never used, counted from now.
    pub reset_after: Option<Duration>,
    /// Why.
    pub reason: Reason,
    /// Who says so.
    pub source: Source,
    /// The node that decided, by name; `None` when no owner did.
    pub owner: Option<String>,
    /// The epoch that the owner decided in; `None` when no owner did.
    pub epoch: Option<u64>,
    /// Whether it refuses, or only watches.
    pub mode: Mode,
}

/// Declares an enum of the API's words, with a variant for words of a newer node.
macro_rules! words {
    ($(#[$about:meta])* $name:ident { $($(#[$doc:meta])* $variant:ident = $word:literal,)* }) => {
        $(#[$about])*
        #[derive(Clone, Debug, PartialEq, Eq, Hash)]
        pub enum $name {
            $($(#[$doc])* $variant,)*
            /// A word of a newer node that this client does not know.
            Other(String),
        }

        impl $name {
            /// The word of the API.
            pub fn as_str(&self) -> &str {
                match self {
                    $($name::$variant => $word,)*
                    $name::Other(word) => word,
                }
            }
        }

        impl From<String> for $name {
            fn from(word: String) -> $name {
                match word.as_str() {
                    $($word => $name::$variant,)*
                    _ => $name::Other(word),
                }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.as_str())
            }
        }
    };
}

words! {
    /// Why a decision is as it is.
    Reason {
        /// Every limit that applies admits it.
        Ok = "ok",
        /// No limit applies.
        NoLimit = "no_limit",
        /// A limit is used up; `retry_after` says for how long.
        Limit = "limit",
        /// A limit needs an attribute that the check does not have.
        MissingAttribute = "missing_attribute",
        /// It costs more than the limit ever has: waiting does not help.
        Never = "never",
        /// No owner could answer in time; the limit's failure mode did.
        Unavailable = "unavailable",
        /// A new owner does not know yet what was used, and admits nothing that might be too much.
        Recovering = "recovering",
    }
}

words! {
    /// Who decided.
    Source {
        /// The key's owner, which is the node that was asked.
        Owner = "owner",
        /// The key's owner, through the node that was asked.
        Forwarded = "forwarded",
        /// The emergency share of the node that was asked, since no owner answered.
        Emergency = "emergency",
        /// The failure mode `open`: allowed, since no owner answered.
        Open = "open",
        /// The failure mode `closed`: denied, since no owner answered.
        Closed = "closed",
        /// A denial that was remembered.
        DenialCache = "denial_cache",
        /// The policy itself: nobody needed to count.
        Policy = "policy",
    }
}

words! {
    /// Whether a limit refuses.
    Mode {
        /// It refuses.
        Enforce = "enforce",
        /// It watches: what it says is told and counted, and refuses nobody.
        Shadow = "shadow",
    }
}

impl Decision {
    /// What a node answered to attempt number `attempts`.
    pub(crate) fn from_proto(decision: proto::Decision, answered_by: Arc<str>, attempts: u32) -> Decision {
        let owner = some(decision.owner);
        Decision {
            allowed: decision.allowed,
            id: decision.id,
            domain: decision.domain,
            cost: decision.cost,
            limit: some(decision.limit),
            remaining: decision.remaining,
            retry_after: decision.retry_after_ms.map(Duration::from_millis),
            reset_after: decision.reset_after_ms.map(Duration::from_millis),
            reason: decision.reason.into(),
            source: source(decision.source),
            degraded: decision.degraded,
            epoch: owner.is_some().then_some(decision.epoch),
            owner,
            revision: decision.revision,
            replayed: decision.replayed,
            limits: decision.limits.into_iter().map(LimitDecision::from_proto).collect(),
            answered_by,
            attempts,
        }
    }
}

impl LimitDecision {
    fn from_proto(limit: proto::LimitDecision) -> LimitDecision {
        let owner = some(limit.owner);
        LimitDecision {
            limit: limit.limit,
            allowed: limit.allowed,
            capacity: limit.capacity,
            remaining: limit.remaining,
            retry_after: limit.retry_after_ms.map(Duration::from_millis),
            reset_after: limit.reset_after_ms.map(Duration::from_millis),
            reason: limit.reason.into(),
            source: source(limit.source),
            epoch: owner.is_some().then_some(limit.epoch),
            owner,
            mode: limit.mode.into(),
        }
    }
}

/// Protobuf spells an absent text as an empty one.
fn some(text: String) -> Option<String> {
    (!text.is_empty()).then_some(text)
}

/// On the wire no source means that nobody was asked, which is the policy's word.
fn source(word: String) -> Source {
    if word.is_empty() { Source::Policy } else { word.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_a_newer_node_are_kept_as_they_came() {
        let limit = proto::LimitDecision { mode: "dry-run".to_owned(), ..proto::LimitDecision::default() };
        let newer = proto::Decision {
            reason: "tired".to_owned(),
            source: "oracle".to_owned(),
            limits: vec![limit],
            ..proto::Decision::default()
        };
        let decision = Decision::from_proto(newer, "a:1".into(), 1);
        assert_eq!(decision.reason, Reason::Other("tired".to_owned()));
        assert_eq!(decision.source.to_string(), "oracle");
        assert_eq!(decision.limits[0].mode, Mode::Other("dry-run".to_owned()));
    }

    #[test]
    fn every_word_is_read_as_the_variant_that_spells_it() {
        let reasons = ["ok", "no_limit", "limit", "missing_attribute", "never", "unavailable", "recovering"];
        for word in reasons {
            let reason = Reason::from(word.to_owned());
            assert!(!matches!(reason, Reason::Other(_)) && reason.as_str() == word, "{word}");
        }
        for word in ["owner", "forwarded", "emergency", "open", "closed", "denial_cache", "policy"] {
            let source = Source::from(word.to_owned());
            assert!(!matches!(source, Source::Other(_)) && source.as_str() == word, "{word}");
        }
        assert_eq!(Mode::from("shadow".to_owned()), Mode::Shadow);
    }

    #[test]
    fn what_is_absent_on_the_wire_is_absent_in_the_decision() {
        let decision = Decision::from_proto(proto::Decision::default(), "a:1".into(), 2);
        assert_eq!((decision.limit, decision.owner, decision.epoch), (None, None, None));
        assert_eq!((decision.remaining, decision.retry_after, decision.attempts), (None, None, 2));
        assert_eq!(decision.source, Source::Policy);
    }
}
