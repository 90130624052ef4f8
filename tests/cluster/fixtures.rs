//! The worked examples of rate-limit headers, on real responses. Numbers that depend on the moment are not waited for:
//! a window's end is known, so what an answer may say follows from the clock before the call and after it.

use std::ops::RangeInclusive;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use crate::dev::Dev;
use crate::http::{self, Answer};
use crate::patience::PATIENCE;

/// How far cluster time may be from the clock that this test reads: owners learn it over loopback.
const CLOCKS_APART_MS: u64 = 100;

/// A minute, in milliseconds: the window of `default` in every domain here.
const MINUTE_MS: u64 = 60_000;

/// The fixtures' limits under one dialect, as a domain of its own.
fn policy(domain: &str, headers: &str) -> String {
    format!(
        "
ringfence: 1
domain: {domain}
headers: {headers}
limits:
  default: {{ rate: 100/min, algorithm: fixed-window, align: epoch, key: [client] }}
  api: {{ rate: 10/s burst 20, key: [client] }}
  login: {{ rate: 5/min burst 5, key: [client] }}
  minute: {{ rate: 10/min, algorithm: fixed-window, align: epoch, key: [client] }}
  daily: {{ rate: 10/d, algorithm: fixed-window, align: epoch, key: [client] }}
  guarded: {{ rate: 100/min, algorithm: fixed-window, align: epoch, key: [client], fail: closed }}
rules:
  - {{ name: default, match: {{ kind: default }}, limits: [default] }}
  - {{ name: api, match: {{ kind: api }}, limits: [api] }}
  - {{ name: login, match: {{ kind: login }}, limits: [login] }}
  - {{ name: both, match: {{ kind: both }}, limits: [minute, daily] }}
  - {{ name: guarded, match: {{ kind: guarded }}, limits: [guarded] }}
"
    )
}

/// Three nodes with the fixtures' limits in draft-10, which is the dialect unless a policy says another.
fn draft_10() -> Dev {
    Dev::start_with_policy(&policy("draft-10", "draft-10"))
}

fn check(dev: &Dev, domain: &str, kind: &str, client: &str, cost: u64) -> Answer {
    let attributes = json!({ "kind": kind, "client": client });
    // A caller who waits: what is compared here is what the owner says.
    let body = json!({ "domain": domain, "attributes": attributes, "cost": cost, "deadline_ms": 1_000 });
    http::check_with(dev.api(1), &body)
}

/// Milliseconds since 1970, by the clock that the nodes' cluster time follows.
fn wall_ms() -> u64 {
    u64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis()).unwrap()
}

/// The moments at which a call may have been answered.
struct During {
    from_ms: u64,
    to_ms: u64,
}

impl During {
    /// The end of the aligned window that the call fell into; `None` when it may have been either of two.
    fn window_end(&self, window_ms: u64) -> Option<u64> {
        let end = |at: u64| (at / window_ms + 1) * window_ms;
        (end(self.from_ms) == end(self.to_ms)).then(|| end(self.to_ms))
    }

    /// What may be said of the whole seconds until `end_ms`, rounded up.
    fn seconds_until(&self, end_ms: u64) -> RangeInclusive<u64> {
        (end_ms - self.to_ms).div_ceil(1_000)..=(end_ms - self.from_ms).div_ceil(1_000)
    }
}

/// Makes these calls with a client of their own, again if they touched two windows or were too slow to be of one
/// instant, and returns what was answered last, and when.
fn within_one_window(window_ms: u64, call: impl Fn(&str) -> Answer) -> (Answer, During, u64) {
    let until = Instant::now() + PATIENCE;
    for attempt in 0.. {
        let from_ms = wall_ms() - CLOCKS_APART_MS;
        let answer = call(&format!("client-{attempt}"));
        let during = During { from_ms, to_ms: wall_ms() + CLOCKS_APART_MS };
        if let Some(end) = during.window_end(window_ms) {
            return (answer, during, end);
        }
        assert!(Instant::now() < until, "no call stayed within one window");
    }
    unreachable!("the loop ends by itself")
}

/// The parameters of the one item of a list field, such as `"api";r=0;t=1`.
fn item<'a>(field: &'a str, name: &str) -> Vec<(&'a str, u64)> {
    let parameters = field.strip_prefix(&format!("\"{name}\"")).unwrap_or_else(|| panic!("{field} is not of {name}"));
    let pairs = parameters.split(';').skip(1).map(|pair| pair.split_once('=').unwrap());
    pairs.map(|(name, number)| (name, number.parse().unwrap())).collect()
}

fn number(answer: &Answer, name: &str) -> u64 {
    answer.header(name).parse().unwrap_or_else(|_| panic!("{name} is no number in {:?}", answer.headers))
}

/// The fields of any dialect that an answer carries, sorted.
fn rate_fields(answer: &Answer) -> Vec<&str> {
    let mut names: Vec<_> = answer.headers.keys().map(|name| name.as_str()).collect();
    names.retain(|name| name.contains("ratelimit") || *name == "retry-after");
    names.sort_unstable();
    names
}

#[test]
fn fixture_1_a_fixed_window_admits_its_first_request() {
    let dev = draft_10();
    let (answer, during, end) = within_one_window(MINUTE_MS, |client| check(&dev, "draft-10", "default", client, 1));
    assert_eq!(answer.status, 200, "{}", answer.body);
    assert_eq!(answer.header("ratelimit-policy"), r#""default";q=100;w=60"#);
    let [("r", 99), ("t", wait)] = item(answer.header("ratelimit"), "default")[..] else {
        panic!("{}", answer.header("ratelimit"))
    };
    assert!(during.seconds_until(end).contains(&wait), "{wait} s, of {:?}", during.seconds_until(end));
    assert_eq!(answer.body["reset_after_ms"].as_u64().unwrap().div_ceil(1_000), wait, "{}", answer.body);
    assert_eq!(rate_fields(&answer), ["ratelimit", "ratelimit-policy"], "whoever was admitted need not wait");
}

#[test]
fn fixture_2_the_request_over_the_window_is_told_to_wait_for_its_end_rounded_up() {
    let dev = draft_10();
    let (answer, during, end) = within_one_window(MINUTE_MS, |client| {
        assert_eq!(check(&dev, "draft-10", "default", client, 100).status, 200);
        check(&dev, "draft-10", "default", client, 1)
    });
    assert_eq!(answer.status, 429, "{}", answer.body);
    assert_eq!(answer.header("ratelimit-policy"), r#""default";q=100;w=60"#);
    let [("r", 0), ("t", wait)] = item(answer.header("ratelimit"), "default")[..] else {
        panic!("{}", answer.header("ratelimit"))
    };
    assert!(during.seconds_until(end).contains(&wait), "{wait} s, of {:?}", during.seconds_until(end));
    assert_eq!(number(&answer, "retry-after"), wait);
    let exact = answer.body["retry_after_ms"].as_u64().unwrap();
    assert_eq!(exact.div_ceil(1_000), wait, "rounded up, never down: {}", answer.body);
    assert!((end - during.to_ms..=end - during.from_ms).contains(&exact), "{}", answer.body);
    assert_eq!(answer.body["type"], "https://iana.org/assignments/http-problem-types#quota-exceeded");
    assert_eq!((&answer.body["status"], &answer.body["violated-policies"]), (&json!(429), &json!(["default"])));
}

#[test]
fn fixture_3_a_wait_below_a_second_is_a_second_in_the_headers_and_exact_in_the_body() {
    let dev = draft_10();
    // A batch is one instant to its owner: 21 at once, of which the last is refused, for exactly a tenth of a second.
    let one = json!({ "domain": "draft-10", "attributes": { "kind": "api", "client": "batch" }, "deadline_ms": 1_000 });
    let body = json!({ "checks": vec![one; 21] }).to_string();
    let batch = http::post_text(dev.api(1), "/v1/check/batch", "application/json", &body).body;
    let decisions = batch["decisions"].as_array().unwrap();
    assert!(decisions[..20].iter().all(|decision| decision["allowed"] == true), "{batch}");
    assert_eq!((&decisions[20]["allowed"], &decisions[20]["retry_after_ms"]), (&json!(false), &json!(100)));

    // One call at a time has the header fields; one that came a tenth of a second late is admitted, and asked anew.
    let until = Instant::now() + PATIENCE;
    let attempts = (0..).map(|attempt| {
        let client = format!("client-{attempt}");
        assert_eq!(check(&dev, "draft-10", "api", &client, 20).status, 200);
        check(&dev, "draft-10", "api", &client, 1)
    });
    let answer = attempts
        .inspect(|_| assert!(Instant::now() < until, "no two calls came within a tenth of a second"))
        .find(|answer| answer.status != 200)
        .unwrap();
    assert_eq!(answer.status, 429, "{}", answer.body);
    assert_eq!(answer.header("retry-after"), "1");
    assert_eq!(answer.header("ratelimit-policy"), r#""api";q=20;w=2"#);
    assert_eq!(answer.header("ratelimit"), r#""api";r=0;t=1"#);
    let exact = answer.body["retry_after_ms"].as_u64().unwrap();
    assert!((1..=100).contains(&exact), "{}", answer.body);
}

#[test]
fn fixture_4_a_bucket_says_when_one_more_unit_comes_and_when_it_is_full() {
    let dev = draft_10();
    let answer = check(&dev, "draft-10", "login", "three-at-once", 3);
    assert_eq!(answer.status, 200, "{}", answer.body);
    assert_eq!(answer.header("ratelimit-policy"), r#""login";q=5;w=60"#);
    assert_eq!(answer.header("ratelimit"), r#""login";r=2;t=12"#);
    assert_eq!(answer.body["reset_after_ms"], 36_000, "{}", answer.body);
}

#[test]
fn fixture_6_when_two_limits_refuse_the_longer_wait_is_the_answer() {
    let dev = draft_10();
    // The minute's window must not end between the calls, and the day's is then the longer by far, but for the day's
    // last minute, in which both end at once.
    let (answer, ..) = within_one_window(MINUTE_MS, |client| {
        assert_eq!(check(&dev, "draft-10", "both", client, 10).status, 200);
        check(&dev, "draft-10", "both", client, 1)
    });
    assert_eq!(answer.status, 429, "{}", answer.body);
    let (minute, daily) = answer.header("ratelimit").split_once(", ").unwrap();
    let waits = [item(minute, "minute"), item(daily, "daily")].map(|item| match item[..] {
        [("r", 0), ("t", wait)] => wait,
        _ => panic!("{item:?}"),
    });
    assert!(waits[0] <= 60 && waits[1] >= waits[0], "{waits:?}");
    assert_eq!(number(&answer, "retry-after"), waits[1], "a client that comes back sooner is refused again");
    assert_eq!(answer.body["violated-policies"], json!(["minute", "daily"]));
    assert_eq!(answer.body["type"], "https://iana.org/assignments/http-problem-types#quota-exceeded");
    assert_eq!(answer.header("ratelimit-policy"), r#""minute";q=10;w=60, "daily";q=10;w=86400"#);
}

#[test]
fn fixture_7_a_cost_that_never_fits_is_told_so_and_nothing_of_a_wait() {
    let dev = draft_10();
    let answer = check(&dev, "draft-10", "default", "big", 150);
    assert_eq!((answer.status, &answer.body["reason"]), (429, &json!("never")), "{}", answer.body);
    assert!(answer.body["type"].as_str().unwrap().ends_with(":cost-exceeds-limit"), "{}", answer.body);
    assert_eq!(rate_fields(&answer), ["ratelimit", "ratelimit-policy"], "no Retry-After");
    assert_eq!(answer.header("ratelimit-policy"), r#""default";q=100;w=60"#);
    assert_eq!(answer.header("ratelimit"), r#""default";r=100"#, "unchanged");
    assert_eq!(answer.body["retry_after_ms"], Value::Null);
}

/// The node named `owner` decides for this client; without one, the search goes on.
fn client_of(dev: &Dev, kind: &str, owner: &str) -> String {
    let mut clients = (0..1_000).map(|number| format!("{kind}-{number}"));
    clients
        .find(|client| check(dev, "draft-10", kind, client, 0).body["owner"] == owner)
        .expect("each node owns a third")
}

#[test]
fn fixture_12_what_nobody_counted_is_not_in_the_headers() {
    let mut dev = draft_10();
    let (open, guarded) = (client_of(&dev, "default", "n2"), client_of(&dev, "guarded", "n2"));
    // Two of three dead: nobody can take over, so what follows is not a race against a takeover.
    dev.kill("n2");
    dev.kill("n3");
    let answer = check(&dev, "draft-10", "default", &open, 1);
    assert_eq!((answer.status, &answer.body["source"]), (200, &json!("open")), "{}", answer.body);
    assert_eq!((&answer.body["degraded"], &answer.body["remaining"]), (&json!(true), &Value::Null));
    assert_eq!(rate_fields(&answer), ["ratelimit-policy"], "{:?}", answer.headers);
    assert_eq!(answer.header("ratelimit-policy"), r#""default";q=100;w=60"#);

    let answer = check(&dev, "draft-10", "guarded", &guarded, 1);
    assert_eq!((answer.status, &answer.body["reason"]), (503, &json!("unavailable")), "{}", answer.body);
    assert_eq!(answer.body["type"], "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity");
    assert_eq!(rate_fields(&answer), ["ratelimit-policy", "retry-after"], "{:?}", answer.headers);
    // The expected recovery: a lease must end before anyone else may decide.
    assert_eq!(number(&answer, "retry-after"), 3);
    assert_eq!(answer.body["retry_after_ms"], 3_000);
}

#[test]
fn every_dialect_is_written_as_it_is_known() {
    let dialects = ["draft-10", "triple", "x-delta", "x-epoch", "none"];
    let documents: Vec<_> = dialects.iter().map(|dialect| policy(dialect, dialect)).collect();
    let dev = Dev::start_with_policies(&documents);
    for (dialect, prefix) in [("triple", "ratelimit"), ("x-delta", "x-ratelimit"), ("x-epoch", "x-ratelimit")] {
        let (answer, during, end) = within_one_window(MINUTE_MS, |client| check(&dev, dialect, "default", client, 1));
        let names = ["limit", "remaining", "reset"].map(|suffix| format!("{prefix}-{suffix}"));
        assert_eq!(rate_fields(&answer), names, "{dialect}");
        assert_eq!((number(&answer, &names[0]), number(&answer, &names[1])), (100, 99), "{dialect}");
        let reset = number(&answer, &names[2]);
        if dialect == "x-epoch" {
            // The window's end itself; a clock that is read twice in a call may have moved on by a moment.
            assert!((end / 1_000..=end / 1_000 + 1).contains(&reset), "{reset} is not the end {end} ms");
        } else {
            assert!(during.seconds_until(end).contains(&reset), "{dialect}: {reset} s");
        }
        let denied = check(&dev, dialect, "login", "spender", 5);
        assert_eq!((denied.status, number(&denied, &names[1])), (200, 0), "{dialect}");
        let denied = check(&dev, dialect, "login", "spender", 5);
        assert_eq!(denied.status, 429, "{dialect}: {}", denied.body);
        let wait = denied.body["retry_after_ms"].as_u64().unwrap().div_ceil(1_000);
        assert_eq!(number(&denied, "retry-after"), wait, "every dialect says when to come back");
    }
    // The older convention has the time to the full bucket, where draft-10 has the time to one more unit.
    let answer = check(&dev, "triple", "login", "three-at-once", 3);
    assert_eq!((number(&answer, "ratelimit-remaining"), number(&answer, "ratelimit-reset")), (2, 36));
    let answer = check(&dev, "none", "default", "quiet", 100);
    assert_eq!((answer.status, rate_fields(&answer).len()), (200, 0), "{:?}", answer.headers);
    assert_eq!(rate_fields(&check(&dev, "none", "login", "quiet", 6)), [""; 0], "it never fits, so there is no wait");
}

#[test]
fn two_dialects_may_be_asked_for_at_once() {
    let dev = Dev::start_with_policy(&policy("two", "[draft-10, x-delta]"));
    let answer = check(&dev, "two", "login", "both", 3);
    let all = ["ratelimit", "ratelimit-policy", "x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-reset"];
    assert_eq!(rate_fields(&answer), all);
    assert_eq!((answer.header("ratelimit"), number(&answer, "x-ratelimit-reset")), (r#""login";r=2;t=12"#, 36));
}

/// A client that waits as long as it was told, and no longer, is admitted if nobody else spent.
#[test]
fn whoever_waits_as_long_as_told_is_admitted() {
    let dev = draft_10();
    let spent = check(&dev, "draft-10", "api", "patient", 20);
    assert_eq!(spent.status, 200, "{}", spent.body);
    let denied = check(&dev, "draft-10", "api", "patient", 10);
    assert_eq!(denied.status, 429, "20 came at once, and refilling ten takes a second: {}", denied.body);
    let wait = denied.body["retry_after_ms"].as_u64().unwrap();
    // There is no event at the end of a wait that is the caller's own.
    std::thread::sleep(Duration::from_millis(wait));
    assert_eq!(check(&dev, "draft-10", "api", "patient", 10).status, 200);
}
