//! How much may be spent of a key between two writes.

use limits::{KEPT_PARTS, KEPT_PARTS_MIN, Shape, Span};

/// How much demand one write is to last for.
pub const RAISED_FOR: Span = Span::from_millis(500);

/// How much demand is left when the next write is asked for: some times what one takes.
pub const RAISED_BEFORE: Span = Span::from_millis(20);

/// How much a write allows beyond what is used when it is made: one part in [`KEPT_PARTS`] of the capacity or what is asked
/// for in half a second, at least one unit, at most a quarter; and always as much as the check needs that waits for it.
pub fn chunk(shape: &Shape, demand: u64, needed: u64) -> u64 {
    let capacity = shape.capacity().unwrap_or(0);
    demand.max(capacity / KEPT_PARTS).min(capacity / KEPT_PARTS_MIN).max(1).max(needed)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use limits::{Algorithm, Basis, DomainId, LimitId, Rate};

    use super::*;

    #[test]
    fn a_write_allows_for_demand_within_bounds_and_for_the_check_that_waits() {
        let of = |amount| {
            let rate = Rate::new(amount, Span::from_secs(3_600)).ok();
            let algorithm = Algorithm::SlidingLog { max_entries: 4_096 };
            Shape { limit: LimitId(1), domain: DomainId(0), rate, algorithm, basis: Basis::Hi }
        };
        assert_eq!(chunk(&of(1_000), 0, 1), 20);
        assert_eq!(chunk(&of(1_000), 100, 1), 100);
        assert_eq!(chunk(&of(1_000), 5_000, 1), 250);
        assert_eq!(chunk(&of(1_000), 0, 700), 700);
        assert_eq!(chunk(&of(1), 9, 1), 1);
    }
}
