//! What the judges saw: how much of everything they judged, and the most of what is bounded.

use std::collections::BTreeMap;
use std::fmt;

/// Counts, by name, of one run or of many.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Findings {
    counts: BTreeMap<&'static str, u64>,
    most: BTreeMap<&'static str, u64>,
}

impl Findings {
    /// Counts so many more of something.
    pub(super) fn count(&mut self, what: &'static str, more: u64) {
        *self.counts.entry(what).or_default() += more;
    }

    /// Takes note of a measure of which only the greatest matters.
    pub(super) fn measure(&mut self, what: &'static str, value: u64) {
        let most = self.most.entry(what).or_default();
        *most = value.max(*most);
    }

    /// How many of something were judged.
    pub fn counted(&self, what: &str) -> u64 {
        self.counts.get(what).copied().unwrap_or(0)
    }

    /// The greatest of a measure.
    pub fn most(&self, what: &str) -> u64 {
        self.most.get(what).copied().unwrap_or(0)
    }

    /// All counts, by name.
    pub fn counts(&self) -> impl Iterator<Item = (&'static str, u64)> {
        self.counts.iter().map(|(what, count)| (*what, *count))
    }

    /// All measures, by name.
    pub fn measures(&self) -> impl Iterator<Item = (&'static str, u64)> {
        self.most.iter().map(|(what, most)| (*what, *most))
    }

    /// Another run's findings beside these.
    pub fn add(&mut self, other: &Findings) {
        other.counts().for_each(|(what, count)| self.count(what, count));
        other.measures().for_each(|(what, value)| self.measure(what, value));
    }
}

impl fmt::Display for Findings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("judged:\n")?;
        self.counts().try_for_each(|(what, count)| writeln!(f, "  {count:>12}  {what}"))?;
        f.write_str("at most:\n")?;
        self.measures().try_for_each(|(what, most)| writeln!(f, "  {most:>12}  {what}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_add_up_and_of_measures_the_greatest_stays() {
        let (mut one, mut other) = (Findings::default(), Findings::default());
        one.count("rows", 2);
        one.measure("excess", 7);
        other.count("rows", 3);
        other.measure("excess", 5);
        one.add(&other);
        assert_eq!((one.counted("rows"), one.most("excess"), one.counted("reigns")), (5, 7, 0));
        assert!(one.to_string().contains("5  rows"));
    }
}
