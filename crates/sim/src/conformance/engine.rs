//! The second way: the engine itself. A policy document is parsed and compiled, a check is matched, and one table decides
//! all its limits. What lies above the table (records of questions, owners, front doors) is not here.

use std::collections::BTreeMap;

use limits::{
    Absent, Book as _, Charge, Decided, Fingerprint, FingerprintKey, Hold, HoldId, Leg, Moment, Now, Part, Released,
    Renewed, Reserve, Settled, Shapes, Span, Table, Undecided, WallTime,
};

use super::answer::{Answer, Said, Spoken};
use super::case::{Act, Attributes, Case, Finding};
use super::policies::{AppliedLeg, Applies, Policies};
use super::run::{Cannot, Way};
use super::zero_of;

/// Any key does: it decides where windows of single keys begin, and no case goes by that.
const FINGERPRINT_KEY: FingerprintKey = FingerprintKey([7; 16]);

/// One table, and the policies it goes by.
#[derive(Debug)]
pub struct Engine {
    zero: WallTime,
    at: Span,
    policies: Policies,
    table: Table,
    charged: BTreeMap<String, Vec<Charge>>,
    out: Decided,
}

impl Engine {
    /// An engine that has not been asked.
    pub fn new() -> Engine {
        Engine {
            zero: WallTime::default(),
            at: Span::ZERO,
            policies: Policies::default(),
            table: Table::new(),
            charged: BTreeMap::new(),
            out: Decided::default(),
        }
    }

    fn now(&self) -> Now {
        // A boot before the case: no decision of a case is at the earliest reading there is.
        let booted = Moment::from_nanos(1_000_000_000);
        Now::with_wall(booted.saturating_add(self.at), self.zero.saturating_add(self.at))
    }

    fn decide(&mut self, legs: &[AppliedLeg], how: How<'_>) -> Result<(bool, u64), Undecided> {
        let (now, wanted) = (self.now(), legs.iter().map(engine_leg).collect::<Vec<_>>());
        let Engine { table, policies, out, .. } = self;
        let (shapes, budgets) = (policies.catalogue().shapes(), policies.catalogue().budgets());
        Ok(match how {
            How::Spend => (table.decide(&wanted, shapes, budgets, now, out)?, 0),
            How::Hold(hold) => (table.acquire(&wanted, hold, shapes, budgets, now, out)?, 0),
            How::Reserve(reserve) => (table.reserve(&wanted, reserve, shapes, budgets, now, out)?, 0),
            How::UpTo(most) => {
                let granted = table.decide_up_to(&wanted, most, shapes, budgets, now, out)?;
                (granted > 0 || most == 0, granted)
            }
        })
    }

    fn answer(&self, legs: &[AppliedLeg], units: u64) -> Answer {
        let spoken = legs.iter().zip(&self.out.legs).map(|(leg, decision)| spoken(leg, *decision));
        Answer { units, ..Answer::of(&spoken.collect::<Vec<_>>()) }
    }

    fn spend(&mut self, legs: &[AppliedLeg], how: How<'_>, id: Option<&str>) -> Result<Said, Cannot> {
        let (allowed, units) = self.decide(legs, how).map_err(undecided)?;
        let answer = self.answer(legs, units);
        debug_assert_eq!(allowed, answer.allowed, "the table and the rule of naming agree on what is allowed");
        if let Some(id) = id {
            self.charged.insert(id.to_owned(), self.out.charges.to_vec());
        }
        Ok(Said::Answer(answer))
    }

    fn peek(&self, legs: &[AppliedLeg]) -> Result<Said, Cannot> {
        let (shapes, now) = (self.policies.catalogue().shapes(), self.now());
        let look =
            |leg: &AppliedLeg| Ok(spoken(leg, self.table.peek(&engine_leg(leg), shapes, now).map_err(undecided)?));
        Ok(Said::Answer(Answer::of(&legs.iter().map(look).collect::<Result<Vec<_>, Cannot>>()?)))
    }

    fn refund(&mut self, id: &str) -> Answer {
        let (now, charges) = (self.now(), self.charged.remove(id));
        let Engine { table, policies, .. } = self;
        let shapes = policies.catalogue().shapes();
        let back = charges.iter().flatten().map(|charge| table.undo(charge, shapes, now)).max();
        Answer::found(charges.is_some(), back.unwrap_or(0))
    }

    fn settle(&mut self, id: &str, units: u64) -> Said {
        let now = self.now();
        let Engine { table, policies, .. } = self;
        match table.settle(hold_id(id), units, policies.catalogue().shapes(), policies.catalogue().budgets(), now) {
            Settled::Closed { back } => Said::Answer(Answer::found(true, back)),
            Settled::Above(_) => Said::rejected("above-reservation"),
            Settled::NotOpen => Said::rejected("unknown-reservation"),
        }
    }

    fn renew(&mut self, legs: &[AppliedLeg], hold: &Hold) -> Result<Said, Cannot> {
        let now = self.now();
        let Engine { table, policies, .. } = self;
        let (shapes, budgets) = (policies.catalogue().shapes(), policies.catalogue().budgets());
        let mut shortest: Option<Span> = None;
        for leg in legs {
            match table.renew(&engine_leg(leg), hold, shapes, budgets, now).map_err(undecided)? {
                Renewed::For(span) => shortest = Some(shortest.map_or(span, |shortest| shortest.min(span))),
                Renewed::NotHeld => {}
            }
        }
        let lasts = |span: Span| Said::Answer(Answer::found(true, span.as_millis_ceil()));
        Ok(shortest.map_or_else(|| Said::rejected("unknown-reservation"), lasts))
    }

    fn release(&mut self, legs: &[AppliedLeg], id: &str) -> Answer {
        let now = self.now();
        let Engine { table, policies, .. } = self;
        let (shapes, budgets) = (policies.catalogue().shapes(), policies.catalogue().budgets());
        let mut freed = false;
        for leg in legs {
            freed |= table.release(&engine_leg(leg), hold_id(id), shapes, budgets, now) == Released::Freed;
        }
        Answer::found(freed, 0)
    }

    fn reset(&mut self, legs: &[AppliedLeg]) -> Answer {
        let now = self.now();
        let Engine { table, policies, .. } = self;
        let (shapes, budgets) = (policies.catalogue().shapes(), policies.catalogue().budgets());
        let mut reset = |leg: &&AppliedLeg| table.reset(&engine_leg(leg), shapes, budgets, now);
        let count = legs.iter().filter(|leg| reset(leg)).count() as u64;
        Answer::found(count > 0, count)
    }
}

/// How a check that decides anew is decided.
enum How<'a> {
    Spend,
    UpTo(u64),
    Hold(&'a Hold),
    Reserve(&'a Reserve),
}

impl Way for Engine {
    fn name(&self) -> &'static str {
        "engine"
    }

    fn begin(&mut self, case: &Case) -> Result<(), Cannot> {
        *self = Engine { zero: zero_of(case), ..Engine::new() };
        Ok(())
    }

    /// Time passes, and all that may be forgotten is: what an answer says does not depend on it (law 4).
    fn go_to(&mut self, at: Span) {
        self.at = at;
        let now = self.now();
        let Engine { table, policies, .. } = self;
        table.sweep(policies.catalogue().shapes(), policies.catalogue().budgets(), now, usize::MAX);
    }

    fn go_back_to(&mut self, at: Span) -> Result<(), Cannot> {
        self.at = at;
        Ok(())
    }

    fn apply(&mut self, document: &str) -> Result<Vec<Finding>, Cannot> {
        Ok(self.policies.apply(document))
    }

    fn ask(&mut self, act: &Act, attributes: &Attributes) -> Result<Said, Cannot> {
        let cost = act.decided_cost()?;
        let legs = match self.policies.applying(attributes, cost, self.now()) {
            Err(word) => return Ok(Said::rejected(word)),
            Ok(Applies::Nothing) => return Ok(Said::Answer(Answer::without_limits())),
            Ok(Applies::Missing { limit }) => return Ok(Said::Answer(Answer::missing(limit))),
            Ok(Applies::Legs(legs)) => legs,
        };
        let legs = act.narrowed(legs)?;
        match act {
            Act::Check { id: Some(id), .. } if self.charged.contains_key(id) => Err(Cannot::because(
                "a question that is asked twice is answered by the owner's records, which lie above the table",
            )),
            Act::Check { id, .. } => self.spend(&legs, How::Spend, id.as_deref()),
            Act::UpTo { .. } => self.spend(&act.of_one_unit(legs), How::UpTo(cost), None),
            Act::Peek { .. } => self.peek(&legs),
            Act::Refund { id } => Ok(Said::Answer(self.refund(id))),
            Act::Reserve { id, ttl, .. } => {
                let reserve = Reserve { id: hold_id(id), ttl: *ttl, units: cost };
                self.spend(&legs, How::Reserve(&reserve), Some(id))
            }
            Act::Settle { id, .. } => Ok(self.settle(id, cost)),
            Act::Acquire { id, ttl, .. } => {
                let hold = Hold { id: hold_id(id), ttl: *ttl };
                self.spend(&legs, How::Hold(&hold), Some(id))
            }
            Act::Renew { id, ttl } => self.renew(&legs, &Hold { id: hold_id(id), ttl: *ttl }),
            Act::Release { id } => Ok(Said::Answer(self.release(&legs, id))),
            Act::Reset { .. } => Ok(Said::Answer(self.reset(&legs))),
            Act::Apply(_) => unreachable!("the runner applies policies"),
        }
    }
}

impl Default for Engine {
    fn default() -> Engine {
        Engine::new()
    }
}

fn engine_leg(leg: &AppliedLeg) -> Leg {
    let parts = leg.key.iter().map(|(kind, bytes)| Part { kind: *kind, bytes });
    let key = Fingerprint::of(&FINGERPRINT_KEY, leg.id, parts);
    Leg { shape: leg.shape, key, cost: leg.cost, absent: Absent::Fresh, shadow: leg.shadow }
}

fn spoken(leg: &AppliedLeg, decision: limits::LegDecision) -> Spoken {
    Spoken { limit: leg.limit.clone(), shadow: leg.shadow, decision }
}

fn undecided(undecided: Undecided) -> Cannot {
    Cannot::because(format!("the table cannot tell: {undecided}"))
}

/// Names of at most 16 bytes, as they are.
fn hold_id(name: &str) -> HoldId {
    let bytes = name.bytes().fold(0u128, |number, byte| number << 8 | u128::from(byte));
    HoldId::from(bytes & (u128::MAX >> 1))
}

/// So that the shapes of a catalogue can be looked at by name.
pub(super) fn shape_of(shapes: &Shapes, leg: &AppliedLeg) -> limits::Shape {
    *shapes.get(leg.shape)
}
