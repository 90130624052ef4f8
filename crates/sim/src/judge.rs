//! One limit's history held against everything that its failure mode promises. What is counted is reported, what is
//! promised is judged; a violation names the rows that show it.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use limits::{FailMode, Moment, Span};

use crate::c1::{self, Admitted, TooMuch, Worst};
use crate::clocks::Clocks;
use crate::history::{Reason, Row, Source};
use crate::justified::{BOOKED_WITHIN, Charged, Refusal, unjustified};
use crate::promise::Promise;

/// What is promised of one limit.
#[derive(Clone, Debug)]
pub struct Terms {
    /// Its name.
    pub limit: Arc<str>,
    /// What is said when nobody can count.
    pub fail: FailMode,
    /// What its owners may let through.
    pub owner: Promise,
    /// What all nodes together may let through without the owner, and each one alone; emergency limits only.
    pub share: Option<Share>,
}

/// An emergency share.
#[derive(Clone, Copy, Debug)]
pub struct Share {
    /// Of all nodes together.
    pub together: Promise,
    /// Of each node.
    pub each: Promise,
}

/// What a judge needs to know of the experiment beside the rows.
pub struct Circumstances<'a> {
    /// How fast owners' clocks ran.
    pub clocks: Clocks,
    /// By how much a row's answer may be later than its deadline, since the asker itself stood still for so long. `None`
    /// where the node that was asked was down or frozen, so that nobody owes an answer.
    pub grace: &'a dyn Fn(&Row) -> Option<Span>,
}

/// What part of a limit an excess is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// What owners counted.
    Owner,
    /// What the emergency limiters of all nodes gave out.
    Share,
    /// What the emergency limiter of one node gave out.
    ShareOf(Arc<str>),
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Part::Owner => f.write_str("the owners"),
            Part::Share => f.write_str("the emergency share"),
            Part::ShareOf(node) => write!(f, "the emergency share of {node}"),
        }
    }
}

/// The fullest stretch of a part, over all keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fullest {
    /// Of which part.
    pub part: Part,
    /// Of which key.
    pub key: Arc<str>,
    /// The stretch; its rows are places in the history that was judged.
    pub worst: Worst,
}

/// A promise that was not kept. Rows are named by their place in the history that was judged.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Violation {
    /// More was admitted than the limit allows.
    #[error("key {} admitted {} where {} allow {}, from {} ns to {} ns", .0.key, .0.worst.admitted, .0.part, .0.worst.allowed, .0.worst.from.as_nanos(), .0.worst.until.as_nanos())]
    Over(Fullest),
    /// A limit that fails open refused because nobody could count.
    #[error("row {row} was denied with {reason}, and its limit fails open")]
    OpenRefused {
        /// Which.
        row: usize,
        /// Why, so it was said.
        reason: Reason,
    },
    /// A limit refused although it cannot have been used up.
    #[error("row {row} was denied, and no charges explain it")]
    Unjustified {
        /// Which.
        row: usize,
    },
    /// An answer came later than the asker's deadline and its own stalls.
    #[error("row {row} took {took}, with a deadline of {deadline} and {grace} of stalls")]
    Late {
        /// Which.
        row: usize,
        /// How long it took.
        took: Span,
        /// How long the asker said that it would wait.
        deadline: Span,
        /// How long it stood still itself.
        grace: Span,
    },
    /// A node that was up gave no decision.
    #[error("row {row} got no decision from nodes that were up: {why}")]
    NoDecision {
        /// Which.
        row: usize,
        /// What came instead.
        why: String,
    },
}

/// What was seen of one limit.
#[derive(Clone, Debug)]
pub struct LimitVerdict {
    /// Its name.
    pub limit: Arc<str>,
    /// Its failure mode.
    pub fail: FailMode,
    /// Rows.
    pub asked: u64,
    /// Admitted rows, by who answered.
    pub allowed: BTreeMap<Source, u64>,
    /// Refused rows, by why.
    pub denied: BTreeMap<Reason, u64>,
    /// Rows without a decision.
    pub silent: u64,
    /// The longest wait for a decision of a node that was up.
    pub slowest: Span,
    /// The fullest stretch of each part.
    pub fullest: Vec<Fullest>,
    /// Promises that were not kept.
    pub violations: Vec<Violation>,
}

impl LimitVerdict {
    /// The largest excess of any part, kept promise or not.
    pub fn excess(&self) -> u128 {
        self.fullest.iter().map(|fullest| fullest.worst.excess()).max().unwrap_or(0)
    }

    /// Admitted rows, whoever answered.
    pub fn allowed_in_all(&self) -> u64 {
        self.allowed.values().sum()
    }
}

/// Judges the rows of one limit; rows of other limits are passed over.
///
/// # Errors
///
/// [`TooMuch`] when the numbers cannot be added up exactly; nothing was judged.
pub fn judge(rows: &[Row], terms: &Terms, circumstances: &Circumstances<'_>) -> Result<LimitVerdict, TooMuch> {
    let mut verdict = LimitVerdict {
        limit: Arc::clone(&terms.limit),
        fail: terms.fail,
        asked: 0,
        allowed: BTreeMap::new(),
        denied: BTreeMap::new(),
        silent: 0,
        slowest: Span::ZERO,
        fullest: Vec::new(),
        violations: Vec::new(),
    };
    let mut keys: BTreeMap<&Arc<str>, Vec<usize>> = BTreeMap::new();
    for (place, row) in rows.iter().enumerate().filter(|(_, row)| row.limit == terms.limit) {
        keys.entry(&row.key).or_default().push(place);
        verdict.count(place, row, circumstances);
    }
    for (key, places) in keys {
        verdict.weigh(rows, key, &places, terms, circumstances)?;
    }
    Ok(verdict)
}

impl LimitVerdict {
    fn count(&mut self, place: usize, row: &Row, circumstances: &Circumstances<'_>) {
        self.asked += 1;
        let grace = (circumstances.grace)(row);
        match row.answer() {
            Some(answer) if answer.allowed => *self.allowed.entry(answer.source).or_default() += 1,
            Some(answer) => *self.denied.entry(answer.reason).or_default() += 1,
            None => self.silent += 1,
        }
        // An answer that came is judged, whatever was wrong with the node that gave it.
        if let Some(reason) = row.denied().map(|answer| answer.reason).filter(|reason| is_refusal_of_failure(*reason))
            && self.fail == FailMode::Open
        {
            self.violations.push(Violation::OpenRefused { row: place, reason });
        }
        let Some(grace) = grace else { return };
        self.slowest = self.slowest.max(row.took());
        if let crate::Outcome::Silent(why) = &row.outcome {
            self.violations.push(Violation::NoDecision { row: place, why: why.clone() });
        } else if row.took() > row.deadline.saturating_add(grace) {
            let (took, deadline) = (row.took(), row.deadline);
            self.violations.push(Violation::Late { row: place, took, deadline, grace });
        }
    }

    fn weigh(
        &mut self,
        rows: &[Row],
        key: &Arc<str>,
        places: &[usize],
        terms: &Terms,
        circumstances: &Circumstances<'_>,
    ) -> Result<(), TooMuch> {
        let clocks = &circumstances.clocks;
        let counted = |row: &Row| row.admitted().is_some_and(|answer| answer.source.is_counted());
        self.fill(Part::Owner, rows, key, &only(rows, places, counted), &terms.owner, clocks)?;
        if let Some(share) = &terms.share {
            let given = |row: &Row| row.admitted().is_some_and(|answer| answer.source == Source::Emergency);
            let given = only(rows, places, given);
            self.fill(Part::Share, rows, key, &given, &share.together, clocks)?;
            for (node, of_node) in by_ingress(rows, &given) {
                self.fill(Part::ShareOf(node), rows, key, &of_node, &share.each, clocks)?;
            }
        }
        if terms.fail == FailMode::Open {
            let found = unjustified_rows(rows, places, &terms.owner, clocks)?;
            self.violations.extend(found.into_iter().map(|row| Violation::Unjustified { row }));
        }
        Ok(())
    }

    /// Finds the fullest stretch of these rows, and keeps it when no other key's was fuller.
    fn fill(
        &mut self,
        part: Part,
        rows: &[Row],
        key: &Arc<str>,
        places: &[usize],
        promise: &Promise,
        clocks: &Clocks,
    ) -> Result<(), TooMuch> {
        let admitted: Vec<Admitted> = places.iter().map(|place| admitted(&rows[*place])).collect();
        let Some(mut worst) = c1::worst(&admitted, promise, clocks)? else { return Ok(()) };
        worst.rows.iter_mut().for_each(|row| *row = places[*row]);
        let found = Fullest { part, key: Arc::clone(key), worst };
        // What an open limit lets through when its owner is lost is reported, and bounded by nothing but demand.
        if found.worst.excess() > 0 && self.fail != FailMode::Open {
            self.violations.push(Violation::Over(found.clone()));
        }
        let over = |fullest: &Fullest| fullest.worst.admitted as i128 - fullest.worst.allowed as i128;
        match self.fullest.iter_mut().find(|fullest| fullest.part == found.part) {
            Some(fullest) if over(fullest) >= over(&found) => {}
            Some(fullest) => *fullest = found,
            None => self.fullest.push(found),
        }
        Ok(())
    }
}

fn is_refusal_of_failure(reason: Reason) -> bool {
    match reason {
        Reason::Unavailable | Reason::Recovering => true,
        Reason::Ok | Reason::NoLimit | Reason::Limit | Reason::MissingAttribute | Reason::Never => false,
    }
}

fn only(rows: &[Row], places: &[usize], wanted: impl Fn(&Row) -> bool) -> Vec<usize> {
    places.iter().copied().filter(|place| wanted(&rows[*place])).collect()
}

fn by_ingress(rows: &[Row], places: &[usize]) -> BTreeMap<Arc<str>, Vec<usize>> {
    let mut nodes: BTreeMap<Arc<str>, Vec<usize>> = BTreeMap::new();
    for place in places {
        nodes.entry(Arc::clone(&rows[*place].ingress)).or_default().push(*place);
    }
    nodes
}

fn admitted(row: &Row) -> Admitted {
    Admitted { invoked: row.invoked, returned: row.returned, cost: row.cost }
}

/// What may have been charged for a row: what owners admitted, between its ends; what was let pass without them is booked
/// afterwards; what got no answer, or was refused because none came in time, may have been charged and not yet taken back.
fn charged(row: &Row) -> Option<Charged> {
    let certain = Charged { earliest: row.invoked, latest: row.returned, cost: row.cost };
    let doubtful = Charged { latest: row.returned.saturating_add(BOOKED_WITHIN), ..certain };
    match row.answer() {
        Some(answer) if answer.allowed && answer.source.is_counted() => Some(certain),
        Some(answer) if answer.allowed || is_refusal_of_failure(answer.reason) => Some(doubtful),
        Some(_) => None,
        None => Some(doubtful),
    }
}

fn unjustified_rows(rows: &[Row], places: &[usize], promise: &Promise, clocks: &Clocks) -> Result<Vec<usize>, TooMuch> {
    let charges: Vec<Charged> = places.iter().filter_map(|place| charged(&rows[*place])).collect();
    let refused = only(rows, places, |row| row.denied().is_some_and(|answer| answer.reason == Reason::Limit));
    let refusal = |row: &Row| Refusal { invoked: row.invoked, returned: row.returned, cost: row.cost };
    let refusals: Vec<Refusal> = refused.iter().map(|place| refusal(&rows[*place])).collect();
    Ok(unjustified(&charges, &refusals, promise, clocks)?.into_iter().map(|place| refused[place]).collect())
}

/// The first moment of a history, for those who tell times from there.
pub fn begin(rows: &[Row]) -> Moment {
    rows.iter().map(|row| row.invoked).min().unwrap_or(Moment::ZERO)
}
