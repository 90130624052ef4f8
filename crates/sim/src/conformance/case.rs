//! One case: a policy, calls with times, and what each has to be answered. It is data, written by hand from the laws, and
//! says whose mistake it remembers.

use std::collections::BTreeMap;

use limits::{Span, WallTime};

/// Attributes of a check.
pub type Attributes = BTreeMap<String, String>;

/// One row of the table.
#[derive(Clone, Debug)]
pub struct Case {
    /// The note it comes from and the row there.
    pub id: String,
    /// Whose mistake or test it is.
    pub source: String,
    /// What went wrong there, in a line.
    pub wrong: String,
    /// Where our right answer differs from that one's.
    pub differs: Option<String>,
    /// When limit time stands at the case's zero.
    pub starts: Starts,
    /// Attributes of every call that names none.
    pub with: Attributes,
    /// The policy that applies from the beginning.
    pub policy: PolicyText,
    /// What is wrong with that policy; nothing in nearly every case.
    pub errors: Vec<Finding>,
    /// What happens, in order of time.
    pub calls: Vec<Call>,
    /// The ways that cannot express it, and why.
    pub cannot: BTreeMap<String, String>,
}

/// When a case begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Starts {
    /// At any time: nothing in it goes by cluster time.
    Anytime,
    /// On any day, so long after midnight UTC.
    OfDay(Span),
    /// At that instant.
    At(WallTime),
}

/// A policy as the case has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PolicyText {
    /// Everything below the domain's name, which the run gives.
    Body(String),
    /// A whole document.
    Whole(String),
}

/// Something that a policy document is told of itself.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    /// The stable word.
    pub code: String,
    /// The line, counted in the whole document; `None` where the case does not say.
    pub line: Option<u64>,
    /// What was probably meant.
    pub suggestion: Option<String>,
}

/// One call, or several alike.
#[derive(Clone, Debug)]
pub struct Call {
    /// The line of the file that it begins at, to be found again.
    pub line: usize,
    /// When, after the case's zero.
    pub at: Span,
    /// Whether that is before what was: a clock that goes back.
    pub back: bool,
    /// How often.
    pub times: u64,
    /// How far apart.
    pub every: Span,
    /// The attributes, if not the case's.
    pub with: Option<Attributes>,
    /// What is asked.
    pub act: Act,
    /// What must be answered.
    pub expect: Expect,
}

/// What a call asks for. Costs are wide: what no type can hold is among the things that callers send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Act {
    /// Spend, or nothing.
    Check {
        /// Units.
        cost: i128,
        /// The caller's own name for it.
        id: Option<String>,
    },
    /// Spend as much as there is.
    UpTo {
        /// At most so many units.
        cost: i128,
    },
    /// Look.
    Peek {
        /// Units that would be spent.
        cost: i128,
        /// That limit alone.
        limit: Option<String>,
    },
    /// Take a charge back.
    Refund {
        /// Its name.
        id: String,
    },
    /// Spend the most it may come to.
    Reserve {
        /// Units.
        cost: i128,
        /// Its name.
        id: String,
        /// How long it may be settled.
        ttl: Span,
    },
    /// Say what it came to.
    Settle {
        /// Units.
        cost: i128,
        /// The reserve's name.
        id: String,
    },
    /// Take slots.
    Acquire {
        /// How many.
        cost: i128,
        /// In whose name.
        id: String,
        /// How long, if not the limit's own time.
        ttl: Option<Span>,
    },
    /// Hold slots for longer.
    Renew {
        /// In whose name.
        id: String,
        /// How long from now.
        ttl: Option<Span>,
    },
    /// Let go of slots.
    Release {
        /// In whose name.
        id: String,
    },
    /// Forget what was used.
    Reset {
        /// That limit alone.
        limit: Option<String>,
    },
    /// Apply another policy.
    Apply(PolicyText),
}

/// What a call must be answered; what is `None` may be anything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Expect {
    /// Whether it is allowed, or what it speaks of was found.
    pub allowed: Option<bool>,
    /// How many of several calls are allowed.
    pub admits: Option<u64>,
    /// The limit that speaks for the decision.
    pub limit: Option<String>,
    /// Why.
    pub reason: Option<String>,
    /// Units left.
    pub remaining: Option<u64>,
    /// The wait. A denial that says none is one that waiting does not help.
    pub retry_after_ms: Option<u64>,
    /// Until it is as new.
    pub reset_after_ms: Option<u64>,
    /// Units granted or given back, keys reset; milliseconds that a renewed lease lasts.
    pub units: Option<u64>,
    /// What single limits say.
    pub limits: BTreeMap<String, ExpectLimit>,
    /// The HTTP status.
    pub status: Option<u16>,
    /// Header fields; empty text for one that must not be there.
    pub headers: BTreeMap<String, String>,
    /// The word for a call that is no question.
    pub error: Option<String>,
    /// What is wrong with a policy that is applied.
    pub errors: Vec<Finding>,
}

/// What one limit must say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExpectLimit {
    /// Whether it admits.
    pub allowed: Option<bool>,
    /// The most that can be spent at once.
    pub capacity: Option<u64>,
    /// Units left.
    pub remaining: Option<u64>,
    /// The wait.
    pub retry_after_ms: Option<u64>,
    /// Until it is as new.
    pub reset_after_ms: Option<u64>,
}

impl Case {
    /// The domain that the case's policies are of: its id, spelt as domains are.
    pub fn domain(&self) -> String {
        let spelt = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
        self.id.chars().map(spelt).collect()
    }

    /// The whole document.
    pub fn document(&self, policy: &PolicyText) -> String {
        match policy {
            PolicyText::Body(body) => format!("ringfence: 1\ndomain: {}\n{body}", self.domain()),
            PolicyText::Whole(document) => document.clone(),
        }
    }
}
