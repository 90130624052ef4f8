//! Partial grants: as much of what is asked as there is. The check asks for some units of something, each leg says what
//! one of them costs, and granted are as many as the tightest limit has room for.

use smallvec::SmallVec;

use crate::budget::Budgets;
use crate::leg::{Decided, Leg, Undecided};
use crate::shapes::Shapes;
use crate::table::{Rules, Table};
use crate::terms::Terms;
use crate::time::Now;

impl Table {
    /// Spends as many units as every enforced leg admits, up to `most`, and answers how many that were. Each leg's cost is
    /// that of one unit. Where not even one fits nothing is spent, and `out` tells what one unit met, with its wait.
    ///
    /// # Errors
    ///
    /// [`Undecided`], as in [`Table::decide`].
    pub fn decide_up_to(
        &mut self,
        legs: &[Leg],
        most: u64,
        shapes: &Shapes,
        budgets: &Budgets,
        now: Now,
        out: &mut Decided,
    ) -> Result<u64, Undecided> {
        let rules = Rules { shapes, budgets, now: self.advance(now), hold: None };
        let granted = self.units_that_fit(legs, most, rules)?;
        let asked = if most == 0 { 0 } else { granted.max(1) };
        let scaled = |leg: &Leg| Leg { cost: leg.cost.saturating_mul(asked), ..*leg };
        let scaled: SmallVec<[Leg; 2]> = legs.iter().map(scaled).collect();
        let allowed = self.decide_by(&scaled, rules, out)?;
        debug_assert_eq!(allowed, asked == granted, "what is left fits, and one more does not");
        Ok(if allowed { granted } else { 0 })
    }

    /// The most units, up to `most`, that all enforced legs have room for.
    fn units_that_fit(&mut self, legs: &[Leg], most: u64, rules: Rules<'_>) -> Result<u64, Undecided> {
        let mut fit = most;
        for (index, leg) in legs.iter().enumerate() {
            let same_key = legs.iter().filter(|other| other.key == leg.key && !other.shadow);
            let each = same_key.fold(0u64, |sum, other| sum.saturating_add(other.cost));
            if leg.shadow {
                continue;
            }
            if each == 0 {
                // A limit of zero refuses what costs nothing too.
                fit = if matches!(rules.shapes.terms(leg.shape), Terms::Zero) { 0 } else { fit };
                continue;
            }
            let untold = |why| Undecided { leg: index, why };
            let (stands, _) = self.weigh_leg(&Leg { cost: 0, ..*leg }, 0, rules).map_err(untold)?;
            fit = fit.min(stands.remaining / each);
        }
        Ok(fit)
    }
}
