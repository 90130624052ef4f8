//! Checks about keys that all have entries: nearly all that ever come, so they go straight through, each key looked up
//! once. Whatever else a check brings (a key that is new, a limit that has changed, two legs of one key) is decided leg by
//! leg; the two ways agree where both can.

use smallvec::SmallVec;

use crate::leg::{Decided, Leg};
use crate::lens::Lens;
use crate::store::Place;
use crate::table::{Rules, Table, charge};
use crate::terms::{Counted, Terms};

/// Checks of more legs are decided leg by leg: those are rare, and comparing their keys with each other grows too long.
const LEGS_MAX: usize = 8;

/// A leg that has been weighed.
struct Weighed<'a> {
    counted: &'a Counted,
    place: Place,
    /// Whether it is to be charged if the check is allowed.
    costs: bool,
}

impl Table {
    /// One leg whose key has an entry under the very shape. `None` for any other.
    #[inline]
    pub(crate) fn decide_known(&mut self, leg: &Leg, rules: Rules<'_>, out: &mut Decided) -> Option<bool> {
        let Terms::Counted(counted) = rules.shapes.terms(leg.shape) else { return None };
        let entry = self.store.find_mut(&leg.key)?;
        let lens = rules.lens(leg, counted);
        if entry.state.shape() != leg.shape || lens.untold().is_some() {
            return None;
        }
        entry.state.refresh(&lens);
        let reading = lens.read(entry.state.view(lens.basis));
        let decision = reading.weigh(leg.cost);
        out.legs.push(decision);
        if decision.allowed && leg.cost > 0 && !reading.is_held() {
            let numbers = (&mut self.seq, &mut self.mark);
            out.charges.push(charge(&mut entry.state, leg, &lens, numbers));
        }
        Some(decision.allowed || leg.shadow)
    }

    /// Several legs of different keys that all have entries under the very shapes. `None` for any other, and then `out` is
    /// as it was.
    pub(crate) fn decide_all_known(&mut self, legs: &[Leg], rules: Rules<'_>, out: &mut Decided) -> Option<bool> {
        if legs.len() > LEGS_MAX || share_a_key(legs) {
            return None;
        }
        let (mut weighed, mut allowed) = (SmallVec::<[Weighed<'_>; LEGS_MAX]>::new(), true);
        for leg in legs {
            let Some(one) = self.weigh_known(leg, rules, out) else {
                out.legs.clear();
                return None;
            };
            allowed &= leg.shadow || out.legs.last().is_some_and(|said| said.allowed);
            weighed.push(one);
        }
        for (index, (leg, one)) in legs.iter().zip(&weighed).enumerate().filter(|(_, (_, one))| one.costs) {
            let lens = rules.lens(leg, one.counted);
            let entry = self.store.at_mut(one.place);
            if allowed {
                out.charges.push(charge(&mut entry.state, leg, &lens, (&mut self.seq, &mut self.mark)));
            } else {
                // Nothing is charged, so it tells what stands without.
                out.legs[index] = lens.read(entry.state.view(lens.basis)).weigh(0);
            }
        }
        Some(allowed)
    }

    /// Weighs a leg and says so; `None` if its key is not known under its shape.
    #[inline]
    fn weigh_known<'a>(&mut self, leg: &'a Leg, rules: Rules<'a>, out: &mut Decided) -> Option<Weighed<'a>> {
        let Terms::Counted(counted) = rules.shapes.terms(leg.shape) else { return None };
        let place = self.store.place_of(&leg.key)?;
        let lens: Lens<'_> = rules.lens(leg, counted);
        let state = &mut self.store.at_mut(place).state;
        if state.shape() != leg.shape || lens.untold().is_some() {
            return None;
        }
        state.refresh(&lens);
        let reading = lens.read(state.view(lens.basis));
        let decision = reading.weigh(leg.cost);
        let costs = decision.allowed && leg.cost > 0 && !reading.is_held();
        out.legs.push(decision);
        Some(Weighed { counted, place, costs })
    }
}

/// Whether two legs are of one key.
fn share_a_key(legs: &[Leg]) -> bool {
    (1..legs.len()).any(|index| legs[..index].iter().any(|other| other.key == legs[index].key))
}
