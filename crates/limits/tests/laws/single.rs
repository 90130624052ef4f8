//! A table with one limit and one key, for tests that need no more.

use std::sync::Arc;

use limits::{
    Absent, Algorithm, Align, Basis, Budgets, CalendarId, Charge, Decided, DomainId, Fingerprint, Leg, LegDecision,
    LimitId, Moment, Now, Rate, Shape, ShapeId, Shapes, Span, Table, Undecided, WallTime,
};

/// Cluster time at boot, wherever a test has both clocks: 2026-01-01T00:00:00Z.
pub const BOOT: u64 = 1_767_225_600_000_000_000;

use crate::irregular::{Irregular, usual_length};

/// No shapes, and the tests' calendars.
pub fn shapes() -> Shapes {
    let mut shapes = Shapes::new();
    shapes.set_calendars(Arc::new(Irregular));
    shapes
}

pub struct Single {
    pub shapes: Shapes,
    pub budgets: Budgets,
    pub table: Table,
    pub shape: ShapeId,
    pub key: Fingerprint,
    pub absent: Absent,
    /// What the last allowed check charged.
    pub charge: Option<Charge>,
    out: Decided,
}

impl Single {
    pub fn new(shape: Shape) -> Single {
        let mut shapes = shapes();
        let id = shapes.intern(shape);
        Single {
            shapes,
            budgets: Budgets::new(),
            table: Table::new(),
            shape: id,
            key: Fingerprint([0x9e37_79b9_7f4a_7c15, 0x517c_c1b7_2722_0a95]),
            absent: Absent::Fresh,
            charge: None,
            out: Decided::default(),
        }
    }

    pub fn leg(&self, cost: u64) -> Leg {
        Leg { shape: self.shape, key: self.key, cost, absent: self.absent, shadow: false }
    }

    pub fn try_ask(&mut self, cost: u64, now: Now) -> Result<LegDecision, Undecided> {
        let leg = self.leg(cost);
        let allowed = self.table.decide(&[leg], &self.shapes, &self.budgets, now, &mut self.out)?;
        assert_eq!(allowed, self.out.legs[0].allowed, "one enforced leg is the whole check");
        assert!(self.out.charges.len() <= usize::from(allowed), "law 3: only an allowed check charges");
        self.charge = self.out.charges.first().copied();
        Ok(self.out.legs[0])
    }

    pub fn ask(&mut self, cost: u64, now: Now) -> LegDecision {
        self.try_ask(cost, now).unwrap()
    }

    pub fn peek(&self, cost: u64, now: Now) -> LegDecision {
        self.table.peek(&self.leg(cost), &self.shapes, now).unwrap()
    }

    pub fn undo(&mut self, charge: &Charge, now: Now) {
        self.table.undo(charge, &self.shapes, now);
    }

    pub fn force(&mut self, cost: u64, now: Now) -> bool {
        let leg = self.leg(cost);
        self.table.force(&leg, None, &self.shapes, &self.budgets, now)
    }

    /// Sweeps every bucket once.
    pub fn sweep(&mut self, now: Now) -> usize {
        self.table.sweep(&self.shapes, &self.budgets, now, usize::MAX)
    }

    /// From now on the limit has this shape.
    pub fn change(&mut self, shape: Shape) {
        self.shape = self.shapes.intern(shape);
    }
}

/// A reading of both clocks, `nanos` after boot.
pub fn at(nanos: u64) -> Now {
    Now::with_wall(Moment::from_nanos(nanos), WallTime::from_unix_nanos(BOOT.saturating_add(nanos)))
}

pub const fn millis(millis: u64) -> u64 {
    millis * 1_000_000
}

pub const fn secs(secs: u64) -> u64 {
    secs * 1_000_000_000
}

pub fn later(now: Now, span: Span) -> Now {
    Now { moment: now.moment.saturating_add(span), wall: now.wall.map(|wall| wall.saturating_add(span)) }
}

fn shape(amount: u64, period: u64, algorithm: Algorithm) -> Shape {
    let rate = Some(Rate::new(amount, Span::from_nanos(period)).unwrap());
    Shape { limit: LimitId(1), domain: DomainId(0), rate, algorithm, basis: Basis::Hi }
}

/// A token bucket of `amount` per `period` nanoseconds.
pub fn bucket(amount: u64, period: u64, burst: u64) -> Shape {
    shape(amount, period, Algorithm::TokenBucket { burst })
}

pub fn log(amount: u64, period: u64) -> Shape {
    shape(amount, period, Algorithm::SlidingLog { max_entries: 4_096 })
}

pub fn window(amount: u64, period: u64, align: Align) -> Shape {
    shape(amount, period, Algorithm::FixedWindow { align })
}

pub fn counter(amount: u64, period: u64) -> Shape {
    shape(amount, period, Algorithm::SlidingCounter)
}

/// A calendar whose shortest window has so many milliseconds.
pub fn calendar(amount: u64, shortest: u32) -> Shape {
    let calendar = CalendarId(shortest);
    shape(amount, usual_length(calendar), Algorithm::Calendar { calendar })
}

/// Slots, held for `ttl` nanoseconds unless renewed, and for `holds` times as long with renewals.
pub fn slots(slots: u64, ttl: u64, holds: u64) -> Shape {
    let max_hold = Span::from_nanos(ttl.saturating_mul(holds));
    shape(slots, ttl, Algorithm::Concurrency { max_hold })
}
