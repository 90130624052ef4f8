//! What a denial promised: for as long as it was said to be certain, nobody is let pass by its key's owner, whatever is taken
//! back, settled or booked meanwhile.

use limits::Span;
use ringfence_ownership::{Act, Check, Verdict};

use crate::ledger::{Ledger, Reign, Violation};
use crate::scene::Scene;

impl Ledger {
    /// A denial that was said to be certain is one for whoever asks for its keys, until then.
    pub fn is_as_certain_as_said(
        &mut self,
        scene: &Scene,
        reign: Reign,
        check: &Check,
        verdict: &Verdict,
        now: u64,
    ) -> Result<(), Violation> {
        let now = now * 1_000_000;
        self.sure += u64::from(verdict.cacheable > Span::ZERO);
        let spends = verdict.allowed && matches!(check.act, Act::Spend | Act::UpTo { .. });
        for (leg, said) in check.legs.iter().zip(&verdict.legs).filter(|(leg, _)| !leg.shadow && leg.cost > 0) {
            let key = scene.key_of(leg.key);
            let certain = |known: &(usize, Reign, u64)| known.0 == key && known.1 == reign && now < known.2;
            if spends && said.allowed && self.certain.iter().any(certain) {
                return Err(format!("{check:?} was allowed, where a denial had been certain"));
            }
            if !said.allowed && verdict.cacheable > Span::ZERO {
                self.certain.push((key, reign, now + verdict.cacheable.as_nanos()));
            }
        }
        Ok(())
    }
}
