//! How much of everything a policy may hold, so that parsing, memory and matching all have an end. What a bound in
//! [`Bounds`] refuses is a finding with the place where it was passed; nothing is cut off silently.

/// The bounds of one document. [`Bounds::default`] is what a cluster accepts; tools may read larger ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Size of the text in bytes; 256 KiB. About 8,000 limits or 4,000 rules of one short line each fit, so this bound
    /// usually speaks before the counts below.
    pub bytes: usize,
    /// Nesting of lists and mappings; 16. The language itself needs 6.
    pub depth: usize,
    /// Limits in one document; 10,000.
    pub limits: usize,
    /// Rules in one document; 10,000.
    pub rules: usize,
    /// Plans in one document; 256.
    pub plans: usize,
    /// Overrides in one document; 4,096.
    pub overrides: usize,
    /// Combinations of values that all rules' matches come to together: a rule with lists of 3 and 4 values counts 12;
    /// 65,536. It bounds the memory of the compiled rules.
    pub combinations: usize,
}

impl Default for Bounds {
    fn default() -> Bounds {
        Bounds {
            bytes: 256 * 1024,
            depth: 16,
            limits: 10_000,
            rules: 10_000,
            plans: 256,
            overrides: 4_096,
            combinations: 65_536,
        }
    }
}

/// Limits that can apply to one check, so that a check's legs are bounded: the limits that one rule may name, and all
/// limits of a document without rules.
pub const LIMITS_PER_CHECK_MAX: usize = 16;

/// Attributes that a limit may count by.
pub const KEY_PARTS_MAX: usize = 8;

/// Attributes that one rule may match on.
pub const MATCH_ATTRIBUTES_MAX: usize = 8;

/// Segments of the prefix in `prefix/*`: matching tries one prefix per segment of the value and stops here.
pub const PREFIX_SEGMENTS_MAX: usize = 16;

/// Different attributes that the limits and rules of one document may name.
pub const ATTRIBUTES_NAMED_MAX: usize = 64;

/// Different sets of attributes that the rules of one document may match on. Matching looks once per set, whatever the
/// number of rules, so this is the bound of its cost.
pub const MATCH_SETS_MAX: usize = 64;

/// Entries that a sliding log may keep per key, and the largest amount of a sliding-log limit.
pub const LOG_ENTRIES_MAX: u32 = 100_000;

/// Entries that a sliding log keeps per key when the document does not say.
pub const LOG_ENTRIES_DEFAULT: u32 = 4_096;

/// Different pairs of prefixes that the limits of one document may count addresses by. Matching groups an address once
/// per pair.
pub const IP_PREFIXES_MAX: usize = 4;

/// The longest reason of an override, in bytes.
pub const REASON_MAX: usize = 1_024;

/// The longest rate literal that comes with a check, in bytes.
pub const INLINE_RATE_MAX: usize = 64;

/// The most limits of a domain that may come with checks.
pub const INLINE_LIMITS_MAX: u32 = 1_024;

/// How many limits of a domain may come with checks when the document does not say.
pub const INLINE_LIMITS_DEFAULT: u32 = 64;
