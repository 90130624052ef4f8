//! A choice of places in a list, as people write them: `0,2` or `10-40,77`, or `none`. What is left of a story after it
//! was made smaller is said in these words, so that it can be played again.

use std::fmt;
use std::str::FromStr;

/// Places of a list, each at most once, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Places(Vec<usize>);

/// Why words name no places. The doing of whoever wrote them.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected places such as `0,2` or `10-40,77`, or `none`; found `{0}`")]
pub struct NoPlaces(String);

impl Places {
    /// These, in any order.
    pub fn new(mut places: Vec<usize>) -> Places {
        places.sort_unstable();
        places.dedup();
        Places(places)
    }

    /// All places of a list of that length.
    pub fn all(length: usize) -> Places {
        Places((0..length).collect())
    }

    /// In order.
    pub fn as_slice(&self) -> &[usize] {
        &self.0
    }

    /// What stands at these places; places beyond the list's end name nothing.
    pub fn of<T: Clone>(&self, list: &[T]) -> Vec<T> {
        self.0.iter().filter_map(|place| list.get(*place)).cloned().collect()
    }

    /// Without those from one to another place *of this choice*, the end not included.
    pub fn without(&self, from: usize, until: usize) -> Places {
        Places([&self.0[..from], &self.0[until..]].concat())
    }
}

impl fmt::Display for Places {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("none");
        }
        let mut comma = "";
        for run in self.0.chunk_by(|one, next| one + 1 == *next) {
            match run {
                [one] => write!(f, "{comma}{one}")?,
                run => write!(f, "{comma}{}-{}", run[0], run[run.len() - 1])?,
            }
            comma = ",";
        }
        Ok(())
    }
}

impl FromStr for Places {
    type Err = NoPlaces;

    fn from_str(text: &str) -> Result<Places, NoPlaces> {
        if text == "none" {
            return Ok(Places::default());
        }
        let mut places = Vec::new();
        for part in text.split(',') {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            match (first.parse::<u16>(), last.parse::<u16>()) {
                (Ok(first), Ok(last)) if first <= last => places.extend(usize::from(first)..=usize::from(last)),
                _ => return Err(NoPlaces(text.to_owned())),
            }
        }
        Ok(Places::new(places))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_read_as_they_are_written() {
        for text in ["none", "0", "0,2", "10-40,77", "0-1"] {
            assert_eq!(text.parse::<Places>().unwrap().to_string(), text);
        }
        assert_eq!("3,1,2,2".parse::<Places>().unwrap().to_string(), "1-3");
    }

    #[test]
    fn other_words_are_refused_with_what_was_expected() {
        for text in ["", "x", "1,", "4-2", "-1", "1-2-3", "99999999"] {
            let refused = text.parse::<Places>().unwrap_err().to_string();
            assert!(refused.ends_with(&format!("found `{text}`")), "{refused}");
        }
    }

    #[test]
    fn what_is_taken_away_is_counted_within_the_choice() {
        let places = Places::new(vec![4, 8, 15, 16, 23]);
        assert_eq!(places.without(1, 3), Places::new(vec![4, 16, 23]));
        assert_eq!(places.of(&['a'; 10]).len(), 2);
    }
}
