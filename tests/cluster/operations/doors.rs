//! The three ways to make a call, behind one function: what is said and what comes back are the fields of JSON, so that
//! a story can be told once and hold at every door.

use serde_json::{Map, Value, json};
use tonic::{Response, Status};
use wire::v1 as proto;
use wire::v1::rate_limiter_client::RateLimiterClient;

use crate::dev::program;
use crate::grpc::channel;
use crate::http;

/// A way to make a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Door {
    Http,
    Grpc,
    Cli,
}

/// What came back: the fields of an answer, or the word of an error.
pub type Answer = Result<Value, String>;

impl Door {
    pub const ALL: [Door; 3] = [Door::Http, Door::Grpc, Door::Cli];

    /// Makes a call at a node's API.
    pub fn ask(self, address: &str, call: &str, body: &Value) -> Answer {
        match self {
            Door::Http => over_http(address, call, body),
            Door::Grpc => over_grpc(address, call, body),
            Door::Cli => by_command(address, call, body),
        }
    }
}

fn over_http(address: &str, call: &str, body: &Value) -> Answer {
    let answer = http::post_text(address, &format!("/v1/{call}"), "application/json", &body.to_string());
    match answer.body["code"].as_str() {
        Some(code) => Err(code.to_owned()),
        None => Ok(answer.body),
    }
}

/// The program's exit code, and what it printed.
pub struct Ran {
    pub exit: i32,
    pub out: String,
    pub err: String,
}

/// Runs a call's command.
pub fn run(address: &str, arguments: &[String]) -> Ran {
    let output = program().args(["--api", address]).args(arguments).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    Ran { exit: output.status.code().unwrap(), out: text(output.stdout), err: text(output.stderr) }
}

/// The command that says the same as this body.
pub fn arguments(call: &str, body: &Value) -> Vec<String> {
    let mut arguments = vec![call.to_owned()];
    for (name, value) in body.as_object().unwrap() {
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        match name.as_str() {
            "attributes" => {
                let pairs = value.as_object().unwrap().iter();
                arguments.extend(pairs.map(|(name, value)| format!("{name}={}", value.as_str().unwrap())));
            }
            "inline" => arguments.extend(value.as_array().unwrap().iter().flat_map(inline)),
            "up_to" | "debt" if value == &json!(true) => arguments.push(format!("--{}", name.replace('_', "-"))),
            "ttl_ms" | "deadline_ms" => {
                arguments.extend([format!("--{}", name.trim_end_matches("_ms")), format!("{text}ms")]);
            }
            _ => arguments.extend([format!("--{name}"), text]),
        }
    }
    arguments
}

/// `--inline 'NAME=RATE by ATTRIBUTE,...'`
fn inline(limit: &Value) -> [String; 2] {
    let key: Vec<_> = limit["key"].as_array().unwrap().iter().map(|part| part.as_str().unwrap()).collect();
    let by = if key.is_empty() { String::new() } else { format!(" by {}", key.join(",")) };
    ["--inline".to_owned(), format!("{}={}{by}", text(limit, "name"), text(limit, "rate"))]
}

/// The command's answer; its exit code is held to what it printed.
fn by_command(address: &str, call: &str, body: &Value) -> Answer {
    let mut arguments = arguments(call, body);
    arguments.extend(["--output", "json"].map(str::to_owned));
    let Ran { exit, out, err } = run(address, &arguments);
    if out.is_empty() {
        assert_eq!(exit, 1, "{err}");
        let word = err.trim_end().lines().next().and_then(|line| line.rsplit_once(" ("));
        return Err(word.map_or(err.clone(), |(_, word)| word.trim_end_matches(')').to_owned()));
    }
    let mut printed: Map<_, _> = serde_json::from_str(&out).unwrap();
    assert_eq!(printed.remove("version"), Some(json!(1)));
    let (_, answer) = printed.into_iter().next().unwrap();
    let no = |name: &str| answer[name] == json!(false);
    let expected = match (no("allowed"), no("found") || no("released")) {
        (true, _) => 3,
        (false, true) => 1,
        (false, false) => 0,
    };
    assert_eq!(exit, expected, "{answer}");
    Ok(answer)
}

fn over_grpc(address: &str, call: &str, body: &Value) -> Answer {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(call_grpc(address, call, body)).map_err(|status| {
        let word = status.message().split(':').next().unwrap_or_default();
        word.to_owned()
    })
}

async fn call_grpc(address: &str, call: &str, body: &Value) -> Result<Value, Status> {
    let mut client = RateLimiterClient::new(channel(address));
    match call {
        "check" => client.check(check(body)).await.map(decision),
        "peek" => client.peek(peek(body)).await.map(decision),
        "reserve" => client.reserve(reserve(body)).await.map(decision),
        "acquire" => client.acquire(acquire(body)).await.map(decision),
        "settle" => client.settle(settle(body)).await.map(settled),
        "renew" => client.renew(renew(body)).await.map(renewed),
        "release" => client.release(release(body)).await.map(released),
        "refund" => client.refund(refund(body)).await.map(refunded),
        "reset" => client.reset(reset(body)).await.map(was_reset),
        other => panic!("{other} is no call"),
    }
}

fn text(body: &Value, name: &str) -> String {
    body[name].as_str().unwrap_or_default().to_owned()
}

fn number(body: &Value, name: &str) -> Option<u64> {
    body[name].as_u64()
}

fn switch(body: &Value, name: &str) -> bool {
    body[name].as_bool().unwrap_or_default()
}

fn attributes(body: &Value) -> std::collections::HashMap<String, String> {
    let pairs = body["attributes"].as_object().into_iter().flatten();
    pairs.map(|(name, value)| (name.clone(), value.as_str().unwrap().to_owned())).collect()
}

fn brought(body: &Value) -> Vec<proto::InlineLimit> {
    let texts =
        |value: &Value| value.as_array().into_iter().flatten().map(|part| part.as_str().unwrap().to_owned()).collect();
    let limit = |limit: &Value| proto::InlineLimit {
        name: text(limit, "name"),
        rate: text(limit, "rate"),
        key: texts(&limit["key"]),
    };
    body["inline"].as_array().into_iter().flatten().map(limit).collect()
}

/// A message of these fields beside domain, attributes and deadline; `..` where there are more, which stay empty.
macro_rules! message {
    ($function:ident: $message:ident { $($field:ident: $read:ident($name:literal)),* $(, .. $rest:expr)? }) => {
        fn $function(body: &Value) -> proto::$message {
            proto::$message {
                domain: text(body, "domain"),
                attributes: attributes(body),
                deadline_ms: number(body, "deadline_ms"),
                inline: brought(body),
                $($field: $read(body, $name),)*
                $(..$rest)?
            }
        }
    };
}

message!(check: CheckRequest { cost: number("cost"), id: text("id"), up_to: switch("up_to"), ..Default::default() });
message!(peek: PeekRequest { cost: number("cost"), limit: text("limit") });
message!(reserve: ReserveRequest { cost: number("cost"), ttl_ms: number("ttl_ms"), id: text("id") });
message!(acquire: AcquireRequest { cost: number("cost"), ttl_ms: number("ttl_ms"), id: text("id") });
message!(settle: SettleRequest { id: text("id"), cost: number("cost"), debt: switch("debt") });
message!(renew: RenewRequest { id: text("id"), ttl_ms: number("ttl_ms"), cost: number("cost") });
message!(release: ReleaseRequest { id: text("id") });
message!(refund: RefundRequest { id: text("id") });
message!(reset: ResetRequest { limit: text("limit") });

fn decision(response: Response<proto::Decision>) -> Value {
    let said = response.into_inner();
    let mut answer = json!({
        "allowed": said.allowed, "id": said.id, "domain": said.domain, "cost": said.cost, "limit": said.limit,
        "remaining": said.remaining, "retry_after_ms": said.retry_after_ms, "reason": said.reason,
        "source": said.source, "degraded": said.degraded, "owner": said.owner, "limits": limits(&said.limits),
    });
    for (name, number) in [("granted", said.granted), ("expires_after_ms", said.expires_after_ms)] {
        if let Some(number) = number {
            answer[name] = json!(number);
        }
    }
    answer
}

fn limits(limits: &[proto::LimitDecision]) -> Value {
    let limit = |said: &proto::LimitDecision| {
        json!({ "limit": said.limit, "capacity": said.capacity, "remaining": said.remaining, "reason": said.reason,
                "source": said.source, "owner": said.owner })
    };
    limits.iter().map(limit).collect()
}

/// An answer of these fields, with those that all have.
macro_rules! answer {
    ($function:ident: $message:ident { $($field:ident),* }) => {
        fn $function(response: Response<proto::$message>) -> Value {
            let said = response.into_inner();
            json!({ $(stringify!($field): said.$field,)* "domain": said.domain, "reason": said.reason,
                    "revision": said.revision, "replayed": said.replayed, "limits": limits(&said.limits) })
        }
    };
}

answer!(settled: SettleResponse { id, settled, refunded });
answer!(renewed: RenewResponse { id, renewed, expires_after_ms });
answer!(released: ReleaseResponse { id, released });
answer!(refunded: RefundResponse { id, found, refunded });
answer!(was_reset: ResetResponse { reset });
