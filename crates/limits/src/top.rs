//! Which keys of a limit are hit most: a sketch of bounded size over a stream of unbounded keys. It is *Space-Saving*
//! (Metwally, Agrawal, El Abbadi: "Efficient Computation of Frequent and Top-k Elements in Data Streams", ICDT 2005) with
//! weights, and its summaries merge (Agarwal et al.: "Mergeable Summaries", PODS 2012), so threads and nodes may each keep
//! one. This is the one place where the text of a key is kept, and it is kept cut to [`KEY_TEXT_MAX`] bytes.
//!
//! What holds of a sketch of `k` keys and of any merger of such, with `total` the sum of all weights:
//! - of each key that is told, `count - error <= true <= count`;
//! - of each key that is not told, `true <= absent`;
//! - `absent <= total / k` as long as nothing was missed; so whoever has more than that is told.
//!
//! The paper keeps counters in a linked structure that finds the least at once, for weights of 1. Here weights differ and
//! `k` is small: a scan over one byte per key, and a hand that goes round in search of the least, cost less than keeping a
//! heap and a hash table in step.

use std::collections::BTreeMap;
use std::fmt;

use crate::key::Fingerprint;

/// The longest text of a key that is kept, in bytes; a longer one is cut and ends with `…`.
pub const KEY_TEXT_MAX: usize = 128;

/// What a cut text ends with.
const CUT: &str = "…";

/// What is counted of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum By {
    /// Units of checks that were let pass.
    Hits,
    /// Checks that the limit refused, each as 1: a single refused cost of a billion is no flood.
    Denials,
}

impl By {
    /// The word that the API uses.
    pub const fn as_str(self) -> &'static str {
        match self {
            By::Hits => "hits",
            By::Denials => "denials",
        }
    }

    /// What a word means.
    pub fn of_word(word: &str) -> Option<By> {
        [By::Hits, By::Denials].into_iter().find(|by| by.as_str() == word)
    }
}

/// The text of a key, of bounded length, in a buffer that is never allocated anew.
#[derive(Clone)]
pub struct KeyText {
    bytes: [u8; KEY_TEXT_MAX],
    len: u8,
    cut: bool,
}

impl KeyText {
    /// No text.
    pub const fn new() -> KeyText {
        KeyText { bytes: [0; KEY_TEXT_MAX], len: 0, cut: false }
    }

    /// Adds `name=value`, after a space unless it is the first. A value that is not plainly readable is quoted and its odd
    /// characters are escaped, so that two different keys read differently and no text does anything to a terminal.
    pub fn push_part(&mut self, name: &str, value: &str) {
        if self.len > 0 {
            self.push_str(" ");
        }
        self.push_str(name);
        self.push_str("=");
        if value.chars().all(is_plain) {
            self.push_str(value);
        } else {
            self.push_str("\"");
            value.chars().flat_map(char::escape_debug).for_each(|c| self.push(c));
            self.push_str("\"");
        }
    }

    /// Adds text as it is, as far as there is room.
    pub fn push_str(&mut self, text: &str) {
        let len = usize::from(self.len);
        match self.bytes.get_mut(len..len + text.len()) {
            Some(room) if !self.cut => {
                room.copy_from_slice(text.as_bytes());
                self.len += text.len() as u8;
            }
            Some(_) | None => text.chars().for_each(|c| self.push(c)),
        }
    }

    fn push(&mut self, c: char) {
        if self.cut {
            return;
        }
        let len = usize::from(self.len);
        if len + c.len_utf8() <= KEY_TEXT_MAX {
            c.encode_utf8(&mut self.bytes[len..]);
            self.len += c.len_utf8() as u8;
        } else {
            self.cut_off();
        }
    }

    /// Makes room for the mark at the end by letting the last characters go.
    fn cut_off(&mut self) {
        self.cut = true;
        let fits = |end: &usize| end + CUT.len() <= KEY_TEXT_MAX;
        let end = self.as_str().char_indices().map(|(start, _)| start).rfind(fits).unwrap_or(0);
        self.bytes[end..end + CUT.len()].copy_from_slice(CUT.as_bytes());
        self.len = (end + CUT.len()) as u8;
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.bytes[..usize::from(self.len)]).expect("only whole characters are added")
    }

    fn clear(&mut self) {
        self.len = 0;
        self.cut = false;
    }
}

impl Default for KeyText {
    fn default() -> KeyText {
        KeyText::new()
    }
}

impl fmt::Debug for KeyText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_str().fmt(f)
    }
}

impl fmt::Write for KeyText {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.push_str(text);
        Ok(())
    }
}

/// Whether a character of a value is shown as it is and ends nothing.
fn is_plain(c: char) -> bool {
    c.is_ascii_graphic() && c != '"' && c != '\\'
        || (!c.is_ascii() && !c.is_whitespace() && c.escape_debug().len() == 1)
}

/// Tags that are compared in one go.
const TAGS: usize = 16;

/// A sketch of the heaviest keys. The arrays have one place per key; whatever a hit searches lies close together.
#[derive(Clone, Debug)]
pub struct Top {
    capacity: usize,
    /// One byte of each key, filled up to a multiple of [`TAGS`].
    tags: Vec<u8>,
    keys: Vec<Fingerprint>,
    counts: Vec<u64>,
    errors: Vec<u64>,
    texts: Vec<KeyText>,
    total: u64,
    /// No count is below this.
    least: u64,
    /// Where the search for a least count goes on.
    hand: usize,
}

impl Top {
    /// An empty sketch of at most `capacity` keys, at least one. Everything it will ever need is allocated here.
    pub fn new(capacity: usize) -> Top {
        let capacity = capacity.max(1);
        Top {
            capacity,
            tags: vec![0; capacity.next_multiple_of(TAGS)],
            keys: Vec::with_capacity(capacity),
            counts: Vec::with_capacity(capacity),
            errors: Vec::with_capacity(capacity),
            texts: Vec::with_capacity(capacity),
            total: 0,
            least: 0,
            hand: 0,
        }
    }

    /// Adds `weight` to a key. `text` writes the key's text, and is called only when the key was not in the sketch. A key
    /// that finds no room takes the place of the lightest and inherits its count, as error. Sums stop at `u64::MAX`.
    pub fn add(&mut self, key: Fingerprint, weight: u64, text: impl FnOnce(&mut KeyText)) {
        self.total = self.total.saturating_add(weight);
        if let Some(place) = self.place_of(&key) {
            self.counts[place] = self.counts[place].saturating_add(weight);
        } else if self.keys.len() < self.capacity {
            let mut written = KeyText::new();
            text(&mut written);
            self.tags[self.keys.len()] = tag_of(&key);
            self.keys.push(key);
            self.counts.push(weight);
            self.errors.push(0);
            self.texts.push(written);
        } else {
            let place = self.lightest();
            self.tags[place] = tag_of(&key);
            self.keys[place] = key;
            self.errors[place] = self.counts[place];
            self.counts[place] = self.counts[place].saturating_add(weight);
            self.texts[place].clear();
            text(&mut self.texts[place]);
        }
    }

    /// The weight of everything that was added.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// The place of a key. Nearly all of a sketch is passed by without a branch for each key.
    fn place_of(&self, key: &Fingerprint) -> Option<usize> {
        let tag = tag_of(key);
        let is_there = |tags: &&[u8]| tags.iter().fold(false, |found, other| found | (*other == tag));
        let parts = self.tags.chunks_exact(TAGS).enumerate().filter(|(_, tags)| is_there(tags));
        let places = parts.flat_map(|(part, _)| part * TAGS..(part + 1) * TAGS);
        places.filter(|place| self.tags[*place] == tag).find(|place| self.keys.get(*place) == Some(key))
    }

    /// The place of a least count. Counts only grow, and while keys that come once push each other out, the next place is
    /// mostly another of the same count; so a turn of the hand serves as many keys as there are.
    fn lightest(&mut self) -> usize {
        let from_the_hand = self.counts[self.hand..].iter().position(|count| *count <= self.least);
        let place = from_the_hand.map(|ahead| self.hand + ahead).unwrap_or_else(|| {
            self.least = self.counts.iter().copied().min().unwrap_or(0);
            self.counts.iter().position(|count| *count <= self.least).unwrap_or(0)
        });
        self.hand = place + 1;
        place
    }

    /// What the sketch tells. `missed` is the weight that went past it, of whichever keys: it may belong to any of them,
    /// so it stands in every count and in every error.
    pub fn summary(&self, missed: u64) -> Summary {
        let full = self.keys.len() == self.capacity;
        let least = if full { self.counts.iter().copied().min().unwrap_or(0) } else { 0 };
        let told = self.keys.iter().zip(&self.texts).zip(self.counts.iter().zip(&self.errors));
        let keys = told.map(|((key, text), (count, error))| TopKey {
            key: *key,
            text: text.as_str().into(),
            count: count.saturating_add(missed),
            error: error.saturating_add(missed),
        });
        let mut summary = Summary {
            keys: keys.collect(),
            total: self.total.saturating_add(missed),
            absent: least.saturating_add(missed),
        };
        summary.sort();
        summary
    }
}

/// A byte of a key, of those by which nothing else is placed.
const fn tag_of(key: &Fingerprint) -> u8 {
    (key.0[0] >> 48) as u8
}

/// One key of a summary.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopKey {
    /// The key's identity under its limit.
    pub key: Fingerprint,
    /// What people read, for example `org=acme user=u1`.
    pub text: Box<str>,
    /// At most this much.
    pub count: u64,
    /// At least `count - error`.
    pub error: u64,
}

/// What a sketch, or several, tell of the heaviest keys.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// The heaviest first.
    pub keys: Vec<TopKey>,
    /// The weight of everything, told or not.
    pub total: u64,
    /// The most that a key can have that is not told.
    pub absent: u64,
}

impl Summary {
    /// The summary of nothing but weight that no sketch saw.
    pub fn of_missed(missed: u64) -> Summary {
        Summary { keys: Vec::new(), total: missed, absent: missed }
    }

    /// The summary of all of these streams together. A key that one of them does not tell may have had there as much as
    /// that one's `absent`, which is added to its count and to its error.
    pub fn merge(summaries: &[Summary]) -> Summary {
        let sum = |part: fn(&Summary) -> u64| summaries.iter().map(part).fold(0, u64::saturating_add);
        let absent = sum(|summary| summary.absent);
        let mut merged: BTreeMap<Fingerprint, (TopKey, u64)> = BTreeMap::new();
        for summary in summaries {
            for key in &summary.keys {
                let nothing = || (TopKey { count: 0, error: 0, ..key.clone() }, 0);
                let (sum, told_by) = merged.entry(key.key).or_insert_with(nothing);
                sum.count = sum.count.saturating_add(key.count);
                sum.error = sum.error.saturating_add(key.error);
                *told_by = told_by.saturating_add(summary.absent);
            }
        }
        let keys = merged.into_values().map(|(key, told_by)| {
            let elsewhere = absent.saturating_sub(told_by);
            let (count, error) = (key.count.saturating_add(elsewhere), key.error.saturating_add(elsewhere));
            TopKey { count, error, ..key }
        });
        let mut summary = Summary { keys: keys.collect(), total: sum(|summary| summary.total), absent };
        summary.sort();
        summary
    }

    /// Tells the heaviest `keys` only. What is left out from now on can have as much as the first of it has.
    pub fn truncate(&mut self, keys: usize) {
        let left_out = self.keys.get(keys).map_or(0, |first| first.count);
        self.absent = self.absent.max(left_out);
        self.keys.truncate(keys);
    }

    /// The heaviest first; of equal ones the surest.
    fn sort(&mut self) {
        self.keys.sort_by(|one, other| (other.count, one.error, one.key).cmp(&(one.count, other.error, other.key)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text_of(parts: &[(&str, &str)]) -> String {
        let mut text = KeyText::new();
        parts.iter().for_each(|(name, value)| text.push_part(name, value));
        text.as_str().to_owned()
    }

    #[test]
    fn a_key_reads_as_names_and_values() {
        assert_eq!(text_of(&[("client", "alice")]), "client=alice");
        assert_eq!(text_of(&[("org", "acme"), ("user", "u=1")]), "org=acme user=u=1");
        assert_eq!(text_of(&[("client", "grüße")]), "client=grüße");
    }

    #[test]
    fn what_would_read_as_something_else_is_quoted() {
        assert_eq!(text_of(&[("org", "acme user=u1")]), r#"org="acme user=u1""#);
        assert_eq!(text_of(&[("client", "a\"b\\c")]), r#"client="a\"b\\c""#);
        assert_eq!(text_of(&[("client", "\u{1b}[31m\n")]), r#"client="\u{1b}[31m\n""#);
        assert_eq!(text_of(&[("client", "a\u{202e}b")]), r#"client="a\u{202e}b""#);
        assert_eq!(text_of(&[("client", "\u{a0}")]), r#"client="\u{a0}""#);
    }

    #[test]
    fn a_long_text_is_cut_between_characters_and_says_so() {
        for (unit, odd) in [("x", ""), ("ü", ""), ("ü", "x"), ("\u{1f600}", "xy"), ("\n", "")] {
            let value = odd.to_owned() + &unit.repeat(256);
            let text = text_of(&[("client", &value), ("user", "u1")]);
            assert!(text.len() <= KEY_TEXT_MAX && text.len() > KEY_TEXT_MAX - 8, "{} {text}", text.len());
            assert!(text.ends_with(CUT) && !text.contains("user"), "{text}");
        }
        let fits = "x".repeat(KEY_TEXT_MAX - "client=".len());
        assert_eq!(text_of(&[("client", &fits)]), format!("client={fits}"));
    }

    #[test]
    fn the_lightest_gives_way_and_leaves_its_count_as_error() {
        let mut top = Top::new(2);
        let key = |number| Fingerprint([number, 0]);
        for (number, weight) in [(1, 10), (2, 3), (3, 1)] {
            top.add(key(number), weight, |text| text.push_str(&number.to_string()));
        }
        let told = |number, count, error| TopKey { key: key(number), text: number.to_string().into(), count, error };
        let summary = Summary { keys: vec![told(1, 10, 0), told(3, 4, 3)], total: 14, absent: 4 };
        assert_eq!(top.summary(0), summary);
        let missed = Summary { keys: vec![told(1, 12, 2), told(3, 6, 5)], total: 16, absent: 6 };
        assert_eq!(top.summary(2), missed);
    }

    #[test]
    fn what_is_left_out_bounds_what_is_not_told() {
        let mut top = Top::new(4);
        for number in 1..=3 {
            top.add(Fingerprint([number, 0]), number, |_| {});
        }
        let mut summary = top.summary(0);
        assert_eq!(summary.absent, 0, "there is room for another");
        summary.truncate(3);
        assert_eq!(summary.absent, 0);
        summary.truncate(1);
        assert_eq!((summary.keys.len(), summary.keys[0].count, summary.absent), (1, 3, 2));
    }
}
