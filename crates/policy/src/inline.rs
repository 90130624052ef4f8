//! Rates that come with the check, where a domain allows them: up to which rate, how many of them, and what happens to
//! such a check when nobody can count it.

use std::fmt;

use limits::{Algorithm, FailMode, Rate};

use crate::address::IpPrefixes;
use crate::bounds::{INLINE_RATE_MAX, KEY_PARTS_MAX};
use crate::digest;
use crate::document::Numbers;
use crate::name::{ATTRIBUTE_SHAPE, NAME_SHAPE, is_attribute_name, is_name};
use crate::rate_text::{RateText, RateTextError};

/// What a domain allows to be asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Inline {
    pub(crate) max_rate: Rate,
    pub(crate) max_burst: Option<u64>,
    pub(crate) max_limits: u32,
    pub(crate) fail: FailMode,
}

/// A limit that came with a check: a token bucket, in the form in which the cluster agrees on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InlineLimit {
    pub(crate) name: String,
    pub(crate) numbers: Numbers,
    pub(crate) key: Vec<String>,
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
    /// Its name is not one that limits have.
    #[error("`{name}` is no name for a limit: {NAME_SHAPE}")]
    NameMalformed {
        /// The name, cut.
        name: String,
    },
    /// A limit of the domain has that name.
    #[error("`{name}` is the name of another limit of the domain")]
    NameTaken {
        /// The name.
        name: String,
    },
    /// An attribute of its key is not one.
    #[error("`{name}` is no attribute name: {ATTRIBUTE_SHAPE}")]
    AttributeMalformed {
        /// The attribute, cut.
        name: String,
    },
    /// Its key names an attribute twice.
    #[error("the key names `{name}` twice")]
    AttributeTwice {
        /// The attribute.
        name: String,
    },
    /// Its key has too many parts.
    #[error("a key has at most {KEY_PARTS_MAX} attributes")]
    KeyTooLong,
    /// With it, the domain's limits would count by too many attributes.
    #[error("the limits of a domain can count by no more attributes")]
    TooManyAttributes,
    /// Longer than any rate that can be meant.
    #[error("a rate that comes with a check has at most {INLINE_RATE_MAX} bytes")]
    RateTooLong,
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

    /// The limit that a check brings along: its name, its rate literal, and the attributes it counts by.
    ///
    /// # Errors
    ///
    /// [`InlineRefusal`].
    pub fn define(&self, name: &str, rate: &str, key: &[&str]) -> Result<InlineLimit, InlineRefusal> {
        if !is_name(name) {
            return Err(InlineRefusal::NameMalformed { name: cut(name) });
        }
        if key.len() > KEY_PARTS_MAX {
            return Err(InlineRefusal::KeyTooLong);
        }
        for (index, attribute) in key.iter().enumerate() {
            if !is_attribute_name(attribute) {
                return Err(InlineRefusal::AttributeMalformed { name: cut(attribute) });
            }
            if key[..index].contains(attribute) {
                return Err(InlineRefusal::AttributeTwice { name: (*attribute).to_owned() });
            }
        }
        let (name, key) = (name.to_owned(), key.iter().map(|attribute| (*attribute).to_owned()).collect());
        Ok(InlineLimit { name, numbers: self.numbers(rate)?, key })
    }

    /// The numbers that a rate literal asks for: a token bucket, at most as fast as the domain allows, and at most as
    /// large where the domain says how large.
    ///
    /// # Errors
    ///
    /// [`InlineRefusal`].
    pub fn numbers(&self, literal: &str) -> Result<Numbers, InlineRefusal> {
        if literal.len() > INLINE_RATE_MAX {
            return Err(InlineRefusal::RateTooLong);
        }
        // Refused unread: to look for the zone that a misspelt one meant takes longer than everything else here.
        if literal.contains("calendar") {
            return Err(InlineRefusal::NotOfFixedLength);
        }
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

impl InlineLimit {
    /// A limit as the log has it: its name and the text of its [`Display`](fmt::Display). `None` if it is none.
    pub fn parse(name: &str, text: &str) -> Option<InlineLimit> {
        let (rate, key) = text.split_once(BY).unwrap_or((text, ""));
        let RateText::Limited { rate, burst } = RateText::parse(rate).ok()? else { return None };
        let burst = burst.unwrap_or(rate.amount());
        let numbers = Numbers { rate: Some(rate), algorithm: Algorithm::TokenBucket { burst } };
        let key: Vec<String> = key.split_whitespace().map(str::to_owned).collect();
        let readable = is_name(name) && key.iter().all(|attribute| is_attribute_name(attribute));
        readable.then(|| InlineLimit { name: name.to_owned(), numbers, key })
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Over its key: what its state is filed under, as for a limit of the document.
    pub fn digest(&self) -> [u8; 16] {
        digest::of(&self.key, None, IpPrefixes::default())
    }
}

/// What stands between the rate and the attributes of the key.
const BY: &str = " by ";

/// Rate and key in one form for each meaning, such as `5/min burst 10 by org user`. The name is not part of it.
impl fmt::Display for InlineLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.numbers {
            Numbers { rate: Some(rate), algorithm: Algorithm::TokenBucket { burst } } => {
                let burst = (burst != rate.amount()).then_some(burst);
                write!(f, "{}", RateText::Limited { rate, burst })?;
            }
            Numbers { .. } => debug_assert!(false, "what comes with a check is a bucket with a rate"),
        }
        if self.key.is_empty() { Ok(()) } else { write!(f, "{BY}{}", self.key.join(" ")) }
    }
}

fn cut(text: &str) -> String {
    text.chars().take(crate::name::NAME_MAX).collect()
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

    #[test]
    fn what_no_rate_can_look_like_is_refused_unread() {
        let padded = |len: usize| format!("{:>len$}", "10/s");
        assert_eq!(inline(None).numbers(&padded(64)), bucket(10, 1, 10));
        assert_eq!(inline(None).numbers(&padded(65)), Err(InlineRefusal::RateTooLong));
        assert_eq!(inline(None).numbers("1/day calendar Europe/Berln"), Err(InlineRefusal::NotOfFixedLength));
    }

    #[test]
    fn a_limit_is_one_text_for_each_meaning_and_can_be_read_back() {
        for (rate, key, text) in [
            ("5/min burst 10", &["org", "user"][..], "5/min burst 10 by org user"),
            ("5 / 60s", &[], "5/min"),
            ("7/s burst 7", &["ip"], "7/s by ip"),
        ] {
            let limit = inline(None).define("downloads", rate, key).unwrap();
            assert_eq!(limit.to_string(), text);
            assert_eq!(InlineLimit::parse("downloads", text), Some(limit));
        }
        for broken in ["", "5", "unlimited", "5/min by Org", "1000/day calendar UTC"] {
            assert_eq!(InlineLimit::parse("downloads", broken), None, "{broken}");
        }
    }

    #[test]
    fn names_and_keys_of_what_comes_with_a_check_are_held_to_the_same_shapes_as_those_of_a_document() {
        let define = |name: &str, key: &[&str]| inline(None).define(name, "5/s", key).unwrap_err();
        assert!(matches!(define("Down loads", &[]), InlineRefusal::NameMalformed { .. }));
        assert!(matches!(define("", &[]), InlineRefusal::NameMalformed { .. }));
        assert!(matches!(define("x", &["Org"]), InlineRefusal::AttributeMalformed { .. }));
        assert!(matches!(define("x", &["org", "org"]), InlineRefusal::AttributeTwice { .. }));
        assert_eq!(define("x", &["a"; 9]), InlineRefusal::KeyTooLong);
    }

    #[test]
    fn a_key_has_the_digest_that_it_has_in_a_document() {
        let document =
            crate::Document::parse("ringfence: 1\ndomain: d\nlimits: { a: { rate: 9/h, key: [org, user] } }").unwrap();
        let limit = inline(None).define("x", "5/s", &["org", "user"]).unwrap();
        assert_eq!(limit.digest(), document.limit_digests()[0].digest);
    }
}
