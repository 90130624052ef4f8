//! The slow exact twin of the engine: fractions in place of scaled instants, every charge kept for ever, one thread, no
//! table. It is written from the definitions and shares no arithmetic with the engine, so that the two agree only where
//! both are right. How long a caller has to wait is not computed but *searched for*: the first instant at which the same
//! cost would be admitted, which is what the promise says.

mod account;
mod fraction;

use std::collections::BTreeMap;
use std::sync::Arc;

use limits::{Algorithm, Calendars, LegDecision, LimitId, Now, PartKind, Rate, Shape, Span, Wait};

pub use account::{Account, Holder};
pub use fraction::Fraction;

/// The longest wait that is searched for: about a hundred years.
const LONGEST_WAIT: u64 = 100 * 366 * 86_400 * 1_000_000_000;

/// One part of a key, by itself: no two keys are ever taken for each other.
pub type Part = (u8, Vec<u8>);

/// A part as a policy has it.
pub fn part(kind: PartKind, bytes: &[u8]) -> Part {
    (kind as u8, bytes.to_vec())
}

/// Whose use is counted: a key under a limit.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    /// The limit.
    pub limit: LimitId,
    /// The parts.
    pub parts: Vec<Part>,
}

/// One limit's part in a check.
#[derive(Clone, Debug)]
pub struct TwinLeg {
    /// Whose use.
    pub key: Key,
    /// The limit's numbers.
    pub shape: Shape,
    /// Units to spend.
    pub cost: u64,
    /// Whether it only watches.
    pub shadow: bool,
}

/// One charge, so that it can be taken back.
#[derive(Clone, Debug)]
pub struct TwinCharge {
    key: Key,
    number: u64,
    cost: u64,
    slots: bool,
}

/// What was decided.
#[derive(Clone, Debug)]
pub struct TwinVerdict {
    /// Whether every enforced leg admits.
    pub allowed: bool,
    /// What each leg says.
    pub legs: Vec<LegDecision>,
    /// What was charged.
    pub charges: Vec<TwinCharge>,
}

/// What is held open until it is settled.
#[derive(Clone, Debug)]
struct Reserve {
    units: u64,
    end: u64,
    charges: Vec<TwinCharge>,
}

/// What came of settling.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TwinSettled {
    /// It is closed, and the leg with the most got so many units back.
    Closed(u64),
    /// So many units were reserved, which is fewer.
    Above(u64),
    /// There is no such reserve.
    NotOpen,
}

/// All keys there ever were.
#[derive(Debug, Default)]
pub struct Twin {
    calendars: Option<Arc<dyn Calendars>>,
    accounts: BTreeMap<Key, Account>,
    charges: u64,
    reserves: BTreeMap<String, Reserve>,
}

impl Twin {
    /// Nobody has asked anything.
    pub fn new(calendars: Option<Arc<dyn Calendars>>) -> Twin {
        Twin { calendars, ..Twin::default() }
    }

    /// Decides one check: all of its enforced legs admit, and all are charged, or none is.
    pub fn decide(&mut self, legs: &[TwinLeg], holder: Option<&Holder>, now: Now) -> TwinVerdict {
        legs.iter().for_each(|leg| self.enter(leg, now));
        let said: Vec<_> =
            legs.iter().enumerate().map(|(at, leg)| self.weigh(leg, before(legs, at), holder, now)).collect();
        let allowed = legs.iter().zip(&said).all(|(leg, (decision, _))| decision.allowed || leg.shadow);
        let (mut answers, mut charges) = (Vec::new(), Vec::new());
        for (leg, (decision, costs)) in legs.iter().zip(said) {
            answers.push(if costs && !allowed { self.weigh(&leg.with_cost(0), 0, holder, now).0 } else { decision });
            if costs && allowed {
                charges.push(self.charge(leg, holder, now));
            }
        }
        TwinVerdict { allowed, legs: answers, charges }
    }

    /// What each leg would say to this check by itself, and how it stands; nothing is written.
    pub fn peek(&self, legs: &[TwinLeg], now: Now) -> Vec<LegDecision> {
        let look = |leg: &TwinLeg| {
            let (asked, _) = self.weigh(leg, 0, None, now);
            let (stands, _) = self.weigh(&leg.with_cost(0), 0, None, now);
            LegDecision { allowed: asked.allowed, wait: asked.wait, ..stands }
        };
        legs.iter().map(look).collect()
    }

    /// Spends as many units as all enforced legs have room for, up to `most`; the legs cost what one unit does.
    pub fn up_to(&mut self, legs: &[TwinLeg], most: u64, now: Now) -> (u64, TwinVerdict) {
        let times = |units: u64| legs.iter().map(|leg| leg.with_cost(leg.cost * units)).collect::<Vec<_>>();
        legs.iter().for_each(|leg| self.enter(leg, now));
        let fits = |units: u64| {
            let legs = times(units);
            let admits =
                |(at, leg): (usize, &TwinLeg)| leg.shadow || self.weigh(leg, before(&legs, at), None, now).0.allowed;
            legs.iter().enumerate().all(admits)
        };
        let (mut granted, mut too_many) = (0, most + 1);
        while too_many - granted > 1 {
            let middle = granted + (too_many - granted) / 2;
            if fits(middle) { granted = middle } else { too_many = middle }
        }
        let verdict = self.decide(&times(granted.max(most.min(1))), None, now);
        (if verdict.allowed { granted } else { 0 }, verdict)
    }

    /// Takes charges back, `spent` of `units` being kept; of slots nothing is kept. Answers the most that one leg got.
    fn give_back(&mut self, charges: &[TwinCharge], spent: u64, units: u64, now: Now) -> u64 {
        let unspent = |charge: &TwinCharge| match charge.slots {
            true => charge.cost,
            false => {
                charge.cost - (u128::from(charge.cost) * u128::from(spent)).div_ceil(u128::from(units.max(1))) as u64
            }
        };
        let mut back =
            |charge: &TwinCharge| Some(self.accounts.get_mut(&charge.key)?.undo(charge.number, unspent(charge), now));
        charges.iter().filter_map(&mut back).max().unwrap_or(0)
    }

    /// Takes these charges back whole. Answers the most units that one leg got.
    pub fn refund(&mut self, charges: &[TwinCharge], now: Now) -> u64 {
        self.give_back(charges, 0, 1, now)
    }

    /// Decides a check and keeps it open under a name, to be settled within a time.
    pub fn reserve(&mut self, legs: &[TwinLeg], holder: &Holder, units: u64, now: Now) -> TwinVerdict {
        let at = now.moment.as_nanos();
        if self.reserves.get(&holder.name).is_some_and(|open| open.end > at) {
            let looks: Vec<_> = legs.iter().map(|leg| leg.with_cost(0)).collect();
            return self.decide(&looks, Some(holder), now);
        }
        let verdict = self.decide(legs, Some(holder), now);
        if verdict.allowed {
            let end = at.saturating_add(holder.ttl.unwrap_or_default().as_nanos());
            self.reserves.insert(holder.name.clone(), Reserve { units, end, charges: verdict.charges.clone() });
        }
        verdict
    }

    /// Closes a reserve at what was spent.
    pub fn settle(&mut self, name: &str, spent: u64, now: Now) -> TwinSettled {
        let Some(open) = self.reserves.get(name).filter(|open| open.end > now.moment.as_nanos()).cloned() else {
            return TwinSettled::NotOpen;
        };
        if spent > open.units {
            return TwinSettled::Above(open.units);
        }
        self.reserves.remove(name);
        TwinSettled::Closed(self.give_back(&open.charges, spent, open.units, now))
    }

    /// Prolongs what this name holds under these limits; the shortest time that it then lasts anywhere.
    pub fn renew(&mut self, legs: &[TwinLeg], holder: &Holder, now: Now) -> Option<Span> {
        legs.iter().for_each(|leg| self.enter(leg, now));
        legs.iter().filter_map(|leg| self.accounts.get_mut(&leg.key)?.renew(holder, now)).min()
    }

    /// Lets go of what this name holds under these limits; under how many it held anything.
    pub fn release(&mut self, legs: &[TwinLeg], name: &str, now: Now) -> u64 {
        legs.iter().for_each(|leg| self.enter(leg, now));
        let mut held = |leg: &&TwinLeg| self.accounts.get_mut(&leg.key).is_some_and(|it| it.release(name, now));
        legs.iter().filter(|leg| held(leg)).count() as u64
    }

    /// Forgets what these keys used; how many had used anything.
    pub fn reset(&mut self, legs: &[TwinLeg], now: Now) -> u64 {
        let mut used = |leg: &&TwinLeg| self.accounts.remove(&leg.key).is_some_and(|account| !account.is_fresh(now));
        legs.iter().filter(|leg| used(leg)).count() as u64
    }

    /// What a leg says on top of `before`, and whether it is to be charged.
    fn weigh(&self, leg: &TwinLeg, before: u64, holder: Option<&Holder>, now: Now) -> (LegDecision, bool) {
        let Some(rate) = leg.shape.rate else { return (unlimited(), false) };
        if rate.amount() == 0 {
            return (zero(), false);
        }
        let account = self.account(leg, rate, now);
        let cost = leg.cost.saturating_add(before);
        let held = holder.is_some_and(|holder| account.is_held_by(holder, now));
        let allowed = held || account.admits(cost, now);
        let mut stands = account.clone();
        if allowed && !held && cost > 0 {
            stands.charge(cost, u64::MAX, holder, now);
        }
        let wait = match () {
            () if allowed => Wait::Now,
            () if cost > account.capacity() => Wait::Never,
            () => first(|span| account.admits(cost, later(now, span))).map_or(Wait::Never, Wait::After),
        };
        let remaining = stands.remaining(now);
        let fresh = stands.is_fresh(now);
        let decision = LegDecision {
            allowed,
            capacity: account.capacity(),
            remaining,
            wait,
            reset_after: first(|span| stands.is_fresh(later(now, span))).unwrap_or(Span::MAX),
            next_unit_after: (!fresh)
                .then(|| first(|span| stands.remaining(later(now, span)) > remaining).unwrap_or(Span::MAX)),
        };
        (decision, allowed && !held && leg.cost > 0)
    }

    fn charge(&mut self, leg: &TwinLeg, holder: Option<&Holder>, now: Now) -> TwinCharge {
        self.charges += 1;
        let account = self.accounts.get_mut(&leg.key).expect("a key is entered before anything is charged");
        account.charge(leg.cost, self.charges, holder, now);
        let slots = matches!(leg.shape.algorithm, Algorithm::Concurrency { .. });
        TwinCharge { key: leg.key.clone(), number: self.charges, cost: leg.cost, slots }
    }

    /// Lets a key go by the numbers of this leg from now on, if it counts by any.
    fn enter(&mut self, leg: &TwinLeg, now: Now) {
        if let Some(rate) = leg.shape.rate.filter(|rate| rate.amount() > 0) {
            let account = self.account(leg, rate, now);
            self.accounts.insert(leg.key.clone(), account);
        }
    }

    /// A key as the numbers of this leg have it.
    fn account(&self, leg: &TwinLeg, rate: Rate, now: Now) -> Account {
        match self.accounts.get(&leg.key) {
            None => Account::new(leg.shape, rate, self.calendars.clone()),
            Some(account) if *account.shape() == leg.shape => account.clone(),
            Some(account) => account.under(leg.shape, rate, now),
        }
    }
}

impl TwinLeg {
    fn with_cost(&self, cost: u64) -> TwinLeg {
        TwinLeg { cost, ..self.clone() }
    }
}

/// What earlier legs of the check spend of the same key. A leg that only watches takes nothing from one that enforces.
fn before(legs: &[TwinLeg], at: usize) -> u64 {
    let leg = &legs[at];
    let same = legs[..at].iter().filter(|other| other.key == leg.key && (leg.shadow || !other.shadow));
    same.map(|other| other.cost).sum()
}

fn later(now: Now, span: u64) -> Now {
    let span = Span::from_nanos(span);
    Now { moment: now.moment.saturating_add(span), wall: now.wall.map(|wall| wall.saturating_add(span)) }
}

/// The shortest span after which something holds that, once it does, goes on holding while nobody spends.
fn first(holds: impl Fn(u64) -> bool) -> Option<Span> {
    let mut enough = 1;
    while !holds(enough) {
        enough = (enough < LONGEST_WAIT).then_some(enough * 2)?;
    }
    let mut too_short = 0;
    if holds(0) {
        return Some(Span::ZERO);
    }
    while enough - too_short > 1 {
        let middle = too_short + (enough - too_short) / 2;
        if holds(middle) { enough = middle } else { too_short = middle }
    }
    Some(Span::from_nanos(enough))
}

fn unlimited() -> LegDecision {
    let (capacity, remaining) = (u64::MAX, u64::MAX);
    LegDecision { allowed: true, capacity, remaining, wait: Wait::Now, reset_after: Span::ZERO, next_unit_after: None }
}

/// Zero refuses all, and is no way of saying that there is no limit (law 9).
fn zero() -> LegDecision {
    LegDecision { allowed: false, capacity: 0, remaining: 0, wait: Wait::Never, ..unlimited() }
}
