//! What an owner remembers of the questions it answered, so that a question asked twice is charged once, and a charge
//! that nobody waits for any more can be taken back. The idea is RIFL's: the record of a completion lives beside the
//! state that it changed (Lee et al., "Implementing Linearizability at Large Scale and Low Latency", SOSP 2015).
//!
//! Two journals per partition, each an append-only ring: one of records that charged, one of records that charged
//! nothing, so that a flood of denials never pushes out what must not be forgotten. Ids are looked up through an index
//! that lags: it is brought up to date when somebody asks, so that ordinary first attempts pay for an append and for
//! nothing else. Records die with the owner: what a crashed owner charged, its successor may charge again.

use hashbrown::HashTable;
use limits::{Charge, LegDecision, Moment, Span};

use crate::bug::Bug;
use crate::check::{Act, Asker, Check, CheckId, Verdict};
use crate::strip::{SHRINK_ABOVE, Strip};

/// How long a decision is remembered: 2 s from the moment it was made, exclusively. A question that is asked again later
/// is a new question.
pub const RECORD_HORIZON: Span = Span::from_secs(2);

/// The most records of charges that one partition keeps: 64 Ki, or 32,768 charged checks a second over the horizon.
/// Beyond it the oldest are forgotten early, and until the horizon has passed a question that may have been among them
/// is answered [`crate::Unknown::Record`].
pub const CHARGED_RECORDS_MAX: usize = 65_536;

/// The most records that charged nothing (denials, and cancels that overtook their check) that one partition keeps:
/// 16 Ki. Beyond it the oldest are forgotten early: a denied question that is asked again is then decided anew, and a
/// check that arrives after its forgotten cancel is charged though nobody waits for it; neither can admit too much.
pub const FREE_RECORDS_MAX: usize = 16_384;

/// Records that one append, or one step of a sweep, forgets at most once their time is over.
const FORGET_AT_ONCE: usize = 2;

/// What became of a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It was decided, and the decision stands.
    Stands,
    /// Its caller gave it up: what it charged was taken back, and it may not be charged again.
    Cancelled,
    /// Its caller was admitted without an answer, and what it owes was booked: it may not be charged again.
    Settled,
}

/// What is known of a question before it is decided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Recall {
    /// Nothing: decide it.
    Unasked,
    /// It was decided: this is the recorded answer.
    Decided(Verdict),
    /// It was denied by another revision of the policy: what is asked now may be another limit's to say, and nothing was
    /// charged. Decided anew, an earlier revision turns out to be stale.
    Otherwise,
    /// It was given up or settled by its caller: it must not be charged, and nobody waits for the answer.
    Over,
    /// It may have been charged, and the record is gone.
    Lost,
    /// The id names another question.
    OtherQuestion,
}

/// What is left to do about a question that its caller ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// It was decided: take back the charges of this record, if there are any.
    Decided(Slot),
    /// It was cancelled before; what it charged has been taken back.
    Cancelled,
    /// It was settled before: nothing is left to do.
    Settled,
    /// It is not known. It now leaves a tombstone, so that it is not charged should it still arrive.
    Unknown {
        /// Whether it may have been charged under a record that was forgotten early.
        perhaps_lost: bool,
    },
}

/// Where a record lies: its journal and its position there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Slot {
    kind: Kind,
    position: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Charged,
    Free,
}

/// In which way a record's charges can be taken back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// All of them.
    Whole,
    /// All, or, once, so many units' worth of each.
    UpTo,
    /// They are a reserve's to give back.
    Reserve,
}

impl Way {
    const fn of(act: &Act) -> Way {
        match act {
            Act::UpTo { .. } => Way::UpTo,
            Act::Reserve { .. } => Way::Reserve,
            Act::Spend
            | Act::Peek
            | Act::Acquire { .. }
            | Act::Refund { .. }
            | Act::Settle { .. }
            | Act::Renew { .. }
            | Act::Release { .. }
            | Act::Reset => Way::Whole,
        }
    }
}

/// The fixed part of a record.
#[derive(Clone, Copy, Debug)]
struct Head {
    id: Words,
    question: u64,
    /// Whose question was decided.
    asker: Asker,
    when: Moment,
    first_leg: u32,
    first_charge: u32,
    /// 0 in a tombstone, whose question is not known.
    legs: u8,
    charges: u8,
    allowed: bool,
    recovering: bool,
    /// Whether somebody else asked the same and was told the same.
    shared: bool,
    way: Way,
    /// Whether a part of what it charged has been taken back.
    cut: bool,
    /// Whether another record of its id took its place.
    gone: bool,
    fate: Fate,
    /// As in the verdict.
    units: u64,
    /// By which the question was matched, as far as it fits.
    revision: u32,
}

/// The revision that a check was matched by. Past four thousand million they count as one.
fn revision_of(check: &Check) -> u32 {
    u32::try_from(check.revision).unwrap_or(u32::MAX)
}

/// A [`CheckId`] in two words: 72 bytes a head, where the alignment of a `u128` would make it 80.
type Words = [u64; 2];

const _: () = assert!(size_of::<Head>() == 72, "a partition keeps up to 80 Ki of them");

/// Records in the order they were made. Legs and charges of all of them share a strip each, so that keeping a record
/// allocates nothing once the strips have grown.
#[derive(Clone, Debug)]
struct Journal {
    heads: Strip<Head>,
    legs: Strip<LegDecision>,
    charges: Strip<Charge>,
    /// Position of the first head that the index does not know yet.
    indexed_to: u32,
}

/// The records of one partition under one owner.
#[derive(Clone, Debug)]
pub(crate) struct Records {
    charged: Journal,
    free: Journal,
    index: HashTable<Slot>,
    /// Keys the index's hash, so that nobody who chooses ids can make them collide.
    seed: Words,
    /// Until then first attempts are looked up too: a tombstone waits for its check, or a question was decided at a
    /// later attempt and the first may still be under way.
    watch_until: Moment,
    /// Until then a question that is not found may have been charged.
    lost_until: Moment,
}

impl Records {
    /// No records. `seed` should be hard to guess for whoever chooses ids.
    pub(crate) fn new(seed: u64) -> Records {
        Records {
            charged: Journal::new(),
            free: Journal::new(),
            index: HashTable::new(),
            seed: [seed ^ 0x9E37_79B9_7F4A_7C15, seed.rotate_left(32) ^ 0xD1B5_4A32_D192_ED03],
            watch_until: Moment::ZERO,
            lost_until: Moment::ZERO,
        }
    }

    /// What is known of a question, which whoever asks is told now. May bring the index up to date.
    pub(crate) fn recall(&mut self, check: &Check, now: Moment) -> Recall {
        let asked_before = check.indexed || check.attempt > 1;
        if !asked_before && now >= self.watch_until {
            return Recall::Unasked;
        }
        match self.find(check.id, now) {
            Some(slot) => {
                let recall = self.judge(slot, check);
                let head = self.journal_mut(slot.kind).head_mut(slot.position);
                head.shared |= matches!(recall, Recall::Decided(_)) && head.asker != check.asker;
                recall
            }
            None if asked_before && now < self.lost_until => Recall::Lost,
            None => Recall::Unasked,
        }
    }

    /// Remembers a decision and what it charged.
    pub(crate) fn keep(&mut self, check: &Check, verdict: &Verdict, charges: &[Charge], now: Moment) {
        if check.attempt > 1 {
            self.watch_until = now.saturating_add(RECORD_HORIZON);
        }
        let head = Head {
            id: words(check.id),
            question: check.question,
            asker: check.asker,
            when: now,
            first_leg: 0,
            first_charge: 0,
            legs: verdict.legs.len() as u8,
            charges: charges.len() as u8,
            allowed: verdict.allowed,
            recovering: verdict.recovering,
            shared: false,
            way: Way::of(&check.act),
            cut: false,
            gone: false,
            fate: Fate::Stands,
            units: verdict.units,
            revision: revision_of(check),
        };
        let kind = if charges.is_empty() { Kind::Free } else { Kind::Charged };
        self.make_room(kind, now);
        self.journal_mut(kind).append(head, &verdict.legs, charges);
    }

    /// Whether a decision stands of which others than this asker may have been told: it was made for another, or another
    /// asked the same since. Any of them may have let its caller pass, so this asker's word does not take it back.
    pub(crate) fn stands_for_others(&mut self, id: CheckId, asker: Asker, now: Moment) -> bool {
        self.find(id, now).is_some_and(|slot| {
            let head = self.journal(slot.kind).head(slot.position);
            head.fate == Fate::Stands && (head.shared || head.asker != asker)
        })
    }

    /// Ends a question: no attempt at it may be charged from now on. `fate` is [`Fate::Cancelled`] or
    /// [`Fate::Settled`]; doing it twice changes nothing, and a settled question stays settled.
    pub(crate) fn end(&mut self, id: CheckId, fate: Fate, now: Moment) -> Ending {
        debug_assert!(fate != Fate::Stands, "a question ends by being cancelled or settled");
        let Some(slot) = self.find(id, now) else {
            // Asked first: the tombstone itself may take the place of a record that is still owed.
            let perhaps_lost = now < self.lost_until;
            if !Bug::NoTombstone.is_here() {
                self.leave_tombstone(id, fate, now);
            }
            return Ending::Unknown { perhaps_lost };
        };
        let head = self.journal_mut(slot.kind).head_mut(slot.position);
        let before = head.fate;
        match before {
            Fate::Stands | Fate::Cancelled => head.fate = fate,
            Fate::Settled => {}
        }
        match before {
            Fate::Stands => Ending::Decided(slot),
            Fate::Cancelled => Ending::Cancelled,
            Fate::Settled => Ending::Settled,
        }
    }

    /// Forgets what was decided under an id, which is a new question's from now on.
    pub(crate) fn give_way(&mut self, id: CheckId, now: Moment) {
        if let Some(slot) = self.find(id, now) {
            self.journal_mut(slot.kind).head_mut(slot.position).gone = true;
        }
    }

    /// Cuts what a decision granted down to `units`, once; answers where it lies, and how many units it had granted. `None`
    /// where it granted no more, was cut before, or does not stand.
    pub(crate) fn cut(&mut self, id: CheckId, units: u64, now: Moment) -> Option<(Slot, u64)> {
        let slot = self.find(id, now)?;
        let head = self.journal_mut(slot.kind).head_mut(slot.position);
        if head.fate != Fate::Stands || head.cut || head.charges == 0 || head.way != Way::UpTo || head.units <= units {
            return None;
        }
        head.cut = true;
        Some((slot, std::mem::replace(&mut head.units, units)))
    }

    /// Whether what this record charged is a reserve's to give back.
    pub(crate) fn is_reserve(&self, slot: Slot) -> bool {
        self.journal(slot.kind).head(slot.position).way == Way::Reserve
    }

    /// Whether all that this record charged can still be taken back: a part of it has not been.
    pub(crate) fn is_whole(&self, slot: Slot) -> bool {
        !self.journal(slot.kind).head(slot.position).cut
    }

    /// What a record charged, in the order of its legs.
    pub(crate) fn charges(&self, slot: Slot) -> impl Iterator<Item = &Charge> {
        let journal = self.journal(slot.kind);
        let head = journal.head(slot.position);
        journal.charges.run(head.first_charge, usize::from(head.charges))
    }

    /// Forgets at most `steps` records whose time is over, and gives memory back that they held. Returns how many it
    /// forgot.
    pub(crate) fn sweep(&mut self, now: Moment, steps: usize) -> usize {
        let charged = self.forget_expired(Kind::Charged, now, steps);
        let free = self.forget_expired(Kind::Free, now, steps - charged);
        self.shrink();
        charged + free
    }

    /// Records held, tombstones included.
    pub(crate) fn len(&self) -> usize {
        self.charged.heads.len() + self.free.heads.len()
    }

    fn judge(&self, slot: Slot, check: &Check) -> Recall {
        let head = self.journal(slot.kind).head(slot.position);
        if head.legs > 0 && head.question != check.question {
            return Recall::OtherQuestion;
        }
        match head.fate {
            Fate::Cancelled | Fate::Settled => Recall::Over,
            Fate::Stands if !head.allowed && head.charges == 0 && head.matched_otherwise(check) => Recall::Otherwise,
            // The policy changed between the attempts, and the recorded answer speaks of other limits than are asked
            // for now. It cannot be told leg by leg, and deciding anew could charge twice.
            Fate::Stands if usize::from(head.legs) != check.legs.len() => Recall::Over,
            Fate::Stands => Recall::Decided(self.journal(slot.kind).verdict(head)),
        }
    }

    fn leave_tombstone(&mut self, id: CheckId, fate: Fate, now: Moment) {
        self.watch_until = now.saturating_add(RECORD_HORIZON);
        let kind = match fate {
            Fate::Settled => Kind::Charged,
            Fate::Stands | Fate::Cancelled => Kind::Free,
        };
        self.make_room(kind, now);
        self.journal_mut(kind).append(Head::tombstone(id, fate, now), &[], &[]);
    }

    /// The live record of an id.
    fn find(&mut self, id: CheckId, now: Moment) -> Option<Slot> {
        self.catch_up();
        let id = words(id);
        let Records { charged, free, index, seed, .. } = self;
        index
            .find(hash(seed, &id), |slot| {
                let head = slot.head(charged, free);
                head.id == id && !head.is_over(now)
            })
            .copied()
    }

    /// Tells the index of every record that was made since it was last asked. A partition that is asked again for the
    /// first time in a long while pays for all its records here, once: at most a few milliseconds, at 64 Ki of them.
    fn catch_up(&mut self) {
        let Records { charged, free, index, seed, .. } = self;
        let lag = charged.unindexed() + free.unindexed();
        if lag == 0 {
            return;
        }
        let hash_of = |slot: &Slot| hash(seed, &slot.head(charged, free).id);
        index.reserve(lag, hash_of);
        for slot in charged.unindexed_slots(Kind::Charged).chain(free.unindexed_slots(Kind::Free)) {
            index.insert_unique(hash_of(&slot), slot, hash_of);
        }
        charged.indexed_to = charged.heads.next();
        free.indexed_to = free.heads.next();
    }

    /// Makes room for one more record: forgets what is over, and if the journal is still full, its oldest record.
    fn make_room(&mut self, kind: Kind, now: Moment) {
        self.forget_expired(kind, now, FORGET_AT_ONCE);
        let most = match kind {
            Kind::Charged => CHARGED_RECORDS_MAX,
            Kind::Free => FREE_RECORDS_MAX,
        };
        if self.journal(kind).heads.len() >= most {
            self.forget_oldest(kind, now);
        }
    }

    fn forget_expired(&mut self, kind: Kind, now: Moment, most: usize) -> usize {
        let mut forgotten = 0;
        while forgotten < most && self.journal(kind).heads.front().is_some_and(|head| head.is_over(now)) {
            self.forget_oldest(kind, now);
            forgotten += 1;
        }
        forgotten
    }

    fn forget_oldest(&mut self, kind: Kind, now: Moment) {
        let journal = self.journal_mut(kind);
        let position = journal.heads.first();
        let indexed = position != journal.indexed_to;
        let Some(head) = journal.forget_oldest() else { return };
        if indexed {
            let slot = Slot { kind, position };
            match self.index.find_entry(hash(&self.seed, &head.id), |other| *other == slot) {
                Ok(entry) => drop(entry.remove()),
                Err(_) => debug_assert!(false, "the index knows every record before `indexed_to`"),
            }
        } else {
            self.journal_mut(kind).indexed_to = position.wrapping_add(1);
        }
        if !head.is_over(now) && head.is_owed() {
            self.lost_until = self.lost_until.max(head.when.saturating_add(RECORD_HORIZON));
        }
    }

    /// Gives memory back where less than a quarter of it is in use.
    fn shrink(&mut self) {
        let Records { charged, free, index, seed, .. } = self;
        charged.shrink();
        free.shrink();
        if index.capacity() > SHRINK_ABOVE && index.len() * 4 < index.capacity() {
            index.shrink_to(index.len() * 2, |slot| hash(seed, &slot.head(charged, free).id));
        }
    }

    fn journal(&self, kind: Kind) -> &Journal {
        match kind {
            Kind::Charged => &self.charged,
            Kind::Free => &self.free,
        }
    }

    fn journal_mut(&mut self, kind: Kind) -> &mut Journal {
        match kind {
            Kind::Charged => &mut self.charged,
            Kind::Free => &mut self.free,
        }
    }
}

impl Journal {
    const fn new() -> Journal {
        Journal { heads: Strip::new(), legs: Strip::new(), charges: Strip::new(), indexed_to: 0 }
    }

    fn append(&mut self, head: Head, legs: &[LegDecision], charges: &[Charge]) {
        debug_assert!(self.legs.len() < 1 << 31, "S14: positions of legs do not wrap onto each other");
        self.heads.push(Head { first_leg: self.legs.next(), first_charge: self.charges.next(), ..head });
        legs.iter().for_each(|leg| self.legs.push(*leg));
        charges.iter().for_each(|charge| self.charges.push(*charge));
    }

    fn forget_oldest(&mut self) -> Option<Head> {
        let head = self.heads.pop()?;
        self.legs.drop_front(usize::from(head.legs));
        self.charges.drop_front(usize::from(head.charges));
        Some(head)
    }

    fn head(&self, position: u32) -> &Head {
        self.heads.get(position).expect("the index and the slots of one call name only records that are held")
    }

    fn head_mut(&mut self, position: u32) -> &mut Head {
        self.heads.get_mut(position).expect("the index and the slots of one call name only records that are held")
    }

    /// How many heads the index does not know yet.
    fn unindexed(&self) -> usize {
        self.heads.next().wrapping_sub(self.indexed_to) as usize
    }

    fn unindexed_slots(&self, kind: Kind) -> impl Iterator<Item = Slot> + use<> {
        let first = self.indexed_to;
        (0..self.unindexed() as u32).map(move |offset| Slot { kind, position: first.wrapping_add(offset) })
    }

    fn verdict(&self, head: &Head) -> Verdict {
        Verdict {
            allowed: head.allowed,
            units: head.units,
            replayed: true,
            recovering: head.recovering,
            cacheable: Span::ZERO,
            legs: self.legs.run(head.first_leg, usize::from(head.legs)).copied().collect(),
        }
    }

    fn shrink(&mut self) {
        self.heads.shrink();
        self.legs.shrink();
        self.charges.shrink();
    }
}

impl Slot {
    fn head<'a>(&self, charged: &'a Journal, free: &'a Journal) -> &'a Head {
        match self.kind {
            Kind::Charged => charged.head(self.position),
            Kind::Free => free.head(self.position),
        }
    }
}

impl Head {
    fn tombstone(id: CheckId, fate: Fate, when: Moment) -> Head {
        Head {
            id: words(id),
            question: 0,
            asker: Asker(0),
            when,
            first_leg: 0,
            first_charge: 0,
            legs: 0,
            charges: 0,
            allowed: false,
            recovering: false,
            shared: false,
            way: Way::Whole,
            cut: false,
            gone: false,
            fate,
            units: 0,
            revision: 0,
        }
    }

    /// Whether another revision of the policy matched it than matched this check; one without a revision is any's, and
    /// what decides nothing goes by none.
    fn matched_otherwise(&self, check: &Check) -> bool {
        let revision = revision_of(check);
        check.act.decides() && revision > 0 && self.revision != revision
    }

    fn is_over(&self, now: Moment) -> bool {
        self.gone || now.since(self.when) >= RECORD_HORIZON
    }

    /// Whether something is charged on this question's account, so that forgetting it could lead to a second charge.
    fn is_owed(&self) -> bool {
        match self.fate {
            Fate::Stands => self.charges > 0,
            Fate::Cancelled => false,
            Fate::Settled => true,
        }
    }
}

fn words(id: CheckId) -> Words {
    [id.0 as u64, (id.0 >> 64) as u64]
}

/// The 128-bit product of id and seed, folded: one multiplication, and without the seed nobody can aim.
fn hash(seed: &Words, id: &Words) -> u64 {
    let wide = u128::from(id[0] ^ seed[0]) * u128::from(id[1] ^ seed[1]);
    (wide as u64) ^ ((wide >> 64) as u64)
}
