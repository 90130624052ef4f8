//! For how long a denial is certain. A key that has nothing left stays so until time gives it a unit, unless something that
//! was charged is given back: by a cancel, a refund, a reserve that is settled, a slot that is released. While anything of a
//! key may still be given back, nothing is promised.

use limits::{Algorithm, Book, Leg, LegDecision, Moment, Now, RESERVE_TTL_MAX, Span, Wait};

use crate::check::{Act, Check};
use crate::partition::{Partition, Scratch};
use crate::records::RECORD_HORIZON;
use crate::refunds::REFUND_HORIZON;

/// The longest that a denial is said to be certain. A reset is not foreseen, and is noticed after that much.
pub const DENIAL_CERTAIN_MAX: Span = Span::from_secs(1);

/// Places for keys, by their fingerprint: 2 KiB a partition. Two keys that share a place only hold each other's denials to be
/// uncertain.
const PLACES: usize = 512;

/// A place counts in units of 2^26 ns, about 67 ms, so that 32 bits last for nine years of uptime; past them nothing is
/// certain.
const TICK_SHIFT: u32 = 26;

/// Until when what was charged may be given back, by key.
#[derive(Clone, Debug, Default)]
pub(crate) struct Returnable {
    /// None before the first charge.
    places: Option<Box<[u32; PLACES]>>,
}

impl Returnable {
    /// What these legs were charged may be given back until then.
    fn mark(&mut self, check: &Check, until: Moment) {
        let tick = tick_of(until).saturating_add(1);
        let places = self.places.get_or_insert_with(|| Box::new([0; PLACES]));
        for leg in &check.legs {
            let place = &mut places[leg.key.0[1] as usize % PLACES];
            *place = tick.max(*place);
        }
    }

    fn is_over(&self, leg: &Leg, now: Moment) -> bool {
        let tick = tick_of(now);
        tick < u32::MAX && self.places.as_ref().is_none_or(|places| places[leg.key.0[1] as usize % PLACES] <= tick)
    }
}

fn tick_of(moment: Moment) -> u32 {
    u32::try_from(moment.as_nanos() >> TICK_SHIFT).unwrap_or(u32::MAX)
}

impl Partition {
    /// Takes note of how long what a check charged may be given back.
    pub(super) fn note_charged(&mut self, check: &Check, now: Moment) {
        let span = match check.act {
            Act::Reserve { ttl, .. } => ttl.min(RESERVE_TTL_MAX).max(RECORD_HORIZON),
            _ if check.indexed && check.act.is_refundable() => REFUND_HORIZON,
            Act::Spend
            | Act::Peek
            | Act::UpTo { .. }
            | Act::Acquire { .. }
            | Act::Refund { .. }
            | Act::Settle { .. }
            | Act::Renew { .. }
            | Act::Release { .. }
            | Act::Reset => RECORD_HORIZON,
        };
        self.returnable.mark(check, now.saturating_add(span));
    }

    /// How long the denial in `scratch` is certain: every limit that refuses has nothing left, so that nobody can spend
    /// anything of it, and nothing of it may be given back.
    pub(super) fn certain_for(&self, check: &Check, scratch: &Scratch, book: &impl Book, now: Now) -> Span {
        if check.act != Act::Spend {
            return Span::ZERO;
        }
        let legs = scratch.legs.iter().zip(&scratch.decided.legs);
        let refusing = legs.filter(|(leg, said)| !leg.shadow && !said.allowed);
        let spans = refusing.map(|(leg, said)| self.leg_certain_for(leg, said, book, now));
        spans.min().unwrap_or(Span::ZERO).min(DENIAL_CERTAIN_MAX)
    }

    fn leg_certain_for(&self, leg: &Leg, said: &LegDecision, book: &impl Book, now: Now) -> Span {
        let counts_slots = matches!(book.shapes().get(leg.shape).algorithm, Algorithm::Concurrency { .. });
        if counts_slots || said.remaining > 0 || !self.returnable.is_over(leg, now.moment) {
            return Span::ZERO;
        }
        match said.wait {
            Wait::After(wait) => said.next_unit_after.map_or(Span::ZERO, |unit| unit.min(wait)),
            Wait::Now | Wait::Never => Span::ZERO,
        }
    }
}
