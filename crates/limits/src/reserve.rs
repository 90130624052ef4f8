//! Reserve now, settle later: a caller that does not know yet what something will cost charges the most it may, does it,
//! and says what it was. The rest of the charge is undone, by the rules of any undoing (law 8). A reserve that is not
//! settled in time stays charged as it is: whoever crashed may have spent it all.
//!
//! An open reserve is remembered beside the keys it charged and takes the room of a key for each leg, so that reserves are
//! bounded like keys and one domain's never crowd out another's.

use std::collections::{BTreeMap, BTreeSet};

use smallvec::SmallVec;

use crate::budget::Budgets;
use crate::charge::{Charge, Trace};
use crate::hold::{Hold, HoldId};
use crate::key::Fingerprint;
use crate::leg::{Decided, Leg, Undecided, WhyUndecided};
use crate::rate::DomainId;
use crate::shapes::Shapes;
use crate::table::{Rules, Table};
use crate::terms::Terms;
use crate::time::{Moment, Now, Span};

/// The longest that a reserve stays open: a day. A longer time is cut to it.
pub const RESERVE_TTL_MAX: Span = Span::from_secs(86_400);

/// Reserves whose time is over that one call forgets, at most.
const FORGOTTEN_PER_CALL: usize = 16;

/// What a caller reserves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reserve {
    /// The name under which it is settled.
    pub id: HoldId,
    /// How long it may be settled, at most [`RESERVE_TTL_MAX`].
    pub ttl: Span,
    /// The units it is for, in the caller's own measure: the check's cost, of which each leg's is a multiple.
    pub units: u64,
}

/// What a settlement found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Settled {
    /// The reserve, which is closed now; what it did not need came back as far as it still stood, and the leases that it
    /// held are released.
    Closed {
        /// Units that came back under the limit where the most did.
        back: u64,
    },
    /// The reserve, which is for so many units and therefore fewer. It is still open.
    Above(u64),
    /// No open reserve: it was settled, its time is over, or it never was. What was charged stays so.
    NotOpen,
}

/// The open reserves of a table.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reserves {
    open: BTreeMap<HoldId, Open>,
    ends: BTreeSet<(Moment, HoldId)>,
    /// How many charges of open reserves each key has.
    keys: BTreeMap<Fingerprint, usize>,
}

/// The domains in which room was taken, once for each leg.
type Rooms = SmallVec<[DomainId; 2]>;

#[derive(Clone, Debug)]
struct Open {
    units: u64,
    end: Moment,
    charges: SmallVec<[Charge; 2]>,
    rooms: Rooms,
}

impl Table {
    /// Decides one check, as [`Table::decide`] does, and if it is allowed remembers its charges until they are settled.
    /// Its concurrency limits are acquired for the same time, as far as they let anybody hold. Reserving under an id that
    /// is open charges nothing and tells what stands.
    ///
    /// # Errors
    ///
    /// [`Undecided`], as in [`Table::decide`]; [`WhyUndecided::TableFull`] also where the reserve itself finds no room;
    /// [`WhyUndecided::IdTaken`] if what is open under the id is for other units, or does not charge these keys as much.
    pub fn reserve(
        &mut self,
        legs: &[Leg],
        reserve: &Reserve,
        shapes: &Shapes,
        budgets: &Budgets,
        now: Now,
        out: &mut Decided,
    ) -> Result<bool, Undecided> {
        let hold = Hold { id: reserve.id, ttl: Some(reserve.ttl.min(RESERVE_TTL_MAX)) };
        let rules = Rules { shapes, budgets, now: self.advance(now), hold: Some(&hold) };
        self.forget_reserves(rules, FORGOTTEN_PER_CALL);
        out.clear();
        self.check_leases(legs, rules)?;
        if let Some(open) = self.reserves.as_ref().and_then(|reserves| reserves.find(hold.id, rules.now.moment)) {
            open.check(legs, reserve, rules)?;
            let looks: SmallVec<[Leg; 2]> = legs.iter().map(|leg| Leg { cost: 0, ..*leg }).collect();
            return self.decide_by(&looks, rules, out);
        }
        self.close(hold.id, budgets);
        let rooms = self.take_rooms(legs, rules)?;
        let decided = self.decide_by(legs, rules, out);
        if decided == Ok(true) && !rooms.is_empty() {
            let end = rules.now.moment.saturating_add(reserve.ttl.min(RESERVE_TTL_MAX));
            let open = Open { units: reserve.units, end, charges: out.charges.clone(), rooms };
            self.reserves.get_or_insert_default().put(reserve.id, open);
        } else {
            rooms.iter().for_each(|domain| budgets.give(*domain));
        }
        decided
    }

    /// Settles a reserve at the units that were spent in the end, no more than were reserved. What is spent above a
    /// reserve can be booked as a debt ([`Table::force`]).
    pub fn settle(&mut self, id: HoldId, units: u64, shapes: &Shapes, budgets: &Budgets, now: Now) -> Settled {
        let rules = Rules { shapes, budgets, now: self.advance(now), hold: None };
        self.forget_reserves(rules, FORGOTTEN_PER_CALL);
        let Some(reserves) = &self.reserves else { return Settled::NotOpen };
        match reserves.find(id, rules.now.moment) {
            None => return Settled::NotOpen,
            Some(open) if units > open.units => return Settled::Above(open.units),
            Some(_) => {}
        }
        let open = self.close(id, budgets).expect("it was found");
        let undone = open.charges.iter().map(|charge| {
            self.undo(&Charge { cost: unspent(charge, units, open.units), ..*charge }, shapes, rules.now)
        });
        Settled::Closed { back: undone.max().unwrap_or(0) }
    }

    /// How long a reserve may still be settled; `None` when there is no open one of that id.
    pub fn reserved_for(&self, id: HoldId, now: Now) -> Option<Span> {
        let now = self.clamp(now).moment;
        Some(self.reserves.as_ref()?.find(id, now)?.end.since(now))
    }

    /// Whether the key has charges that may still be settled: a denial of it may turn out too strict.
    pub fn is_reserved(&self, key: &Fingerprint) -> bool {
        self.reserves.as_ref().is_some_and(|reserves| reserves.keys.contains_key(key))
    }

    /// Reserves that are open, or over and not forgotten yet.
    pub fn open_reserves(&self) -> usize {
        self.reserves.as_ref().map_or(0, |reserves| reserves.open.len())
    }

    /// Forgets reserves whose time is over, at most `most` of them, and gives their room back.
    pub(crate) fn forget_reserves(&mut self, rules: Rules<'_>, most: usize) {
        for _ in 0..most {
            let first = self.reserves.as_ref().and_then(|reserves| reserves.ends.first());
            let Some(&(_, over)) = first.filter(|(end, _)| *end <= rules.now.moment) else { return };
            self.close(over, rules.budgets);
        }
    }

    /// Forgets a reserve, open or over, and gives its room back.
    fn close(&mut self, id: HoldId, budgets: &Budgets) -> Option<Open> {
        let reserves = self.reserves.as_mut()?;
        let closed = reserves.take(id)?;
        closed.rooms.iter().for_each(|domain| budgets.give(*domain));
        if reserves.open.is_empty() {
            self.reserves = None;
        }
        Some(closed)
    }

    /// Gives the room of all reserves back.
    pub(crate) fn clear_reserves(&mut self, budgets: &Budgets) {
        let reserves = self.reserves.take().unwrap_or_default();
        reserves.open.values().flat_map(|open| &open.rooms).for_each(|domain| budgets.give(*domain));
    }

    /// Takes the room of a key for every leg that costs something, or for none. A shadow leg refuses nobody for want of
    /// it: it is remembered on the others' account.
    fn take_rooms(&mut self, legs: &[Leg], rules: Rules<'_>) -> Result<Rooms, Undecided> {
        let mut rooms = Rooms::new();
        for (index, leg) in legs.iter().enumerate().filter(|(_, leg)| leg.cost > 0) {
            if self.take_room(legs, leg, rules) {
                rooms.push(rules.domain(leg.shape));
            } else if !leg.shadow {
                rooms.iter().for_each(|domain| rules.budgets.give(*domain));
                return Err(Undecided { leg: index, why: WhyUndecided::TableFull });
            }
        }
        Ok(rooms)
    }
}

impl Open {
    /// That what is open is what is asked for again: reserving once is not reserving more later.
    fn check(&self, legs: &[Leg], reserve: &Reserve, rules: Rules<'_>) -> Result<(), Undecided> {
        let charged = |leg: &Leg| self.charges.iter().any(|charge| charge.key == leg.key && charge.cost >= leg.cost);
        let counts = |leg: &Leg| matches!(rules.shapes.terms(leg.shape), Terms::Counted(_));
        let other =
            |leg: &Leg| self.units != reserve.units || (!leg.shadow && leg.cost > 0 && counts(leg) && !charged(leg));
        match legs.iter().position(other) {
            Some(leg) => Err(Undecided { leg, why: WhyUndecided::IdTaken }),
            None => Ok(()),
        }
    }
}

impl Reserves {
    fn find(&self, id: HoldId, now: Moment) -> Option<&Open> {
        self.open.get(&id).filter(|open| open.end > now)
    }

    /// Remembers a reserve, whose id has none.
    fn put(&mut self, id: HoldId, open: Open) {
        self.ends.insert((open.end, id));
        open.charges.iter().for_each(|charge| *self.keys.entry(charge.key).or_default() += 1);
        let before = self.open.insert(id, open);
        debug_assert!(before.is_none(), "an id has one reserve");
    }

    fn take(&mut self, id: HoldId) -> Option<Open> {
        let open = self.open.remove(&id)?;
        self.ends.remove(&(open.end, id));
        for charge in &open.charges {
            match self.keys.get_mut(&charge.key) {
                Some(count) if *count > 1 => *count -= 1,
                Some(_) | None => drop(self.keys.remove(&charge.key)),
            }
        }
        Some(open)
    }
}

/// What of a charge was not needed, when `spent` of `units` were; of a lease all, since what it was for is over.
fn unspent(charge: &Charge, spent: u64, units: u64) -> u64 {
    if matches!(charge.trace, Trace::Lease(_)) {
        return charge.cost;
    }
    let needed = (u128::from(charge.cost) * u128::from(spent)).div_ceil(u128::from(units.max(1)));
    charge.cost - (needed as u64).min(charge.cost)
}
