//! When each node could be asked. Somebody owes an answer only while some node was up all the time, and had been for long
//! enough that callers knew.

use limits::{Moment, Span};

/// How long after a node came up callers may still not know: the longest pause between two tries to connect, and a
/// connection.
const KNOWN_AFTER: Span = Span::from_millis(1_000);

/// The times in which one node could be asked.
#[derive(Clone, Debug, Default)]
pub struct Serving {
    up: Vec<(Moment, Option<Moment>)>,
}

impl Serving {
    /// It answers from now on.
    pub fn begins(&mut self, at: Moment) {
        if self.is_down() {
            self.up.push((at, None));
        }
    }

    /// It does not answer any more, or will not in a moment.
    pub fn ends(&mut self, at: Moment) {
        if let Some((_, end @ None)) = self.up.last_mut() {
            *end = Some(at);
        }
    }

    /// Whether it does not answer now.
    pub fn is_down(&self) -> bool {
        self.up.last().is_none_or(|(_, end)| end.is_some())
    }

    /// Whether it could be asked, and was known to be, from one moment to another.
    pub fn covers(&self, from: Moment, until: Moment) -> bool {
        let known = |begin: Moment| if begin == Moment::ZERO { begin } else { begin.saturating_add(KNOWN_AFTER) };
        self.up.iter().any(|(begin, end)| known(*begin) <= from && end.is_none_or(|end| until <= end))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Moment {
        Moment::from_nanos(millis * 1_000_000)
    }

    #[test]
    fn a_node_owes_answers_while_it_is_up_and_known_to_be() {
        let mut serving = Serving::default();
        assert!(serving.is_down() && !serving.covers(at(0), at(1)));
        serving.begins(Moment::ZERO);
        serving.ends(at(100));
        serving.ends(at(120));
        serving.begins(at(200));
        assert!(serving.covers(at(10), at(100)));
        assert!(!serving.covers(at(10), at(101)));
        assert!(!serving.covers(at(1_100), at(1_150)), "callers may not know yet");
        assert!(serving.covers(at(1_200), at(9_000)));
    }
}
