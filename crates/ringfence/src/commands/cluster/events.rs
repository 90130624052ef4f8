//! `ringfence cluster events`: what a node saw happen, one line each, or as JSON; with `--follow` also what happens next.

use std::time::Duration;

use serde_json::{Value, json};

use crate::calls::Calls;
use crate::cli::Output;
use crate::commands::{OUTPUT_VERSION, print_json, put, shown};
use crate::exit::Exit;

/// How often a follower looks.
const LOOK_AGAIN: Duration = Duration::from_millis(500);

/// Events in one call.
const PAGE: usize = 1_000;

/// Prints every event that the node still knows.
pub fn print(calls: &Calls, output: Output) -> anyhow::Result<Exit> {
    let mut seen = Vec::new();
    let mut after = 0;
    loop {
        let (page, next) = page_after(calls, after)?;
        let last = page.len() < PAGE;
        seen.extend(page);
        after = next;
        if last {
            break;
        }
    }
    match output {
        Output::Json => print_json("events", &Value::Array(seen)),
        Output::Text => put(&seen.iter().map(|event| line(event) + "\n").collect::<String>()),
    }
    Ok(Exit::Ok)
}

/// Prints every event that the node still knows, and then each as it comes, until the program is interrupted. A node that
/// cannot be reached for a while is waited for; one that restarted begins anew.
pub fn follow(calls: &Calls, output: Output) -> anyhow::Result<Exit> {
    let (mut page, mut after) = page_after(calls, 0)?;
    let mut away = false;
    loop {
        for event in &page {
            match output {
                Output::Json => put(&format!("{}\n", json!({ "version": OUTPUT_VERSION, "event": event }))),
                Output::Text => put(&format!("{}\n", line(event))),
            }
        }
        if page.len() < PAGE {
            std::thread::sleep(LOOK_AGAIN);
        }
        (page, after) = match page_after(calls, after) {
            Ok(next) => {
                away = false;
                next
            }
            Err(error) if Exit::of_error(&error) == Exit::Unreachable => {
                if !std::mem::replace(&mut away, true) {
                    eprintln!("ringfence: {error:#}; waiting for it to return");
                }
                (Vec::new(), after)
            }
            Err(error) => return Err(error),
        };
    }
}

fn page_after(calls: &Calls, after: u64) -> anyhow::Result<(Vec<Value>, u64)> {
    let answer = calls.get(&format!("/v1/cluster/events?after={after}&limit={PAGE}"))?;
    anyhow::ensure!(answer.is_ok(), "{}", answer.problem());
    let events = answer.body.get("events").and_then(Value::as_array).cloned().unwrap_or_default();
    let next = answer.body.get("next").and_then(Value::as_u64).unwrap_or(after);
    Ok((events, next))
}

/// `2026-01-05T12:00:00.25Z  session_opened  node=n1 id=7 session=...`: names that people look for come first.
fn line(event: &Value) -> String {
    let mut line = format!("{:<27} {}", shown(event, "at"), shown(event, "event"));
    let mut names: Vec<&String> = event.as_object().into_iter().flat_map(serde_json::Map::keys).collect();
    names.retain(|name| !["seq", "at", "event"].contains(&name.as_str()));
    names.sort_by_key(|name| !["node", "name", "domain", "peer"].contains(&name.as_str()));
    for name in names {
        let value = shown(event, name);
        let quoted = value.is_empty() || value.contains(|c: char| c.is_whitespace() || c == '"' || c.is_control());
        line.push_str(&if quoted { format!(" {name}={value:?}") } else { format!(" {name}={value}") });
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_one_line_whatever_it_tells() {
        let event = json!({"seq": 4, "at": "2026-01-05T12:00:00.25Z", "event": "session_opened",
                           "id": "7", "node": "n1"});
        assert_eq!(line(&event), "2026-01-05T12:00:00.25Z     session_opened node=n1 id=7");
        let odd = json!({"seq": 5, "at": "-", "event": "policy_refused", "why": "a \"b\"\nc", "author": ""});
        assert!(line(&odd).ends_with(r#"policy_refused author="" why="a \"b\"\nc""#), "{}", line(&odd));
    }
}
