//! One row per question: what was asked, when, and what came back. Times are readings of the asker's own clock, so that a
//! history needs no trust in anybody else's. A question that was asked again under the same id is still one row.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use limits::{Moment, Span};

/// A question and what came of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// The check's id.
    pub id: u128,
    /// The limit that it asks about; a check with several limits is several rows.
    pub limit: Arc<str>,
    /// The key, as the asker wrote it.
    pub key: Arc<str>,
    /// Units asked for.
    pub cost: u64,
    /// The node that answered; without an answer, the node that was asked.
    pub ingress: Arc<str>,
    /// How often the question was put, all nodes together; 0 where nobody counted.
    pub attempts: u32,
    /// Just before the question was sent for the first time.
    pub invoked: Moment,
    /// Just after the answer was there, or the asker gave up.
    pub returned: Moment,
    /// How long the asker said that it would wait.
    pub deadline: Span,
    /// What came back.
    pub outcome: Outcome,
}

/// What came back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// A decision.
    Answered(Answer),
    /// Nothing that decides: an error of the transport or of the node, in words. Whether it was charged is not known.
    Silent(String),
}

/// A decision, as its caller sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Whether the caller may go ahead.
    pub allowed: bool,
    /// Why.
    pub reason: Reason,
    /// Who answered.
    pub source: Source,
    /// Whether any limit was answered without its owner.
    pub degraded: bool,
    /// Whether it is the recorded answer of an earlier attempt.
    pub replayed: bool,
    /// Units left, where somebody counted.
    pub remaining: Option<u64>,
    /// The node that decided, if one did.
    pub owner: Option<Arc<str>>,
    /// The epoch it decided under.
    pub epoch: Option<u64>,
    /// The policy's revision.
    pub revision: u64,
}

impl Row {
    /// How long the asker waited.
    pub fn took(&self) -> Span {
        self.returned.since(self.invoked)
    }

    /// The decision, if one came.
    pub fn answer(&self) -> Option<&Answer> {
        match &self.outcome {
            Outcome::Answered(answer) => Some(answer),
            Outcome::Silent(_) => None,
        }
    }

    /// The decision, if it admits.
    pub fn admitted(&self) -> Option<&Answer> {
        self.answer().filter(|answer| answer.allowed)
    }

    /// The decision, if it refuses.
    pub fn denied(&self) -> Option<&Answer> {
        self.answer().filter(|answer| !answer.allowed)
    }
}

/// A word that is none of ours.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no {1}")]
pub struct UnknownWord(String, &'static str);

/// An enum of the API's words, both ways.
macro_rules! words {
    ($(#[$doc:meta])* $name:ident, $what:literal, { $($(#[$each:meta])* $variant:ident = $word:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name { $($(#[$each])* $variant,)* }

        impl $name {
            /// Every word there is.
            pub const ALL: &[$name] = &[$($name::$variant),*];

            /// The word that the API uses.
            pub const fn as_str(self) -> &'static str {
                match self { $($name::$variant => $word,)* }
            }
        }

        impl FromStr for $name {
            type Err = UnknownWord;

            fn from_str(text: &str) -> Result<$name, UnknownWord> {
                let found = $name::ALL.iter().copied().find(|one| one.as_str() == text);
                found.ok_or_else(|| UnknownWord(text.to_owned(), $what))
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
    /// Why a decision is what it is.
    Reason, "reason", {
        /// Every limit admitted it.
        Ok = "ok",
        /// No limit applied.
        NoLimit = "no_limit",
        /// A limit is used up.
        Limit = "limit",
        /// A limit counts by an attribute that the check lacks.
        MissingAttribute = "missing_attribute",
        /// The cost can never fit.
        Never = "never",
        /// No owner could answer in time; the failure mode did.
        Unavailable = "unavailable",
        /// The owner took over a moment ago and does not know what was used.
        Recovering = "recovering",
    }
}

words! {
    /// Who answered.
    Source, "source", {
        /// The node that was asked owns the key.
        Owner = "owner",
        /// The owner, one hop away.
        Forwarded = "forwarded",
        /// The emergency limiter of the node that was asked.
        Emergency = "emergency",
        /// Nobody: the limit fails open.
        Open = "open",
        /// Nobody: the limit fails closed.
        Closed = "closed",
        /// The node that was asked, from a denial that still holds.
        DenialCache = "denial_cache",
        /// The policy alone.
        Policy = "policy",
    }
}

impl Source {
    /// Whether the owner's own count stands behind the answer.
    pub const fn is_counted(self) -> bool {
        matches!(self, Source::Owner | Source::Forwarded | Source::DenialCache)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_reads_as_it_is_written_and_others_are_refused() {
        for reason in Reason::ALL {
            assert_eq!(reason.to_string().parse(), Ok(*reason));
        }
        for source in Source::ALL {
            assert_eq!(source.to_string().parse(), Ok(*source));
        }
        assert_eq!("owners".parse::<Source>().unwrap_err().to_string(), "`owners` is no source");
    }
}
