//! The table of one partition: who has used what, and the one place where a check is decided. A check brings one leg per
//! limit; all legs are weighed first, and only if every enforced one admits is anything written (law 3).
//!
//! Nothing here ever takes long. A decision looks its keys up, does a few integer operations each, and pays for a fixed
//! number of steps of sweeping: entries go, one by one, once they read exactly as an absent key does (law 4), and the
//! store grows and shrinks a segment at a time. Deciding about known keys allocates nothing.

use smallvec::SmallVec;

use crate::budget::Budgets;
use crate::charge::{Charge, Mark};
use crate::convert;
use crate::decision::{Absent, LegDecision};
use crate::ends::Ends;
use crate::hold::{Hold, HoldId};
use crate::key::Fingerprint;
use crate::leg::{Decided, Leg, Undecided, WhyUndecided};
use crate::lens::Lens;
use crate::rate::{Basis, DomainId};
use crate::reserve::Reserves;
use crate::reset::Resets;
use crate::segment::Entry;
use crate::shapes::{ShapeId, Shapes};
use crate::state::State;
use crate::store::Store;
use crate::terms::{Counted, Terms};
use crate::time::{Moment, Now, WallTime};

/// All keys of one partition. Not shared: whoever holds the partition's gate holds the table.
///
/// Keys take room from [`Budgets`]; call [`Table::clear`] before dropping a table whose budgets live on.
#[derive(Clone, Debug)]
#[repr(C, align(64))]
pub struct Table {
    /// The latest time seen: a clock that goes back is held here (law 2).
    last: Moment,
    /// Charges and refunds so far.
    pub(crate) seq: u64,
    /// Sweeping not paid for yet, in quarters of a place.
    pub(crate) owed: u32,
    /// The last mark given.
    pub(crate) mark: Mark,
    /// Its first field is where keys are looked up: with all before it, one cache line is all that a decision about
    /// a known key needs of the table itself.
    pub(crate) store: Store,
    last_wall: WallTime,
    pub(crate) reserves: Option<Box<Reserves>>,
    pub(crate) resets: Option<Box<Resets>>,
}

/// What every step of a decision goes by.
#[derive(Clone, Copy)]
pub(crate) struct Rules<'a> {
    pub(crate) shapes: &'a Shapes,
    pub(crate) budgets: &'a Budgets,
    pub(crate) now: Now,
    /// In whose name leases are taken, if in anybody's.
    pub(crate) hold: Option<&'a Hold>,
}

/// Which legs are charged if the check is allowed.
pub(crate) type Charged = SmallVec<[bool; 8]>;

impl Table {
    /// An empty table. Allocates nothing.
    pub fn new() -> Table {
        let (last, last_wall, mark) = (Moment::ZERO, WallTime::default(), Mark::default());
        Table { last, seq: 0, owed: 0, mark, store: Store::new(), last_wall, reserves: None, resets: None }
    }

    /// Decides one check: `Ok(true)` when every enforced leg admits, and then all are charged; else `Ok(false)`, and
    /// nothing is. `out` is cleared first. Two legs of one key are decided as one sum. Slots of a concurrency limit are
    /// taken in nobody's name and come back by themselves; [`Table::acquire`] takes them in somebody's.
    ///
    /// # Errors
    ///
    /// [`Undecided`] names the first enforced leg that cannot be told. Nothing was charged; not the caller's doing.
    pub fn decide(
        &mut self,
        legs: &[Leg],
        shapes: &Shapes,
        budgets: &Budgets,
        now: Now,
        out: &mut Decided,
    ) -> Result<bool, Undecided> {
        let rules = Rules { shapes, budgets, now: self.advance(now), hold: None };
        self.decide_by(legs, rules, out)
    }

    #[inline]
    pub(crate) fn decide_by(&mut self, legs: &[Leg], rules: Rules<'_>, out: &mut Decided) -> Result<bool, Undecided> {
        out.clear();
        self.pay_for_sweeping(rules);
        let known = match legs {
            [leg] => self.decide_known(leg, rules, out),
            _ => self.decide_all_known(legs, rules, out),
        };
        if let Some(allowed) = known {
            return Ok(allowed);
        }
        let result = self.decide_legs(legs, rules, out);
        if result.is_err() {
            out.legs.clear();
        }
        result
    }

    /// What the leg's limit would say, without charging or writing anything: `remaining` is what stands now.
    ///
    /// `wait` is a promise as long as the key was last decided under the same shape; the first decision after a change
    /// of the limit settles how the key drains from then on.
    ///
    /// # Errors
    ///
    /// [`WhyUndecided::NoClusterTime`] or [`WhyUndecided::NoCalendar`], as in [`Table::decide`]. A table is never full for
    /// a peek.
    pub fn peek(&self, leg: &Leg, shapes: &Shapes, now: Now) -> Result<LegDecision, Undecided> {
        let counted = match shapes.terms(leg.shape) {
            Terms::Unlimited => return Ok(LegDecision::UNLIMITED),
            Terms::Zero => return Ok(LegDecision::ZERO),
            Terms::Counted(counted) => counted,
        };
        let lens = Lens::new(shapes, leg.shape, counted, &leg.key, self.clamp(now));
        if let Some(why) = lens.untold() {
            return Err(Undecided { leg: 0, why });
        }
        let state = self.store.find(&leg.key).map(|entry| {
            let from = shapes.counted(entry.state.shape());
            convert::converted(entry.state.clone(), from, leg.shape, &lens, self.mark)
        });
        let leg = &self.as_it_reads(leg);
        let (asked, stands) = (weigh(&lens, state.as_ref(), leg, leg.cost), weigh(&lens, state.as_ref(), leg, 0));
        Ok(LegDecision { allowed: asked.allowed, wait: asked.wait, ..stands })
    }

    /// Takes back exactly what `charge` did, as far as it still stands (law 8): never more than would be used had the
    /// charge not been made. Once per charge. Answers how many units fewer are in use now, rounded to whole ones: none
    /// if the charge has drained, lapsed, or lies before a change, a reset or a hand-over that it cannot be found behind.
    pub fn undo(&mut self, charge: &Charge, shapes: &Shapes, now: Now) -> u64 {
        let now = self.advance(now);
        let Some(Entry { state, .. }) = self.store.find_mut(&charge.key) else { return 0 };
        self.seq += 1;
        let counted = shapes.counted(state.shape());
        let lens = Lens::new(shapes, state.shape(), counted, &charge.key, now);
        let used = lens.read(state.view(lens.basis)).units();
        state.undo(&lens, charge, self.seq);
        used.saturating_sub(lens.read(state.view(lens.basis)).units())
    }

    /// Charges a debt: what was admitted elsewhere while nobody could ask. May go above the capacity, up to twice; what
    /// is beyond is dropped. Slots are taken in the name of `hold`, if there is one. Answers whether it was booked: not if
    /// the limit counts nothing, the domain has no room for the key, or an aligned window has no cluster time.
    pub fn force(&mut self, leg: &Leg, hold: Option<&Hold>, shapes: &Shapes, budgets: &Budgets, now: Now) -> bool {
        let rules = Rules { shapes, budgets, now: self.advance(now), hold };
        let Terms::Counted(counted) = shapes.terms(leg.shape) else { return false };
        let lens = rules.lens(leg, counted);
        if leg.cost == 0 || lens.untold().is_some() {
            return false;
        }
        if self.find(&lens, leg.shape, rules).is_none() && !self.take_room(&[*leg], leg, rules) {
            return false;
        }
        self.charge(leg, &lens);
        true
    }

    /// Whether `key` has an entry. A caller with a batch asks this of all its keys before it decides the first: the
    /// look-ups wait for memory side by side, and the decisions then find what they need in the cache.
    #[inline]
    pub fn holds(&self, key: &Fingerprint) -> bool {
        self.store.find(key).is_some()
    }

    /// Keys that have an entry.
    pub fn len(&self) -> usize {
        self.store.len()
    }

    /// Whether no key has an entry.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes on the heap for all entries and their states. Walks the table: for tests and diagnosis.
    pub fn allocated_bytes(&self) -> usize {
        self.store.allocated_bytes() + self.store.iter().map(|entry| entry.state.allocated_bytes()).sum::<usize>()
    }

    fn decide_legs(&mut self, legs: &[Leg], rules: Rules<'_>, out: &mut Decided) -> Result<bool, Undecided> {
        let mut charged = Charged::new();
        let mut allowed = true;
        for (index, leg) in legs.iter().enumerate() {
            let untold = |why| Undecided { leg: index, why };
            let (decision, costs) = self.weigh_leg(leg, cost_before(legs, index), rules).map_err(untold)?;
            allowed &= decision.allowed || leg.shadow;
            out.legs.push(decision);
            charged.push(costs);
        }
        if allowed {
            self.make_room(legs, &mut charged, rules)?;
            self.charge_legs(legs, &charged, rules, &mut out.charges);
        } else {
            self.answer_uncharged(legs, &charged, rules, &mut out.legs);
        }
        Ok(allowed)
    }

    /// What one leg says on top of what earlier legs spend of the same key, and whether it is to be charged for it.
    pub(crate) fn weigh_leg(
        &mut self,
        leg: &Leg,
        before: u64,
        rules: Rules<'_>,
    ) -> Result<(LegDecision, bool), WhyUndecided> {
        let leg = &self.as_it_reads(leg);
        let counted = match rules.shapes.terms(leg.shape) {
            Terms::Unlimited => return Ok((LegDecision::UNLIMITED, false)),
            Terms::Zero => return Ok((LegDecision::ZERO, false)),
            Terms::Counted(counted) => counted,
        };
        let lens = rules.lens(leg, counted);
        if let Some(why) = lens.untold() {
            let untold = (lens.read_fresh().weigh(0), false);
            return if leg.shadow { Ok(untold) } else { Err(why) };
        }
        let state = self.find(&lens, leg.shape, rules);
        let state = state.map(|state| &*state);
        let held = state.is_some_and(|state| lens.read(state.view(lens.basis)).is_held());
        let decision = weigh(&lens, state, leg, leg.cost.saturating_add(before));
        Ok((decision, leg.cost > 0 && decision.allowed && !held))
    }

    /// Finds a key's state and readies it to be read through `lens`.
    pub(crate) fn find(&mut self, lens: &Lens<'_>, shape: ShapeId, rules: Rules<'_>) -> Option<&mut State> {
        let Entry { state, .. } = self.store.find_mut(lens.key)?;
        if state.shape() == shape {
            state.refresh(lens);
        } else {
            let (from, shapes) = (state.shape(), rules.shapes);
            rules.budgets.transfer(shapes.get(from).domain, shapes.get(shape).domain);
            self.mark = self.mark.next();
            *state = convert::converted(state.clone(), shapes.counted(from), shape, lens, self.mark);
        }
        Some(state)
    }

    fn charge_legs(&mut self, legs: &[Leg], charged: &Charged, rules: Rules<'_>, charges: &mut SmallVec<[Charge; 2]>) {
        for (leg, charged) in legs.iter().zip(charged) {
            if let (true, Terms::Counted(counted)) = (*charged, rules.shapes.terms(leg.shape)) {
                charges.push(self.charge(leg, &rules.lens(leg, counted)));
            }
        }
    }

    /// Charges a key, whose entry is made if there is none; the key then has room.
    fn charge(&mut self, leg: &Leg, lens: &Lens<'_>) -> Charge {
        if let Some(Entry { state, .. }) = self.store.find_mut(&leg.key) {
            return charge(state, leg, lens, (&mut self.seq, &mut self.mark));
        }
        self.mark = self.mark.next();
        self.owe_for_new_key();
        let mut state = absent(lens, &self.as_it_reads(leg), self.mark);
        let charge = charge(&mut state, leg, lens, (&mut self.seq, &mut self.mark));
        self.store.insert(Entry { key: leg.key, state });
        charge
    }

    /// After a denial, the legs that would have been charged tell what stands without.
    fn answer_uncharged(
        &self,
        legs: &[Leg],
        charged: &Charged,
        rules: Rules<'_>,
        decisions: &mut SmallVec<[LegDecision; 2]>,
    ) {
        for ((leg, charged), decision) in legs.iter().zip(charged).zip(decisions) {
            if let (true, Terms::Counted(counted)) = (*charged, rules.shapes.terms(leg.shape)) {
                let state = self.store.find(&leg.key).map(|entry| &entry.state);
                *decision = weigh(&rules.lens(leg, counted), state, &self.as_it_reads(leg), 0);
            }
        }
    }

    /// `now`, but no earlier than the latest time so far, which it then is.
    pub(crate) fn advance(&mut self, now: Now) -> Now {
        let now = self.clamp(now);
        self.last = now.moment;
        if let Some(wall) = now.wall {
            self.last_wall = wall;
        }
        now
    }

    pub(crate) fn clamp(&self, now: Now) -> Now {
        let wall = now.wall.map(|wall| wall.max(self.last_wall));
        Now { moment: now.moment.max(self.last), wall }
    }
}

impl Default for Table {
    fn default() -> Table {
        Table::new()
    }
}

impl<'a> Rules<'a> {
    #[inline]
    pub(crate) fn lens(&self, leg: &'a Leg, counted: &'a Counted) -> Lens<'a> {
        Lens { hold: self.hold, ..Lens::new(self.shapes, leg.shape, counted, &leg.key, self.now) }
    }

    pub(crate) fn domain(&self, shape: ShapeId) -> DomainId {
        self.shapes.get(shape).domain
    }
}

/// Charges a state, with the table's count of charges and its last mark.
#[inline]
pub(crate) fn charge(state: &mut State, leg: &Leg, lens: &Lens<'_>, (seq, last): (&mut u64, &mut Mark)) -> Charge {
    *seq += 1;
    let fresh = last.next();
    let trace = match (lens.counted, lens.hold) {
        (Counted::Slots(_), None) => {
            let unnamed = Hold { id: HoldId::unnamed(*seq), ttl: None };
            state.charge(&Lens { hold: Some(&unnamed), ..*lens }, leg.cost, fresh)
        }
        (_, _) => state.charge(lens, leg.cost, fresh),
    };
    let mark = state.mark();
    if mark == fresh {
        *last = fresh;
    }
    Charge { key: leg.key, trace, cost: leg.cost, seq: *seq, shape: leg.shape, mark }
}

/// What `cost` meets: the entry's state, or, without one, what an absent key reads.
#[inline]
fn weigh(lens: &Lens<'_>, state: Option<&State>, leg: &Leg, cost: u64) -> LegDecision {
    match (state, leg.absent, lens.basis) {
        (Some(state), ..) => lens.read(state.view(lens.basis)).weigh(cost),
        (None, Absent::Fresh, _) | (None, Absent::FullAsOf(_) | Absent::UsedAsOf { .. }, Basis::Lo) => {
            lens.read_fresh().weigh(cost)
        }
        (None, Absent::FullAsOf(_) | Absent::UsedAsOf { .. }, Basis::Hi) => {
            let most = lens.most_used_by(leg.absent);
            most.as_ref().map_or_else(|| lens.read_fresh(), |most| lens.read(most.view())).weigh(cost)
        }
    }
}

/// The state of a key that has no entry. Where it may have been used to the full, a limit that decides on the most takes
/// it as used; one that decides on the least keeps both ends, for a later change of the limit may ask for the other.
pub(crate) fn absent(lens: &Lens<'_>, leg: &Leg, mark: Mark) -> State {
    let (lo, hi) = match (lens.most_used_by(leg.absent), lens.basis) {
        (None, _) => return State::exact(lens.fresh(), leg.shape, mark, lens.counted),
        (Some(most), Basis::Hi) => return State::exact(most, leg.shape, mark, lens.counted),
        (Some(most), Basis::Lo) => (lens.fresh(), most),
    };
    State::between(Ends { lo, hi }, leg.shape, mark, lens)
}

/// What earlier legs of the check spend of the same key. A shadow leg takes nothing away from an enforced one.
fn cost_before(legs: &[Leg], index: usize) -> u64 {
    let leg = &legs[index];
    let earlier = legs[..index].iter().filter(|other| other.key == leg.key && (leg.shadow || !other.shadow));
    earlier.fold(0, |sum, other| sum.saturating_add(other.cost))
}
