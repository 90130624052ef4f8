//! What owners do, in the ledger's eyes: whether a decision is one that the standing charges justify, and what refunds,
//! settlements and cuts leave of an earlier one.

use limits::LegDecision;
use ringfence_ownership::{Act, Asker, Check, CheckId, CheckLeg, Verdict};

use crate::leases::{is_hold, ttl_ms};
use crate::ledger::{Charge, Entry, Fate, Ledger, Reign, Reserve, Violation};
use crate::scene::Scene;
use crate::used::wears_off_ms;

/// How long a caller can have a check refunded that it named itself.
const REFUND_HORIZON_MS: u64 = 60_000;

/// What a settlement is about: which reserve, the units spent, and the legs to book what is above it with.
type Settlement<'a> = (CheckId, u64, Option<&'a [CheckLeg]>);

impl Ledger {
    /// A decision that was made anew: is it justified, and what does it charge?
    pub fn decided(
        &mut self,
        scene: &Scene,
        reign: Reign,
        check: &Check,
        verdict: &Verdict,
        now: u64,
    ) -> Result<Option<usize>, Violation> {
        let wrong = |why: String| format!("{why}: {check:?} got {verdict:?}");
        self.is_justified(scene, reign, check, verdict, now).map_err(wrong)?;
        self.fresh += 1;
        self.denied += u64::from(!verdict.allowed);
        self.recovering += u64::from(verdict.recovering);
        if check.is_peek() {
            return Ok(None);
        }
        let open = self.open_reserve(reign, check.id, now).is_some();
        let entry = self.keep(reign, check, verdict, now);
        let times = times(check.act, verdict.units, open);
        let hold = is_hold(check.act).then_some(check.id);
        let charged = check
            .legs
            .iter()
            .zip(&verdict.legs)
            .filter(|(leg, said)| verdict.allowed && said.allowed && leg.cost * times > 0);
        let charges = self.charges.len();
        for (leg, _) in charged {
            let (key, cost) = (scene.key_of(leg.key), leg.cost * times);
            if !hold.is_some_and(|id| self.holds(reign, key, id, now)) {
                let lease = self.lease(scene, key, hold.map(|id| (id, ttl_ms(check.act))), now);
                self.charges.push(Charge { lease, ..Charge::of(entry, key, cost, now) });
            }
        }
        let spent = self.charges.len() > charges;
        let costs = check.legs.iter().any(|leg| leg.cost * times > 0);
        if let Act::Reserve { ttl, units } = check.act
            && verdict.allowed
            && costs
        {
            let until = now + ttl.as_nanos() / 1_000_000;
            self.entries[entry].reserve = Some(Reserve { units, until, closed: false, settled: false });
        } else if matches!(check.act, Act::Spend | Act::UpTo { .. } | Act::Acquire { .. }) && spent && check.indexed {
            // An id has one charge that can be refunded, the last.
            let same = |other: &&mut Entry| other.id == check.id && other.reign == reign;
            self.entries.iter_mut().filter(same).for_each(|other| other.refundable = false);
            self.entries[entry].refundable = true;
        }
        let expected = self.told_now(scene, reign, check, verdict, now);
        let unsure = check.legs.iter().any(|leg| self.perhaps_holds(reign, scene.key_of(leg.key), check.id));
        if expected.units != verdict.units && !unsure {
            return Err(format!("{} of {check:?} is what lasts, and not {}", expected.units, verdict.units));
        }
        Ok(Some(entry))
    }

    /// A decision as it is to be told now: of a reserve it tells how long it still lasts, in nanoseconds.
    pub fn told_now(&self, scene: &Scene, reign: Reign, check: &Check, verdict: &Verdict, now: u64) -> Verdict {
        let open = self.open_reserve(reign, check.id, now).and_then(|entry| self.entries[entry].reserve);
        let held = check.legs.iter().filter_map(|leg| self.held_until(reign, scene.key_of(leg.key), check.id, now));
        if !is_hold(check.act) {
            return verdict.clone();
        }
        let until =
            if matches!(check.act, Act::Reserve { .. }) { open.map(|reserve| reserve.until) } else { held.min() };
        let units = until.filter(|_| verdict.allowed).map_or(0, |until| (until - now) * 1_000_000);
        Verdict { units, ..verdict.clone() }
    }

    /// A caller takes back what a check charged; whether it is found.
    pub fn refund(&mut self, reign: Reign, of: CheckId, now: u64) -> bool {
        let kept = self.entries.iter().rposition(|entry| {
            entry.id == of && entry.reign == reign && entry.refundable && now - entry.when < REFUND_HORIZON_MS
        });
        let found = match self.known(reign, of, now) {
            Some(entry) => {
                let stood = self.entries[entry].fate == Fate::Stands;
                self.end(entry, Fate::Refunded, now);
                stood
            }
            None => {
                if let Some(entry) = kept {
                    self.end(entry, Fate::Refunded, now);
                }
                self.end_unknown(reign, of, Fate::Refunded, now);
                kept.is_some()
            }
        };
        if let Some(entry) = kept {
            self.entries[entry].refundable = false;
        }
        self.refunded += u64::from(found);
        found
    }

    /// A caller settles a reserve: whether that is done, and the units that are told. What comes back is told as `back`,
    /// which the ledger takes on trust: the tables are held to what stands in the end.
    pub fn settle(
        &mut self,
        scene: &Scene,
        reign: Reign,
        (of, units, debt): Settlement<'_>,
        back: u64,
        now: u64,
    ) -> (bool, u64) {
        let Some(entry) = self.open_reserve(reign, of, now) else { return (false, 0) };
        let Some(Reserve { units: reserved, .. }) = self.entries[entry].reserve else { return (false, 0) };
        if units > reserved && debt.is_none() {
            return (false, reserved);
        }
        self.settled += 1;
        self.close(entry);
        if units <= reserved {
            self.keep_part(entry, units, reserved, now);
            self.end_leases(entry, now);
            return (true, back);
        }
        self.end_leases(entry, now);
        let rated = |leg: &&CheckLeg| !leg.shadow && !scene.limit_of(scene.key_of(leg.key)).counts_slots();
        for leg in debt.unwrap_or_default().iter().filter(rated) {
            self.book(scene, entry, &CheckLeg { cost: leg.cost * (units - reserved), ..*leg }, now);
        }
        (true, 0)
    }

    /// A grant is cut down to what another partition granted, which the owner says it did or did not.
    pub fn trim(
        &mut self,
        reign: Reign,
        (id, asker): (CheckId, Asker),
        units: u64,
        cut: bool,
        now: u64,
    ) -> Result<(), Violation> {
        let known = self.known(reign, id, now).filter(|entry| {
            let (number, entry) = (*entry, &self.entries[*entry]);
            let granted = entry.verdict.as_ref().map_or(0, |verdict| verdict.units);
            let charged = self.charges.iter().any(|charge| charge.entry == number);
            entry.fate == Fate::Stands && !entry.stands_for_others(asker) && !entry.cut && charged && granted > units
        });
        if let Some(entry) = known {
            let Some(verdict) = &mut self.entries[entry].verdict else { return Err("nothing was granted".to_owned()) };
            let granted = std::mem::replace(&mut verdict.units, units);
            self.entries[entry].cut = true;
            self.entries[entry].refundable = false;
            self.keep_part(entry, units, granted, now);
            self.trimmed += 1;
        }
        match known.is_some() == cut {
            true => Ok(()),
            false => Err(format!("{id:?} was cut down to {units} units: {cut}, where {known:?} is right")),
        }
    }

    fn open_reserve(&self, reign: Reign, id: CheckId, now: u64) -> Option<usize> {
        self.entries.iter().rposition(|entry| {
            let open = entry.reserve.is_some_and(|reserve| !reserve.closed && now < reserve.until);
            entry.id == id && entry.reign == reign && open
        })
    }

    fn close(&mut self, entry: usize) {
        if let Some(reserve) = &mut self.entries[entry].reserve {
            (reserve.closed, reserve.settled) = (true, true);
        }
    }

    /// Keeps `part` of `whole` of an entry's charges, begun units counted as whole, and undoes the rest.
    fn keep_part(&mut self, entry: usize, part: u64, whole: u64, now: u64) {
        for place in 0..self.charges.len() {
            let charge = self.charges[place];
            let kept = (charge.cost * part).div_ceil(whole).min(charge.cost);
            if charge.entry == entry && !charge.undone && kept < charge.cost {
                self.charges[place].cost = kept;
                self.charges.push(Charge { cost: charge.cost - kept, undone: true, ended: now, ..charge });
            }
        }
    }

    /// All or nothing, never over, and no denial without need.
    fn is_justified(
        &self,
        scene: &Scene,
        reign: Reign,
        check: &Check,
        verdict: &Verdict,
        now: u64,
    ) -> Result<(), Violation> {
        let legs = || check.legs.iter().zip(&verdict.legs);
        let enforced = legs().filter(|(leg, _)| !leg.shadow).all(|(_, said)| said.allowed);
        if verdict.allowed != enforced || verdict.legs.len() != check.legs.len() {
            return Err("not all or nothing".to_owned());
        }
        if verdict.recovering && reign.taken_over.is_none() {
            return Err("nothing was taken over".to_owned());
        }
        let open = self.open_reserve(reign, check.id, now).is_some();
        let times = times(check.act, verdict.units.max(1), open);
        for (leg, said) in legs() {
            let spends = verdict.allowed && said.allowed && check.act != Act::Peek;
            let held = is_hold(check.act) && self.holds(reign, scene.key_of(leg.key), check.id, now);
            let cost = if held { 0 } else { leg.cost * times };
            self.is_right(scene, reign, &CheckLeg { cost, ..*leg }, said, spends, now)?;
        }
        let Act::UpTo { units } = check.act else { return Ok(()) };
        if verdict.units > units || verdict.allowed != (verdict.units > 0) {
            return Err("more than was wanted".to_owned());
        }
        if verdict.units < units { self.is_the_most(scene, reign, check, verdict.units, now) } else { Ok(()) }
    }

    /// Whether what a limit says fits what stands on the key's account.
    fn is_right(
        &self,
        scene: &Scene,
        reign: Reign,
        leg: &CheckLeg,
        said: &LegDecision,
        spends: bool,
        now: u64,
    ) -> Result<(), Violation> {
        let key = scene.key_of(leg.key);
        let capacity = scene.limit_of(key).capacity();
        let under_floor = is_under_floor(scene, reign, key, now);
        let (least, most) = self.bounds(scene, reign, key, now);
        let beyond = self.is_beyond(reign, key);
        if said.allowed && leg.cost > 0 && !beyond && least + leg.cost > capacity {
            return Err(format!("over: {least} of {capacity} are used"));
        }
        if !said.allowed && !under_floor && most + leg.cost <= capacity {
            return Err(format!("a denial that nothing justifies: {most} of {capacity} are used"));
        }
        let spent = if spends { leg.cost } else { 0 };
        let (least, most) = (capacity.saturating_sub(most + spent), capacity.saturating_sub(least + spent));
        if !beyond && said.remaining > most {
            return Err(format!("{} are said to remain where at most {most} do", said.remaining));
        }
        if !under_floor && said.remaining < least {
            return Err(format!("{} are said to remain where {least} do", said.remaining));
        }
        Ok(())
    }

    /// Whether one unit more than was granted may not have fitted.
    fn is_the_most(&self, scene: &Scene, reign: Reign, check: &Check, units: u64, now: u64) -> Result<(), Violation> {
        let refuses = |leg: &CheckLeg| {
            let key = scene.key_of(leg.key);
            let (_, most) = self.bounds(scene, reign, key, now);
            let full = most + leg.cost * (units + 1) > scene.limit_of(key).capacity();
            leg.cost > 0 && (full || is_under_floor(scene, reign, key, now))
        };
        let refused = check.legs.iter().any(|leg| !leg.shadow && refuses(leg));
        if refused { Ok(()) } else { Err("less than there was".to_owned()) }
    }
}

/// Whether a limit may refuse because a takeover left its use unknown.
pub fn is_under_floor(scene: &Scene, reign: Reign, key: usize, now: u64) -> bool {
    let limit = scene.limit_of(key);
    let unknown = !limit.is_open() || limit.counts_slots();
    reign.taken_over.is_some_and(|since| unknown && now < since + wears_off_ms(limit))
}

/// How often the cost of each leg is spent. Reserving under an id that is open spends nothing.
fn times(act: Act, granted: u64, open: bool) -> u64 {
    match act {
        Act::UpTo { .. } => granted,
        Act::Reserve { .. } if open => 0,
        Act::Spend
        | Act::Peek
        | Act::Acquire { .. }
        | Act::Reserve { .. }
        | Act::Refund { .. }
        | Act::Settle { .. }
        | Act::Renew { .. }
        | Act::Release { .. }
        | Act::Reset => 1,
    }
}
