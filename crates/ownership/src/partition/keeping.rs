//! What a partition has kept of itself, and what it takes in of what a predecessor had. Before a charge is made, every
//! record that a successor may come to read allows for it; where none does, the check is put off until one is written.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use limits::{
    Absent, Book, Charge, Fingerprint, InsertError, Keeping, KeptSince, Leg, Moment, Now, Shapes, Span, Variant,
    WallTime,
};
use smallvec::SmallVec;

use crate::bug::Bug;
use crate::check::{Check, CheckLeg, Unknown};
use crate::floor::Floor;
use crate::kept::ledger::{Busy, Ledger, Written};
use crate::kept::{Keeper, KeptKey, Record, chunk};
use crate::partition::Partition;
use crate::partition::acts::NoVerdict;
use crate::session::Epoch;

/// How far the clocks of two owners may tell cluster time apart, either way; what is added to the age of what was kept.
const CLUSTER_TIME_APART: Span = Span::from_millis(100);

/// How often a record that anything was added to is written anew, so that what wore off is not read as used.
pub const RENEWED_EVERY: Span = Span::from_secs(300);

/// How long an operator has to vouch for a store before what was found there is given up.
pub const WORD_AWAITED_FOR: Span = Span::from_secs(3_600);

/// A record, or an addition to one, on its way to the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Write {
    /// In whose name it is made.
    pub keeper: Keeper,
    /// Its number: rises within an epoch.
    pub seq: u64,
    /// Whether it replaces all that is kept of the partition; otherwise it is added.
    pub anew: bool,
    /// How long it is since the worst was assumed of keys that nothing was known of; `None` where it was not.
    pub assumed_full: Option<Span>,
    /// The keys, by their fingerprint.
    pub keys: Vec<KeptKey>,
}

/// What was found of a predecessor.
#[derive(Clone, Copy, Debug)]
pub enum Found<'a> {
    /// There was none, in this cluster or in one of its name before it.
    Nobody,
    /// Nothing that counts: the worst case stands.
    Nothing,
    /// A record that would count if an operator vouched for the store. The worst case stands meanwhile, and nothing is
    /// written over it, for [`WORD_AWAITED_FOR`].
    InDoubt,
    /// A record that counts.
    Record(&'a Record),
}

/// How a partition reads what was used before its reign, now that everything is known that can be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recovered {
    /// Nobody used anything.
    Fresh,
    /// As what was kept of it allows.
    Allowance {
        /// Keys that were taken in.
        keys: usize,
    },
    /// As the worst case.
    WorstCase,
}

/// What is known of how a reign began.
#[derive(Clone, Debug, Default)]
pub(super) struct Beginning {
    /// Checks are put off until then, or until it is known what was kept.
    awaits: Option<Moment>,
    /// Whether the store holds the partition in this reign's name: only then is anything written.
    is_claimed: bool,
    /// Whether it is known what was kept, so that a claim that is made again finds no more.
    is_known: bool,
    /// Whether the store holds the partition for a later reign: it is not claimed again.
    is_fenced: bool,
    /// Until when what was found is left as it is, for an operator to vouch for.
    left_until: Option<Moment>,
    /// Whether records of this session count, or may come to.
    is_to_be_bound: bool,
    /// Keys that were spent of before it was known what had been kept: what they stand on is the worst case, and stays it.
    on_floor: BTreeSet<Fingerprint>,
    /// What is read as used of a key, beyond what was when it was written: it may not have been.
    perhaps: BTreeMap<Fingerprint, Perhaps>,
    /// Up to which of these was looked whether it is over.
    looked_to: Option<Fingerprint>,
}

/// Units that may not have been used, and until when they count.
#[derive(Clone, Copy, Debug)]
struct Perhaps {
    units: u64,
    until: Moment,
}

impl Partition {
    /// Begins a reign as [`Partition::activate`] does, but puts checks off until it is known what a predecessor had kept, or
    /// until `until` where nothing is heard by then.
    pub fn activate_waiting(&mut self, epoch: Epoch, session: crate::SessionId, floor: Floor, until: Moment) {
        self.activate(epoch, session, floor);
        if self.session() == Some(session) && self.epoch() == epoch {
            self.beginning.awaits = Some(until);
        }
    }

    /// Whether checks are put off, since what was kept is not known yet.
    pub(super) fn is_waiting(&mut self, now: Now) -> bool {
        if self.beginning.awaits.is_some_and(|until| now.moment >= until) {
            self.beginning.awaits = None;
        }
        self.beginning.awaits.is_some()
    }

    /// Takes in what was found, under the epoch that asked for it; `bound` says whether this session's own records count, or
    /// may come to. `None` where that reign is over.
    pub fn handle_found(
        &mut self,
        epoch: Epoch,
        found: Found<'_>,
        bound: bool,
        book: &impl Book,
        now: Now,
    ) -> Option<Recovered> {
        if !self.is_active() || self.epoch() != epoch {
            return None;
        }
        let now = self.advance(now);
        self.beginning.awaits = None;
        self.beginning.is_claimed = true;
        self.ledger.claim();
        let is_news = !self.beginning.is_known || self.beginning.left_until.is_some();
        if !is_news {
            // What was written is gone, and so is what was before: all of it is written anew.
            self.ledger.begin_anew();
            return None;
        }
        self.beginning.is_known = true;
        self.beginning.left_until = None;
        let recovered = match found {
            Found::Nobody => {
                self.floor = Floor::Fresh;
                Recovered::Fresh
            }
            Found::Nothing => Recovered::WorstCase,
            Found::InDoubt => {
                self.beginning.left_until = Some(now.moment.saturating_add(WORD_AWAITED_FOR));
                Recovered::WorstCase
            }
            Found::Record(record) => self.take_record(record, book, now),
        };
        self.beginning.is_to_be_bound = bound;
        self.bind_if_it_may();
        Some(recovered)
    }

    /// The number to claim under: no write with this number or a lower one counts after the claim, however late it arrives.
    pub fn claim_number(&self) -> u64 {
        self.ledger.last_number()
    }

    /// Whether the partition has to be claimed, since the store does not hold it in this reign's name.
    pub fn wants_claim(&self) -> bool {
        self.is_active() && !self.beginning.is_claimed && !self.beginning.is_fenced
    }

    /// Nothing is heard of what was kept: the worst case stands, and checks wait no longer. Returns whether they did.
    pub fn handle_not_found(&mut self, epoch: Epoch) -> bool {
        self.is_active() && self.epoch() == epoch && self.beginning.awaits.take().is_some()
    }

    /// The store holds the partition in the name of another reign, or cannot be read: nothing is written of this one.
    pub fn handle_fenced(&mut self, epoch: Epoch) {
        if self.is_active() && self.epoch() == epoch {
            self.ledger.lose();
            self.beginning.awaits = None;
            self.beginning.is_claimed = false;
            self.beginning.is_fenced = true;
        }
    }

    fn take_record(&mut self, record: &Record, book: &impl Book, now: Now) -> Recovered {
        let Some(until) = self.floor.as_of() else { return Recovered::Fresh };
        self.beginning.on_floor = self.table.kept_all(book.shapes(), now).map(|(key, _)| key).collect();
        let (mut taken, mut assumed_full) = (0, record.assumed_full);
        for kept in &record.keys {
            match self.take_key(kept, until, book, now) {
                Ok(()) => taken += 1,
                // No room, numbers that nobody here knows, or no cluster time: of what nothing is found the worst stays assumed.
                Err(_) => assumed_full = Some(Span::ZERO),
            }
        }
        self.floor = self.floor.with_record(assumed_full);
        Recovered::Allowance { keys: taken }
    }

    fn take_key(&mut self, kept: &KeptKey, until: Now, book: &impl Book, now: Now) -> Result<(), InsertError> {
        let shapes = book.shapes();
        let shape = shapes.of_form(kept.limit, kept.form).ok_or(InsertError::Misfit)?;
        let own = book.limit(kept.limit, Variant::OWN).map_or(shape, |entry| entry.shape);
        if [shape, own].iter().any(|shape| shapes.keeping(*shape).0 == Keeping::Nothing) {
            // What is not kept any more was spent unwritten since; the worst of it is assumed in any case.
            return Ok(());
        }
        let most = shapes.keeping(shape).0 == Keeping::Most;
        let extra = if most && !Bug::SnapshotAsTruth.is_here() {
            kept.allowance.max(shapes.implicit_of_limit(shape))
        } else {
            0
        };
        let age = now.wall.zip(kept.at).map(|(wall, at)| age(wall, at));
        let since = KeptSince { until, units: extra, age };
        self.table.take_kept(&kept.key, shape, &kept.used, since, (shapes, book.budgets()), now)?;
        if extra > 0 {
            let until = until.moment.saturating_add(shapes.get(shape).remembers_for());
            self.beginning.perhaps.insert(kept.key, Perhaps { units: extra, until });
        }
        Ok(())
    }

    /// Whether what is kept allows for this check, should its limits admit it. If not, what it needs is written next.
    pub(super) fn is_covered(
        &mut self,
        check: &Check,
        legs: &[Leg],
        book: &impl Book,
        now: Now,
    ) -> Result<(), NoVerdict> {
        if Bug::SpendsUnwritten.is_here() || !self.ledger.binds() || !check.act.decides() || check.is_peek() {
            return Ok(());
        }
        let mut short: SmallVec<[(usize, u64); 2]> = SmallVec::new();
        for (index, leg) in legs.iter().enumerate().filter(|(_, leg)| !leg.shadow && leg.cost > 0) {
            let (keeping, implicit) = book.shapes().keeping(leg.shape);
            if keeping != Keeping::Most {
                continue;
            }
            let units = units_of(legs, &leg.key, check.act.times().unwrap_or(1));
            if self.ledger.allows(&leg.key, units) == Some(true) {
                continue;
            }
            let Ok(said) = self.table.peek(leg, book.shapes(), now) else { continue };
            if !said.allowed {
                return Ok(());
            }
            let (needed, used) = (units.min(said.remaining), said.capacity.saturating_sub(said.remaining));
            let fits = self.ledger.allows(&leg.key, needed).unwrap_or(used.saturating_add(needed) <= implicit);
            if !fits {
                short.push((index, needed));
            }
        }
        if short.is_empty() || self.is_refused(legs, book, now) {
            return Ok(());
        }
        for (index, needed) in short {
            self.want(&check.legs[index], &legs[index], needed, book, now);
        }
        Err(NoVerdict::Unknown(Unknown::Allowance))
    }

    fn is_refused(&self, legs: &[Leg], book: &impl Book, now: Now) -> bool {
        let refuses = |leg: &Leg| self.table.peek(leg, book.shapes(), now).is_ok_and(|said| !said.allowed);
        legs.iter().any(|leg| !leg.shadow && refuses(leg))
    }

    /// Asks for a key to be written.
    fn want(&mut self, asked: &CheckLeg, leg: &Leg, needed: u64, book: &impl Book, now: Now) {
        let of = (asked.limit, asked.variant);
        if self.ledger.allows(&leg.key, 0).is_none() {
            let left = self.implicit_left(leg, book, now);
            self.ledger.open(leg.key, of, left, now.moment);
        }
        self.ledger.want(leg.key, Some(of), needed, now.moment);
    }

    /// What is left of the part of a key that needs no writing down.
    fn implicit_left(&self, leg: &Leg, book: &impl Book, now: Now) -> u64 {
        let (_, implicit) = book.shapes().keeping(leg.shape);
        let used = self.table.peek(&Leg { cost: 0, ..*leg }, book.shapes(), now);
        let used = used.map_or(u64::MAX, |said| said.capacity.saturating_sub(said.remaining));
        implicit.saturating_sub(used)
    }

    /// Takes note of what a check spent.
    pub(super) fn note_spent(&mut self, check: &Check, legs: &[Leg], charges: &[Charge], book: &impl Book, now: Now) {
        if !self.ledger.is_bound() {
            return;
        }
        for charge in charges {
            let (keeping, implicit) = book.shapes().keeping(charge.shape());
            let index = legs.iter().position(|leg| leg.key == charge.key());
            let Some(index) = index.filter(|_| keeping != Keeping::Nothing) else { continue };
            let of = (check.legs[index].limit, check.legs[index].variant);
            if self.ledger.spent(&charge.key(), of, charge.cost(), now.moment) {
                continue;
            }
            // Once little is left of what needs no writing down, that lasts until it is written.
            let left = self.implicit_left(&legs[index], book, now);
            if left <= implicit / 4 {
                self.ledger.open(charge.key(), of, left, now.moment);
                self.ledger.want(charge.key(), Some(of), 0, now.moment);
            }
        }
    }

    /// From now on records count, or may come to: everything is written anew, and obeyed from when it is sent.
    pub fn bind(&mut self) {
        self.beginning.is_to_be_bound = true;
        self.bind_if_it_may();
    }

    fn bind_if_it_may(&mut self) {
        let may_be_written = self.beginning.is_claimed && self.beginning.left_until.is_none();
        if self.is_active() && may_be_written && self.beginning.is_to_be_bound && !self.ledger.is_bound() {
            self.ledger.bind();
        }
    }

    /// The log says that this session's records do not count: memory alone decides.
    pub fn free(&mut self) {
        self.beginning.is_to_be_bound = false;
        self.ledger.free();
    }

    /// Whether what is kept of this partition is in the store and counts, or nothing has to be.
    pub fn is_kept_whole(&self) -> bool {
        !self.is_active() || self.ledger.is_settled()
    }

    /// Whether [`Partition::poll_write`] has something.
    pub fn wants_write(&self) -> bool {
        self.is_active() && self.beginning.is_claimed && self.ledger.wants_write()
    }

    /// Since when there is something to write that is not known to be in the store.
    pub fn unwritten_since(&self) -> Option<Moment> {
        self.ledger.unwritten_since().filter(|_| self.is_active())
    }

    /// When the record that a successor would find was made, as a whole; additions since make it no younger. `None` where there is
    /// none with a key in it, or it is not obeyed any more.
    pub fn kept_since(&self) -> Option<Moment> {
        self.ledger.whole_since().filter(|_| self.is_active())
    }

    /// When the write under way was made, if one is.
    pub fn writes_since(&self) -> Option<Moment> {
        self.ledger.under_way_since()
    }

    /// The next write, if there is anything to write and none is under way. Hand what came of it to
    /// [`Partition::handle_written`].
    pub fn poll_write(&mut self, book: &impl Book, now: Now) -> Option<Write> {
        if !self.wants_write() {
            return None;
        }
        let now = self.advance(now);
        let anew = self.ledger.writes_anew();
        let mut keys = BTreeMap::new();
        for (key, busy) in self.ledger.take_wanted(anew) {
            if let Some(kept) = self.kept_of(&key, &busy, book, now) {
                let of = (busy.limit, busy.variant);
                self.ledger.write_key(key, of, allows(&kept, book.shapes()), now.moment);
                keys.insert(key, kept);
            }
        }
        if anew {
            self.keep_all(&mut keys, book, now);
        }
        let seq = self.ledger.send(keys.keys().copied().collect(), anew, now.moment);
        let keeper = Keeper { epoch: self.epoch, session: self.session()? };
        let assumed_full = self.floor.assumed_full(now.moment);
        Some(Write { keeper, seq, anew, assumed_full, keys: keys.into_values().collect() })
    }

    fn kept_of(&self, key: &Fingerprint, busy: &Busy, book: &impl Book, now: Now) -> Option<KeptKey> {
        let entry = book.limit(busy.limit, busy.variant)?;
        let implicit = book.shapes().implicit_of_limit(entry.shape);
        let absent = self.floor.absent(book.shapes().get(entry.shape), implicit, entry.allotted_at);
        let leg = Leg { shape: entry.shape, key: *key, cost: 0, absent, shadow: false };
        let kept = self.table.kept(&leg, book.shapes(), now)?;
        let (demand, needed) = busy.wants(now.moment);
        // Where the limit decides on the least nobody is held to it, and a successor takes nothing of it; but the limit may come
        // to fail closed before the next write.
        let allowance = chunk(book.shapes().get(kept.shape), demand, needed);
        Some(key_of(*key, kept, allowance, book.shapes(), now))
    }

    /// All keys that have used more than needs no writing down, beside those that are in `keys`.
    fn keep_all(&mut self, keys: &mut BTreeMap<Fingerprint, KeptKey>, book: &impl Book, now: Now) {
        let shapes = book.shapes();
        for (key, kept) in self.table.kept_all(shapes, now) {
            let (keeping, implicit) = shapes.keeping(kept.shape);
            if keeping == Keeping::Nothing || kept.units <= implicit || keys.contains_key(&key) {
                continue;
            }
            let of = (shapes.get(kept.shape).limit, Variant::OWN);
            self.ledger.write_key(key, of, (0, 0), now.moment);
            keys.insert(key, key_of(key, kept, 0, shapes, now));
        }
    }

    /// What came of a write, by its epoch and number. One that was lost makes the partition
    /// [want a claim](Partition::wants_claim).
    pub fn handle_written(&mut self, epoch: Epoch, seq: u64, written: Written) {
        if self.is_active() && self.epoch() == epoch && self.ledger.handle_written(seq, written) {
            self.beginning.is_claimed = false;
        }
    }

    /// Looks at a few busy keys, and has the record written anew once that is due.
    pub(super) fn sweep_ledger(&mut self, now: Now, steps: usize) {
        if self.beginning.left_until.take_if(|until| now.moment >= *until).is_some() {
            self.bind_if_it_may();
        }
        self.beginning.forget_over(now.moment, steps);
        self.ledger.sweep(now.moment, steps);
        self.ledger.renew_every(RENEWED_EVERY, now.moment);
    }

    /// Whether a key stands on the worst case, though it is known by now what had been kept.
    pub(super) fn stands_on_floor(&self, key: &Fingerprint) -> bool {
        self.beginning.on_floor.contains(key)
    }

    /// Units that are read as used of a key and perhaps were not.
    pub(super) fn perhaps_used(&self, leg: &Leg) -> u64 {
        match (self.beginning.perhaps.get(&leg.key), leg.absent) {
            (Some(perhaps), _) => perhaps.units,
            (None, Absent::UsedAsOf { units, .. }) => units,
            (None, Absent::Fresh | Absent::FullAsOf(_)) => 0,
        }
    }

    /// A new reign has no books.
    pub(super) fn close_books(&mut self) {
        self.ledger = Ledger::default();
        self.beginning = Beginning::default();
    }
}

impl Beginning {
    /// Forgets of some keys what perhaps was used of them, once it counts no more.
    fn forget_over(&mut self, now: Moment, steps: usize) {
        let from = self.looked_to.map_or(Bound::Unbounded, Bound::Excluded);
        let looked: SmallVec<[(Fingerprint, bool); 16]> = self
            .perhaps
            .range((from, Bound::Unbounded))
            .take(steps)
            .map(|(key, perhaps)| (*key, now >= perhaps.until))
            .collect();
        self.looked_to = looked.last().filter(|_| looked.len() == steps).map(|(key, _)| *key);
        for (key, _) in looked.iter().filter(|(_, is_over)| *is_over) {
            self.perhaps.remove(key);
        }
    }
}

/// What a key of a write allows until the next one, and the least that any does; there is nothing to lower where nobody is held
/// to it.
fn allows(kept: &KeptKey, shapes: &Shapes) -> (u64, u64) {
    let shape = shapes.of_form(kept.limit, kept.form);
    let least = shape.filter(|shape| shapes.keeping(*shape).0 == Keeping::Most);
    (kept.allowance, least.map_or(u64::MAX, |shape| chunk(shapes.get(shape), 0, 0)))
}

fn key_of(key: Fingerprint, kept: limits::Kept, allowance: u64, shapes: &Shapes, now: Now) -> KeptKey {
    let (limit, form) = (shapes.get(kept.shape).limit, shapes.form(kept.shape));
    KeptKey { limit, key, form, at: now.wall, used: kept.used, units: kept.units, allowance }
}

/// What all legs of a key may spend of it together, each so many times its cost.
fn units_of(legs: &[Leg], key: &Fingerprint, times: u64) -> u64 {
    let same = legs.iter().filter(|leg| leg.key == *key && !leg.shadow);
    same.fold(0u64, |sum, leg| sum.saturating_add(leg.cost.saturating_mul(times)))
}

/// The longest that it may be since `at`; a clock that has gone back since tells nothing.
fn age(now: WallTime, at: WallTime) -> Span {
    if now < at {
        return Span::MAX;
    }
    now.since(at).saturating_add(CLUSTER_TIME_APART).saturating_add(CLUSTER_TIME_APART)
}
