//! How many series there can be. What an operator configures is bounded only by what he configures, so beyond these counts
//! labels fold into `_other`; the sum over all labels stays right.

use crate::call::Call;
use crate::meter::{Api, BUCKETS_MICROS, CameOf, PolicyOutcome, STATUSES};

/// What stands for everything that has no label of its own.
pub const OTHER: &str = "_other";

/// Limits with labels of their own, those with the lowest numbers: policies are the operator's, but ten thousand limits
/// would be ten thousand times the series of one.
pub const LIMITS_MAX: usize = 500;

/// Domains with labels of their own; a revision of all others together means nothing and is left out.
pub const DOMAINS_MAX: usize = 100;

/// Peers with labels of their own.
pub const PEERS_MAX: usize = 64;

/// Tokens with labels of their own.
pub const TOKENS_MAX: usize = 100;

/// Series of one limit at most: three outcomes by six sources; units, decisions near the limit, full tables; three failure
/// modes.
const PER_LIMIT: usize = 3 * 6 + 3 + 3;

/// Series of one histogram: a bucket per bound and the open one, sum and count.
const PER_HISTOGRAM: usize = BUCKETS_MICROS.len() + 1 + 2;

/// Reasons for which a forward fails, at most.
const FORWARD_REASONS_MAX: usize = 8;

/// Series of one peer at most: a histogram, errors, lost corrections.
const PER_PEER: usize = PER_HISTOGRAM + FORWARD_REASONS_MAX + 1;

/// Words of fixed labels elsewhere: partitions, takeovers, members, refusals of peers, and what has no label.
const WORDS_MAX: usize = 60;

/// Series that do not depend on any configuration.
const FIXED: usize = Api::COUNT * (STATUSES.len() + 1 + PER_HISTOGRAM)
    + PolicyOutcome::ALL.len()
    + Call::ALL.len() * CameOf::ALL.len()
    + store::Op::ALL.len() * (store::Outcome::ALL.len() + histogram::ONE_TRIP_MICROS.len() + 3)
    + WORDS_MAX;

/// The most samples that a scrape can hold, whatever is configured and whoever calls.
pub const SERIES_MAX: usize =
    (LIMITS_MAX + 1) * PER_LIMIT + 2 * DOMAINS_MAX + 1 + (PEERS_MAX + 1) * PER_PEER + (TOKENS_MAX + 1) * 2 + 3 + FIXED;

/// The bounds as a sentence of the documentation.
pub fn in_words() -> String {
    format!(
        "The first {LIMITS_MAX} limits, {DOMAINS_MAX} domains, {PEERS_MAX} peers and {TOKENS_MAX} tokens have labels of their own, \
         the rest counts as `{OTHER}`. A scrape holds at most {SERIES_MAX} samples."
    )
}

/// Whose labels are their own: the first `room` names that are asked for; all later ones fold.
#[derive(Debug)]
pub struct Room<'a> {
    room: usize,
    known: std::collections::BTreeSet<&'a str>,
}

impl<'a> Room<'a> {
    /// Room for so many names.
    pub fn for_names(room: usize) -> Room<'a> {
        Room { room, known: std::collections::BTreeSet::new() }
    }

    /// The label of this name.
    pub fn label(&mut self, name: &'a str) -> &'a str {
        if self.known.len() < self.room {
            self.known.insert(name);
        }
        if self.known.contains(name) { name } else { OTHER }
    }
}
