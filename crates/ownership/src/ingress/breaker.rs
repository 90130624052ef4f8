//! Whether a peer is worth asking. One that is gone, or that takes what it is sent and says nothing, is left alone for a
//! moment, so that whoever asks meanwhile is answered by the failure modes at once instead of waiting for nothing. It is no
//! authority: it says nothing about who owns what, and every question that it bars is one that may be unanswered anyway.

use limits::{Moment, Span};

/// How long a peer may leave everything unanswered before it is left alone.
pub const SILENCE: Span = Span::from_millis(500);

/// How many deliveries in a row may fail before a peer is left alone.
pub const FAILURES: u8 = 2;

/// How long a peer is left alone at first; twice as long after each probe that fails.
pub const PAUSE_MIN: Span = Span::from_millis(100);

/// The longest that a peer is left alone before it is tried again.
pub const PAUSE_MAX: Span = Span::from_millis(500);

/// How long a probe may be unanswered before it has failed.
pub const PROBE: Span = Span::from_millis(250);

/// For how long anything is known of a peer of which nobody wants anything. Whoever asks later asks afresh, and what a cut
/// of long ago left behind bars nobody.
pub const MEMORY: Span = Span::from_secs(2);

/// For how long a peer that was left alone is still told to be, once nobody would be barred for it any more.
pub const LINGER: Span = Span::from_secs(10);

/// What is known of one peer by what came back from it.
#[derive(Clone, Debug, Default)]
pub struct Breaker {
    /// When somebody last wanted to ask it, or first had to do with it.
    wanted: Option<Moment>,
    /// When the last message was sent.
    sent: Option<Moment>,
    /// No later than when the oldest message that is not answered was sent.
    silent_since: Option<Moment>,
    /// Deliveries that failed since the last answer.
    failures: u8,
    circuit: Circuit,
    opened: u64,
    barred: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Circuit {
    #[default]
    Closed,
    /// Nothing is sent.
    Open { until: Moment, pause: Span },
    /// One message is under way, and nothing else is sent before it is answered.
    Probing { since: Moment, pause: Span },
}

/// Whether something may be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pass {
    /// It may.
    Go,
    /// The peer is left alone.
    Barred,
}

impl Breaker {
    /// A peer of which nothing is known, which is asked.
    pub fn new() -> Breaker {
        Breaker::default()
    }

    /// Whether a question may be put to the peer now. Whoever may puts it: it may be the probe.
    pub fn poll_pass(&mut self, now: Moment) -> Pass {
        if self.is_forgotten(now) {
            (self.circuit, self.silent_since, self.failures) = (Circuit::Closed, None, 0);
        }
        self.wanted = Some(now);
        let pass = match self.circuit {
            Circuit::Closed if self.is_silent(now) => self.open(PAUSE_MIN, now),
            Circuit::Closed => Pass::Go,
            Circuit::Open { until, .. } if now < until => Pass::Barred,
            Circuit::Open { pause, .. } => {
                self.circuit = Circuit::Probing { since: now, pause };
                Pass::Go
            }
            Circuit::Probing { since, pause } if now.since(since) >= PROBE => self.open(twice(pause), now),
            Circuit::Probing { .. } => Pass::Barred,
        };
        self.barred += u64::from(pass == Pass::Barred);
        pass
    }

    /// Something that is to be answered was sent.
    pub fn handle_sent(&mut self, now: Moment) {
        self.wanted.get_or_insert(now);
        self.sent = Some(now);
        self.silent_since.get_or_insert(now);
    }

    /// An answer came to something that was sent at `sent`: the peer lives.
    pub fn handle_answer(&mut self, sent: Moment) {
        self.failures = 0;
        self.circuit = Circuit::Closed;
        // Answers come in the order of what they answer, so whatever is still to be answered was sent since.
        let more = self.sent.is_some_and(|last| last > sent);
        self.silent_since = more.then_some(self.silent_since.map_or(sent, |since| since.max(sent)));
    }

    /// The peer could not be reached, or the connection broke with everything that was under way on it.
    pub fn handle_failure(&mut self, now: Moment) {
        self.wanted.get_or_insert(now);
        self.failures = self.failures.saturating_add(1);
        self.silent_since = None;
        match self.circuit {
            Circuit::Closed if self.failures >= FAILURES => drop(self.open(PAUSE_MIN, now)),
            Circuit::Probing { pause, .. } => drop(self.open(twice(pause), now)),
            Circuit::Closed | Circuit::Open { .. } => {}
        }
    }

    /// Whether the peer is left alone, to show: also [`LINGER`] after it would not be any more, had nobody asked.
    pub fn is_open(&self, now: Moment) -> bool {
        let shut = self.circuit != Circuit::Closed || self.is_silent(now);
        shut && !self.is_forgotten(now.saturating_sub(LINGER))
    }

    /// How often the peer began to be left alone, and how many questions were not put to it for that.
    pub const fn counts(&self) -> (u64, u64) {
        (self.opened, self.barred)
    }

    fn is_forgotten(&self, now: Moment) -> bool {
        self.wanted.is_some_and(|wanted| now.since(wanted) > MEMORY)
    }

    fn is_silent(&self, now: Moment) -> bool {
        self.silent_since.is_some_and(|since| now.since(since) > SILENCE)
    }

    fn open(&mut self, pause: Span, now: Moment) -> Pass {
        self.opened += u64::from(self.circuit == Circuit::Closed);
        self.circuit = Circuit::Open { until: now.saturating_add(pause), pause };
        Pass::Barred
    }
}

fn twice(pause: Span) -> Span {
    pause.saturating_add(pause).min(PAUSE_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(millis: u64) -> Moment {
        Moment::ZERO.saturating_add(Span::from_millis(millis))
    }

    /// What may be sent, asked every ten milliseconds and sent where it may, with nothing ever coming back.
    fn sent_into_silence(breaker: &mut Breaker, from: u64, to: u64) -> Vec<u64> {
        let tries = (from..to).step_by(10).filter(|at| breaker.poll_pass(ms(*at)) == Pass::Go);
        let sent: Vec<u64> = tries.collect();
        sent.iter().for_each(|at| breaker.handle_sent(ms(*at)));
        sent
    }

    #[test]
    fn a_peer_that_answers_is_asked_however_slowly_it_does() {
        let mut breaker = Breaker::new();
        for at in (0..10_000).step_by(100) {
            assert_eq!(breaker.poll_pass(ms(at)), Pass::Go);
            breaker.handle_sent(ms(at));
            if at >= 400 {
                breaker.handle_answer(ms(at - 400));
            }
        }
        assert_eq!(breaker.counts(), (0, 0));
    }

    /// Found on whole nodes (shell seeds 41, 87, 105, 118, 156 and 162): questions long after a cut were barred for it.
    #[test]
    fn what_nobody_asked_about_for_a_while_is_forgotten() {
        for (idle, pass) in [(2_000, Pass::Barred), (2_001, Pass::Go)] {
            let mut silent = Breaker::new();
            assert_eq!(silent.poll_pass(ms(0)), Pass::Go);
            silent.handle_sent(ms(0));
            assert_eq!(silent.poll_pass(ms(idle)), pass, "silent, {idle}");

            let mut probed = Breaker::new();
            (0..FAILURES).for_each(|_| probed.handle_failure(ms(0)));
            assert_eq!(probed.poll_pass(ms(100)), Pass::Go, "the probe");
            assert_eq!(probed.poll_pass(ms(100 + idle)), pass, "probed, {idle}");
            assert_eq!(probed.poll_pass(ms(101 + idle)), pass, "and no probe alone: {idle}");
        }
    }

    #[test]
    fn a_silent_peer_is_left_alone_and_tried_once_in_a_while() {
        let mut breaker = Breaker::new();
        for at in (0..=500).step_by(10) {
            assert_eq!(breaker.poll_pass(ms(at)), Pass::Go);
            breaker.handle_sent(ms(at));
        }
        assert_eq!(sent_into_silence(&mut breaker, 510, 3_300), [610, 1_060, 1_710, 2_460, 3_210], "the pauses grow");
        assert!(matches!(breaker.circuit, Circuit::Probing { .. }));
        breaker.handle_answer(ms(3_210));
        assert_eq!((breaker.circuit, breaker.poll_pass(ms(3_301))), (Circuit::Closed, Pass::Go));
        assert_eq!(breaker.counts().0, 1);
    }

    #[test]
    fn a_peer_that_cannot_be_reached_is_left_alone_after_a_few_failures_in_a_row() {
        let mut breaker = Breaker::new();
        breaker.handle_failure(ms(0));
        breaker.handle_answer(ms(150));
        breaker.handle_failure(ms(300));
        assert_eq!(breaker.poll_pass(ms(300)), Pass::Go, "there was an answer in between");
        breaker.handle_failure(ms(400));
        assert_eq!(breaker.poll_pass(ms(499)), Pass::Barred);
        assert_eq!(breaker.poll_pass(ms(500)), Pass::Go, "the probe");
        assert_eq!(breaker.poll_pass(ms(500)), Pass::Barred, "one at a time");
        breaker.handle_failure(ms(501));
        assert_eq!(breaker.poll_pass(ms(700)), Pass::Barred);
        assert_eq!(breaker.poll_pass(ms(701)), Pass::Go);
    }

    #[test]
    fn a_peer_that_was_not_asked_for_long_is_not_silent() {
        let mut breaker = Breaker::new();
        breaker.handle_sent(ms(0));
        breaker.handle_sent(ms(1));
        breaker.handle_answer(ms(0));
        breaker.handle_answer(ms(1));
        assert_eq!(breaker.poll_pass(ms(60_000)), Pass::Go);
    }

    #[test]
    fn an_answer_to_an_old_message_does_not_hide_the_silence_since() {
        let mut breaker = Breaker::new();
        for at in [0, 100] {
            breaker.handle_sent(ms(at));
        }
        breaker.handle_answer(ms(0));
        assert_eq!(breaker.poll_pass(ms(500)), Pass::Go);
        assert_eq!(breaker.poll_pass(ms(601)), Pass::Barred);
    }
}
