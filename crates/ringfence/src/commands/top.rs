//! `ringfence top`: the keys that are hit or denied most, as a table for people or JSON for programs.

use std::time::Duration;

use serde_json::Value;

use crate::calls::Calls;
use crate::cli::{Output, Target, Top};
use crate::commands::policy::percent_encoded;
use crate::commands::{print_json, put, shown};
use crate::exit::Exit;

/// Prints the table once, or again and again until interrupted.
pub fn run(top: &Top, target: &Target, output: Output) -> anyhow::Result<Exit> {
    let calls = Calls::to_admin(target)?;
    loop {
        let answer = calls.get(&path_of(top))?;
        anyhow::ensure!(answer.is_ok(), "{}", answer.problem());
        match output {
            Output::Json => print_json("top", &answer.body),
            Output::Text => put(&text_of(&answer.body)),
        }
        let Some(pause) = top.watch else { return Ok(Exit::Ok) };
        // Whoever watches wants the newest in the same place; a file or a pipe gets one table after the other.
        std::thread::sleep(pause.max(WATCH_MIN));
        if output == Output::Text {
            put(again());
        }
    }
}

/// The shortest pause between two looks, which ask every node.
const WATCH_MIN: Duration = Duration::from_millis(500);

/// What stands before the next table: on a terminal, back to its top with everything below cleared (ECMA-48).
fn again() -> &'static str {
    use std::io::IsTerminal as _;
    if std::io::stdout().is_terminal() { "\u{1b}[H\u{1b}[J" } else { "\n" }
}

fn path_of(top: &Top) -> String {
    let by = top.by.as_str();
    let mut path = format!("/v1/keys/top?domain={}&by={by}&count={}", percent_encoded(&top.domain), top.count);
    if let Some(limit) = &top.limit {
        path.push_str(&format!("&limit={}", percent_encoded(limit)));
    }
    path
}

/// The table, what it cannot tell, and who is not in it.
fn text_of(body: &Value) -> String {
    let list = |name: &str| body.get(name).and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let (keys, limits) = (list("keys"), list("limits"));
    let mut text = format!("{} of {} since {}\n", shown(body, "by"), shown(body, "domain"), shown(body, "since"));
    let wide = keys.iter().map(|key| shown(key, "limit").chars().count()).max().unwrap_or(0).max("LIMIT".len());
    text.push_str(&format!("{:>12} {:>8} {:>6}  {:<wide$}  KEY\n", "COUNT", "ERROR", "SHARE", "LIMIT"));
    for key in keys {
        let limit = shown(key, "limit");
        let total = limits.iter().find(|of| shown(of, "limit") == limit).map_or(0, |of| number(of, "total"));
        text.push_str(&format!(
            "{:>12} {:>8} {:>6}  {limit:<wide$}  {}\n",
            shown(key, "count"),
            error_of(key),
            share(number(key, "count"), total),
            key_of(key),
        ));
    }
    for limit in limits.iter().filter(|limit| number(limit, "absent") > 0) {
        let (name, absent) = (shown(limit, "limit"), shown(limit, "absent"));
        text.push_str(&format!("no other key of {name} has more than {absent}\n"));
    }
    if number(body, "limits_left_out") > 0 {
        text.push_str(&format!("{} less busy limits are left out\n", shown(body, "limits_left_out")));
    }
    for silent in list("silent") {
        text.push_str(&format!("not counted: {} ({})\n", shown(silent, "node"), shown(silent, "why")));
    }
    text
}

fn number(value: &Value, name: &str) -> u64 {
    value.get(name).and_then(Value::as_u64).unwrap_or(0)
}

/// By how much a count may be too large.
fn error_of(key: &Value) -> String {
    match number(key, "error") {
        0 => "0".to_owned(),
        error => format!("-{error}"),
    }
}

/// A limit without key parts has one key for all.
fn key_of(key: &Value) -> String {
    match shown(key, "key").as_str() {
        "" => "(all)".to_owned(),
        text => text.to_owned(),
    }
}

/// A part of the total, in whole per cent rounded down.
fn share(count: u64, total: u64) -> String {
    match total {
        0 => "-".to_owned(),
        total => format!("{}%", u128::from(count) * 100 / u128::from(total)),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_table_tells_its_errors_and_who_is_not_in_it() {
        let body = json!({
            "domain": "default", "by": "hits", "since": "2026-01-01T00:00:00Z",
            "keys": [{"limit": "per-client", "key": "client=alice", "count": 900, "error": 2},
                     {"limit": "all", "key": "", "count": 99, "error": 0}],
            "limits": [{"limit": "per-client", "total": 1_000, "absent": 40}, {"limit": "all", "total": 99, "absent": 0}],
            "limits_left_out": 3, "nodes": ["n1"], "silent": [{"node": "n2", "why": "expired"}],
        });
        let expected = "\
hits of default since 2026-01-01T00:00:00Z
       COUNT    ERROR  SHARE  LIMIT       KEY
         900       -2    90%  per-client  client=alice
          99        0   100%  all         (all)
no other key of per-client has more than 40
3 less busy limits are left out
not counted: n2 (expired)
";
        assert_eq!(text_of(&body), expected);
    }

    #[test]
    fn shares_are_whole_per_cents() {
        assert_eq!((share(1, 3), share(u64::MAX, u64::MAX), share(0, 0)), ("33%".into(), "100%".into(), "-".into()));
    }
}
