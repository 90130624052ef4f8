//! The ledger: who asked what, what an owner answered, and what therefore stands charged. It is kept from what goes in and
//! out of the partitions alone and by the rules as they are written down, so that it agrees with the owners only if they
//! keep them: one question is decided once, a cancel undoes that decision unless others were told of it, and a debt is
//! booked once in its place.

use limits::{Basis, LegDecision};
use ringfence_ownership::{Answer, Asker, Cancelled, Check, CheckId, CheckLeg, Unknown, Verdict};

use crate::scene::Scene;
use crate::used::{Spent, used, wears_off_ms};

/// How long a question is known after it was decided.
const HORIZON_MS: u64 = 2_000;

/// What does not hold, in words.
pub type Violation = String;

/// One partition under one owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reign {
    pub partition: usize,
    pub epoch: u64,
    /// Since when, if it began with a takeover.
    pub taken_over: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    Stands,
    Cancelled,
    Settled,
}

/// What a partition knows of a question.
#[derive(Debug)]
pub struct Entry {
    pub reign: Reign,
    pub id: CheckId,
    /// Who made it known: whoever's asking was decided. Nobody's, where a cancel or a debt came first.
    pub asker: Option<Asker>,
    /// Whether others were told of the decision.
    pub others: bool,
    pub when: u64,
    pub fate: Fate,
    question: u64,
    verdict: Option<Verdict>,
}

/// What was written to a key's account.
#[derive(Clone, Copy, Debug)]
pub struct Charge {
    pub entry: usize,
    pub key: usize,
    pub cost: u64,
    pub at: u64,
    pub undone: bool,
}

#[derive(Debug, Default)]
pub struct Ledger {
    pub entries: Vec<Entry>,
    pub charges: Vec<Charge>,
    /// Keys whose debts went above what a limit remembers, and in which reign.
    beyond: Vec<(usize, u64)>,
    pub fresh: u64,
    pub denied: u64,
    pub recovering: u64,
    pub replayed: u64,
}

impl Ledger {
    /// Takes note of an answer, and of whose decision it tells.
    pub fn asked(
        &mut self,
        scene: &Scene,
        reign: Reign,
        check: &Check,
        answer: &Answer,
        now: u64,
    ) -> Result<Option<usize>, Violation> {
        let known = if check.is_peek() { None } else { self.known(reign, check.id, now) };
        let other = known.filter(|entry| self.is_other_question(*entry, check));
        match answer {
            Answer::NotOwner { .. } | Answer::Unknown(Unknown::Lease) => Ok(None),
            Answer::IdReused if other.is_some() => Ok(None),
            Answer::Unknown(Unknown::Record) if other.is_none() && known.is_some_and(|entry| self.is_over(entry)) => {
                Ok(None)
            }
            Answer::Decided(verdict) if verdict.replayed => {
                self.replayed(known.filter(|_| other.is_none()), check, verdict)
            }
            Answer::Decided(verdict) if known.is_none() => self.decided(scene, reign, check, verdict, now),
            Answer::IdReused | Answer::Unknown(_) | Answer::Decided(_) => {
                let known = known.map(|entry| &self.entries[entry]);
                Err(format!("to {check:?} an owner that knows {known:?} said {answer:?}"))
            }
        }
    }

    /// A cancel came to a partition, which says that it found this.
    pub fn cancelled(
        &mut self,
        reign: Reign,
        id: CheckId,
        asker: Asker,
        found: Cancelled,
        now: u64,
    ) -> Result<(), Violation> {
        let known = self.known(reign, id, now);
        let expected = match known.map(|entry| (entry, &self.entries[entry])) {
            None => Cancelled::Tombstone,
            Some((_, entry)) if entry.stands_for_others(asker) => Cancelled::Stands,
            Some((_, Entry { fate: Fate::Stands | Fate::Cancelled, .. })) => Cancelled::Undone,
            Some((_, Entry { fate: Fate::Settled, .. })) => Cancelled::Settled,
        };
        match (expected, known) {
            (Cancelled::Tombstone, _) => self.end_unknown(reign, id, Fate::Cancelled, now),
            (Cancelled::Undone, Some(entry)) => self.end(entry, Fate::Cancelled),
            (Cancelled::Undone | Cancelled::Stands | Cancelled::Settled | Cancelled::NotOwner, _) => {}
        }
        match expected == found {
            true => Ok(()),
            false => Err(format!("the cancel of {id:?} by {asker:?} found {found:?} where {expected:?} is right")),
        }
    }

    /// A debt came to a partition, which says whether it booked it.
    pub fn debt(
        &mut self,
        scene: &Scene,
        reign: Reign,
        (id, asker): (CheckId, Asker),
        legs: &[CheckLeg],
        booked: bool,
        now: u64,
    ) -> Result<(), Violation> {
        let expected = match self.known(reign, id, now) {
            None => {
                self.end_unknown(reign, id, Fate::Settled, now);
                true
            }
            Some(entry) if self.entries[entry].stands_for_others(asker) => false,
            Some(entry) => {
                let before = self.entries[entry].fate;
                self.end(entry, Fate::Settled);
                before != Fate::Settled
            }
        };
        let owes = legs.iter().any(|leg| leg.cost > 0);
        if expected {
            let entry = self.known(reign, id, now).expect("it was just ended");
            legs.iter().for_each(|leg| self.book(scene, entry, leg, now));
        }
        match booked == (expected && owes) {
            true => Ok(()),
            false => Err(format!("the debt of {id:?} by {asker:?} was booked: {booked}, where {expected} is right")),
        }
    }

    /// What stands on a key's account in one reign.
    pub fn standing(&self, reign: Reign, key: usize) -> impl Iterator<Item = &Charge> {
        self.on_account(reign, key).filter(|charge| !charge.undone)
    }

    pub fn is_beyond(&self, reign: Reign, key: usize) -> bool {
        self.beyond.contains(&(key, reign.epoch))
    }

    fn on_account(&self, reign: Reign, key: usize) -> impl Iterator<Item = &Charge> {
        self.charges.iter().filter(move |charge| charge.key == key && self.entries[charge.entry].reign == reign)
    }

    /// What is known of a question here and now.
    fn known(&self, reign: Reign, id: CheckId, now: u64) -> Option<usize> {
        let is_it = |entry: &Entry| entry.id == id && entry.reign == reign && now - entry.when < HORIZON_MS;
        self.entries.iter().rposition(is_it)
    }

    fn is_other_question(&self, entry: usize, check: &Check) -> bool {
        let Entry { verdict, question, .. } = &self.entries[entry];
        verdict.is_some() && *question != check.question
    }

    fn is_over(&self, entry: usize) -> bool {
        match self.entries[entry].fate {
            Fate::Stands => false,
            Fate::Cancelled | Fate::Settled => true,
        }
    }

    fn replayed(&mut self, known: Option<usize>, check: &Check, verdict: &Verdict) -> Result<Option<usize>, Violation> {
        let said = |entry: &Entry| match &entry.verdict {
            Some(before) => {
                entry.fate == Fate::Stands && (before.allowed, &before.legs) == (verdict.allowed, &verdict.legs)
            }
            None => false,
        };
        match known.filter(|entry| said(&self.entries[*entry])) {
            Some(entry) => {
                self.entries[entry].others |= self.entries[entry].asker != Some(check.asker);
                self.replayed += 1;
                Ok(Some(entry))
            }
            None => {
                let known = known.map(|entry| &self.entries[entry]);
                Err(format!("{verdict:?} was repeated where {known:?} is what was said"))
            }
        }
    }

    fn decided(
        &mut self,
        scene: &Scene,
        reign: Reign,
        check: &Check,
        verdict: &Verdict,
        now: u64,
    ) -> Result<Option<usize>, Violation> {
        let legs = || check.legs.iter().zip(&verdict.legs);
        let enforced = legs().filter(|(leg, _)| !leg.shadow).all(|(_, said)| said.allowed);
        if verdict.allowed != enforced || verdict.legs.len() != check.legs.len() {
            return Err(format!("not all or nothing: {check:?} got {verdict:?}"));
        }
        for (leg, said) in legs() {
            self.is_right(scene, reign, leg, said, verdict, now)
                .map_err(|why| format!("{why}: {check:?} got {verdict:?}"))?;
        }
        self.fresh += 1;
        self.denied += u64::from(!verdict.allowed);
        self.recovering += u64::from(verdict.recovering);
        if verdict.recovering && reign.taken_over.is_none() {
            return Err(format!("nothing was taken over, and yet {verdict:?}"));
        }
        if check.is_peek() {
            return Ok(None);
        }
        let (id, asker, question) = (check.id, Some(check.asker), check.question);
        let fate = Fate::Stands;
        self.entries.push(Entry {
            reign,
            id,
            asker,
            others: false,
            when: now,
            fate,
            question,
            verdict: Some(verdict.clone()),
        });
        let entry = self.entries.len() - 1;
        for (leg, _) in legs().filter(|(leg, said)| verdict.allowed && said.allowed && leg.cost > 0) {
            let key = scene.key_of(leg.key);
            self.charges.push(Charge { entry, key, cost: leg.cost, at: now, undone: false });
        }
        Ok(Some(entry))
    }

    /// Whether what a limit says fits what stands on the key's account.
    fn is_right(
        &self,
        scene: &Scene,
        reign: Reign,
        leg: &CheckLeg,
        said: &LegDecision,
        verdict: &Verdict,
        now: u64,
    ) -> Result<(), Violation> {
        let key = scene.key_of(leg.key);
        let limit = scene.limit_of(key);
        let capacity = limit.capacity();
        let floor = reign.taken_over.filter(|_| limit.shape.basis == Basis::Hi);
        let under_floor = floor.is_some_and(|since| now < since + wears_off_ms(limit));
        let (least, most) = self.bounds(scene, reign, key, now);
        let beyond = self.is_beyond(reign, key);
        if said.allowed && leg.cost > 0 && !beyond && least + leg.cost > capacity {
            return Err(format!("over: {least} of {capacity} are used"));
        }
        if !said.allowed && !under_floor && most + leg.cost <= capacity {
            return Err(format!("a denial that nothing justifies: {most} of {capacity} are used"));
        }
        let spends = if verdict.allowed && said.allowed { leg.cost } else { 0 };
        let (least, most) = (capacity.saturating_sub(most + spends), capacity.saturating_sub(least + spends));
        if !beyond && said.remaining > most {
            return Err(format!("{} are said to remain where at most {most} do", said.remaining));
        }
        if !under_floor && said.remaining < least {
            return Err(format!("{} are said to remain where {least} do", said.remaining));
        }
        Ok(())
    }

    /// The least and the most that a key's account can be read as.
    pub fn bounds(&self, scene: &Scene, reign: Reign, key: usize, now: u64) -> (u64, u64) {
        let (limit, fingerprint) = (scene.limit_of(key), &scene.keys[key].fingerprint);
        let floor = reign.taken_over.filter(|_| limit.shape.basis == Basis::Hi);
        let spent = |charge: &Charge| Spent { at: charge.at, cost: charge.cost, undone: charge.undone };
        let account: Vec<Spent> = self.on_account(reign, key).map(spent).collect();
        used(limit, fingerprint, floor, &account, now)
    }

    fn end(&mut self, entry: usize, fate: Fate) {
        if self.entries[entry].fate == Fate::Settled {
            return;
        }
        self.entries[entry].fate = fate;
        for charge in self.charges.iter_mut().filter(|charge| charge.entry == entry) {
            charge.undone = true;
        }
    }

    fn end_unknown(&mut self, reign: Reign, id: CheckId, fate: Fate, now: u64) {
        self.entries.push(Entry { reign, id, asker: None, others: false, when: now, fate, question: 0, verdict: None });
    }

    fn book(&mut self, scene: &Scene, entry: usize, leg: &CheckLeg, now: u64) {
        if leg.cost == 0 {
            return;
        }
        let (key, reign) = (scene.key_of(leg.key), self.entries[entry].reign);
        self.charges.push(Charge { entry, key, cost: leg.cost, at: now, undone: false });
        if self.bounds(scene, reign, key, now).1 > 2 * scene.limit_of(key).capacity() {
            self.beyond.push((key, reign.epoch));
        }
    }
}

impl Entry {
    fn stands_for_others(&self, asker: Asker) -> bool {
        self.fate == Fate::Stands && (self.others || self.asker != Some(asker))
    }
}
