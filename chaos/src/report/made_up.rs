//! Trials that nobody ran, for the tests of the reports.

use std::collections::BTreeMap;
use std::time::Duration;

use limits::{FailMode, Moment, Span};
use sim::judge::{Fullest, Part};
use sim::{Answer, LimitVerdict, Outcome, Reason, Row, Source, Worst};

use crate::bounds::OWNED_AGAIN;
use crate::scenarios;
use crate::stage::{Claim, Mark, Measured, Notes};
use crate::stalls::Stalls;
use crate::trial::{LimitSeen, Trial};

fn at(millis: u64) -> Moment {
    Moment::from_nanos(millis * 1_000_000)
}

pub fn verdict(limit: &str, fail: FailMode) -> LimitVerdict {
    let fullest = |part: Part, admitted: u128, allowed: u128| Fullest {
        part,
        key: "key-1".into(),
        worst: Worst { from: at(0), until: at(9), admitted, allowed, rows: vec![] },
    };
    let emergency = matches!(fail, FailMode::Emergency { .. });
    let source = if emergency { Source::Emergency } else { Source::Open };
    let mut all = vec![fullest(Part::Owner, 40, 40)];
    all.extend(Some(fullest(Part::Share, 11, 12)).filter(|_| emergency));
    LimitVerdict {
        limit: limit.into(),
        fail,
        asked: 100,
        allowed: if fail == FailMode::Closed { BTreeMap::new() } else { BTreeMap::from([(source, 9)]) },
        denied: if fail == FailMode::Closed { BTreeMap::from([(Reason::Unavailable, 20)]) } else { BTreeMap::new() },
        silent: 0,
        slowest: Span::from_millis(240),
        fullest: all,
        violations: vec![],
    }
}

pub fn trial() -> Trial {
    let modes = [
        ("closed-log", FailMode::Closed),
        ("open-calm", FailMode::Open),
        ("emergency-log", FailMode::Emergency { percent: 30, reserved: true }),
    ];
    let seen = |(limit, fail)| LimitSeen {
        verdict: verdict(limit, fail),
        degraded_for: Span::from_millis(3_600),
        degraded: 20,
    };
    let marks =
        vec![Mark { at: at(100), says: "kill -9 n2".into() }, Mark { at: at(3_600), says: "owned again".into() }];
    let owned = Measured {
        what: "owned again".into(),
        took: Span::from_millis(3_500),
        bound: OWNED_AGAIN,
        stalled: Span::ZERO,
    };
    let claims = vec![Claim { says: "callers felt it".into(), but: None }];
    Trial {
        scenario: &scenarios::ALL[0],
        notes: Notes { marks, measured: vec![owned], claims, ..Notes::default() },
        limits: modes.map(seen).into(),
        rows: 300,
        stalls: Stalls::default(),
        broken: None,
        took: Duration::from_secs(20),
    }
}

pub fn broken() -> Trial {
    Trial {
        limits: vec![],
        notes: Notes::default(),
        rows: 0,
        broken: Some("it could not be founded".into()),
        ..trial()
    }
}

/// One row of each kind that a picture shows, but for those that no limit of the trial can have.
pub fn rows() -> Vec<Row> {
    let row = |limit: &str, outcome: Outcome| Row {
        id: 1,
        limit: limit.into(),
        key: "key-1".into(),
        cost: 1,
        ingress: "n1".into(),
        attempts: 1,
        invoked: at(50),
        returned: at(60),
        deadline: Span::from_millis(250),
        outcome,
    };
    let answered = |allowed: bool, reason: Reason, source: Source| {
        Outcome::Answered(Answer {
            allowed,
            reason,
            source,
            degraded: false,
            replayed: false,
            remaining: None,
            owner: None,
            epoch: None,
            revision: 1,
        })
    };
    vec![
        row("closed-log", answered(true, Reason::Ok, Source::Owner)),
        row("open-calm", answered(true, Reason::Ok, Source::Open)),
        row("closed-log", answered(false, Reason::Limit, Source::Forwarded)),
        row("closed-log", answered(false, Reason::Recovering, Source::Owner)),
        row("closed-log", answered(false, Reason::Unavailable, Source::Closed)),
        row("closed-log", Outcome::Silent("reset".into())),
    ]
}
