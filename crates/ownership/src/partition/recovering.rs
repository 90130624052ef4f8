//! Whether a denial is the limit's or the takeover's: a limit that would have admitted, had its use not been left unknown,
//! says `recovering`, never that it is used up.

use limits::{Absent, Algorithm, Align, Book, Keeping, Leg, Now};

use crate::floor::Floor;
use crate::partition::{Partition, Scratch};

impl Partition {
    /// Whether every limit that refused would have admitted, had the takeover not left its use unknown.
    pub(super) fn only_the_floor_refuses(&self, scratch: &Scratch, book: &impl Book, now: Now) -> bool {
        if self.floor == Floor::Fresh {
            return false;
        }
        let legs = scratch.legs.iter().zip(&scratch.decided.legs);
        legs.filter(|(leg, said)| !leg.shadow && !said.allowed).all(|(leg, _)| self.floor_refuses(leg, book, now))
    }

    /// Whether this leg was refused because of the floor, and would not have been because of what was spent since.
    ///
    /// A window under the floor admits nothing, so its key has no entry: it is enough to ask what a fresh key would have
    /// said. A bucket admits at its rate from the start, and its entry stands on the floor: at the moment when the
    /// floor has worn off, what is left in use is exactly what was spent since the takeover.
    fn floor_refuses(&self, leg: &Leg, book: &impl Book, now: Now) -> bool {
        let shape = book.shapes().get(leg.shape);
        let admits_less = |units: u64| {
            let less = Leg { cost: leg.cost.saturating_sub(units), ..*leg };
            self.table.peek(&less, book.shapes(), now).is_ok_and(|said| said.allowed)
        };
        let keeps_most = book.shapes().keeping(leg.shape).0 == Keeping::Most;
        let stands_on_floor = keeps_most && self.stands_on_floor(&leg.key);
        let is_kept = self.floor.is_kept() && keeps_most && !stands_on_floor;
        let perhaps = self.perhaps_used(leg);
        if let Some(at) = self.floor.as_of().filter(|_| is_kept && perhaps > 0) {
            return self.table.can_still_count(leg, at, book.shapes(), now) && admits_less(perhaps);
        }
        let at = match (leg.absent, self.floor.as_of()) {
            (Absent::FullAsOf(at), _) => at,
            (Absent::Fresh | Absent::UsedAsOf { .. }, Some(at)) if stands_on_floor => at,
            (Absent::Fresh | Absent::UsedAsOf { .. }, _) => return false,
        };
        let Some(rate) = shape.rate else { return false };
        let admits = |leg: &Leg, now| self.table.peek(leg, book.shapes(), now).is_ok_and(|said| said.allowed);
        let fresh = Leg { absent: Absent::Fresh, ..*leg };
        let within = |span| now.moment < at.moment.saturating_add(span) && admits(&fresh, now);
        match shape.algorithm {
            Algorithm::TokenBucket { burst } => {
                let worn_off = at.moment.saturating_add(rate.time_to_fill(burst));
                now.moment < worn_off && admits(leg, Now { moment: worn_off, ..now })
            }
            Algorithm::SlidingLog { .. } | Algorithm::FixedWindow { align: Align::First } => within(rate.period()),
            Algorithm::SlidingCounter => within(rate.period().saturating_add(rate.period())),
            Algorithm::Concurrency { max_hold } => within(max_hold),
            Algorithm::FixedWindow { align: Align::Epoch | Align::Hashed } | Algorithm::Calendar { .. } => {
                admits(&fresh, now)
            }
        }
    }
}
