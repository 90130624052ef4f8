//! Rate-limit header fields, by dialect. Numbers that nobody counted are left out, never invented; waits are whole
//! seconds rounded up, so a client that obeys them is never early.
//!
//! `draft-10` is draft-ietf-httpapi-ratelimit-headers-10: `RateLimit-Policy` and `RateLimit` as lists of named items.
//! The others are the conventions that came before it; they have room for one limit, the one that speaks for the
//! decision.

use std::fmt::Write as _;

use http::{HeaderMap, HeaderName, HeaderValue, header::RETRY_AFTER};
use limits::{Algorithm, Shape, Span, WallTime};
use policy::Dialect;

/// What the header fields say of one limit.
#[derive(Clone, Copy, Debug)]
pub struct LimitFields<'a> {
    /// The limit's name; policies only accept names that need no escaping.
    pub name: &'a str,
    /// Units per window, or the burst; `None` when unlimited.
    pub quota: Option<u64>,
    /// The window that the quota belongs to; `None` when whole seconds cannot say it.
    pub window: Option<Span>,
    /// Units left, if somebody counted.
    pub remaining: Option<u64>,
    /// Until one more unit is available; `None` when nothing is used, or nobody counted.
    pub next_unit_after: Option<Span>,
    /// Until the key is as new, if somebody counted.
    pub reset_after: Option<Span>,
}

/// Everything the header fields of one answer need.
#[derive(Debug)]
pub struct RateFields<'a> {
    /// Every enforced limit that applied, in the order of the rule.
    pub limits: &'a [LimitFields<'a>],
    /// Which of them speaks for the decision.
    pub named: Option<usize>,
    /// How long to wait, on a refusal that waiting helps.
    pub retry_after: Option<Span>,
    /// Cluster time, for the dialect that prints instants.
    pub wall: Option<WallTime>,
}

/// The quota and window that a shape advertises: a bucket's burst and the time it takes to refill, a window's amount
/// and length. A length below a second, or not in whole seconds for windows, is left out rather than rounded into a
/// promise of another rate.
pub fn advertised(shape: &Shape) -> (Option<u64>, Option<Span>) {
    let Some(rate) = shape.rate else { return (None, None) };
    let window = match shape.algorithm {
        Algorithm::TokenBucket { burst } => match rate.amount() {
            0 => None,
            amount => Some(Span::from_secs(rate.period().scaled(burst, amount).as_secs_ceil())),
        },
        Algorithm::SlidingLog { .. } | Algorithm::FixedWindow { .. } | Algorithm::SlidingCounter => {
            (rate.period().as_nanos() % 1_000_000_000 == 0).then_some(rate.period())
        }
        // Windows of a calendar are not of one length, and slots are not counted by time.
        Algorithm::Calendar { .. } | Algorithm::Concurrency { .. } => None,
    };
    (shape.capacity(), window.filter(|window| *window > Span::ZERO))
}

impl RateFields<'_> {
    /// Writes the fields of these dialects, and `Retry-After` where waiting helps.
    pub fn write(&self, dialects: &[Dialect], headers: &mut HeaderMap) {
        for dialect in dialects {
            match dialect {
                Dialect::Draft10 => self.write_draft_10(headers),
                Dialect::Triple => self.write_single("ratelimit", self.reset_delta(), headers),
                Dialect::XDelta => self.write_single("x-ratelimit", self.reset_delta(), headers),
                Dialect::XEpoch => self.write_single("x-ratelimit", self.reset_epoch(), headers),
            }
        }
        if let Some(wait) = self.retry_after {
            headers.insert(RETRY_AFTER, HeaderValue::from(wait.as_secs_ceil().max(1)));
        }
    }

    fn write_draft_10(&self, headers: &mut HeaderMap) {
        let mut policies = String::new();
        let mut states = String::new();
        for limit in self.limits {
            if let Some(quota) = limit.quota {
                item(&mut policies, limit.name);
                parameter(&mut policies, "q", quota);
                if let Some(window) = limit.window {
                    parameter(&mut policies, "w", window.as_secs_ceil());
                }
            }
            if let (Some(_), Some(remaining)) = (limit.quota, limit.remaining) {
                item(&mut states, limit.name);
                parameter(&mut states, "r", remaining);
                if let Some(next) = limit.next_unit_after {
                    parameter(&mut states, "t", next.as_secs_ceil());
                }
            }
        }
        insert(headers, "ratelimit-policy", policies);
        insert(headers, "ratelimit", states);
    }

    fn write_single(&self, prefix: &str, reset: Option<u64>, headers: &mut HeaderMap) {
        let Some(limit) = self.named.and_then(|index| self.limits.get(index)) else { return };
        for (suffix, number) in [("limit", limit.quota), ("remaining", limit.remaining), ("reset", reset)] {
            if let Some(number) = number {
                insert(headers, &format!("{prefix}-{suffix}"), number.to_string());
            }
        }
    }

    fn reset_delta(&self) -> Option<u64> {
        Some(self.limits.get(self.named?)?.reset_after?.as_secs_ceil())
    }

    fn reset_epoch(&self) -> Option<u64> {
        let at = self.wall?.saturating_add(self.limits.get(self.named?)?.reset_after?);
        Some(at.as_unix_nanos().div_ceil(1_000_000_000))
    }
}

fn item(list: &mut String, name: &str) {
    if !list.is_empty() {
        list.push_str(", ");
    }
    let _ = write!(list, "\"{name}\"");
}

fn parameter(list: &mut String, name: &str, value: u64) {
    let _ = write!(list, ";{name}={value}");
}

fn insert(headers: &mut HeaderMap, name: &str, value: String) {
    if value.is_empty() {
        return;
    }
    if let (Ok(name), Ok(value)) = (HeaderName::try_from(name), HeaderValue::try_from(value)) {
        headers.insert(name, value);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    fn limit(name: &str, quota: u64, window: u64, remaining: u64, next: Option<u64>, reset: u64) -> LimitFields<'_> {
        LimitFields {
            name,
            quota: Some(quota),
            window: Some(Span::from_secs(window)),
            remaining: Some(remaining),
            next_unit_after: next.map(Span::from_millis),
            reset_after: Some(Span::from_millis(reset)),
        }
    }

    fn written(fields: &RateFields<'_>, dialects: &[Dialect]) -> Vec<String> {
        let mut headers = HeaderMap::new();
        fields.write(dialects, &mut headers);
        let mut lines: Vec<_> =
            headers.iter().map(|(name, value)| format!("{name}: {}", value.to_str().unwrap())).collect();
        lines.sort();
        lines
    }

    fn fields<'a>(limits: &'a [LimitFields<'a>], retry_after: Option<u64>) -> RateFields<'a> {
        let wall = Some(WallTime::from_unix_nanos(1_767_225_612_000_000_000));
        RateFields { limits, named: Some(0), retry_after: retry_after.map(Span::from_millis), wall }
    }

    #[test]
    fn fixture_1_a_fixed_window_admits_in_every_dialect() {
        let limits = [limit("default", 100, 60, 99, Some(48_000), 48_000)];
        let fields = fields(&limits, None);
        assert_eq!(
            written(&fields, &[Dialect::Draft10]),
            [r#"ratelimit-policy: "default";q=100;w=60"#, r#"ratelimit: "default";r=99;t=48"#]
        );
        assert_eq!(
            written(&fields, &[Dialect::XEpoch]),
            ["x-ratelimit-limit: 100", "x-ratelimit-remaining: 99", "x-ratelimit-reset: 1767225660"]
        );
        assert_eq!(written(&fields, &[Dialect::XDelta])[2], "x-ratelimit-reset: 48");
        assert_eq!(
            written(&fields, &[Dialect::Triple]),
            ["ratelimit-limit: 100", "ratelimit-remaining: 99", "ratelimit-reset: 48"]
        );
        assert!(written(&fields, &[]).is_empty());
    }

    #[test]
    fn fixture_2_a_wait_is_rounded_up() {
        let limits = [limit("default", 100, 60, 0, Some(29_600), 29_600)];
        let lines = written(&fields(&limits, Some(29_600)), &[Dialect::Draft10]);
        assert!(lines.contains(&"retry-after: 30".to_owned()));
        assert!(lines.contains(&r#"ratelimit: "default";r=0;t=30"#.to_owned()));
    }

    #[test]
    fn fixture_3_a_short_wait_is_a_whole_second_in_the_header() {
        let limits = [limit("api", 20, 2, 0, Some(100), 2_000)];
        let lines = written(&fields(&limits, Some(100)), &[Dialect::Draft10]);
        assert!(lines.contains(&"retry-after: 1".to_owned()));
        assert!(lines.contains(&r#"ratelimit-policy: "api";q=20;w=2"#.to_owned()));
        assert!(lines.contains(&r#"ratelimit: "api";r=0;t=1"#.to_owned()));
    }

    #[test]
    fn fixture_5_several_limits_are_one_list_and_single_values_take_the_tighter() {
        let limits = [
            limit("hour", 1000, 3600, 400, Some(2_400_000), 2_400_000),
            limit("day", 5000, 86_400, 100, Some(34_800_000), 34_800_000),
        ];
        let fields = RateFields { named: Some(1), ..fields(&limits, None) };
        assert_eq!(
            written(&fields, &[Dialect::Draft10]),
            [
                r#"ratelimit-policy: "hour";q=1000;w=3600, "day";q=5000;w=86400"#,
                r#"ratelimit: "hour";r=400;t=2400, "day";r=100;t=34800"#,
            ]
        );
        assert_eq!(written(&fields, &[Dialect::XDelta])[1], "x-ratelimit-remaining: 100");
    }

    #[test]
    fn fixture_4_a_bucket_tells_its_next_unit_or_in_older_dialects_when_it_is_full() {
        let limits = [limit("login", 5, 60, 2, Some(12_000), 36_000)];
        let fields = fields(&limits, None);
        assert_eq!(
            written(&fields, &[Dialect::Draft10]),
            [r#"ratelimit-policy: "login";q=5;w=60"#, r#"ratelimit: "login";r=2;t=12"#]
        );
        assert_eq!(
            written(&fields, &[Dialect::Triple]),
            ["ratelimit-limit: 5", "ratelimit-remaining: 2", "ratelimit-reset: 36"]
        );
    }

    /// The wait that goes in is the longest of those that refuse: see `Told::write_headers`.
    #[test]
    fn fixture_6_two_limits_refuse_and_the_wait_covers_both() {
        let limits = [
            limit("minute", 100, 60, 0, Some(22_000), 22_000),
            limit("daily", 5_000, 86_400, 0, Some(7_200_300), 7_200_300),
        ];
        let fields = RateFields { named: Some(1), ..fields(&limits, Some(7_200_300)) };
        let lines = written(&fields, &[Dialect::Draft10]);
        assert!(lines.contains(&"retry-after: 7201".to_owned()), "{lines:?}");
        assert!(lines.contains(&r#"ratelimit: "minute";r=0;t=22, "daily";r=0;t=7201"#.to_owned()), "{lines:?}");
        for dialect in [Dialect::Triple, Dialect::XDelta, Dialect::XEpoch] {
            let lines = written(&fields, &[dialect]);
            assert!(lines.contains(&"retry-after: 7201".to_owned()), "{lines:?}");
            assert!(lines.iter().any(|line| line.ends_with("-remaining: 0")), "{lines:?}");
        }
        assert_eq!(written(&fields, &[]), ["retry-after: 7201"], "`headers: none` still says when to come back");
    }

    #[test]
    fn fixture_7_what_never_fits_has_no_wait_and_leaves_the_state_as_it_is() {
        let limits = [limit("default", 100, 60, 100, None, 0)];
        let lines = written(&fields(&limits, None), &[Dialect::Draft10]);
        assert_eq!(lines, [r#"ratelimit-policy: "default";q=100;w=60"#, r#"ratelimit: "default";r=100"#]);
    }

    /// Fixture 10 is a calendar month, whose length varies. There is no such algorithm yet; what it needs of the fields is
    /// that a quota without a window is told without one.
    #[test]
    fn fixture_10_a_quota_without_a_window_of_whole_seconds_omits_it() {
        let monthly = LimitFields { window: None, ..limit("monthly", 1_000_000, 1, 0, Some(86_430_000), 86_430_000) };
        let limits = [monthly];
        assert_eq!(
            written(&fields(&limits, Some(86_430_000)), &[Dialect::Draft10]),
            [r#"ratelimit-policy: "monthly";q=1000000"#, r#"ratelimit: "monthly";r=0;t=86430"#, "retry-after: 86430",]
        );
    }

    /// Fixture 14 is draft -06: the triple with the policy beside it. Ours leaves the policy to `draft-10`, whose field of
    /// the same name has another form; the three that remain are as the fixture says. Fixture 13, the dictionary of -07, is
    /// no dialect of policies.
    #[test]
    fn fixture_14_the_triple_has_plain_numbers() {
        let limits = [limit("default", 100, 60, 99, Some(48_000), 48_000)];
        assert_eq!(
            written(&fields(&limits, None), &[Dialect::Triple]),
            ["ratelimit-limit: 100", "ratelimit-remaining: 99", "ratelimit-reset: 48"]
        );
    }

    #[test]
    fn fixture_15_a_window_below_a_second_is_not_rounded_into_another_rate() {
        let shape = shape_of("fixed-window", "50/250ms");
        let (quota, window) = advertised(&shape);
        assert_eq!((quota, window), (Some(50), None));
        let burst = LimitFields { quota, window, ..limit("burst", 50, 1, 49, Some(250), 250) };
        assert_eq!(
            written(&fields(&[burst], None), &[Dialect::Draft10]),
            [r#"ratelimit-policy: "burst";q=50"#, r#"ratelimit: "burst";r=49;t=1"#]
        );
    }

    #[test]
    fn several_dialects_stand_beside_each_other_and_every_number_is_whole() {
        let limits = [limit("a", 100, 60, 3, Some(1), 59_999), limit("b", 7, 1, 7, None, 0)];
        let all = [Dialect::Draft10, Dialect::Triple, Dialect::XEpoch];
        let lines = written(&fields(&limits, Some(1)), &all);
        assert_eq!(
            lines,
            [
                r#"ratelimit-limit: 100"#,
                r#"ratelimit-policy: "a";q=100;w=60, "b";q=7;w=1"#,
                r#"ratelimit-remaining: 3"#,
                r#"ratelimit-reset: 60"#,
                r#"ratelimit: "a";r=3;t=1, "b";r=7"#,
                r#"retry-after: 1"#,
                r#"x-ratelimit-limit: 100"#,
                r#"x-ratelimit-remaining: 3"#,
                r#"x-ratelimit-reset: 1767225672"#,
            ]
        );
    }

    #[test]
    fn single_values_without_a_limit_that_speaks_are_left_out() {
        let limits = [limit("a", 100, 60, 3, Some(1), 60_000)];
        for dialect in [Dialect::Triple, Dialect::XDelta, Dialect::XEpoch] {
            assert!(written(&RateFields { named: None, ..fields(&limits, None) }, &[dialect]).is_empty());
        }
        let no_clock = RateFields { wall: None, ..fields(&limits, None) };
        assert_eq!(
            written(&no_clock, &[Dialect::XEpoch]),
            ["x-ratelimit-limit: 100", "x-ratelimit-remaining: 3"],
            "an instant that nobody knows is not invented"
        );
    }

    fn shape_of(algorithm: &str, rate: &str) -> Shape {
        let text = format!(
            "ringfence: 1\ndomain: d\nlimits:\n  l: {{ rate: {rate}, algorithm: {algorithm}, key: [client] }}\n"
        );
        let document = policy::Document::parse(&text).unwrap();
        let id = |_: &str| Some((limits::LimitId(1), 1));
        let catalogue = policy::Catalogue::empty().with_domain(&document, 1, &id, 1_000).unwrap();
        *catalogue.domain("d").unwrap().limits()[0].shape()
    }

    #[test]
    fn fixture_12_what_nobody_counted_is_not_invented() {
        let unknown = LimitFields {
            remaining: None,
            next_unit_after: None,
            reset_after: None,
            ..limit("default", 100, 60, 0, None, 0)
        };
        assert_eq!(
            written(&fields(&[unknown], None), &[Dialect::Draft10]),
            [r#"ratelimit-policy: "default";q=100;w=60"#]
        );
    }
}
