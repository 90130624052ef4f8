//! Reading cases from TOML. A key that a case does not have is a mistake of the table's author, and so is a denial whose
//! wait nobody worked out; both are told with their line.

use std::borrow::Cow;
use std::collections::BTreeMap;

use limits::{Span, WallTime};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::case::{Act, Attributes, Call, Case, Expect, ExpectLimit, Finding, PolicyText, Starts};

/// What is wrong with a file of cases.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {message}")]
pub struct Mistake {
    /// The line, from 1.
    pub line: usize,
    /// What is wrong there.
    pub message: String,
}

type Read<T> = Result<T, Mistake>;

/// Reads all cases of a file.
///
/// # Errors
///
/// The first mistake.
pub fn cases(text: &str) -> Result<Vec<Case>, Mistake> {
    let root = DeTable::parse(text).map_err(|error| {
        let line = error.span().map_or(1, |span| line_of(text, span.start));
        Mistake { line, message: error.message().to_owned() }
    })?;
    let span = root.span();
    let mut file = Fields { text, at: span.start, left: root.into_inner() };
    let cases = file.list("case")?;
    file.end()?;
    cases.into_iter().map(|case| Fields::of(text, case).and_then(read_case)).collect()
}

/// A table whose keys are taken one by one.
struct Fields<'t> {
    text: &'t str,
    at: usize,
    left: DeTable<'t>,
}

type Node<'t> = Spanned<DeValue<'t>>;

impl<'t> Fields<'t> {
    fn of(text: &'t str, node: Node<'t>) -> Read<Fields<'t>> {
        let at = node.span().start;
        let DeValue::Table(left) = node.into_inner() else {
            return Err(Mistake { line: line_of(text, at), message: "expected a table".to_owned() });
        };
        Ok(Fields { text, at, left })
    }

    fn line(&self) -> usize {
        line_of(self.text, self.at)
    }

    fn wrong<T>(&self, message: impl Into<String>) -> Read<T> {
        Err(Mistake { line: self.line(), message: message.into() })
    }

    fn node(&mut self, key: &str) -> Option<Node<'t>> {
        self.left.remove(&*Cow::Borrowed(key))
    }

    fn list(&mut self, key: &str) -> Read<Vec<Node<'t>>> {
        match self.node(key).map(Spanned::into_inner) {
            None => Ok(Vec::new()),
            Some(DeValue::Array(items)) => Ok(items.into_iter().collect()),
            Some(_) => self.wrong(format!("`{key}` is a list")),
        }
    }

    fn text(&mut self, key: &str) -> Read<Option<String>> {
        match self.node(key).map(Spanned::into_inner) {
            None => Ok(None),
            Some(DeValue::String(text)) => Ok(Some(text.into_owned())),
            Some(_) => self.wrong(format!("`{key}` is text")),
        }
    }

    fn must<T>(&self, key: &str, value: Option<T>) -> Read<T> {
        value.map_or_else(|| self.wrong(format!("`{key}` is missing")), Ok)
    }

    fn number(&mut self, key: &str) -> Read<Option<i128>> {
        match self.node(key).map(Spanned::into_inner) {
            None => Ok(None),
            Some(DeValue::Integer(number)) => match i128::from_str_radix(number.as_str(), number.radix()) {
                Ok(number) => Ok(Some(number)),
                Err(_) => self.wrong(format!("`{key}` is a number of at most 128 bits")),
            },
            Some(_) => self.wrong(format!("`{key}` is a number")),
        }
    }

    fn count(&mut self, key: &str) -> Read<Option<u64>> {
        match self.number(key)?.map(u64::try_from) {
            None => Ok(None),
            Some(Ok(count)) => Ok(Some(count)),
            Some(Err(_)) => self.wrong(format!("`{key}` is no count")),
        }
    }

    fn truth(&mut self, key: &str) -> Read<Option<bool>> {
        match self.node(key).map(Spanned::into_inner) {
            None => Ok(None),
            Some(DeValue::Boolean(truth)) => Ok(Some(truth)),
            Some(_) => self.wrong(format!("`{key}` is true or false")),
        }
    }

    fn span(&mut self, key: &str) -> Read<Option<Span>> {
        let Some(text) = self.text(key)? else { return Ok(None) };
        span(&text)
            .map_or_else(|| self.wrong(format!("`{key}` is a time, such as 1500ms or 2h")), |span| Ok(Some(span)))
    }

    fn texts(&mut self, key: &str) -> Read<Option<BTreeMap<String, String>>> {
        let Some(node) = self.node(key) else { return Ok(None) };
        let mut fields = Fields::of(self.text, node)?;
        let names: Vec<String> = fields.left.keys().map(|name| name.get_ref().to_string()).collect();
        let pairs = names.into_iter().map(|name| {
            let value = fields.text(&name)?;
            Ok((name.clone(), fields.must(&name, value)?))
        });
        pairs.collect::<Read<_>>().map(Some)
    }

    fn end(&self) -> Read<()> {
        match self.left.keys().next() {
            None => Ok(()),
            Some(key) => {
                let line = line_of(self.text, key.span().start);
                Err(Mistake { line, message: format!("there is no key `{}` here", key.get_ref()) })
            }
        }
    }
}

fn read_case(mut fields: Fields<'_>) -> Read<Case> {
    let (id, source, wrong) = (fields.text("id")?, fields.text("source")?, fields.text("wrong")?);
    let starts = read_starts(&mut fields)?;
    let with = fields.texts("with")?.unwrap_or_else(|| Attributes::from([("client".to_owned(), "a".to_owned())]));
    let policy = read_policy(&mut fields)?;
    let (errors, calls) = (read_findings(&mut fields)?, fields.list("calls")?);
    let mut before = Span::ZERO;
    let mut read = |call| {
        let call = read_call(Fields::of(fields.text, call)?, before)?;
        before = before.max(call.end());
        Ok(call)
    };
    let case = Case {
        calls: calls.into_iter().map(&mut read).collect::<Read<_>>()?,
        id: fields.must("id", id)?,
        source: fields.must("source", source)?,
        wrong: fields.must("wrong", wrong)?,
        differs: fields.text("differs")?,
        cannot: fields.texts("cannot")?.unwrap_or_default(),
        policy: fields.must("policy", policy)?,
        starts,
        with,
        errors,
    };
    if case.calls.is_empty() == case.errors.is_empty() {
        return fields.wrong("a case has calls, or a policy with errors");
    }
    fields.end()?;
    Ok(case)
}

fn read_starts(fields: &mut Fields<'_>) -> Read<Starts> {
    let Some(text) = fields.text("starts")? else { return Ok(Starts::Anytime) };
    let starts = match text.strip_suffix('Z').and_then(|text| text.split_once('T')) {
        Some((date, time)) => day_number(date)
            .zip(time_of_day(time))
            .map(|(day, time)| Starts::At(WallTime::from_unix_nanos(day * 86_400 * 1_000_000_000 + time.as_nanos()))),
        None => time_of_day(&text).map(Starts::OfDay),
    };
    starts.map_or_else(|| fields.wrong("`starts` is 13:05:00 of any day, or 2026-01-31T13:05:00Z"), Ok)
}

fn read_policy(fields: &mut Fields<'_>) -> Read<Option<PolicyText>> {
    match (fields.text("policy")?, fields.text("document")?) {
        (Some(_), Some(_)) => fields.wrong("either `policy` or a whole `document`"),
        (Some(body), None) => Ok(Some(PolicyText::Body(body))),
        (None, document) => Ok(document.map(PolicyText::Whole)),
    }
}

fn read_findings(fields: &mut Fields<'_>) -> Read<Vec<Finding>> {
    let read = |node| {
        let mut fields = Fields::of(fields.text, node)?;
        let (code, line, suggestion) = (fields.text("code")?, fields.count("line")?, fields.text("suggestion")?);
        fields.end()?;
        Ok(Finding { code: fields.must("code", code)?, line, suggestion })
    };
    fields.list("errors")?.into_iter().map(read).collect()
}

fn read_call(mut fields: Fields<'_>, before: Span) -> Read<Call> {
    let (at, times, every) = (fields.span("at")?, fields.count("times")?, fields.span("every")?);
    let (at, back) = (at.unwrap_or(before), fields.truth("back")? == Some(true));
    if (at < before) != back {
        return fields.wrong("a call is not before the one above it, or the clock goes `back`");
    }
    let with = fields.texts("with")?;
    let act = read_act(&mut fields)?;
    let expect = read_expect(&mut fields)?;
    fields.end()?;
    let call = Call {
        line: fields.line(),
        at,
        back,
        times: times.unwrap_or(1),
        every: every.unwrap_or_default(),
        with,
        act,
        expect,
    };
    complete(&call).map_or(Ok(()), |lacks| fields.wrong(lacks))?;
    Ok(call)
}

fn read_act(fields: &mut Fields<'_>) -> Read<Act> {
    let verb = fields.text("do")?.unwrap_or_else(|| "check".to_owned());
    let (cost, id) = (fields.number("cost")?.unwrap_or(1), fields.text("id")?);
    let ttl = fields.span("ttl")?;
    let named = |fields: &Fields<'_>, id: Option<String>| fields.must("id", id);
    match &*verb {
        "check" if fields.truth("up_to")? == Some(true) => Ok(Act::UpTo { cost }),
        "check" => Ok(Act::Check { cost, id }),
        "peek" => Ok(Act::Peek { cost, limit: fields.text("only")? }),
        "refund" => Ok(Act::Refund { id: named(fields, id)? }),
        "reserve" => Ok(Act::Reserve { cost, id: named(fields, id)?, ttl: fields.must("ttl", ttl)? }),
        "settle" => Ok(Act::Settle { cost, id: named(fields, id)? }),
        "acquire" => Ok(Act::Acquire { cost, id: named(fields, id)?, ttl }),
        "renew" => Ok(Act::Renew { id: named(fields, id)?, ttl }),
        "release" => Ok(Act::Release { id: named(fields, id)? }),
        "reset" => Ok(Act::Reset { limit: fields.text("only")? }),
        "apply" => {
            let policy = read_policy(fields)?;
            Ok(Act::Apply(fields.must("policy", policy)?))
        }
        other => fields.wrong(format!("nothing is done by `{other}`")),
    }
}

fn read_expect(fields: &mut Fields<'_>) -> Read<Expect> {
    let mut limits = BTreeMap::new();
    if let Some(node) = fields.node("limits") {
        let mut all = Fields::of(fields.text, node)?;
        let names: Vec<String> = all.left.keys().map(|name| name.get_ref().to_string()).collect();
        for name in names {
            let node = all.node(&name);
            let limit = Fields::of(fields.text, all.must(&name, node)?)?;
            limits.insert(name, read_limit(limit)?);
        }
    }
    let status = fields.count("status")?.and_then(|status| u16::try_from(status).ok());
    Ok(Expect {
        allowed: fields.truth("allowed")?,
        admits: fields.count("admits")?,
        limit: fields.text("limit")?,
        reason: fields.text("reason")?,
        remaining: fields.count("remaining")?,
        retry_after_ms: fields.count("retry_after_ms")?,
        reset_after_ms: fields.count("reset_after_ms")?,
        units: fields.count("units")?,
        limits,
        status,
        headers: fields.texts("headers")?.unwrap_or_default(),
        error: fields.text("error")?,
        errors: read_findings(fields)?,
    })
}

fn read_limit(mut fields: Fields<'_>) -> Read<ExpectLimit> {
    let limit = ExpectLimit {
        allowed: fields.truth("allowed")?,
        capacity: fields.count("capacity")?,
        remaining: fields.count("remaining")?,
        retry_after_ms: fields.count("retry_after_ms")?,
        reset_after_ms: fields.count("reset_after_ms")?,
    };
    fields.end()?;
    Ok(limit)
}

/// What nobody worked out, though there is an answer to it.
fn complete(call: &Call) -> Option<&'static str> {
    let Expect { allowed, admits, reason, retry_after_ms, remaining, error, .. } = &call.expect;
    match &call.act {
        Act::Apply(_) => None,
        _ if error.is_some() || admits.is_some() => None,
        _ if allowed.is_none() => Some("a call says whether it is allowed, how many are, or which error it is"),
        Act::Check { .. } | Act::UpTo { .. } | Act::Peek { .. } | Act::Reserve { .. } | Act::Acquire { .. } => {
            let waits = retry_after_ms.is_some() || reason.as_deref().is_some_and(|reason| reason != "limit");
            match allowed {
                Some(false) if !waits => Some("a denial says how long to wait, or why waiting does not help"),
                _ if remaining.is_none() && reason.is_none() => Some("a decision says what remains"),
                _ => None,
            }
        }
        Act::Refund { .. } | Act::Settle { .. } | Act::Renew { .. } | Act::Release { .. } | Act::Reset { .. } => None,
    }
}

impl Call {
    /// When the last of its calls is made.
    pub fn end(&self) -> Span {
        self.at.saturating_add(Span::from_nanos(self.every.as_nanos() * (self.times - 1)))
    }
}

/// A length of time: whole numbers with units, as in `1h30min` or `1500ms`.
pub fn span(text: &str) -> Option<Span> {
    const UNITS: [(&str, u64); 7] = [
        ("ns", 1),
        ("us", 1_000),
        ("ms", 1_000_000),
        ("min", 60_000_000_000),
        ("s", 1_000_000_000),
        ("h", 3_600_000_000_000),
        ("d", 86_400_000_000_000),
    ];
    let mut rest = text;
    let mut sum = 0u64;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit()).filter(|digits| *digits > 0)?;
        let (number, after) = rest.split_at(digits);
        let unit = after.find(|c: char| c.is_ascii_digit()).map_or(after, |end| &after[..end]);
        let (_, length) = UNITS.into_iter().find(|(name, _)| *name == unit)?;
        sum = sum.checked_add(number.parse::<u64>().ok()?.checked_mul(length)?)?;
        rest = &after[unit.len()..];
    }
    (!text.is_empty()).then_some(Span::from_nanos(sum))
}

fn time_of_day(text: &str) -> Option<Span> {
    let (clock, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let parts: Vec<u64> = clock.split(':').map(|part| part.parse().ok()).collect::<Option<_>>()?;
    let [hours @ 0..24, minutes @ 0..60, seconds @ 0..60] = parts[..] else { return None };
    let millis: u64 = format!("{fraction:0<3}").parse().ok().filter(|millis| *millis < 1_000)?;
    Some(Span::from_millis(((hours * 60 + minutes) * 60 + seconds) * 1_000 + millis))
}

/// Days from 1970-01-01 to a date of the Gregorian calendar.
fn day_number(date: &str) -> Option<u64> {
    let parts: Vec<u64> = date.split('-').map(|part| part.parse().ok()).collect::<Option<_>>()?;
    let [year @ 1970..=9999, month @ 1..=12, day @ 1..=31] = parts[..] else { return None };
    let is_leap = |year: u64| year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let years: u64 = (1970..year).map(|year| 365 + u64::from(is_leap(year))).sum();
    let lengths = [31, 28 + u64::from(is_leap(year)), 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    Some(years + lengths.iter().take(month as usize - 1).sum::<u64>() + day - 1)
}

fn line_of(text: &str, at: usize) -> usize {
    text[..at.min(text.len())].matches('\n').count() + 1
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    const SMALL: &str = r#"
[[case]]
id = "landscape-A1"
source = "somebody"
wrong = "something"
policy = "limits: { one: { rate: 1/s, key: [client] } }"
calls = [
    { at = "1500ms", cost = 2, allowed = false, reason = "never", remaining = 1 },
    { times = 3, every = "1s", admits = 2 },
]
"#;

    #[test]
    fn a_small_case_is_read() {
        let case = cases(SMALL).unwrap().remove(0);
        assert_eq!((case.domain().as_str(), case.calls.len()), ("landscape-a1", 2));
        assert_eq!(case.calls[0].act, Act::Check { cost: 2, id: None });
        assert_eq!((case.calls[1].at, case.calls[1].end()), (Span::from_millis(1_500), Span::from_millis(3_500)));
        assert_eq!(case.calls[1].line, 9);
        assert!(case.document(&case.policy).starts_with("ringfence: 1\ndomain: landscape-a1\nlimits:"));
    }

    #[test]
    fn a_mistake_in_a_case_has_its_line() {
        let wrong = |from: &str, to: &str| {
            assert!(SMALL.contains(from));
            cases(&SMALL.replace(from, to)).unwrap_err().to_string()
        };
        assert_eq!(wrong("cost = 2", "costs = 2"), "line 8: there is no key `costs` here");
        assert_eq!(wrong("1500ms", "1500"), "line 8: `at` is a time, such as 1500ms or 2h");
        let denial = "line 8: a denial says how long to wait, or why waiting does not help";
        assert_eq!(wrong(", reason = \"never\"", ""), denial);
        assert_eq!(
            wrong("times = 3", "at = \"1s\", times = 3"),
            "line 9: a call is not before the one above it, or the clock goes `back`"
        );
        assert_eq!(wrong("wrong = \"something\"", ""), "line 2: `wrong` is missing");
    }

    #[test]
    fn times_are_read_to_the_nanosecond() {
        assert_eq!(span("1h30min"), Some(Span::from_secs(5_400)));
        assert_eq!(span("1s1ns"), Some(Span::from_nanos(1_000_000_001)));
        assert_eq!((span(""), span("s"), span("5"), span("5 s")), (None, None, None, None));
        assert_eq!(time_of_day("00:00:12.5"), Some(Span::from_millis(12_500)));
        assert_eq!((day_number("1970-01-01"), day_number("2026-01-01")), (Some(0), Some(20_454)));
        assert_eq!((day_number("2024-03-01"), day_number("2026-13-01")), (Some(19_783), None));
    }
}
