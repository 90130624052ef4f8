//! The ingress's part in a check, from the route to the combined decision: no allocation at all.
#![allow(
    unsafe_code,
    reason = "an allocator that counts can only be written so; it hands everything on to the system's"
)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::hint::black_box;
use std::num::NonZeroU64;

use limits::{
    Algorithm, Basis, DomainId, FailMode, Fingerprint, LegDecision, LimitId, Moment, Shape, Span, Variant, Wait,
};
use ring::{NodeId, PartitionId};
use ringfence_ownership::ingress::{AskedLeg, Asking, Came, Outcome, Patience, Said, Step, conclude};
use ringfence_ownership::{Act, Answer, CheckId, Epoch, Route, Routes, SessionId, Verdict};
use smallvec::smallvec;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

/// Counts what the thread at hand allocates, so that the test harness's own threads do not disturb.
struct Counting;

#[global_allocator]
static COUNTING: Counting = Counting;

// SAFETY: every call is handed on unchanged to the system's allocator, which keeps the contract.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.with(|count| count.set(count.get() + 1));
        // SAFETY: the caller keeps `alloc`'s contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the pointer came from `alloc` above, which is the system's.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        ALLOCATIONS.with(|count| count.set(count.get() + 1));
        // SAFETY: as above.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

const PATIENCE: Patience = Patience { budget: Span::from_millis(100), d_max: Span::from_millis(40) };
const SESSION: SessionId = SessionId { node: NodeId(NonZeroU64::MIN), nonce: 1, counter: 1 };

fn ms(millis: u64) -> Moment {
    Moment::ZERO.saturating_add(Span::from_millis(millis))
}

fn decision() -> LegDecision {
    let wait = Wait::Now;
    LegDecision { allowed: true, capacity: 9, remaining: 8, wait, reset_after: Span::ZERO, next_unit_after: None }
}

fn leg(group: u8) -> AskedLeg {
    let algorithm = Algorithm::TokenBucket { burst: 1 };
    AskedLeg {
        limit: LimitId(1),
        variant: Variant::OWN,
        key: Fingerprint([u64::from(group), 0]),
        cost: 1,
        shadow: false,
        fail: FailMode::Open,
        when_full: FailMode::Open,
        whole: Shape { limit: LimitId(1), domain: DomainId(0), rate: None, algorithm, basis: Basis::Lo },
        group,
        place: 0,
    }
}

/// Puts a question that is answered at its second attempt, or not at all, and returns what it came to.
fn ask(routes: &Routes, number: u64) -> Outcome {
    let route = routes.route_of(PartitionId(number as u16 % 8));
    let mut asking = Asking::new(CheckId(u128::from(number)), 1, PATIENCE, route, ms(number));
    let mut time = number;
    loop {
        while let Some(step) = asking.poll_step() {
            match step {
                Step::Done(outcome) => return outcome,
                Step::Send { attempt: 2, owner, .. } if number.is_multiple_of(2) => {
                    let legs = smallvec![decision(), decision()];
                    let (replayed, recovering, cacheable) = (false, false, Span::ZERO);
                    let verdict = Verdict { allowed: true, units: 0, replayed, recovering, cacheable, legs };
                    asking.handle_answer(2, owner.epoch, Answer::Decided(verdict), ms(time));
                }
                Step::Send { .. } | Step::Refresh => {}
            }
        }
        time += 1;
        asking.handle_timeout(ms(time));
    }
}

#[test]
fn a_question_that_is_asked_again_and_concluded_with_others_allocates_nothing() {
    let route = Route { epoch: Epoch(1), session: Some(SESSION) };
    let routes = Routes::new(1, std::iter::repeat_n(route, 8));
    let legs = [leg(0), leg(1)];
    let before = ALLOCATIONS.get();
    let mut answered = 0;
    for number in 0..1_000 {
        let outcome = ask(&routes, number);
        let came = Came { outcome: Some(&outcome), may_have_spent: true };
        let came = [came, came];
        let concluded = conclude(Act::Spend, black_box(&legs), &came, |_| panic!("no emergency"));
        black_box((concluded.after(1), concluded.owed(1)));
        answered += u64::from(matches!(concluded.results[0].said, Said::Owner(_)));
        assert!(concluded.allowed);
    }
    assert_eq!((answered, ALLOCATIONS.get() - before), (500, 0));
}
