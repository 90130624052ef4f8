//! A part of a story: some of its faults, some of its asks, perhaps in fine weather. It is what is left of a scenario
//! after it was made smaller, spelled as the words of the command that plays it.

use std::fmt;

use limits::Span;

use super::Places;
use crate::world::{Scenario, Weather};

/// What is kept of a scenario; everything, if nothing is said.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Part {
    /// Of its faults, by their places.
    pub faults: Option<Places>,
    /// Of its asks.
    pub asks: Option<Places>,
    /// Whether the weather is fine from the beginning.
    pub calm: bool,
}

/// The weather of a story that does not need a worse one.
const FINE: Weather = Weather {
    delay_min: Span::from_micros(500),
    delay_max: Span::from_micros(500),
    lost_per_mille: 0,
    doubled_per_mille: 0,
};

/// A part names what its story has not. The doing of whoever wrote it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no {what} {place}: the story has {length}, numbered from 0")]
pub struct Beyond {
    what: &'static str,
    place: usize,
    length: usize,
}

impl Part {
    /// Whether the scenario has all that is named.
    ///
    /// # Errors
    /// The first fault or ask that it has not.
    pub fn fits(&self, whole: &Scenario) -> Result<(), Beyond> {
        let lists = [("fault", &self.faults, whole.faults.len()), ("ask", &self.asks, whole.asks.len())];
        for (what, places, length) in lists {
            let named = places.iter().flat_map(Places::as_slice);
            if let Some(&place) = named.into_iter().find(|place| **place >= length) {
                return Err(Beyond { what, place, length });
            }
        }
        Ok(())
    }

    /// That part of the scenario.
    pub fn of(&self, whole: &Scenario) -> Scenario {
        let mut part = whole.clone();
        if let Some(faults) = &self.faults {
            part.faults = faults.of(&whole.faults);
        }
        if let Some(asks) = &self.asks {
            part.asks = asks.of(&whole.asks);
        }
        if self.calm {
            part.weather = FINE;
        }
        part
    }

    /// Whether it is everything.
    pub fn is_whole(&self) -> bool {
        *self == Part::default()
    }
}

/// The words of the command, each with a space before it; none for everything.
impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(faults) = &self.faults {
            write!(f, " --faults {faults}")?;
        }
        if let Some(asks) = &self.asks {
            write!(f, " --asks {asks}")?;
        }
        if self.calm {
            f.write_str(" --calm")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_keeps_what_it_names_and_everything_else_as_it_was() {
        let whole = Scenario::of(3);
        let part = Part { faults: Some(Places::new(vec![1])), asks: Some("0-9".parse().unwrap()), calm: true };
        let kept = part.of(&whole);
        assert_eq!(kept.faults, whole.faults[1..2]);
        assert_eq!(kept.asks, whole.asks[..10]);
        assert_eq!(kept.policies, whole.policies);
        assert_eq!(kept.weather, FINE);
        assert_eq!(format!("{:?}", Part::default().of(&whole)), format!("{whole:?}"));
    }

    #[test]
    fn a_part_that_names_what_is_not_there_is_refused() {
        let whole = Scenario::of(3);
        let last = |length: usize| Some(Places::new(vec![0, length - 1]));
        let part = Part { faults: last(whole.faults.len()), asks: last(whole.asks.len()), calm: false };
        assert_eq!(part.fits(&whole), Ok(()));
        let beyond = Part { faults: Some(Places::new(vec![1, 900])), ..Part::default() };
        let refused = beyond.fits(&whole).unwrap_err().to_string();
        let length = whole.faults.len();
        assert_eq!(refused, format!("there is no fault 900: the story has {length}, numbered from 0"));
        let beyond = Part { asks: Some(Places::new(vec![whole.asks.len()])), ..Part::default() };
        assert!(beyond.fits(&whole).unwrap_err().to_string().starts_with("there is no ask "));
    }

    #[test]
    fn a_part_is_spelled_as_words_of_a_command() {
        let part = Part { faults: Some(Places::default()), asks: Some("1-3,7".parse().unwrap()), calm: true };
        assert_eq!(part.to_string(), " --faults none --asks 1-3,7 --calm");
        assert_eq!(Part::default().to_string(), "");
        assert!(Part::default().is_whole() && !part.is_whole());
    }
}
