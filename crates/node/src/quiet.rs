//! Saying a thing once in a while. What comes from outside may come a thousand times a second; the log hears of each reason
//! once per interval, and the counters count all.

use std::collections::BTreeMap;

use limits::{Moment, Span};

/// At most one report per reason in this time.
pub const REPORT_EVERY: Span = Span::from_secs(10);

/// When each reason was last reported. As many entries as there are reasons.
#[derive(Debug)]
pub(crate) struct Quiet<Reason>(BTreeMap<Reason, Moment>);

impl<Reason: Ord> Quiet<Reason> {
    pub(crate) fn new() -> Quiet<Reason> {
        Quiet(BTreeMap::new())
    }

    /// Whether `reason` may be reported now; if so, it will not be again before [`REPORT_EVERY`] is over.
    pub(crate) fn lets(&mut self, reason: Reason, now: Moment) -> bool {
        let recent = self.0.get(&reason).is_some_and(|last| now.since(*last) < REPORT_EVERY);
        if !recent {
            self.0.insert(reason, now);
        }
        !recent
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reason_is_let_through_once_per_interval() {
        let start = Moment::from_nanos(1);
        let end = start.saturating_add(REPORT_EVERY);
        let mut quiet = Quiet::new();
        assert!(quiet.lets("a", start));
        assert!(!quiet.lets("a", end.saturating_sub(Span::from_nanos(1))));
        assert!(quiet.lets("b", start));
        assert!(quiet.lets("a", end));
    }
}
