//! One partition and its store: an owner after the other, and the truth beside them.

use std::collections::{BTreeMap, VecDeque};

use limits::{Algorithm, Align, Basis, Book as _, Fingerprint, LimitId, Span, Variant};
use proptest::prelude::*;
use proptest::test_runner::TestCaseError;
use ringfence_ownership::kept::{Incarnation, Keeper, KeptKey, Predecessor, Record, Written};
use ringfence_ownership::{
    Answer, Check, CheckLeg, Epoch, Floor, Found, LeaseBound, Partition, Recovered, SessionId, Unknown, Write,
};

use crate::desk::{Desk, SESSION, at_nanos, first, forever, owned};

pub const STORE: Incarnation = Incarnation { run: [7; 20], history: [9; 20] };

#[derive(Clone, Debug)]
pub enum Op {
    Spend {
        key: u64,
        cost: u64,
    },
    Wait {
        millis: u64,
    },
    /// The owner makes a write, if it has one.
    Write,
    /// The write under way arrives, and the owner hears so.
    Arrive,
    /// It arrives, and the owner does not hear of it.
    ArriveUnheard,
    /// It has not arrived when the owner gives it up; it may yet.
    GiveUp,
    /// It is not sent at all.
    Refuse,
    /// A write that was given up arrives.
    ArriveLate,
    /// The store forgets everything.
    Flush,
    /// The log says that records do not count.
    Free,
    /// The log says, or may come to say, that they do, once everything is written.
    Bind,
    /// The owner dies, and another takes over, whose checks wait for what was kept, or do not.
    Die {
        waits: bool,
    },
    /// The owner hears what was kept.
    Hear,
    /// Its claim arrives, and the answer is lost.
    ClaimUnheard,
    /// A copy of some claim that was ever made arrives.
    ClaimLate {
        which: usize,
    },
    /// The owner has time to look after what is old.
    Sweep,
}

/// What the store has.
#[derive(Clone, Debug)]
struct Kept {
    keeper: Keeper,
    seq: u64,
    complete: bool,
    assumed_full: Option<Span>,
    keys: BTreeMap<Fingerprint, KeptKey>,
    /// What lay there before it was claimed.
    before: Option<Box<Kept>>,
}

pub struct World {
    pub desk: Desk,
    now: u64,
    asked: u128,
    session: SessionId,
    epoch: Epoch,
    pub owner: Partition,
    truth: Partition,
    /// What was admitted: when, of which key, how much.
    admitted: Vec<(u64, u64, u64)>,
    period: Span,
    store: Option<Kept>,
    under_way: Option<Write>,
    late: VecDeque<Write>,
    /// Whether the log says that this session's records count.
    counts: bool,
    /// A claim that the owner has not heard the answer to.
    claim: Option<Predecessor>,
    /// All claims that were made, with their numbers.
    claims: Vec<(Keeper, u64)>,
}

impl World {
    pub fn new(algorithm: Algorithm, amount: u64, period: Span) -> World {
        let desk = Desk::with(algorithm, amount, period, Basis::Hi);
        let mut world = World {
            desk,
            now: 5_000_000_000,
            asked: 0,
            session: SESSION,
            epoch: Epoch(1),
            owner: owned(Floor::Fresh),
            truth: owned(Floor::Fresh),
            admitted: Vec::new(),
            period,
            store: None,
            under_way: None,
            late: VecDeque::new(),
            counts: false,
            claim: None,
            claims: Vec::new(),
        };
        world.store_claims();
        world.owner.handle_found(Epoch(1), Found::Nobody, false, &world.desk, at_nanos(world.now));
        world
    }

    fn keeper(&self) -> Keeper {
        Keeper { epoch: self.epoch, session: self.session }
    }

    fn lease(&self) -> LeaseBound {
        LeaseBound { session: self.session, ..forever() }
    }

    pub fn carry_out(&mut self, op: Op) -> Result<(), TestCaseError> {
        match op {
            Op::Spend { key, cost } => return self.spend(key, cost).map(drop),
            Op::Wait { millis } => self.now += millis * 1_000_000,
            Op::Write => self.write(),
            Op::Arrive => self.arrive(true),
            Op::ArriveUnheard => self.arrive(false),
            Op::GiveUp => self.give_up(),
            Op::Refuse => self.heard(Written::NotSent),
            Op::ArriveLate => {
                if let Some(write) = self.late.pop_front() {
                    self.store_takes(&write);
                }
            }
            Op::Flush => self.store = None,
            Op::Free => {
                self.counts = false;
                self.owner.free();
            }
            Op::Bind => self.bind(),
            Op::Die { waits } => self.die(waits),
            Op::Hear => drop(self.hear_claim()),
            Op::ClaimUnheard => {
                if self.claim.is_some() {
                    self.store_claims();
                }
            }
            Op::ClaimLate { which } => {
                let made = self.claims.get(which % self.claims.len().max(1)).copied();
                made.into_iter().for_each(|(keeper, number)| drop(self.store_claims_for(keeper, number)));
            }
            Op::Sweep => drop(self.owner.sweep(&self.desk, at_nanos(self.now), 8)),
        }
        Ok(())
    }

    /// Asks the owner; what it admits, the truth must admit.
    pub fn spend(&mut self, key: u64, cost: u64) -> Result<bool, TestCaseError> {
        self.asked += 1;
        let leg =
            CheckLeg { limit: LimitId(1), variant: Variant::OWN, key: Fingerprint([1, key]), cost, shadow: false };
        let check = Check { legs: [leg].into_iter().collect(), ..first(self.asked) };
        let lease = self.lease();
        match self.desk.ask_under(&mut self.owner, &check, at_nanos(self.now), &lease) {
            Answer::Decided(verdict) if verdict.allowed => {
                self.admitted.push((self.now, key, cost));
                self.judge(key, &check)?;
                Ok(true)
            }
            Answer::Decided(_) | Answer::Unknown(Unknown::Allowance | Unknown::Loading) => Ok(false),
            other
            @ (Answer::NotOwner { .. } | Answer::StaleRevision { .. } | Answer::Unknown(_) | Answer::IdReused) => {
                Err(TestCaseError::fail(format!("{other:?}")))
            }
        }
    }

    /// What was just admitted fits the limit: a partition that never forgot anything admits it too. Where windows begin with
    /// a key's first charge, or go by cells, those of another owner are others, and what is promised of any period holds.
    fn judge(&mut self, key: u64, check: &Check) -> Result<(), TestCaseError> {
        let entry = self.desk.limit(LimitId(1), Variant::OWN).unwrap();
        let shape = self.desk.shapes().get(entry.shape);
        match shape.algorithm {
            Algorithm::FixedWindow { align: Align::First } | Algorithm::SlidingCounter => {
                let since = self.now.saturating_sub(self.period.as_nanos());
                let within = self.admitted.iter().filter(|(at, of, _)| *of == key && *at > since);
                let (sum, most) = (within.map(|(_, _, cost)| cost).sum::<u64>(), shape.most_in_any_period().unwrap());
                prop_assert!(sum <= most, "{sum} of key {key} within a period, at most {most}");
            }
            Algorithm::TokenBucket { .. }
            | Algorithm::SlidingLog { .. }
            | Algorithm::FixedWindow { align: Align::Epoch | Align::Hashed }
            | Algorithm::Calendar { .. }
            | Algorithm::Concurrency { .. } => {
                let truth = self.desk.decide(&mut self.truth, check, at_nanos(self.now));
                prop_assert!(truth.allowed, "more of key {key} than there was: {truth:?}");
            }
        }
        Ok(())
    }

    pub fn write(&mut self) {
        if self.under_way.is_none() {
            self.under_way = self.owner.poll_write(&self.desk, at_nanos(self.now));
        }
    }

    /// The write under way arrives.
    pub fn arrive(&mut self, is_heard: bool) {
        let Some(write) = self.under_way.clone() else { return };
        let written = self.store_takes(&write);
        self.heard(if is_heard { written } else { Written::Unknown });
    }

    /// The write under way arrives; its owner has heard nothing yet. Whether there was one.
    pub fn arrives_unnoticed(&mut self) -> bool {
        let Some(write) = self.under_way.clone() else { return false };
        self.store_takes(&write);
        true
    }

    fn give_up(&mut self) {
        self.late.extend(self.under_way.clone());
        self.heard(Written::Unknown);
    }

    fn heard(&mut self, written: Written) {
        if let Some(write) = self.under_way.take() {
            self.owner.handle_written(write.keeper.epoch, write.seq, written);
        }
        if self.owner.wants_claim() && self.claim.is_none() {
            self.store_claims();
            self.owner.handle_found(self.epoch, Found::Nothing, self.counts, &self.desk, at_nanos(self.now));
        }
    }

    /// The session's records are to count: once everything is written, the log says so.
    pub fn bind(&mut self) {
        self.owner.bind();
        for _ in 0..3 {
            self.write();
            self.arrive(true);
        }
        self.counts = self.owner.is_kept_whole();
        if !self.counts {
            self.owner.free();
        }
    }

    /// Another session takes over.
    pub fn die(&mut self, waits: bool) {
        let before = Predecessor { keeper: self.keeper(), store: self.counts.then_some(STORE), ended_at: self.epoch.0 };
        self.late.extend(self.under_way.take());
        self.session.counter += 1;
        self.epoch = Epoch(self.epoch.0 + 1);
        self.owner = Partition::vacant();
        let at = at_nanos(self.now);
        let until = if waits { at.moment.saturating_add(Span::from_millis(100)) } else { at.moment };
        self.owner.activate_waiting(self.epoch, self.session, Floor::FullAsOf { at, takeover_index: 20 }, until);
        self.claim = Some(before);
    }

    /// The owner hears what was kept, if it has not yet.
    pub fn hear_claim(&mut self) -> Option<Recovered> {
        let before = self.claim.take()?;
        let record = self.store_claims();
        let counts = record.as_ref().filter(|record| record.counts(STORE, &before, None).is_ok());
        let found = counts.map_or(Found::Nothing, Found::Record);
        self.owner.handle_found(self.epoch, found, self.counts, &self.desk, at_nanos(self.now))
    }

    fn store_claims(&mut self) -> Option<Record> {
        let (keeper, number) = (self.keeper(), self.owner.claim_number());
        self.claims.push((keeper, number));
        self.store_claims_for(keeper, number)
    }

    /// The claim script: puts the partition into that reign's name and tells what was there; asked again it says the same.
    fn store_claims_for(&mut self, keeper: Keeper, number: u64) -> Option<Record> {
        match &mut self.store {
            Some(kept) if kept.keeper == keeper && kept.complete => return None,
            Some(kept) if kept.keeper == keeper => kept.seq = kept.seq.max(number),
            Some(kept) if kept.keeper.epoch >= keeper.epoch => return None,
            held => {
                let before = held.take().map(Box::new);
                let keys = before.as_ref().map(|kept| kept.keys.clone()).unwrap_or_default();
                *held = Some(Kept { keeper, seq: number, complete: false, assumed_full: None, keys, before });
            }
        }
        let before = self.store.as_ref()?.before.clone()?;
        Some(Record {
            keeper: before.keeper,
            complete: before.complete,
            count: before.keys.len() as u64,
            keys: before.keys.into_values().collect(),
            assumed_full: before.assumed_full,
            unreadable: 0,
        })
    }

    /// The write scripts.
    fn store_takes(&mut self, write: &Write) -> Written {
        match &mut self.store {
            Some(kept) if kept.keeper == write.keeper && (kept.complete || write.anew) => {
                if write.seq <= kept.seq {
                    return Written::Unknown;
                }
                if write.anew {
                    kept.keys.clear();
                }
                (kept.seq, kept.complete, kept.before) = (write.seq, true, None);
                kept.assumed_full = write.assumed_full;
                kept.keys.extend(write.keys.iter().map(|key| (key.key, key.clone())));
                Written::Done
            }
            Some(_) | None => Written::Lost,
        }
    }
}
