//! Whether one peer is left alone. The rules are the breaker's; here it is shared by those who ask and by the task that
//! sends, and whatever it counts goes to the peer's tally, which outlives the link.

use std::sync::Arc;

use limits::Moment;
use ownership::ingress::{Breaker, Pass};
use parking_lot::Mutex;

use crate::peer::tally::PeerTally;

/// The circuit to one peer.
#[derive(Debug)]
pub(super) struct Circuit {
    breaker: Mutex<Breaker>,
    tally: Arc<PeerTally>,
}

impl Circuit {
    /// A closed one.
    pub(super) fn new(tally: Arc<PeerTally>) -> Circuit {
        Circuit { breaker: Mutex::default(), tally }
    }

    /// Whether the peer may be asked at `now`, or is left alone. Whoever may asks it.
    pub(super) fn may_ask(&self, now: Moment) -> bool {
        self.with(|breaker| breaker.poll_pass(now)) == Pass::Go
    }

    /// Something that is to be answered was sent.
    pub(super) fn handle_sent(&self, now: Moment) {
        self.with(|breaker| breaker.handle_sent(now));
    }

    /// An answer came to what was sent at `sent`.
    pub(super) fn handle_answer(&self, sent: Moment) {
        self.with(|breaker| breaker.handle_answer(sent));
    }

    /// The peer could not be reached, or the connection broke.
    pub(super) fn handle_failure(&self, now: Moment) {
        self.with(|breaker| breaker.handle_failure(now));
    }

    /// Whether the peer is left alone, to show.
    pub(super) fn is_open(&self, now: Moment) -> bool {
        self.breaker.lock().is_open(now)
    }

    fn with<T>(&self, act: impl FnOnce(&mut Breaker) -> T) -> T {
        let mut breaker = self.breaker.lock();
        let (before, _) = breaker.counts();
        let result = act(&mut breaker);
        let (opened, _) = breaker.counts();
        if opened > before {
            self.tally.count_opened(opened - before);
        }
        result
    }
}

#[cfg(test)]
mod tests {
    use limits::Span;

    use super::*;

    fn ms(millis: u64) -> Moment {
        Moment::ZERO.saturating_add(Span::from_millis(60_000 + millis))
    }

    fn broken(tally: &Arc<PeerTally>) -> Circuit {
        let circuit = Circuit::new(Arc::clone(tally));
        for _ in 0..ownership::ingress::FAILURES {
            circuit.handle_failure(ms(0));
        }
        circuit
    }

    #[test]
    fn what_a_link_counted_stays_with_the_peers_tally_when_the_link_is_gone() {
        let tally = Arc::default();
        drop(broken(&tally));
        assert_eq!(tally.opened(), 1);
        drop(broken(&tally));
        assert_eq!(tally.opened(), 2);
    }

    #[test]
    fn a_circuit_is_shown_as_a_question_would_find_it() {
        let circuit = broken(&Arc::default());
        assert!(circuit.is_open(ms(1)) && !circuit.may_ask(ms(1)));
        assert!(circuit.is_open(ms(9_999)), "nobody asked, and it was barred a moment ago");
        assert!(!circuit.is_open(ms(20_000)), "nobody wants anything of it: nothing is kept from it");

        let silent = Circuit::new(Arc::default());
        silent.handle_sent(ms(0));
        assert!(!silent.is_open(ms(500)));
        assert!(silent.is_open(ms(501)) && !silent.may_ask(ms(501)), "nobody has asked since");
        silent.handle_answer(ms(0));
        assert!(!silent.is_open(ms(502)), "it lives");

        let asked_once = Circuit::new(Arc::default());
        assert!(asked_once.may_ask(ms(0)));
        asked_once.handle_sent(ms(0));
        let shown = [500, 501, 5_000, 12_000, 12_001].map(|at| asked_once.is_open(ms(at)));
        assert_eq!(shown, [false, true, true, true, false], "nobody asks it again");
    }
}
