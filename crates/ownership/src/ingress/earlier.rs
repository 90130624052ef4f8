//! What came of an act that speaks of an earlier charge, over all partitions that may have it. No failure mode answers for
//! an owner here, since nobody else knows what was charged.

use crate::check::{Act, Verdict};

/// Whether what was spoken of was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// It was looked for.
    Done {
        /// Whether it was found.
        allowed: bool,
        /// What it came to, as in [`Verdict::units`].
        units: u64,
    },
    /// A settlement lies above its reserve, which is still open.
    Above {
        /// The units reserved.
        reserved: u64,
    },
    /// Nothing is reserved or held under the id.
    NotHeld,
}

/// Out of what each of its owners said to such an act, what it came to.
pub fn found<'v>(act: Act, verdicts: impl Iterator<Item = &'v Verdict> + Clone) -> Found {
    let any = verdicts.clone().any(|verdict| verdict.allowed);
    let of = |allowed| verdicts.clone().filter(move |verdict| verdict.allowed == allowed).map(|verdict| verdict.units);
    match act {
        Act::Settle { .. } if any => Found::Done { allowed: true, units: of(true).max().unwrap_or(0) },
        Act::Settle { .. } => match of(false).max().filter(|reserved| *reserved > 0) {
            Some(reserved) => Found::Above { reserved },
            None => Found::NotHeld,
        },
        Act::Renew { .. } => {
            // A partition without slots among its limits says yes, for ever.
            let shortest = verdicts.clone().map(|verdict| verdict.units).min().filter(|span| *span < u64::MAX);
            let held = verdicts.clone().all(|verdict| verdict.allowed);
            shortest.filter(|_| held).map_or(Found::NotHeld, |units| Found::Done { allowed: true, units })
        }
        Act::Release { .. } | Act::Reset => {
            Found::Done { allowed: any, units: verdicts.map(|verdict| verdict.units).fold(0, u64::saturating_add) }
        }
        Act::Refund { .. } | Act::Spend | Act::Peek | Act::UpTo { .. } | Act::Acquire { .. } | Act::Reserve { .. } => {
            Found::Done { allowed: any, units: of(true).max().unwrap_or(0) }
        }
    }
}
