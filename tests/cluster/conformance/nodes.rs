//! Three nodes as a way of answering the table's cases. Every case has a domain of its own, so one cluster answers all of
//! them, one after the other; limit time only ever moves on.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};
use sim::conformance::case::Starts;
use sim::conformance::{
    Act, Answer, Attributes, Cannot, Case, Door, Finding, LimitSaid, SOME_MIDNIGHT, Said, Span, Way, cases, run,
};

use crate::dev::Dev;
use crate::http;
use crate::patience::until;

/// How long a caller waits: what is compared here is what the owner says.
const DEADLINE_MS: u64 = 1_000;

/// The nodes of `dev`.
const NODES: usize = 3;

const DAY_NANOS: u64 = 86_400 * 1_000_000_000;

/// The table, in the order in which one clock that only moves on can run it: dates first, then the cases of any day.
fn table() -> Vec<Case> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/conformance");
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|file| file.extension().is_some_and(|extension| extension == "toml"));
    files.sort();
    let read = |file: &PathBuf| {
        let text = std::fs::read_to_string(file).unwrap();
        cases(&text).unwrap_or_else(|mistake| panic!("{}: {mistake}", file.display()))
    };
    let mut table: Vec<_> = files.iter().flat_map(read).collect();
    table.sort_by_key(|case| match case.starts {
        Starts::At(wall) => (0, wall),
        Starts::OfDay(_) | Starts::Anytime => (1, SOME_MIDNIGHT),
    });
    table
}

/// A cluster under a clock that this test moves.
struct Nodes {
    dev: Dev,
    /// How far limit time has moved, in nanoseconds since [`SOME_MIDNIGHT`].
    passed: u64,
    /// Where the zero of the case lies.
    zero: u64,
    domain: String,
    /// Calls so far: each goes to the next node.
    turn: usize,
}

impl Nodes {
    fn start() -> Nodes {
        Nodes { dev: Dev::start_with_test_clock(), passed: 0, zero: 0, domain: String::new(), turn: 0 }
    }

    /// Moves limit time on to an instant; it lies behind none that a case asks for.
    fn move_to(&mut self, passed: u64) {
        let by = passed.checked_sub(self.passed).expect("limit time only moves on");
        if by > 0 {
            let said = self.dev.command(&format!("clock +{by}ns"));
            let wall = SOME_MIDNIGHT.as_unix_nanos() + passed;
            assert_eq!(said, format!("limit time is {wall} ns\n"));
            self.passed = passed;
        }
    }

    fn next_node(&mut self) -> usize {
        self.turn += 1;
        self.turn % NODES + 1
    }

    /// Waits until every node decides with this revision. A peek spends nothing and leaves no trace.
    fn wait_for_revision(&self, revision: &Value) {
        let body = json!({ "domain": self.domain, "attributes": {}, "cost": 0 });
        for node in 1..=NODES {
            until("the policy at every node", || {
                let seen = http::post_text(self.dev.api(node), "/v1/peek", "application/json", &body.to_string()).body;
                if seen["revision"] == *revision { Ok(()) } else { Err(seen) }
            });
        }
    }
}

impl Way for Nodes {
    fn name(&self) -> &'static str {
        "nodes"
    }

    fn begin(&mut self, case: &Case) -> Result<(), Cannot> {
        let begins = match case.starts {
            Starts::Anytime => self.passed,
            Starts::OfDay(time) => {
                let today = self.passed / DAY_NANOS * DAY_NANOS + time.as_nanos();
                if today < self.passed { today + DAY_NANOS } else { today }
            }
            Starts::At(wall) => wall.since(SOME_MIDNIGHT).as_nanos(),
        };
        self.move_to(begins);
        (self.zero, self.domain) = (begins, case.domain());
        Ok(())
    }

    fn go_to(&mut self, at: Span) {
        self.move_to(self.zero + at.as_nanos());
    }

    fn go_back_to(&mut self, _at: Span) -> Result<(), Cannot> {
        Err(Cannot::because("the test clock moves all nodes at once, and only on"))
    }

    fn apply(&mut self, document: &str) -> Result<Vec<Finding>, Cannot> {
        let node = self.next_node();
        let applied = http::put_policy(self.dev.admin(node), &self.domain, "*", document);
        match applied.status {
            200 => self.wait_for_revision(&applied.body["revision"]),
            422 => return Ok(applied.body["errors"].as_array().unwrap().iter().map(finding).collect()),
            other => panic!("{other}: {}", applied.body),
        }
        Ok(Vec::new())
    }

    fn ask(&mut self, act: &Act, attributes: &Attributes) -> Result<Said, Cannot> {
        let (path, mut body) = question(act);
        body.insert("domain".to_owned(), json!(self.domain));
        body.insert("attributes".to_owned(), json!(attributes));
        body.insert("deadline_ms".to_owned(), json!(DEADLINE_MS));
        let node = self.next_node();
        let answer = http::post_text(self.dev.api(node), path, "application/json", &Value::Object(body).to_string());
        assert_ne!(answer.body["degraded"], true, "the owners are there: {}", answer.body);
        Ok(said(act, &answer))
    }
}

/// Where an act is asked, and its fields.
fn question(act: &Act) -> (&'static str, Map<String, Value>) {
    let (path, fields) = match act {
        Act::Check { cost, id } => ("/v1/check", json!({ "cost": number(*cost), "id": id })),
        Act::UpTo { cost } => ("/v1/check", json!({ "cost": number(*cost), "up_to": true })),
        Act::Peek { cost, limit } => ("/v1/peek", json!({ "cost": number(*cost), "limit": limit })),
        Act::Refund { id } => ("/v1/refund", json!({ "id": id })),
        Act::Reserve { cost, id, ttl } => {
            ("/v1/reserve", json!({ "cost": number(*cost), "id": id, "ttl_ms": ttl.as_millis_ceil() }))
        }
        Act::Settle { cost, id } => ("/v1/settle", json!({ "cost": number(*cost), "id": id })),
        Act::Acquire { cost, id, ttl } => {
            let ttl_ms = ttl.map(Span::as_millis_ceil);
            ("/v1/acquire", json!({ "cost": number(*cost), "id": id, "ttl_ms": ttl_ms }))
        }
        Act::Renew { id, ttl } => ("/v1/renew", json!({ "id": id, "ttl_ms": ttl.map(Span::as_millis_ceil) })),
        Act::Release { id } => ("/v1/release", json!({ "id": id })),
        Act::Reset { limit } => ("/v1/reset", json!({ "limit": limit })),
        Act::Apply(_) => unreachable!("the runner applies policies"),
    };
    let Value::Object(mut fields) = fields else { unreachable!("every act is an object") };
    fields.retain(|_, value| !value.is_null());
    (path, fields)
}

/// A number as a caller may send it, the impossible ones too.
fn number(number: i128) -> Value {
    u64::try_from(number).map_or_else(|_| json!(i64::try_from(number).unwrap()), |number| json!(number))
}

fn finding(error: &Value) -> Finding {
    Finding {
        code: error["code"].as_str().unwrap().to_owned(),
        line: error["line"].as_u64(),
        suggestion: error["suggestion"].as_str().map(str::to_owned),
    }
}

fn said(act: &Act, answer: &http::Answer) -> Said {
    let body = &answer.body;
    if let Some(code) = body["code"].as_str() {
        return Said::Rejected { code: code.to_owned(), status: Some(answer.status) };
    }
    let count = |name: &str| body[name].as_u64().unwrap_or_else(|| panic!("{name} is no number in {body}"));
    let truth = |name: &str| body[name].as_bool().unwrap_or_else(|| panic!("{name} is not told in {body}"));
    let (allowed, units) = match act {
        Act::Check { .. } | Act::Peek { .. } | Act::Reserve { .. } | Act::Acquire { .. } => (truth("allowed"), 0),
        Act::UpTo { .. } => (truth("allowed"), count("granted")),
        Act::Refund { .. } => (truth("found"), count("refunded")),
        Act::Settle { .. } => (truth("settled"), count("refunded")),
        Act::Renew { .. } => (truth("renewed"), count("expires_after_ms")),
        Act::Release { .. } => (truth("released"), 0),
        Act::Reset { .. } => (count("reset") > 0, count("reset")),
        Act::Apply(_) => unreachable!("the runner applies policies"),
    };
    let headers = answer.headers.iter().map(|(name, value)| (name.to_string(), value.to_str().unwrap().to_owned()));
    Said::Answer(Answer {
        allowed,
        units,
        reason: body["reason"].as_str().unwrap_or_default().to_owned(),
        limit: body["limit"].as_str().map(str::to_owned),
        remaining: body["remaining"].as_u64(),
        retry_after_ms: body["retry_after_ms"].as_u64(),
        reset_after_ms: body["reset_after_ms"].as_u64(),
        limits: body["limits"].as_array().into_iter().flatten().map(limit_said).collect(),
        door: Some(Door { status: answer.status, headers: headers.collect() }),
    })
}

fn limit_said(leg: &Value) -> LimitSaid {
    LimitSaid {
        limit: leg["limit"].as_str().unwrap().to_owned(),
        allowed: leg["allowed"].as_bool().unwrap(),
        capacity: leg["capacity"].as_u64(),
        remaining: leg["remaining"].as_u64(),
        retry_after_ms: leg["retry_after_ms"].as_u64(),
        reset_after_ms: leg["reset_after_ms"].as_u64(),
    }
}

/// Leases go by the real clock, so a node that dies is succeeded, and its successor reads what it does not know as used.
#[test]
fn a_dead_node_is_succeeded_while_limit_time_stands_still() {
    let mut nodes = Nodes::start();
    nodes.domain = "guarded".to_owned();
    let policy = "ringfence: 1\ndomain: guarded\nlimits: { one: { rate: 9/min, key: [client], fail: closed } }\n";
    assert_eq!(nodes.apply(policy), Ok(Vec::new()));
    nodes.dev.kill("n2");
    let mut recovering = 0;
    for client in 0..20 {
        let body = json!({ "domain": "guarded", "attributes": { "client": client }, "deadline_ms": DEADLINE_MS });
        let answer = until("an owner", || {
            let answer = http::check_with(nodes.dev.api(1), &body);
            if answer.body["reason"] == "unavailable" { Err(answer.body) } else { Ok(answer.body) }
        });
        match answer["allowed"].as_bool() {
            Some(true) => assert_eq!(answer["remaining"], 8, "{answer}"),
            Some(false) => recovering += u32::from(answer["reason"] == "recovering"),
            None => panic!("{answer}"),
        }
    }
    assert!(recovering > 0, "one of twenty keys was the dead node's, and no time passed in which its bucket drained");
}

#[test]
fn three_nodes_hold_every_case_that_they_can_express() {
    let table = table();
    let report = run(&table.iter().collect::<Vec<_>>(), &mut Nodes::start());
    eprintln!("{report}");
    assert!(report.holds(), "{report}");
    assert!(report.held() >= 185, "{report}");
}
