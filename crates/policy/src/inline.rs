//! Rates that come with the check, where a domain allows them: up to which rate, how many of them, and what happens to
//! such a check when nobody can count it.

use limits::{Algorithm, FailMode, Rate};

use crate::document::Numbers;
use crate::rate_text::{RateText, RateTextError};

/// What a domain allows to be asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Inline {
    pub(crate) max_rate: Rate,
    pub(crate) max_burst: Option<u64>,
    pub(crate) max_limits: u32,
    pub(crate) fail: FailMode,
}

/// Why a rate that came with a check is not accepted. The caller's doing; nothing was spent, and asking again with the
/// same rate fails the same way.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InlineRefusal {
    /// It is no rate.
    #[error("{}; expected {}", error.message, error.expected)]
    Unreadable {
        /// What is wrong with it.
        error: RateTextError,
    },
    /// `unlimited`, or windows of a calendar.
    #[error("a rate that comes with a check has a number and a period of fixed length, such as `10/s`")]
    NotOfFixedLength,
    /// More in the long run than the domain allows.
    #[error("the rate is above the {most} that the domain allows")]
    RateTooHigh {
        /// What it allows.
        most: RateText,
    },
    /// More at once than the domain allows.
    #[error("the burst of {burst} is above the {most} that the domain allows")]
    BurstTooLarge {
        /// What was asked for.
        burst: u64,
        /// What it allows.
        most: u64,
    },
}

impl Inline {
    /// How many different limits of the domain may come with checks; at least 1.
    pub fn max_limits(&self) -> u32 {
        self.max_limits
    }

    /// What the ingress says when no owner can answer.
    pub fn fail(&self) -> FailMode {
        self.fail
    }

    /// The highest rate that may be asked for.
    pub fn max_rate(&self) -> RateText {
        RateText::Limited { rate: self.max_rate, burst: self.max_burst }
    }

    /// The numbers that a rate literal asks for: a token bucket, at most as fast as the domain allows, and at most as
    /// large where the domain says how large.
    ///
    /// # Errors
    ///
    /// [`InlineRefusal`].
    pub fn numbers(&self, literal: &str) -> Result<Numbers, InlineRefusal> {
        let RateText::Limited { rate, burst } =
            RateText::parse(literal).map_err(|error| InlineRefusal::Unreadable { error })?
        else {
            return Err(InlineRefusal::NotOfFixedLength);
        };
        if is_above(rate, self.max_rate) {
            return Err(InlineRefusal::RateTooHigh { most: self.max_rate() });
        }
        let burst = burst.unwrap_or(rate.amount());
        match self.max_burst.filter(|most| burst > *most) {
            Some(most) => Err(InlineRefusal::BurstTooLarge { burst, most }),
            None => Ok(Numbers { rate: Some(rate), algorithm: Algorithm::TokenBucket { burst } }),
        }
    }
}

/// Whether one rate is higher in the long run than another.
fn is_above(rate: Rate, other: Rate) -> bool {
    let product = |rate: Rate, period: Rate| u128::from(rate.amount()) * u128::from(period.period().as_nanos());
    product(rate, other) > product(other, rate)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use limits::Span;

    use super::*;

    fn inline(max_burst: Option<u64>) -> Inline {
        let max_rate = Rate::new(1_000, Span::from_secs(1)).unwrap();
        Inline { max_rate, max_burst, max_limits: 64, fail: FailMode::Open }
    }

    fn bucket(amount: u64, seconds: u64, burst: u64) -> Result<Numbers, InlineRefusal> {
        let rate = Some(Rate::new(amount, Span::from_secs(seconds)).unwrap());
        Ok(Numbers { rate, algorithm: Algorithm::TokenBucket { burst } })
    }

    #[test]
    fn a_rate_is_accepted_up_to_the_highest_however_it_is_spelt() {
        let inline = inline(None);
        assert_eq!(inline.numbers("1000/s"), bucket(1_000, 1, 1_000));
        assert_eq!(inline.numbers("60_000/min"), bucket(60_000, 60, 60_000));
        assert_eq!(inline.numbers("5/h burst 9"), bucket(5, 3_600, 9));
        assert_eq!(inline.numbers("0/s"), bucket(0, 1, 0));
        for above in ["1001/s", "60_001/min", "2/ms", "999999999999999/h"] {
            let refusal = inline.numbers(above).unwrap_err();
            assert_eq!(refusal.to_string(), "the rate is above the 1000/s that the domain allows", "{above}");
        }
    }

    #[test]
    fn a_burst_is_bounded_where_the_domain_says_so() {
        let bounded = inline(Some(2_000));
        assert_eq!(bounded.numbers("10/s burst 2000"), bucket(10, 1, 2_000));
        assert_eq!(bounded.numbers("10/s burst 2001"), Err(InlineRefusal::BurstTooLarge { burst: 2_001, most: 2_000 }));
        let hourly = bounded.numbers("3000/h").unwrap_err();
        assert_eq!(hourly.to_string(), "the burst of 3000 is above the 2000 that the domain allows");
        assert_eq!(inline(None).numbers("10/s burst 2001"), bucket(10, 1, 2_001));
    }

    #[test]
    fn what_has_no_fixed_length_or_is_no_rate_is_not_accepted() {
        for text in ["unlimited", "10/day calendar UTC"] {
            assert_eq!(inline(None).numbers(text), Err(InlineRefusal::NotOfFixedLength), "{text}");
        }
        let refusal = inline(None).numbers("10/m").unwrap_err().to_string();
        assert!(refusal.starts_with("`m` could be a minute or a month; expected `min`"), "{refusal}");
    }
}
