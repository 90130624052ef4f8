//! The ingress's own small limiter, for limits that say `fail: { emergency: x% }` while no owner can answer: of the same
//! algorithm, with an equal share of x % of the limit for each session that may exist. All ingresses together stay within
//! x % of the limit in any window, because every session starts with nothing to give, and because a share grows only
//! once everything that vanished sessions may have given lies a whole window back.

use std::collections::VecDeque;
use std::sync::Arc;

use limits::{
    AMOUNT_MAX, Absent, Algorithm, Basis, Budgets, Calendars, Charge, DOMAINS_MAX, Decided, DomainId, Fingerprint, Leg,
    LegDecision, Moment, Now, Rate, Shape, Shapes, Span, Table,
};

use crate::bug::Bug;

/// Keys of one domain that the limiter remembers. Beyond it, new keys are answered as `closed`.
pub const EMERGENCY_KEYS_MAX: u64 = 100_000;

/// Different shares (limit by divisor) that the limiter remembers. Beyond it, it starts over, with nothing to give.
pub const SHARES_MAX: usize = 4_096;

/// Earlier divisors that are remembered. Beyond it, the two oldest are taken for one, on the stricter side.
pub const DIVISORS_MAX: usize = 16;

/// The limiter of one session of one ingress. A new session takes a new one.
#[derive(Clone, Debug)]
pub struct Emergency {
    /// When the session began: every key reads as used to the full then.
    since: Now,
    divisors: Divisors,
    shapes: Shapes,
    budgets: Budgets,
    table: Table,
    decided: Decided,
}

/// One limit's part of a check that no owner answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EmergencyLeg {
    /// The whole limit's numbers.
    pub shape: Shape,
    /// The share of the limit that all ingresses have together, 1 to 100.
    pub percent: u8,
    /// The key that is counted.
    pub key: Fingerprint,
    /// Units to spend; of a check that takes as much as there is, those of one unit of it.
    pub cost: u64,
    /// The most units wanted by a check that takes as much as there is; `None` for all or nothing.
    pub up_to: Option<u64>,
}

/// What the limiter says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EmergencyAnswer {
    /// It decided from its share; the numbers are the share's.
    Decided {
        /// What it says.
        decision: LegDecision,
        /// What it charged, to be undone if another limit refuses the check.
        charge: Option<Charge>,
        /// Units granted to a check that takes as much as there is.
        units: u64,
    },
    /// It cannot decide: the share is too small for the cost, the number of sessions or cluster time is unknown, or the
    /// table is full. The limit answers as one that fails closed.
    Closed,
}

impl Emergency {
    /// The limiter of a session that begins now. It gives nothing before it is told among how many sessions to divide.
    pub fn new(session_start: Now) -> Emergency {
        let budgets = Budgets::new();
        for domain in 0..DOMAINS_MAX as u16 {
            budgets.set_max(DomainId(domain), EMERGENCY_KEYS_MAX);
        }
        Emergency {
            since: session_start,
            divisors: Divisors::default(),
            shapes: Shapes::new(),
            budgets,
            table: Table::new(),
            decided: Decided::default(),
        }
    }

    /// Shares are divided by `n_max` from now on, as the last acknowledgement of the lease says. A higher number counts
    /// at once; a lower one for each limit once its window, or the time its bucket takes to fill, has passed: until then
    /// the sessions that are gone may have given their part of it.
    pub fn handle_n_max(&mut self, n_max: u32, now: Moment) {
        self.divisors.change(n_max, now);
    }

    /// Decides one leg from this ingress's share, and charges it there if it is allowed. `calendars` are those of the book
    /// that the leg's limit is from.
    pub fn decide(&mut self, leg: &EmergencyLeg, calendars: Option<&Arc<dyn Calendars>>, now: Now) -> EmergencyAnswer {
        let Some(share) = self.share_of(leg, now.moment) else { return EmergencyAnswer::Closed };
        if self.shapes.len() == SHARES_MAX {
            self.start_over(now);
        }
        let shape = self.shapes.intern(share);
        if let Some(calendars) = calendars {
            self.shapes.set_calendars(Arc::clone(calendars));
        }
        let absent = Absent::FullAsOf(self.since);
        let (key, cost, up_to) = (leg.key, leg.cost, leg.up_to);
        let legs = [Leg { shape, key, cost, absent, shadow: false }];
        let Emergency { shapes, budgets, table, decided, .. } = self;
        let result = match up_to {
            Some(most) => table.decide_up_to(&legs, most, shapes, budgets, now, decided),
            None => table.decide(&legs, shapes, budgets, now, decided).map(u64::from),
        };
        match (result, decided.legs.first()) {
            (Ok(units), Some(&decision)) => EmergencyAnswer::Decided { decision, charge: decided.charges.pop(), units },
            (Ok(_), None) | (Err(_), _) => EmergencyAnswer::Closed,
        }
    }

    /// Cuts what [`decide`](Emergency::decide) charged for `granted` units down to `units`, since another limit granted no
    /// more.
    pub fn trim(&mut self, charge: &Charge, granted: u64, units: u64, now: Now) {
        let kept = charge.cost() / granted.max(1) * units;
        self.undo(&charge.part(charge.cost().saturating_sub(kept)), now);
    }

    /// Takes back what [`decide`](Emergency::decide) charged, for a check that another limit refused.
    pub fn undo(&mut self, charge: &Charge, now: Now) {
        self.table.undo(charge, &self.shapes, now);
    }

    /// Keys that are remembered.
    pub fn len(&self) -> usize {
        self.table.len()
    }

    /// Whether no key is remembered.
    pub fn is_empty(&self) -> bool {
        self.table.is_empty()
    }

    /// This ingress's share of the limit; `None` where it is too small for the cost.
    fn share_of(&self, leg: &EmergencyLeg, now: Moment) -> Option<Shape> {
        let Some(rate) = leg.shape.rate else { return Some(leg.shape) };
        let among = self.divisors.within(fill_time(&leg.shape, rate), now)?;
        let divisor = if Bug::ShareUndivided.is_here() { 1 } else { among };
        let part = |amount: u64| amount * u64::from(leg.percent.min(100)) / (100 * u64::from(divisor));
        let algorithm = match leg.shape.algorithm {
            Algorithm::TokenBucket { burst } => Algorithm::TokenBucket { burst: part(burst) },
            whole @ (Algorithm::SlidingLog { .. }
            | Algorithm::FixedWindow { .. }
            | Algorithm::SlidingCounter
            | Algorithm::Calendar { .. }
            | Algorithm::Concurrency { .. }) => whole,
        };
        let rate = Rate::new(part(rate.amount()), rate.period()).ok().filter(|rate| rate.amount() > 0)?;
        let share = Shape { rate: Some(rate), algorithm, basis: Basis::Hi, ..leg.shape };
        share.capacity().is_some_and(|capacity| capacity >= leg.cost).then_some(share)
    }

    fn start_over(&mut self, now: Now) {
        self.table.clear(&self.shapes, &self.budgets);
        self.shapes = Shapes::new();
        self.since = now;
    }
}

/// How long ago something was spent when it no longer matters: the window, the time in which a bucket fills, or the
/// longest that a slot is held.
fn fill_time(shape: &Shape, rate: Rate) -> Span {
    match shape.algorithm {
        Algorithm::TokenBucket { burst } => rate.time_to_fill(burst),
        Algorithm::SlidingLog { .. } | Algorithm::FixedWindow { .. } => rate.period(),
        // Two cells, and a window that may be longer than is usual.
        Algorithm::SlidingCounter | Algorithm::Calendar { .. } => rate.period().saturating_add(rate.period()),
        Algorithm::Concurrency { max_hold } => max_hold,
    }
}

/// Among how many sessions shares are divided, and were.
#[derive(Clone, Debug, Default)]
struct Divisors {
    current: Option<u32>,
    /// Higher ones, and until when they were in force: oldest first, and so the highest first.
    earlier: VecDeque<(u32, Moment)>,
}

impl Divisors {
    fn change(&mut self, n_max: u32, now: Moment) {
        let n_max = n_max.max(1);
        if let Some(before) = self.current.replace(n_max).filter(|before| *before > n_max) {
            self.earlier.push_back((before, now));
        }
        while self.earlier.back().is_some_and(|(divisor, _)| *divisor <= n_max) {
            self.earlier.pop_back();
        }
        if self.earlier.len() > DIVISORS_MAX {
            self.merge_oldest();
        }
    }

    /// The higher of the two, for as long as either.
    fn merge_oldest(&mut self) {
        let highest = self.earlier.pop_front();
        if let (Some((divisor, _)), Some(next)) = (highest, self.earlier.front_mut()) {
            next.0 = divisor;
        }
    }

    /// The highest divisor in force at any time of the last `span`.
    fn within(&self, span: Span, now: Moment) -> Option<u32> {
        let in_force = |(_, until): &&(u32, Moment)| now.since(*until) <= span;
        let earlier = self.earlier.iter().find(in_force).map(|(divisor, _)| *divisor);
        earlier.or(self.current)
    }
}

const _: () = assert!(AMOUNT_MAX < u64::MAX / 100, "x % of an amount is worked out in 64 bits");
