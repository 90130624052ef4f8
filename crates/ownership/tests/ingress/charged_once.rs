//! An ingress and an owner over a network that delays and loses: the real rules of asking against a real partition. When
//! all is quiet, the owner's books hold exactly what callers were allowed, however often each of them was asked for.

use limits::{
    Algorithm, Basis, Book, BookEntry, Budgets, DomainId, Fingerprint, LimitId, Moment, Now, Rate, Shape, Shapes, Span,
    Variant,
};
use proptest::prelude::*;
use ringfence_ownership::ingress::{After, Asking, LegResult, Outcome, Patience, Said, Step, after, combine};
use ringfence_ownership::{
    Act, Answer, Asker, Check, CheckId, CheckLeg, Epoch, Floor, LeaseBound, Partition, SessionId, Verdict,
};
use smallvec::smallvec;

use crate::asking::{ms, route, session};

const OWNER: u64 = 1;
const CHECKS: usize = 60;
const WINDOW: Span = Span::from_secs(60);

struct Limit {
    shapes: Shapes,
    budgets: Budgets,
    entry: BookEntry,
}

impl Book for Limit {
    fn limit(&self, _: LimitId, _: Variant) -> Option<BookEntry> {
        Some(self.entry)
    }

    fn shapes(&self) -> &Shapes {
        &self.shapes
    }

    fn budgets(&self) -> &Budgets {
        &self.budgets
    }
}

fn limit_of(amount: u64) -> Limit {
    let mut shapes = Shapes::new();
    let rate = Some(Rate::new(amount, WINDOW).unwrap());
    let algorithm = Algorithm::SlidingLog { max_entries: 4_096 };
    let shape = Shape { limit: LimitId(1), domain: DomainId(0), rate, algorithm, basis: Basis::Hi };
    let entry = BookEntry { shape: shapes.intern(shape), allotted_at: 1, revision: 0 };
    Limit { shapes, budgets: Budgets::new(), entry }
}

#[derive(Clone, Debug)]
enum Message {
    Ask { caller: usize, attempt: u8 },
    Answer { caller: usize, attempt: u8, answer: Answer },
    Cancel { caller: usize },
    Debt { caller: usize },
}

/// One message's luck: how long it takes, and whether it is lost.
#[derive(Clone, Copy, Debug)]
struct Luck {
    delay: u64,
    lost: bool,
}

struct Caller {
    asking: Option<Asking>,
    starts: u64,
    allowed: Option<bool>,
}

struct Town {
    now: u64,
    open: bool,
    book: Limit,
    partition: Partition,
    callers: Vec<Caller>,
    network: Vec<(u64, Message)>,
    /// A connection delivers in order: nothing towards the owner arrives before this.
    in_order: u64,
    luck: Vec<Luck>,
    sends: usize,
}

fn owner() -> SessionId {
    session(OWNER)
}

fn check_of(caller: usize, attempt: u8, cost: u64) -> Check {
    let leg = CheckLeg { limit: LimitId(1), variant: Variant::OWN, key: Fingerprint([5, 5]), cost, shadow: false };
    let id = CheckId(caller as u128 + 1);
    let (asker, question, act) = (Asker(1), caller as u64, Act::Spend);
    Check { id, asker, attempt, indexed: false, revision: 0, question, act, legs: smallvec![leg] }
}

impl Town {
    fn new(open: bool, amount: u64, starts: &[u64], luck: Vec<Luck>) -> Town {
        let mut partition = Partition::vacant();
        partition.activate(Epoch(1), owner(), Floor::Fresh);
        let callers = starts.iter().map(|&starts| Caller { asking: None, starts, allowed: None }).collect();
        let (network, book) = (Vec::new(), limit_of(amount));
        Town { now: 0, open, book, partition, callers, network, in_order: 0, luck, sends: 0 }
    }

    fn step(&mut self) {
        self.now += 1;
        let now = self.now;
        let due: Vec<Message> = self.network.extract_if(.., |(at, _)| *at <= now).map(|(_, message)| message).collect();
        due.into_iter().for_each(|message| self.arrive(message));
        for caller in 0..self.callers.len() {
            self.turn(caller);
        }
    }

    fn turn(&mut self, caller: usize) {
        let now = ms(self.now);
        if self.callers[caller].starts == self.now {
            let patience = Patience { budget: Span::from_millis(100), d_max: Span::from_millis(60) };
            let id = check_of(caller, 1, 1).id;
            self.callers[caller].asking = Some(Asking::new(id, 1, patience, route(1, OWNER), now));
        }
        while let Some(step) = self.next_step(caller) {
            match step {
                Step::Refresh => {}
                Step::Send { attempt, .. } => self.send_to_owner(Message::Ask { caller, attempt }, true),
                Step::Done(outcome) => self.settle(caller, &outcome),
            }
        }
    }

    fn next_step(&mut self, caller: usize) -> Option<Step> {
        let now = ms(self.now);
        let asking = self.callers[caller].asking.as_mut()?;
        if asking.poll_timeout().is_some_and(|at| at <= now) {
            asking.handle_timeout(now);
        }
        asking.poll_step()
    }

    fn settle(&mut self, caller: usize, outcome: &Outcome) {
        let said = match outcome {
            Outcome::Decided(verdict) => Said::Owner(verdict.legs[0]),
            Outcome::Failed(_) if self.open => Said::Open,
            Outcome::Failed(_) => Said::Closed,
            Outcome::TableFull { .. } | Outcome::IdReused | Outcome::Stale { .. } => panic!("{outcome:?}"),
        };
        let results = [LegResult { group: 0, shadow: false, said }];
        let allowed = combine(&results).allowed;
        let may_have_spent = self.callers[caller].asking.as_ref().is_some_and(Asking::may_have_spent);
        self.callers[caller].allowed = Some(allowed);
        match after(allowed, &results, 0, may_have_spent) {
            After::Nothing | After::Trim(_) => {}
            After::Cancel => self.send_to_owner(Message::Cancel { caller }, false),
            After::Debt => self.send_to_owner(Message::Debt { caller }, false),
        }
    }

    fn next_luck(&mut self) -> Luck {
        self.sends += 1;
        self.luck[self.sends % self.luck.len()]
    }

    fn send_to_owner(&mut self, message: Message, may_be_lost: bool) {
        let Luck { delay, lost } = self.next_luck();
        if !(lost && may_be_lost) {
            self.in_order = self.in_order.max(self.now + delay);
            self.network.push((self.in_order, message));
        }
    }

    fn arrive(&mut self, message: Message) {
        let now = Now::at(ms(self.now));
        match message {
            Message::Ask { caller, attempt } => {
                let answer = self.ask(&check_of(caller, attempt, 1));
                let Luck { delay, lost } = self.next_luck();
                if !lost {
                    self.network.push((self.now + delay, Message::Answer { caller, attempt, answer }));
                }
            }
            Message::Answer { caller, attempt, answer } => {
                let asking = self.callers[caller].asking.as_mut();
                asking.unwrap().handle_answer(attempt, Epoch(1), answer, ms(self.now));
            }
            Message::Cancel { caller } => {
                self.partition.cancel(check_of(caller, 1, 1).id, Asker(1), &self.book, now);
            }
            Message::Debt { caller } => {
                let Check { id, legs, .. } = check_of(caller, 1, 1);
                self.partition.debt(id, Asker(1), &legs, &self.book, now);
            }
        }
    }

    fn ask(&mut self, check: &Check) -> Answer {
        let lease = LeaseBound { session: owner(), end: Moment::MAX, margin: Span::ZERO };
        let mut answers = Vec::new();
        let now = Now::at(ms(self.now));
        self.partition.decide_batch(std::slice::from_ref(check), &self.book, now, &lease, &mut answers);
        answers.pop().unwrap()
    }

    fn used(&mut self) -> u64 {
        let Answer::Decided(Verdict { legs, .. }) = self.ask(&check_of(CHECKS, 1, 0)) else { panic!("a peek") };
        legs[0].capacity - legs[0].remaining
    }

    fn allowed(&self) -> u64 {
        self.callers.iter().map(|caller| u64::from(caller.allowed.expect("every caller is answered"))).sum()
    }
}

fn luck() -> impl Strategy<Value = Vec<Luck>> {
    let luck = (0u64..90, prop::bool::weighted(0.2)).prop_map(|(delay, lost)| Luck { delay, lost });
    proptest::collection::vec(luck, 1..120)
}

fn run(open: bool, amount: u64, starts: &[u64], luck: Vec<Luck>) -> Town {
    let mut town = Town::new(open, amount, starts, luck);
    for _ in 0..1_500 {
        town.step();
    }
    assert!(town.network.is_empty(), "all is quiet");
    town
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn a_closed_limit_charges_exactly_what_callers_were_allowed_and_never_allows_more_than_it_says(
        amount in 1u64..50,
        starts in proptest::collection::vec(1u64..900, CHECKS),
        luck in luck(),
    ) {
        let mut town = run(false, amount, &starts, luck);
        prop_assert!(town.allowed() <= amount);
        prop_assert_eq!(town.used(), town.allowed(), "s14: charged once, and only for a reason");
    }

    #[test]
    fn an_open_limit_turns_nobody_away_for_silence_and_charges_what_it_let_pass(
        starts in proptest::collection::vec(1u64..900, CHECKS),
        luck in luck(),
    ) {
        let mut town = run(true, 1_000, &starts, luck);
        prop_assert_eq!(town.allowed(), CHECKS as u64);
        prop_assert_eq!(town.used(), CHECKS as u64);
    }
}
