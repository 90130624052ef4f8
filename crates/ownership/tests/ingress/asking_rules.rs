//! The rules of asking, over random lives of one question: whatever owners, networks and maps do, it ends at its caller's
//! deadline at the latest, acts on no answer that is too old, repeats itself only where repeating may help, and knows when
//! it may have spent something.

use limits::Span;
use proptest::prelude::*;
use ringfence_ownership::ingress::{ATTEMPTS_MAX, Asking, Delivery, Outcome, Patience, Step};
use ringfence_ownership::{Answer, CheckId, Epoch, Owner, Route, Unknown};

use crate::asking::{ms, route, session, verdict};

#[derive(Clone, Debug)]
enum Event {
    Wait(u64),
    /// To the attempt so many before the latest.
    Answer {
        back: u8,
        epoch: u64,
        kind: u8,
    },
    Unreachable {
        back: u8,
        sent: bool,
    },
    Route {
        epoch: u64,
        node: u64,
    },
    Timeout,
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        3 => (0u64..40).prop_map(Event::Wait),
        3 => (0u8..3, 1u64..8, 0u8..6).prop_map(|(back, epoch, kind)| Event::Answer { back, epoch, kind }),
        1 => (0u8..3, any::<bool>()).prop_map(|(back, sent)| Event::Unreachable { back, sent }),
        2 => (1u64..8, 0u64..4).prop_map(|(epoch, node)| Event::Route { epoch, node }),
        2 => Just(Event::Timeout),
    ]
}

fn answer_of(kind: u8, epoch: u64) -> Answer {
    match kind {
        0 => Answer::Decided(verdict(true)),
        1 => Answer::Decided(verdict(false)),
        2 => Answer::NotOwner { epoch: Epoch(epoch), hint: None },
        3 => Answer::NotOwner { epoch: Epoch(epoch), hint: Some(session(3)) },
        4 => Answer::Unknown(Unknown::Lease),
        _ => Answer::Unknown(Unknown::TableFull { leg: 0 }),
    }
}

fn route_of(epoch: u64, node: u64) -> Route {
    if node == 0 { Route { epoch: Epoch(epoch), session: None } } else { route(epoch, node) }
}

/// An attempt as an observer sees it.
#[derive(Clone, Copy)]
struct Attempt {
    at: u64,
    owner: Owner,
    heard_of: bool,
    /// Whether it is proven to have spent nothing.
    harmless: bool,
}

const BUDGET: u64 = 200;
const D_MAX: u64 = 60;

struct Observer {
    now: u64,
    asking: Asking,
    known: Route,
    attempts: Vec<Attempt>,
    /// Set while an answer that may be acted on is being handed in.
    acceptable: bool,
    done: Option<Outcome>,
}

impl Observer {
    fn new(known: Route) -> Observer {
        let patience = Patience { budget: Span::from_millis(BUDGET), d_max: Span::from_millis(D_MAX) };
        let asking = Asking::new(CheckId(5), 1, patience, known, ms(0));
        Observer { now: 0, asking, known, attempts: Vec::new(), acceptable: false, done: None }
    }

    fn learn(&mut self, told: Route) {
        if told.is_news_to(&self.known) {
            self.known = told;
        }
    }

    fn hand_in(&mut self, event: &Event) {
        match *event {
            Event::Wait(millis) => self.now += millis,
            Event::Answer { back, epoch, kind } => self.hand_in_answer(back, epoch, kind),
            Event::Unreachable { back, sent } => self.hand_in_unreachable(back, sent),
            Event::Route { epoch, node } => {
                self.asking.handle_route(route_of(epoch, node), ms(self.now));
                self.learn(route_of(epoch, node));
            }
            Event::Timeout => self.asking.handle_timeout(ms(self.now)),
        }
    }

    fn hand_in_answer(&mut self, back: u8, epoch: u64, kind: u8) {
        let Some(index) = self.attempts.len().checked_sub(1 + usize::from(back)) else { return };
        let attempt = &mut self.attempts[index];
        self.acceptable = kind <= 1 && self.now - attempt.at <= D_MAX && Epoch(epoch) >= self.known.epoch;
        attempt.heard_of = true;
        attempt.harmless |= kind >= 2 && self.now < BUDGET;
        self.asking.handle_answer(index as u8 + 1, Epoch(epoch), answer_of(kind, epoch), ms(self.now));
        if kind == 2 || kind == 3 {
            self.learn(route_of(epoch, if kind == 2 { 0 } else { 3 }));
        }
    }

    fn hand_in_unreachable(&mut self, back: u8, sent: bool) {
        let Some(index) = self.attempts.len().checked_sub(1 + usize::from(back)) else { return };
        self.attempts[index].heard_of = true;
        self.attempts[index].harmless |= !sent && self.now < BUDGET;
        let delivery = if sent { Delivery::Lost } else { Delivery::NeverSent };
        self.asking.handle_unreachable(index as u8 + 1, delivery, ms(self.now));
    }

    fn drain(&mut self) -> Result<(), TestCaseError> {
        while let Some(step) = self.asking.poll_step() {
            prop_assert!(self.done.is_none(), "{step:?} after the end");
            match step {
                Step::Refresh => {}
                Step::Send { id, attempt, owner, budget } => {
                    prop_assert_eq!((id, usize::from(attempt)), (CheckId(5), self.attempts.len() + 1));
                    prop_assert_eq!(budget, Span::from_millis(BUDGET - self.now));
                    self.check_send(owner)?;
                    self.attempts.push(Attempt { at: self.now, owner, heard_of: false, harmless: false });
                }
                Step::Done(outcome) => self.check_done(outcome)?,
            }
        }
        Ok(())
    }

    fn check_send(&self, owner: Owner) -> Result<(), TestCaseError> {
        prop_assert!(self.now < BUDGET && self.attempts.len() < usize::from(ATTEMPTS_MAX));
        prop_assert_eq!(Some(owner), self.known.owner(), "the newest owner is asked");
        let Some(last) = self.attempts.last() else { return Ok(()) };
        let newer = owner.epoch > last.owner.epoch;
        let half = BUDGET / 2;
        let due = self.now >= last.at + D_MAX || (last.at < half && self.now >= half);
        prop_assert!(newer || due, "asked again at {} without a reason", self.now);
        if newer && !due && !last.heard_of {
            prop_assert!(owner.session != last.owner.session, "its answer was still to come");
        }
        Ok(())
    }

    fn check_done(&mut self, outcome: Outcome) -> Result<(), TestCaseError> {
        match &outcome {
            Outcome::Decided(_) => prop_assert!(self.acceptable && self.now < BUDGET, "an answer to be dropped"),
            Outcome::Failed(_) => prop_assert!(self.now >= BUDGET, "given up early"),
            Outcome::TableFull { .. } => prop_assert!(self.now < BUDGET),
            Outcome::IdReused | Outcome::Stale { .. } => prop_assert!(false, "nobody said so"),
        }
        let denied = matches!(&outcome, Outcome::Decided(verdict) if !verdict.allowed);
        let may_have_spent = !denied && self.attempts.iter().any(|attempt| !attempt.harmless);
        prop_assert_eq!(self.asking.may_have_spent(), may_have_spent);
        self.done = Some(outcome);
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, ..ProptestConfig::default() })]

    #[test]
    fn a_question_keeps_the_rules_of_asking(
        (epoch, node) in (1u64..4, 0u64..4),
        events in proptest::collection::vec(event(), 1..40),
    ) {
        let mut observer = Observer::new(route_of(epoch, node));
        observer.drain()?;
        for event in &events {
            observer.hand_in(event);
            observer.drain()?;
            observer.acceptable = false;
            if observer.done.is_none() {
                let timeout = observer.asking.poll_timeout();
                prop_assert!(timeout.is_some_and(|at| at <= ms(BUDGET)), "it would never end: {timeout:?}");
            }
        }
        observer.now = observer.now.max(BUDGET);
        observer.asking.handle_timeout(ms(observer.now));
        observer.drain()?;
        prop_assert!(observer.done.is_some(), "the caller's deadline ends it");
    }
}
