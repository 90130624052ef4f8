//! The examples of docs/api.md, asked in their order at a cluster that runs the page's policy: each is answered as the
//! page says, but for what differs every time: ids that are made, who owns what, and how long something takes.

use serde_json::{Map, Value, json};

use crate::dev::Dev;
use crate::http;

const PAGE: &str = include_str!("../../docs/api.md");

/// An example: the node that is asked, the path, the body, and the answer as it is printed.
struct Example {
    node: usize,
    path: &'static str,
    body: &'static str,
    answer: &'static str,
}

/// `$ curl -s 127.0.0.1:7600/v1/peek --json '{...}'`, and the line below it.
fn examples() -> Vec<Example> {
    let lines: Vec<_> = PAGE.lines().collect();
    let asked = lines.windows(2).filter(|pair| pair[0].starts_with("$ curl "));
    let example = |pair: &[&'static str]| {
        let (address, rest) = pair[0].strip_prefix("$ curl -s 127.0.0.1:").unwrap().split_once('/').unwrap();
        let (path, body) = rest.split_once(" --json '").unwrap();
        let node = (address.parse::<usize>().unwrap() - 7600) / 10 + 1;
        Example { node, path, body: body.strip_suffix('\'').unwrap(), answer: pair[1] }
    };
    asked.map(example).collect()
}

/// The document in the page's first block of YAML.
fn policy() -> &'static str {
    let from = PAGE.find("```yaml\n").unwrap() + "```yaml\n".len();
    let length = PAGE[from..].find("```").unwrap();
    &PAGE[from..from + length]
}

/// The answer without what differs every time; a time that is there stays a time.
fn lasting(answer: &Value) -> Value {
    match answer {
        Value::Object(fields) => {
            Value::Object(fields.iter().map(|(name, value)| (name.clone(), field(name, value))).collect::<Map<_, _>>())
        }
        Value::Array(items) => items.iter().map(lasting).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => answer.clone(),
    }
}

fn field(name: &str, value: &Value) -> Value {
    let is_made = |id: &str| id.len() == 32 && id.bytes().all(|byte| byte.is_ascii_hexdigit());
    match (name, value) {
        ("id", Value::String(id)) if is_made(id) => json!("made"),
        ("owner", Value::String(_)) => json!("somebody"),
        ("source", Value::String(source)) if ["owner", "forwarded"].contains(&source.as_str()) => json!("an owner"),
        ("retry_after_ms" | "reset_after_ms", Value::Number(_)) => json!("a time"),
        _ => lasting(value),
    }
}

#[test]
fn the_examples_of_the_page_are_answered_as_it_says() {
    let dev = Dev::start_with_policy(policy());
    let examples = examples();
    assert!(examples.len() > 12, "{} examples", examples.len());
    for Example { node, path, body, answer } in examples {
        let printed: Value = serde_json::from_str(answer).unwrap_or_else(|error| panic!("{path} {body}: {error}"));
        let told = http::post_text(dev.api(node), &format!("/{path}"), "application/json", body);
        assert_eq!(lasting(&told.body), lasting(&printed), "{path} {body}");
    }
}
