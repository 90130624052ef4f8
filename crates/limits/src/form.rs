//! What a shape's numbers mean, in a form that outlives a process: two shapes of one form, on whatever node and at whatever
//! revision, read each other's usage as it stands.

use std::hash::Hasher as _;

use siphasher::sip::SipHasher24;

use crate::rate::{Algorithm, Align, Shape};

/// SipHash-2-4 with 64 bits and a key of zeros over everything that usage depends on: rate, way of counting, and the name of
/// its calendar. The bytes it is made of are part of every stored record and never change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Form(pub u64);

impl Shape {
    /// The form of this shape. A calendar's number means nothing elsewhere, so its name is asked for: unit and zone; other
    /// shapes have none.
    pub fn form(&self, calendar: &str) -> Form {
        let mut hasher = SipHasher24::new_with_keys(0, 0);
        let mut number = |number: u64| hasher.write(&number.to_le_bytes());
        match self.rate {
            None => number(0),
            Some(rate) => [1, rate.amount(), rate.period().as_nanos()].into_iter().for_each(&mut number),
        }
        match self.algorithm {
            Algorithm::TokenBucket { burst } => [1, burst].into_iter().for_each(&mut number),
            Algorithm::SlidingLog { max_entries } => [2, u64::from(max_entries)].into_iter().for_each(&mut number),
            Algorithm::FixedWindow { align: Align::Epoch } => [3, 1].into_iter().for_each(&mut number),
            Algorithm::FixedWindow { align: Align::First } => [3, 2].into_iter().for_each(&mut number),
            Algorithm::FixedWindow { align: Align::Hashed } => [3, 3].into_iter().for_each(&mut number),
            Algorithm::SlidingCounter => number(4),
            Algorithm::Calendar { .. } => [5, calendar.len() as u64].into_iter().for_each(&mut number),
            Algorithm::Concurrency { max_hold } => [6, max_hold.as_nanos()].into_iter().for_each(&mut number),
        }
        hasher.write(calendar.as_bytes());
        Form(hasher.finish())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use crate::calendar::CalendarId;
    use crate::key::LimitId;
    use crate::rate::{Basis, DomainId, Rate};
    use crate::time::Span;

    fn shape(algorithm: Algorithm) -> Shape {
        let rate = Some(Rate::new(1_000, Span::from_secs(3_600)).unwrap());
        Shape { limit: LimitId(1), domain: DomainId(0), rate, algorithm, basis: Basis::Hi }
    }

    #[test]
    fn a_form_is_the_same_everywhere_and_for_ever() {
        let form = |algorithm, calendar| shape(algorithm).form(calendar).0;
        let seen = [
            form(Algorithm::TokenBucket { burst: 5 }, ""),
            form(Algorithm::SlidingLog { max_entries: 4_096 }, ""),
            form(Algorithm::FixedWindow { align: Align::Epoch }, ""),
            form(Algorithm::FixedWindow { align: Align::First }, ""),
            form(Algorithm::FixedWindow { align: Align::Hashed }, ""),
            form(Algorithm::SlidingCounter, ""),
            form(Algorithm::Calendar { calendar: CalendarId(7) }, "day Europe/Berlin"),
            form(Algorithm::Concurrency { max_hold: Span::from_secs(60) }, ""),
        ];
        let golden: [u64; 8] = [
            0x60ea81a13a5acaed,
            0x6455cc9ff9662afe,
            0x8ffb4b461007b44a,
            0x408f774a60faba88,
            0x8612b034c231a459,
            0x8aa67009b1c7800b,
            0x2c318659952f0e52,
            0xe7a31d88a7319bbf,
        ];
        assert_eq!(seen, golden);
    }

    #[test]
    fn whose_limit_it_is_and_which_number_its_calendar_has_are_no_part_of_it() {
        let log = Algorithm::SlidingLog { max_entries: 9 };
        let other = Shape { limit: LimitId(2), domain: DomainId(3), basis: Basis::Lo, ..shape(log) };
        assert_eq!(shape(log).form(""), other.form(""));
        let berlin = |number| shape(Algorithm::Calendar { calendar: CalendarId(number) }).form("day Europe/Berlin");
        assert_eq!(berlin(1), berlin(2));
        assert_ne!(berlin(1), shape(Algorithm::Calendar { calendar: CalendarId(1) }).form("day Europe/Paris"));
    }
}
