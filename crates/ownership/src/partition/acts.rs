//! What a check wants done, done: each act is carried out on the partition's table, all legs under one gate. Five acts decide
//! anew; the others speak of a charge that was made before, and tell whether they found it.

use limits::{
    Absent, Algorithm, Book, BookEntry, Hold, HoldId, Leg, Now, Released, Renewed, Reserve, Settled, Span, Undecided,
};
use limits::{LegDecision, WhyUndecided};
use smallvec::SmallVec;

use crate::check::{Act, Answer, Check, CheckId, CheckLeg, MAX_LEGS, Unknown, Verdict};
use crate::floor::Floor;
use crate::partition::{Partition, Scratch};
use crate::records::{Ending, Fate};

/// Why there is no verdict; nothing was charged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NoVerdict {
    Unknown(Unknown),
    /// The owner goes by this later revision.
    Stale(u64),
    /// What is open under the id is another question's.
    IdReused,
}

impl From<NoVerdict> for Answer {
    fn from(why: NoVerdict) -> Answer {
        match why {
            NoVerdict::Unknown(unknown) => Answer::Unknown(unknown),
            NoVerdict::Stale(revision) => Answer::StaleRevision { revision },
            NoVerdict::IdReused => Answer::IdReused,
        }
    }
}

/// Whether an act found or was granted what it asked for, and what that came to, as in [`Verdict`].
struct Done {
    allowed: bool,
    units: u64,
}

impl Act {
    /// Whether what it charges can be refunded by its id. A reserve is settled instead.
    pub(super) const fn is_refundable(&self) -> bool {
        match self {
            Act::Spend | Act::UpTo { .. } | Act::Acquire { .. } => true,
            Act::Peek
            | Act::Reserve { .. }
            | Act::Refund { .. }
            | Act::Settle { .. }
            | Act::Renew { .. }
            | Act::Release { .. }
            | Act::Reset => false,
        }
    }
}

impl Partition {
    /// Does what the check wants. On an error nothing has changed, but for acts on leases of several limits: those before
    /// the one that had no room for what it learned are done.
    pub(super) fn carry_out(
        &mut self,
        check: &Check,
        book: &impl Book,
        now: Now,
        scratch: &mut Scratch,
    ) -> Result<Verdict, NoVerdict> {
        if check.legs.len() > MAX_LEGS {
            return Err(NoVerdict::Unknown(Unknown::Policy));
        }
        self.resolve_all(check, book, &mut scratch.legs)?;
        scratch.decided.legs.clear();
        scratch.decided.charges.clear();
        self.is_covered(check, &scratch.legs, book, now)?;
        let done = self.act(check, book, now, scratch).map_err(undecided)?;
        if !check.act.decides() {
            scratch.decided.legs = self.standing(&scratch.legs, book, now).map_err(undecided)?;
        }
        let recovering = check.act.decides() && !done.allowed && self.only_the_floor_refuses(scratch, book, now);
        let Done { allowed, units } = done;
        let certain = !allowed && !recovering;
        let cacheable = if certain { self.certain_for(check, scratch, book, now) } else { Span::ZERO };
        let legs = std::mem::take(&mut scratch.decided.legs);
        Ok(Verdict { allowed, units, replayed: false, recovering, cacheable, legs })
    }

    /// The legs as the table reads them. A question that decides is decided by the policy that it was matched with, or not
    /// here: one that comes with an older revision is matched anew, one with a newer waits for this node's log.
    fn resolve_all(&self, check: &Check, book: &impl Book, legs: &mut SmallVec<[Leg; 2]>) -> Result<(), NoVerdict> {
        legs.clear();
        let mut behind = false;
        for leg in &check.legs {
            let Some(entry) = book.limit(leg.limit, leg.variant) else {
                behind = true;
                continue;
            };
            if check.act.decides() && check.revision > 0 && entry.revision > check.revision {
                return Err(NoVerdict::Stale(entry.revision));
            }
            behind |= check.act.decides() && (1..check.revision).contains(&entry.revision);
            legs.push(to_table(leg, &entry, self.floor, book));
        }
        if behind { Err(NoVerdict::Unknown(Unknown::Policy)) } else { Ok(()) }
    }

    fn act(
        &mut self,
        check: &Check,
        book: &impl Book,
        now: Now,
        Scratch { legs, decided }: &mut Scratch,
    ) -> Result<Done, Undecided> {
        let (table, shapes, budgets) = (&mut self.table, book.shapes(), book.budgets());
        let id = HoldId::from(check.id.0);
        match check.act {
            Act::Spend => table.decide(legs, shapes, budgets, now, decided).map(Done::decided),
            Act::UpTo { units } => table
                .decide_up_to(legs, units, shapes, budgets, now, decided)
                .map(|granted| Done { allowed: granted > 0 || units == 0, units: granted }),
            Act::Acquire { ttl } => {
                let allowed = table.acquire(legs, &Hold { id, ttl }, shapes, budgets, now, decided)?;
                Ok(Done::held(allowed, self.lasts(check, now)))
            }
            Act::Reserve { ttl, units } => {
                let allowed = table.reserve(legs, &Reserve { id, ttl, units }, shapes, budgets, now, decided)?;
                Ok(Done::held(allowed, self.lasts(check, now)))
            }
            Act::Peek => {
                decided.legs = legs.iter().map(|leg| table.peek(leg, shapes, now)).collect::<Result<_, _>>()?;
                let admitted = legs.iter().zip(&decided.legs).all(|(leg, said)| leg.shadow || said.allowed);
                Ok(Done::decided(admitted))
            }
            Act::Refund { of } => Ok(self.refund(of, book, now)),
            Act::Settle { of, units, debt } => Ok(self.settle(of, units, debt.then_some(legs), book, now)),
            Act::Renew { of, ttl } => self.renew(&Hold { id: HoldId::from(of.0), ttl }, legs, book, now),
            Act::Release { of } => Ok(self.release(HoldId::from(of.0), legs, book, now)),
            Act::Reset => {
                let reset = legs.iter().filter(|leg| table.reset(leg, shapes, budgets, now)).count() as u64;
                Ok(Done { allowed: reset > 0, units: reset })
            }
        }
    }

    /// How long what this check holds still lasts.
    fn lasts(&self, check: &Check, now: Now) -> Option<Span> {
        let id = HoldId::from(check.id.0);
        if matches!(check.act, Act::Reserve { .. }) {
            return self.table.reserved_for(id, now);
        }
        check.legs.iter().filter_map(|leg| self.table.held_for(&leg.key, id, now)).min()
    }

    /// Whether what a recorded answer said is held has ended since: it was released or settled, or its time is over.
    pub(super) fn is_over(&self, check: &Check, told: &Verdict, now: Now) -> bool {
        check.act.holds() && told.allowed && told.units > 0 && self.lasts(check, now).is_none()
    }

    /// A recorded answer, as it is to be told now: what is held lasts less long than it did then.
    pub(super) fn told_again(&self, check: &Check, verdict: Verdict, now: Now) -> Verdict {
        if !check.act.holds() {
            return verdict;
        }
        let Done { allowed, units } = Done::held(verdict.allowed, self.lasts(check, now));
        Verdict { allowed, units, ..verdict }
    }

    /// How the keys stand.
    fn standing(&self, legs: &[Leg], book: &impl Book, now: Now) -> Result<SmallVec<[LegDecision; 2]>, Undecided> {
        let stands = |leg: &Leg| self.table.peek(&Leg { cost: 0, ..*leg }, book.shapes(), now);
        legs.iter().map(stands).collect()
    }

    /// Undoes the charge of a check, whether its record is still there or only what is kept for refunds; a check that is
    /// not known is kept from being charged should it still arrive.
    fn refund(&mut self, of: CheckId, book: &impl Book, now: Now) -> Done {
        let kept = self.refunds.take(of, now.moment);
        let back = match self.records.end(of, Fate::Cancelled, now.moment) {
            Ending::Decided(slot) => Some(self.take_back(of, slot, book, now)),
            Ending::Unknown { .. } => kept.map(|charges| {
                charges.iter().map(|charge| self.table.undo(charge, book.shapes(), now)).max().unwrap_or(0)
            }),
            Ending::Cancelled | Ending::Settled => None,
        };
        Done { allowed: back.is_some(), units: back.unwrap_or(0) }
    }

    /// Settles a reserve. With `debt`, legs that cost so much a unit, what was spent above it is booked.
    fn settle(
        &mut self,
        of: CheckId,
        units: u64,
        debt: Option<&SmallVec<[Leg; 2]>>,
        book: &impl Book,
        now: Now,
    ) -> Done {
        let id = HoldId::from(of.0);
        let reserved = match self.table.settle(id, units, book.shapes(), book.budgets(), now) {
            Settled::Closed { back } => return Done { allowed: true, units: back },
            Settled::NotOpen => return Done { allowed: false, units: 0 },
            Settled::Above(reserved) => reserved,
        };
        let Some(legs) = debt else { return Done { allowed: false, units: reserved } };
        self.table.settle(id, reserved, book.shapes(), book.budgets(), now);
        // Slots were held for as long as it took; with the reserve they are free, whatever it cost.
        for leg in legs.iter().filter(|leg| !leg.shadow && !counts_slots(leg, book)) {
            let above = Leg { cost: leg.cost.saturating_mul(units - reserved), ..*leg };
            self.table.force(&above, None, book.shapes(), book.budgets(), now);
        }
        Done { allowed: true, units: 0 }
    }

    /// Prolongs what the hold has of the concurrency limits among these: all of it, or it is not held any more.
    fn renew(&mut self, hold: &Hold, legs: &[Leg], book: &impl Book, now: Now) -> Result<Done, Undecided> {
        let mut shortest = Some(Span::MAX);
        for leg in legs.iter().filter(|leg| counts_slots(leg, book)) {
            let renewed = self.table.renew(leg, hold, book.shapes(), book.budgets(), now)?;
            shortest = match renewed {
                Renewed::For(span) => shortest.map(|shortest| shortest.min(span)),
                Renewed::NotHeld if leg.shadow => shortest,
                Renewed::NotHeld => None,
            };
        }
        Ok(Done { allowed: shortest.is_some(), units: shortest.map_or(0, Span::as_nanos) })
    }

    fn release(&mut self, id: HoldId, legs: &[Leg], book: &impl Book, now: Now) -> Done {
        let mut freed = 0;
        for leg in legs.iter().filter(|leg| counts_slots(leg, book)) {
            match self.table.release(leg, id, book.shapes(), book.budgets(), now) {
                Released::Freed => freed += 1,
                Released::NotHeld => {}
            }
        }
        Done { allowed: freed > 0, units: freed }
    }
}

impl Done {
    const fn decided(allowed: bool) -> Done {
        Done { allowed, units: 0 }
    }

    fn held(allowed: bool, span: Option<Span>) -> Done {
        Done { allowed, units: span.filter(|_| allowed).map_or(0, Span::as_nanos) }
    }
}

/// The leg as the table reads it, or `None` when the book does not know its limit or the numbers that it goes by.
pub(super) fn resolve(leg: &CheckLeg, floor: Floor, book: &impl Book) -> Option<Leg> {
    book.limit(leg.limit, leg.variant).map(|entry| to_table(leg, &entry, floor, book))
}

fn to_table(leg: &CheckLeg, entry: &BookEntry, floor: Floor, book: &impl Book) -> Leg {
    let shape = book.shapes().get(entry.shape);
    let absent: Absent = floor.absent(shape, book.shapes().implicit_of_limit(entry.shape), entry.allotted_at);
    Leg { shape: entry.shape, key: leg.key, cost: leg.cost, absent, shadow: leg.shadow }
}

fn counts_slots(leg: &Leg, book: &impl Book) -> bool {
    matches!(book.shapes().get(leg.shape).algorithm, Algorithm::Concurrency { .. })
}

fn undecided(undecided: Undecided) -> NoVerdict {
    NoVerdict::Unknown(match undecided.why {
        WhyUndecided::TableFull => Unknown::TableFull { leg: undecided.leg as u8 },
        WhyUndecided::NoClusterTime => Unknown::Clock,
        WhyUndecided::NoCalendar => Unknown::Policy,
        WhyUndecided::IdTaken => return NoVerdict::IdReused,
    })
}
