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
