//! The ledger: who asked what, what an owner answered, and what therefore stands charged. It is kept from what goes in and
//! out of the partitions alone and by the rules as they are written down, so that it agrees with the owners only if they
//! keep them: one question is decided once, a cancel undoes that decision unless others were told of it, and a debt is
//! booked once in its place.

use limits::Span;
use ringfence_ownership::{Act, Answer, Asker, Cancelled, Check, CheckId, CheckLeg, Unknown, Verdict};

use crate::leases::is_hold;
use crate::scene::Scene;
use crate::used::{Spent, used};

/// How long a question is known after it was decided.
pub const HORIZON_MS: u64 = 2_000;

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
    /// Cancelled by whoever asked for it, who was not let pass.
    Cancelled,
    /// Taken back by a caller that was let pass.
    Refunded,
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
    /// The decision, and the units that it grants now.
    pub verdict: Option<Verdict>,
    /// Whether the id has become another question's, since nothing of this one is held any more.
    pub gave_way: bool,
    /// Whether what was granted has been cut down.
    pub cut: bool,
    /// What it holds open to be settled.
    pub reserve: Option<Reserve>,
    /// Whether its caller took it back, whatever came afterwards.
    pub refunded: bool,
    /// Whether a refund finds it even when the records have forgotten it.
    pub refundable: bool,
    question: u64,
}

#[derive(Clone, Copy, Debug)]
pub struct Reserve {
    pub units: u64,
    pub until: u64,
    /// Whether it was settled or given up.
    pub closed: bool,
    pub settled: bool,
}

/// What was written to a key's account.
#[derive(Clone, Copy, Debug)]
pub struct Charge {
    pub entry: usize,
    pub key: usize,
    pub cost: u64,
    pub at: u64,
    pub undone: bool,
    /// When it was undone, if it was.
    pub ended: u64,
    /// Whether it was booked as a debt.
    pub debt: bool,
    /// Where it holds slots: how.
    pub lease: Option<Lease>,
}

/// How slots are held.
#[derive(Clone, Copy, Debug)]
pub struct Lease {
    /// In whose name, if in anybody's.
    pub hold: Option<CheckId>,
    pub until: u64,
    /// The latest that renewing leads to.
    pub last: u64,
}

/// Slots that a new owner was told of by whoever holds them.
#[derive(Clone, Copy, Debug)]
pub struct Adopted {
    pub id: CheckId,
    pub key: usize,
    pub slots: u64,
    pub from: u64,
    pub until: u64,
}

#[derive(Debug, Default)]
pub struct Ledger {
    pub entries: Vec<Entry>,
    pub charges: Vec<Charge>,
    pub adopted: Vec<Adopted>,
    /// Who may have been taken for the holder of slots that a new owner did not know of: under which name, and where.
    pub perhaps: Vec<(CheckId, usize, Reign)>,
    /// Keys of which a denial said that it is certain, in which reign, and until when, in nanoseconds.
    pub certain: Vec<(usize, Reign, u64)>,
    /// Keys whose debts went above what a limit remembers, and in which reign.
    beyond: Vec<(usize, u64)>,
    pub fresh: u64,
    pub denied: u64,
    pub recovering: u64,
    pub replayed: u64,
    pub refunded: u64,
    pub settled: u64,
    pub renewed: u64,
    pub released: u64,
    pub trimmed: u64,
    pub sure: u64,
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
        let mut known = if check.is_peek() { None } else { self.known(reign, check.id, now) };
        if let Some(entry) = known.filter(|entry| self.holds_no_more(scene, *entry, check, answer, now)) {
            self.entries[entry].others |= self.entries[entry].asker != Some(check.asker);
            match answer {
                Answer::Unknown(Unknown::Record) if check.attempt > 1 => return Ok(None),
                Answer::Decided(verdict) if check.attempt == 1 && !verdict.replayed => {
                    self.entries[entry].gave_way = true;
                    known = None;
                }
                Answer::NotOwner { .. }
                | Answer::Unknown(_)
                | Answer::IdReused
                | Answer::StaleRevision { .. }
                | Answer::Decided(_) => {
                    return Err(format!("{answer:?} to {check:?}, of which nothing is held any more"));
                }
            }
        }
        let other = known.filter(|entry| self.is_other_question(*entry, check));
        let over = other.is_none() && known.is_some_and(|entry| self.is_over(entry));
        match answer {
            Answer::NotOwner { .. } | Answer::Unknown(Unknown::Lease) => Ok(None),
            Answer::IdReused if other.is_some() => Ok(None),
            Answer::Unknown(Unknown::Record) if over => Ok(None),
            Answer::Decided(verdict) if verdict.replayed => {
                self.replayed(scene, known.filter(|_| other.is_none()), check, verdict, now)
            }
            Answer::Decided(verdict) if known.is_none() => self.carried_out(scene, reign, check, verdict, now),
            Answer::IdReused | Answer::StaleRevision { .. } | Answer::Unknown(_) | Answer::Decided(_) => {
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
        let expected = match known.map(|entry| &self.entries[entry]) {
            None => Cancelled::Tombstone,
            Some(entry) if entry.stands_for_others(asker) => Cancelled::Stands,
            Some(Entry { fate: Fate::Stands | Fate::Cancelled | Fate::Refunded, .. }) => Cancelled::Undone,
            Some(Entry { fate: Fate::Settled, .. }) => Cancelled::Settled,
        };
        match (expected, known) {
            (Cancelled::Tombstone, _) => drop(self.end_unknown(reign, id, Fate::Cancelled, now)),
            (Cancelled::Undone, Some(entry)) => self.end(entry, Fate::Cancelled, now),
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
        let books = match self.known(reign, id, now) {
            None => Some(self.end_unknown(reign, id, Fate::Settled, now)),
            Some(entry) if self.entries[entry].stands_for_others(asker) => None,
            Some(entry) => {
                let before = self.entries[entry].fate;
                self.end(entry, Fate::Settled, now);
                (before != Fate::Settled).then_some(entry)
            }
        };
        let owes = legs.iter().any(|leg| leg.cost > 0);
        if let Some(entry) = books {
            legs.iter().for_each(|leg| self.book(scene, entry, leg, now));
        }
        match booked == (books.is_some() && owes) {
            true => Ok(()),
            false => Err(format!("the debt of {id:?} by {asker:?} was booked: {booked}, where {books:?} is right")),
        }
    }

    /// What stands on a key's account in one reign.
    pub fn standing(&self, reign: Reign, key: usize) -> impl Iterator<Item = &Charge> {
        self.on_account(reign, key).filter(|charge| !charge.undone)
    }

    /// Whether more was booked than a limit remembers, which is twice its capacity.
    pub fn is_beyond(&self, reign: Reign, key: usize) -> bool {
        self.beyond.contains(&(key, reign.epoch))
    }

    /// The least and the most that a key's account can be read as.
    pub fn bounds(&self, scene: &Scene, reign: Reign, key: usize, now: u64) -> (u64, u64) {
        let (limit, fingerprint) = (scene.limit_of(key), &scene.keys[key].fingerprint);
        let floor = reign.taken_over.filter(|_| !limit.is_open());
        let spent = |charge: &Charge| {
            let undone = charge.undone || charge.lease.is_some_and(|lease| lease.until <= now);
            Spent { at: charge.at, cost: charge.cost, undone }
        };
        let mut account: Vec<Spent> = self.on_account(reign, key).map(spent).collect();
        account.sort_by_key(|spent| spent.at);
        used(limit, fingerprint, floor, &account, now)
    }

    fn on_account(&self, reign: Reign, key: usize) -> impl Iterator<Item = &Charge> {
        self.charges.iter().filter(move |charge| charge.key == key && self.entries[charge.entry].reign == reign)
    }

    /// What is known of a question here and now.
    pub fn known(&self, reign: Reign, id: CheckId, now: u64) -> Option<usize> {
        let is_it =
            |entry: &Entry| entry.id == id && entry.reign == reign && !entry.gave_way && now - entry.when < HORIZON_MS;
        self.entries.iter().rposition(is_it)
    }

    fn is_other_question(&self, entry: usize, check: &Check) -> bool {
        let Entry { verdict, question, .. } = &self.entries[entry];
        verdict.is_some() && *question != check.question
    }

    /// Whether a decision gave something to hold of which nothing is held now: telling it again would be a lie. What only the
    /// owner can know of counts as held where the owner says so.
    fn holds_no_more(&self, scene: &Scene, entry: usize, check: &Check, answer: &Answer, now: u64) -> bool {
        let Entry { reign, fate: Fate::Stands, verdict: Some(verdict), .. } = &self.entries[entry] else {
            return false;
        };
        let held_once = verdict.allowed && verdict.units > 0 && is_hold(check.act);
        let perhaps = check.legs.iter().any(|leg| self.perhaps_holds(*reign, scene.key_of(leg.key), check.id));
        let told_again = matches!(answer, Answer::Decided(verdict) if verdict.replayed);
        let barred = matches!(answer, Answer::NotOwner { .. } | Answer::Unknown(Unknown::Lease));
        held_once
            && !self.is_other_question(entry, check)
            && self.told_now(scene, *reign, check, verdict, now).units == 0
            && !(perhaps && told_again)
            && !barred
    }

    fn is_over(&self, entry: usize) -> bool {
        match self.entries[entry].fate {
            Fate::Stands => false,
            Fate::Cancelled | Fate::Refunded | Fate::Settled => true,
        }
    }

    fn replayed(
        &mut self,
        scene: &Scene,
        known: Option<usize>,
        check: &Check,
        verdict: &Verdict,
        now: u64,
    ) -> Result<Option<usize>, Violation> {
        let said = |entry: &Entry| {
            let told = |before: &Verdict| self.told_now(scene, entry.reign, check, before, now);
            let again = |before| Verdict { replayed: true, cacheable: Span::ZERO, ..told(before) };
            let told = entry.verdict.as_ref().map(again);
            let unsure = check.legs.iter().any(|leg| self.perhaps_holds(entry.reign, scene.key_of(leg.key), check.id));
            let told = told.map(|told| Verdict { units: if unsure { verdict.units } else { told.units }, ..told });
            entry.fate == Fate::Stands && told.as_ref() == Some(verdict)
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

    /// Remembers a decision; what it charges is for others to write down.
    pub fn keep(&mut self, reign: Reign, check: &Check, verdict: &Verdict, now: u64) -> usize {
        let fresh = Entry::of(reign, check.id, Fate::Stands, now);
        let (asker, question, verdict) = (Some(check.asker), check.question, Some(verdict.clone()));
        self.entries.push(Entry { asker, question, verdict, ..fresh });
        self.entries.len() - 1
    }

    /// Ends a question, and undoes what it charged as far as that can be.
    pub fn end(&mut self, entry: usize, fate: Fate, now: u64) {
        let before = &mut self.entries[entry];
        match before.fate {
            Fate::Settled => return,
            Fate::Cancelled | Fate::Refunded => {
                before.fate = if fate == Fate::Settled { fate } else { before.fate };
                return;
            }
            Fate::Stands => before.fate = fate,
        }
        before.refunded = fate == Fate::Refunded;
        self.take_back(entry, now);
    }

    /// Undoes a question's charges. What is reserved comes back while the reserve is open; what was cut stays as it is.
    pub fn take_back(&mut self, entry: usize, now: u64) {
        let taken = &mut self.entries[entry];
        taken.refundable = false;
        let whole = match &mut taken.reserve {
            Some(reserve) => !std::mem::replace(&mut reserve.closed, true) && now < reserve.until,
            None => !taken.cut,
        };
        for charge in self.charges.iter_mut().filter(|charge| whole && charge.entry == entry && !charge.undone) {
            (charge.undone, charge.ended) = (true, now);
        }
    }

    /// Leaves a tombstone.
    pub fn end_unknown(&mut self, reign: Reign, id: CheckId, fate: Fate, now: u64) -> usize {
        self.entries.push(Entry::of(reign, id, fate, now));
        self.entries.len() - 1
    }

    /// Books a debt.
    pub fn book(&mut self, scene: &Scene, entry: usize, leg: &CheckLeg, now: u64) {
        if leg.cost == 0 {
            return;
        }
        let (key, reign) = (scene.key_of(leg.key), self.entries[entry].reign);
        let lease = self.lease(scene, key, Some((self.entries[entry].id, None)), now);
        self.charges.push(Charge { debt: true, lease, ..Charge::of(entry, key, leg.cost, now) });
        if self.bounds(scene, reign, key, now).1 > 2 * scene.limit_of(key).capacity() {
            self.beyond.push((key, reign.epoch));
        }
    }

    /// What is to be carried out, carried out.
    fn carried_out(
        &mut self,
        scene: &Scene,
        reign: Reign,
        check: &Check,
        verdict: &Verdict,
        now: u64,
    ) -> Result<Option<usize>, Violation> {
        self.is_as_certain_as_said(scene, reign, check, verdict, now)?;
        let right = match check.act {
            Act::Refund { of } => verdict.allowed == self.refund(reign, of, now),
            Act::Settle { of, units, debt } => {
                let debt = debt.then_some(&check.legs[..]);
                (verdict.allowed, verdict.units) == self.settle(scene, reign, (of, units, debt), verdict.units, now)
            }
            Act::Renew { of, ttl } => self.renew(scene, reign, check, (of, ttl), verdict, now),
            Act::Release { of } => self.release(scene, reign, check, of, verdict, now),
            Act::Spend | Act::Peek | Act::UpTo { .. } | Act::Acquire { .. } | Act::Reserve { .. } | Act::Reset => {
                return self.decided(scene, reign, check, verdict, now);
            }
        };
        match right {
            true => Ok(Some(self.keep(reign, check, verdict, now))),
            false => Err(format!("{check:?} came to {verdict:?}")),
        }
    }
}

impl Charge {
    pub fn of(entry: usize, key: usize, cost: u64, at: u64) -> Charge {
        Charge { entry, key, cost, at, undone: false, ended: u64::MAX, debt: false, lease: None }
    }
}

impl Entry {
    fn of(reign: Reign, id: CheckId, fate: Fate, when: u64) -> Entry {
        Entry {
            reign,
            id,
            asker: None,
            others: false,
            when,
            fate,
            verdict: None,
            gave_way: false,
            cut: false,
            reserve: None,
            refunded: false,
            refundable: false,
            question: 0,
        }
    }

    pub fn stands_for_others(&self, asker: Asker) -> bool {
        self.fate == Fate::Stands && (self.others || self.asker != Some(asker))
    }
}
