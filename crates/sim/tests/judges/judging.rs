//! Each failure mode's promises, kept and broken, on histories of a few rows.

use std::sync::Arc;

use limits::{FailMode, Moment, Rate, Span};
use sim::judge::{Circumstances, Part, Share, Terms, Violation, judge};
use sim::{Answer, Clocks, Counted, LimitVerdict, Outcome, Promise, Reason, Row, Source};

const EMERGENCY: FailMode = FailMode::Emergency { percent: 50, reserved: false };

fn log(amount: u64) -> Promise {
    Promise { rate: Rate::new(amount, Span::from_secs(10)).unwrap(), counted: Counted::Log }
}

fn terms(fail: FailMode) -> Terms {
    let share = Some(Share { together: log(2), each: log(1) }).filter(|_| fail == EMERGENCY);
    Terms { limit: "login".into(), fail, owner: log(3), share }
}

/// A row that took ten milliseconds, sent this many milliseconds after the first.
fn row(at: u64, ingress: &str, allowed: bool, reason: Reason, source: Source) -> Row {
    let degraded = !source.is_counted();
    let answer = Answer {
        allowed,
        reason,
        source,
        degraded,
        replayed: false,
        remaining: None,
        owner: None,
        epoch: None,
        revision: 1,
    };
    Row {
        id: u128::from(at),
        limit: "login".into(),
        key: "alice".into(),
        cost: 1,
        ingress: ingress.into(),
        attempts: 1,
        invoked: Moment::from_nanos(at * 1_000_000),
        returned: Moment::from_nanos((at + 10) * 1_000_000),
        deadline: Span::from_millis(50),
        outcome: Outcome::Answered(answer),
    }
}

fn counted(at: u64) -> Row {
    row(at, "n1", true, Reason::Ok, Source::Owner)
}

fn given(at: u64, ingress: &str) -> Row {
    row(at, ingress, true, Reason::Ok, Source::Emergency)
}

fn silent(at: u64) -> Row {
    Row { outcome: Outcome::Silent("connection reset".into()), ..counted(at) }
}

/// Nobody's clock is off, the asker never stood still, and n3 is down.
fn verdict(rows: &[Row], fail: FailMode) -> LimitVerdict {
    let grace = |row: &Row| if &*row.ingress == "n3" { None } else { Some(Span::ZERO) };
    judge(rows, &terms(fail), &Circumstances { clocks: Clocks::ALIKE, grace: &grace }).unwrap()
}

fn parts(verdict: &LimitVerdict) -> Vec<(Part, Arc<str>)> {
    let over = |violation: &Violation| match violation {
        Violation::Over(fullest) => Some((fullest.part.clone(), Arc::clone(&fullest.key))),
        other => panic!("{other}"),
    };
    verdict.violations.iter().filter_map(over).collect()
}

#[test]
fn a_closed_limit_that_admits_one_too_many_is_named() {
    let within: Vec<_> =
        (0..3).map(counted).chain([row(5, "n2", false, Reason::Unavailable, Source::Closed)]).collect();
    let kept = verdict(&within, FailMode::Closed);
    assert_eq!((kept.violations.len(), kept.excess(), kept.allowed_in_all()), (0, 0, 3));
    assert_eq!(kept.denied[&Reason::Unavailable], 1);
    let broken = verdict(&(0..4).map(counted).collect::<Vec<_>>(), FailMode::Closed);
    assert_eq!(parts(&broken), [(Part::Owner, "alice".into())]);
    assert_eq!(broken.excess(), 1);
    let words = broken.violations[0].to_string();
    assert_eq!(words, "key alice admitted 4 where the owners allow 3, from 0 ns to 13000000 ns");
}

#[test]
fn keys_are_weighed_apart() {
    let other = |at| Row { key: "bob".into(), ..counted(at) };
    let rows: Vec<_> = (0..3).map(counted).chain((3..6).map(other)).collect();
    assert_eq!(verdict(&rows, FailMode::Closed).violations, []);
}

#[test]
fn an_open_limit_lets_pass_and_refuses_only_what_is_used_up() {
    let passed = |at| row(at, "n1", true, Reason::Ok, Source::Open);
    let rows: Vec<_> = (0..9).map(passed).chain([row(20, "n1", false, Reason::Limit, Source::Owner)]).collect();
    assert_eq!(verdict(&rows, FailMode::Open).violations, []);
    let unavailable = [row(0, "n1", false, Reason::Unavailable, Source::Closed)];
    let refused = Violation::OpenRefused { row: 0, reason: Reason::Unavailable };
    assert_eq!(verdict(&unavailable, FailMode::Open).violations, [refused]);
    let nobody_spent = [row(0, "n1", false, Reason::Limit, Source::Owner)];
    assert_eq!(verdict(&nobody_spent, FailMode::Open).violations, [Violation::Unjustified { row: 0 }]);
}

#[test]
fn emergency_shares_are_weighed_per_node_and_together() {
    let kept: Vec<_> = (0..3).map(counted).chain([given(4, "n1"), given(5, "n2")]).collect();
    assert_eq!(verdict(&kept, EMERGENCY).violations, []);
    let one_node = [given(4, "n1"), given(5, "n1")];
    assert_eq!(parts(&verdict(&one_node, EMERGENCY)), [(Part::ShareOf("n1".into()), "alice".into())]);
    let together = [given(4, "n1"), given(5, "n2"), given(6, "n3")];
    assert_eq!(parts(&verdict(&together, EMERGENCY)), [(Part::Share, "alice".into())]);
}

#[test]
fn a_late_answer_and_a_missing_one_are_owed_only_by_nodes_that_are_up() {
    let late = |ingress: &str| Row {
        returned: Moment::from_nanos(61_000_000),
        ..row(0, ingress, false, Reason::Unavailable, Source::Closed)
    };
    let found = verdict(&[late("n1"), silent(3)], FailMode::Closed);
    let (took, deadline) = (Span::from_millis(61), Span::from_millis(50));
    let expected = [
        Violation::Late { row: 0, took, deadline, grace: Span::ZERO },
        Violation::NoDecision { row: 1, why: "connection reset".into() },
    ];
    assert_eq!(found.violations, expected);
    assert_eq!((found.slowest, found.silent), (took, 1));
    let of_the_dead = verdict(&[late("n3"), Row { ingress: "n3".into(), ..silent(3) }], FailMode::Closed);
    assert_eq!((of_the_dead.violations.len(), of_the_dead.silent, of_the_dead.slowest), (0, 1, Span::ZERO));
}
