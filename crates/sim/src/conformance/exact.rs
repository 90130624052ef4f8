//! The first way: the slow exact twin. It reads policies through the same parser, since what a document *means* is worked
//! out by hand in every case; everything after that is its own.

use std::collections::BTreeMap;
use std::sync::Arc;

use limits::{Book as _, Moment, Now, Span, WallTime};

use super::answer::{Answer, Said, Spoken};
use super::case::{Act, Attributes, Case, Finding};
use super::engine::shape_of;
use super::policies::{AppliedLeg, Applies, Policies};
use super::run::{Cannot, Way};
use super::zero_of;
use crate::twin::{Holder, Key, Twin, TwinCharge, TwinLeg, TwinSettled, TwinVerdict, part};

/// The twin behind a policy.
#[derive(Debug, Default)]
pub struct Exact {
    zero: WallTime,
    at: Span,
    policies: Policies,
    twin: Twin,
    charged: BTreeMap<String, Vec<TwinCharge>>,
}

impl Exact {
    /// A twin that has not been asked.
    pub fn new() -> Exact {
        Exact::default()
    }

    fn now(&self) -> Now {
        Now::with_wall(Moment::from_nanos(1).saturating_add(self.at), self.zero.saturating_add(self.at))
    }

    fn legs(&self, legs: &[AppliedLeg]) -> Vec<TwinLeg> {
        let shapes = self.policies.catalogue().shapes();
        let leg = |leg: &AppliedLeg| TwinLeg {
            key: Key { limit: leg.id, parts: leg.key.iter().map(|(kind, bytes)| part(*kind, bytes)).collect() },
            shape: shape_of(shapes, leg),
            cost: leg.cost,
            shadow: leg.shadow,
        };
        legs.iter().map(leg).collect()
    }

    fn told(&mut self, legs: &[AppliedLeg], verdict: &TwinVerdict, units: u64, id: Option<&str>) -> Said {
        if let Some(id) = id {
            self.charged.insert(id.to_owned(), verdict.charges.clone());
        }
        let answer = Answer { units, ..Answer::of(&spoken(legs, &verdict.legs)) };
        debug_assert_eq!(answer.allowed, verdict.allowed, "the twin and the rule of naming agree on what is allowed");
        Said::Answer(answer)
    }
}

impl Way for Exact {
    fn name(&self) -> &'static str {
        "twin"
    }

    fn begin(&mut self, case: &Case) -> Result<(), Cannot> {
        let twin = Twin::new(Some(Arc::new(policy::Almanac::new())));
        *self = Exact { zero: zero_of(case), twin, ..Exact::new() };
        Ok(())
    }

    fn go_to(&mut self, at: Span) {
        self.at = self.at.max(at);
    }

    /// A clock that goes back stands still (law 2).
    fn go_back_to(&mut self, _at: Span) -> Result<(), Cannot> {
        Ok(())
    }

    fn apply(&mut self, document: &str) -> Result<Vec<Finding>, Cannot> {
        let found = self.policies.apply(document);
        match found.is_empty() {
            true => Ok(found),
            false => {
                Err(Cannot::because("the twin knows numbers; what is wrong with a document is the parser's to say"))
            }
        }
    }

    fn ask(&mut self, act: &Act, attributes: &Attributes) -> Result<Said, Cannot> {
        let cost = act.decided_cost()?;
        let applied = match self.policies.applying(attributes, cost, self.now()) {
            Err(word) => return Ok(Said::rejected(word)),
            Ok(Applies::Nothing) => return Ok(Said::Answer(Answer::without_limits())),
            Ok(Applies::Missing { limit }) => return Ok(Said::Answer(Answer::missing(limit))),
            Ok(Applies::Legs(legs)) => act.narrowed(legs)?,
        };
        let (legs, now) = (self.legs(&applied), self.now());
        Ok(match act {
            Act::Check { id: Some(id), .. } if self.charged.contains_key(id) => {
                return Err(Cannot::because("the twin keeps charges, and no record of who asked what"));
            }
            Act::Check { id, .. } => {
                let verdict = self.twin.decide(&legs, None, now);
                self.told(&applied, &verdict, 0, id.as_deref())
            }
            Act::UpTo { .. } => {
                let (granted, verdict) = self.twin.up_to(&self.legs(&act.of_one_unit(applied.clone())), cost, now);
                self.told(&applied, &verdict, granted, None)
            }
            Act::Peek { .. } => Said::Answer(Answer::of(&spoken(&applied, &self.twin.peek(&legs, now)))),
            Act::Refund { id } => {
                let charges = self.charged.remove(id);
                let back = charges.as_ref().map_or(0, |charges| self.twin.refund(charges, now));
                Said::Answer(Answer::found(charges.is_some(), back))
            }
            Act::Reserve { id, ttl, .. } => {
                let verdict = self.twin.reserve(&legs, &Holder { name: id.clone(), ttl: Some(*ttl) }, cost, now);
                self.told(&applied, &verdict, 0, Some(id))
            }
            Act::Settle { id, .. } => match self.twin.settle(id, cost, now) {
                TwinSettled::Closed(back) => Said::Answer(Answer::found(true, back)),
                TwinSettled::Above(_) => Said::rejected("above-reservation"),
                TwinSettled::NotOpen => Said::rejected("unknown-reservation"),
            },
            Act::Acquire { id, ttl, .. } => {
                let verdict = self.twin.decide(&legs, Some(&Holder { name: id.clone(), ttl: *ttl }), now);
                self.told(&applied, &verdict, 0, Some(id))
            }
            Act::Renew { id, ttl } => match self.twin.renew(&legs, &Holder { name: id.clone(), ttl: *ttl }, now) {
                Some(lasts) => Said::Answer(Answer::found(true, lasts.as_millis_ceil())),
                None => Said::rejected("unknown-reservation"),
            },
            Act::Release { id } => Said::Answer(Answer::found(self.twin.release(&legs, id, now) > 0, 0)),
            Act::Reset { .. } => {
                let count = self.twin.reset(&legs, now);
                Said::Answer(Answer::found(count > 0, count))
            }
            Act::Apply(_) => unreachable!("the runner applies policies"),
        })
    }
}

fn spoken(legs: &[AppliedLeg], said: &[limits::LegDecision]) -> Vec<Spoken> {
    let spoken = |(leg, decision): (&AppliedLeg, &limits::LegDecision)| Spoken {
        limit: leg.limit.clone(),
        shadow: leg.shadow,
        decision: *decision,
    };
    legs.iter().zip(said).map(spoken).collect()
}
