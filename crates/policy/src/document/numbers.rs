//! The numbers of a limit: a rate, or so many slots. A limit has numbers of its own, and a plan or an override may give
//! it others; how they are counted is the limit's to say, once for all of them.

use limits::{Algorithm, Align, FailMode, LEASES_MAX, PERIOD_MAX, Rate, Span};

use crate::bounds::{LOG_ENTRIES_DEFAULT, LOG_ENTRIES_MAX};
use crate::error::{Findings, PolicyCode, PolicyError, Position};
use crate::fields::{self, Fields, choose, quoted, shortened};
use crate::rate_text::RateText;
use crate::time_text::{self, SPAN_SHAPE};
use crate::tree::{Node, Scalar, Value};

use super::conflict;

/// What a limit counts to, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Numbers {
    /// The rate; `None` for `unlimited`. Of a concurrency limit, the slots and the usual length of a lease.
    pub rate: Option<Rate>,
    /// How it is counted, with the burst of a bucket.
    pub algorithm: Algorithm,
}

/// The words for algorithms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    TokenBucket,
    SlidingLog,
    FixedWindow,
    SlidingCounter,
    Calendar,
    Concurrency,
}

const KINDS: [(&str, Kind); 6] = [
    ("token-bucket", Kind::TokenBucket),
    ("sliding-log", Kind::SlidingLog),
    ("fixed-window", Kind::FixedWindow),
    ("sliding-counter", Kind::SlidingCounter),
    ("calendar", Kind::Calendar),
    ("concurrency", Kind::Concurrency),
];

const ALIGNS: [(&str, Align); 3] = [("epoch", Align::Epoch), ("first", Align::First), ("hashed", Align::Hashed)];

/// Keys that go with one algorithm only.
const BELONG: [(&str, Kind, &str); 6] = [
    ("align", Kind::FixedWindow, "a fixed window"),
    ("max_log_entries", Kind::SlidingLog, "a sliding log"),
    ("approximate", Kind::SlidingCounter, "a sliding counter"),
    ("slots", Kind::Concurrency, "a concurrency limit"),
    ("ttl", Kind::Concurrency, "a concurrency limit"),
    ("max_hold", Kind::Concurrency, "a concurrency limit"),
];

/// How a limit counts, as far as all of its numbers have it in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Counting {
    /// Without `algorithm:`: by a calendar if the rate has one, else in a token bucket.
    AsTheRateSays,
    TokenBucket,
    SlidingLog {
        max_entries: u32,
    },
    FixedWindow {
        align: Align,
    },
    SlidingCounter,
    Calendar,
    Concurrency {
        ttl: Span,
        max_hold: Span,
    },
}

impl Kind {
    /// The `algorithm:` of a limit, `None` within if there is none; what does not go with it is noted.
    pub(super) fn read(fields: &Fields<'_, '_>, findings: &mut Findings) -> Option<Option<Kind>> {
        let kind = match fields.get("algorithm") {
            Some(node) => Some(fields::word(node, "algorithm", &KINDS, &[], findings)?),
            None => None,
        };
        for (key, owner, words) in BELONG {
            if fields.get(key).is_some() && kind != Some(owner) {
                findings.push(conflict(fields.place_of(key), &format!("`{key}` belongs to {words}")));
            }
        }
        if fields.get("rate").is_some() && kind == Some(Kind::Concurrency) {
            let error = conflict(fields.place_of("rate"), "a concurrency limit has no rate");
            findings.push(error.expected("`slots`, and `ttl` for how long one is held"));
        }
        Some(kind)
    }
}

impl Counting {
    /// How a limit of this kind counts.
    pub(super) fn read(
        kind: Option<Kind>,
        fail: Option<FailMode>,
        fields: &Fields<'_, '_>,
        findings: &mut Findings,
    ) -> Option<Counting> {
        match kind {
            None => Some(Counting::AsTheRateSays),
            Some(Kind::TokenBucket) => Some(Counting::TokenBucket),
            Some(Kind::Calendar) => Some(Counting::Calendar),
            Some(Kind::FixedWindow) => {
                let align = choose(fields, "align", &ALIGNS, Align::Hashed, &[], findings)?;
                Some(Counting::FixedWindow { align })
            }
            Some(Kind::SlidingLog) => {
                let entries = fields.get("max_log_entries").map_or(Some(LOG_ENTRIES_DEFAULT), |node| {
                    let entries = fields::number(node, "max_log_entries", 1, LOG_ENTRIES_MAX.into(), findings)?;
                    u32::try_from(entries).ok()
                });
                Some(Counting::SlidingLog { max_entries: entries? })
            }
            Some(Kind::SlidingCounter) => {
                check_approximate(fail, fields, findings)?;
                Some(Counting::SlidingCounter)
            }
            Some(Kind::Concurrency) => concurrency(fail, fields, findings),
        }
    }

    /// The key that numbers stand under, and what they look like.
    pub(super) const fn key(&self) -> (&'static str, &'static str) {
        match self {
            Counting::Concurrency { .. } => ("slots", "how many may be held at once, such as `slots: 20`"),
            Counting::AsTheRateSays
            | Counting::TokenBucket
            | Counting::SlidingLog { .. }
            | Counting::FixedWindow { .. }
            | Counting::SlidingCounter
            | Counting::Calendar => ("rate", "a rate, such as `10/s`"),
        }
    }

    /// Reads a rate, or a number of slots.
    pub(super) fn numbers(&self, node: &Node<'_>, findings: &mut Findings) -> Option<Numbers> {
        let Counting::Concurrency { ttl, max_hold } = *self else {
            let text = rate(node, findings)?;
            return self.rated(text, node.at, findings);
        };
        let slots = fields::number(node, "`slots`", 0, LEASES_MAX as u64, findings)?;
        let rate = Rate::new(slots, ttl).expect("slots and ttl are within their ranges, which are narrower");
        Some(Numbers { rate: Some(rate), algorithm: Algorithm::Concurrency { max_hold } })
    }

    fn rated(&self, text: RateText, at: Position, findings: &mut Findings) -> Option<Numbers> {
        match text {
            RateText::Unlimited => Some(Numbers { rate: None, algorithm: Algorithm::TokenBucket { burst: 0 } }),
            RateText::Limited { rate, burst } => {
                Some(Numbers { rate: Some(rate), algorithm: self.of_fixed_length(rate, burst, at, findings)? })
            }
            RateText::Calendar { amount, calendar } if self.takes_calendars() => {
                let rate = Rate::new(amount, calendar.unit().usual_length()).expect("an amount, and at most a year");
                Some(Numbers { rate: Some(rate), algorithm: Algorithm::Calendar { calendar: calendar.id() } })
            }
            RateText::Calendar { .. } => {
                let error = conflict(at, "a rate with a calendar is counted by that calendar");
                findings.push(error.expected("a rate without `calendar`, or no `algorithm`"));
                None
            }
        }
    }

    const fn takes_calendars(&self) -> bool {
        matches!(self, Counting::AsTheRateSays | Counting::Calendar)
    }

    /// The algorithm for a rate whose period has a fixed length.
    fn of_fixed_length(
        &self,
        rate: Rate,
        burst: Option<u64>,
        at: Position,
        findings: &mut Findings,
    ) -> Option<Algorithm> {
        let algorithm = match *self {
            Counting::AsTheRateSays | Counting::TokenBucket => {
                return Some(Algorithm::TokenBucket { burst: burst.unwrap_or(rate.amount()) });
            }
            Counting::SlidingLog { max_entries } => Algorithm::SlidingLog { max_entries },
            Counting::FixedWindow { align } => Algorithm::FixedWindow { align },
            Counting::SlidingCounter => Algorithm::SlidingCounter,
            Counting::Calendar => {
                let error = conflict(at, "the rate of a calendar limit says which calendar");
                findings.push(error.expected("a rate such as `1000/day calendar Europe/Berlin`"));
                return None;
            }
            Counting::Concurrency { .. } => unreachable!("slots are no rate"),
        };
        if burst.is_some() {
            findings.push(conflict(at, "only a token bucket has a burst").expected("a rate without `burst`"));
        }
        if matches!(algorithm, Algorithm::SlidingLog { .. }) && rate.amount() > u64::from(LOG_ENTRIES_MAX) {
            let message = format!("the amount of a sliding log is {}", rate.amount());
            findings
                .push(PolicyError::new(at, PolicyCode::Range, message).expected(format!("at most {LOG_ENTRIES_MAX}")));
        }
        Some(algorithm)
    }
}

/// Just under twice the amount is not what `closed` promises, so the author has to say that he knows.
fn check_approximate(fail: Option<FailMode>, fields: &Fields<'_, '_>, findings: &mut Findings) -> Option<()> {
    let node = fields.get("approximate");
    let approximate = node.map_or(Some(false), |node| fields::truth(node, "`approximate`", findings))?;
    if fail == Some(FailMode::Closed) && !approximate {
        let at = fields.get("algorithm").map_or(fields.place_of("algorithm"), |node| node.at);
        let error =
            conflict(at, "a sliding counter may admit just under twice its amount, which `fail: closed` never does");
        findings.push(error.expected("`sliding-log`, which is exact, or `approximate: true` beside it"));
    }
    Some(())
}

/// `ttl` and `max_hold`. What fails closed or to an emergency share has to know how long a slot may be held that nobody
/// remembers; of what fails open, none is.
fn concurrency(fail: Option<FailMode>, fields: &Fields<'_, '_>, findings: &mut Findings) -> Option<Counting> {
    let ttl = fields.require("ttl", "how long a slot is held unless it is renewed, such as `ttl: 30s`", findings);
    let ttl = ttl.and_then(|node| span(node, "`ttl`", findings));
    let expected =
        "the longest that a slot is held, renewals included, such as `max_hold: 10min`; only `fail: open` goes without";
    let node = match fail {
        Some(FailMode::Open) | None => fields.get("max_hold"),
        Some(FailMode::Closed | FailMode::Emergency { .. }) => fields.require("max_hold", expected, findings),
    };
    let max_hold = match (node, fail) {
        (Some(node), _) => span(node, "`max_hold`", findings),
        (None, Some(FailMode::Open)) => Some(PERIOD_MAX),
        (None, Some(FailMode::Closed | FailMode::Emergency { .. }) | None) => None,
    };
    let (ttl, max_hold) = (ttl?, max_hold?);
    if max_hold < ttl {
        let at = node.map_or(fields.place_of("max_hold"), |node| node.at);
        let message = format!("`max_hold` is {}, which is less than `ttl`", time_text::spelt(max_hold));
        let error = PolicyError::new(at, PolicyCode::Range, message);
        findings.push(error.expected(format!("at least {}", time_text::spelt(ttl))));
    }
    Some(Counting::Concurrency { ttl, max_hold })
}

/// A length of time.
fn span(node: &Node<'_>, what: &str, findings: &mut Findings) -> Option<Span> {
    let text = fields::scalar(node, SPAN_SHAPE, findings)?.text.trim();
    let span = time_text::span(text);
    if span.is_none() {
        let error = PolicyError::new(node.at, PolicyCode::Range, format!("{what} is `{}`", shortened(text)));
        findings.push(error.expected(SPAN_SHAPE).suggestion(time_text::span_meant(text).map(quoted)));
    }
    span
}

/// A rate literal.
pub(super) fn rate(node: &Node<'_>, findings: &mut Findings) -> Option<RateText> {
    let scalar = fields::scalar(node, "a rate, such as `10/s`", findings)?;
    RateText::parse(&scalar.text)
        .map_err(|error| {
            let at = place_in(node.at, scalar, error.offset);
            let found = PolicyError::new(at, PolicyCode::Rate, error.message).expected(error.expected);
            findings.push(found.suggestion(error.suggestion.map(quoted)));
        })
        .ok()
}

/// The place of a byte within a text, as far as the source has the text letter by letter.
fn place_in(at: Position, scalar: &Scalar<'_>, offset: usize) -> Position {
    scalar.verbatim.map_or(at, |start| start.right(scalar.text[..offset].chars().count()))
}

/// Where a limit's numbers come from.
pub(super) enum Source {
    Own,
    /// `$plan`.
    Plan,
}

impl Source {
    /// Whether a value is a number or a rate, or stands for the plan's.
    pub(super) fn of(node: &Node<'_>, findings: &mut Findings) -> Option<Source> {
        let text = match &node.value {
            Value::Scalar(scalar) => scalar.text.trim(),
            Value::List(_) | Value::Map(_) => "",
        };
        match text {
            "$plan" => Some(Source::Plan),
            text if text.starts_with('$') => {
                let message = format!("`{}` stands for nothing", shortened(text));
                let error = PolicyError::new(node.at, PolicyCode::Rate, message).expected("`$plan`, or the numbers");
                findings.push(error.suggestion(Some("`$plan`".to_owned())));
                None
            }
            _ => Some(Source::Own),
        }
    }
}
