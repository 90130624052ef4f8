//! `ringfence check`: one decision, readable.

use serde_json::{Map, Value};

use crate::calls::Calls;
use crate::cli::{Check, Output, Target};
use crate::commands::{print_json, put, shown};
use crate::exit::Exit;

/// Asks for one decision and prints it.
pub fn run(check: &Check, target: &Target, output: Output) -> anyhow::Result<Exit> {
    let answer = Calls::to_api(target)?.post("/v1/check", &body_of(check))?;
    let Some(allowed) = answer.body.get("allowed").and_then(Value::as_bool) else {
        anyhow::bail!("{}", answer.problem());
    };
    match output {
        Output::Json => print_json("decision", &answer.body),
        Output::Text => put(&text_of(&answer.body, allowed)),
    }
    Ok(if allowed { Exit::Ok } else { Exit::Denied })
}

fn body_of(check: &Check) -> Value {
    let attributes: Map<_, _> =
        check.attributes.iter().map(|(name, value)| (name.clone(), Value::from(value.as_str()))).collect();
    let mut body = Map::new();
    body.insert("domain".to_owned(), Value::from(check.domain.as_str()));
    body.insert("attributes".to_owned(), Value::from(attributes));
    body.insert("cost".to_owned(), Value::from(check.cost));
    if let Some(id) = &check.id {
        body.insert("id".to_owned(), Value::from(id.as_str()));
    }
    if let Some(deadline) = check.deadline {
        body.insert("deadline_ms".to_owned(), Value::from(u64::try_from(deadline.as_millis()).unwrap_or(u64::MAX)));
    }
    Value::Object(body)
}

/// `allowed  per-client: 19 of 20 left, owner n2, epoch 1, revision 1`
fn text_of(decision: &Value, allowed: bool) -> String {
    let word = if allowed { "allowed" } else { "denied" };
    let mut text = match decision.get("limits").and_then(Value::as_array) {
        Some(legs) if !legs.is_empty() => {
            legs.iter().map(|leg| format!("{}  {}\n", leg_word(leg), leg_text(leg))).collect()
        }
        Some(_) | None => format!("{word}  {}\n", shown(decision, "reason")),
    };
    text.push_str(&format!("revision {}, id {}\n", shown(decision, "revision"), shown(decision, "id")));
    text
}

fn leg_word(leg: &Value) -> &'static str {
    if leg.get("allowed").and_then(Value::as_bool).unwrap_or(false) { "allowed" } else { "denied" }
}

fn leg_text(leg: &Value) -> String {
    let mut parts = vec![shown(leg, "limit") + ": " + &shown(leg, "reason")];
    if leg.get("capacity").is_some_and(|capacity| !capacity.is_null()) {
        parts.push(format!("{} of {} left", shown(leg, "remaining"), shown(leg, "capacity")));
    }
    if let Some(wait) = leg.get("retry_after_ms").and_then(Value::as_u64) {
        parts.push(format!("again in {wait} ms"));
    }
    parts.push(match leg.get("owner") {
        Some(Value::String(owner)) => format!("{} {owner} at epoch {}", shown(leg, "source"), shown(leg, "epoch")),
        Some(_) | None => shown(leg, "source"),
    });
    parts.join(", ")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_denial_says_which_limit_and_how_long() {
        let decision = json!({
            "revision": 3, "id": "x", "reason": "limit",
            "limits": [{"limit": "per-client", "allowed": false, "reason": "limit", "capacity": 20, "remaining": 0,
                        "retry_after_ms": 100, "source": "owner", "owner": "n2", "epoch": 7}]
        });
        assert_eq!(
            text_of(&decision, false),
            "denied  per-client: limit, 0 of 20 left, again in 100 ms, owner n2 at epoch 7\nrevision 3, id x\n"
        );
    }

    #[test]
    fn a_check_that_nothing_limits_says_so() {
        let decision = json!({"revision": 1, "id": "x", "reason": "no_limit", "limits": []});
        assert_eq!(text_of(&decision, true), "allowed  no_limit\nrevision 1, id x\n");
    }
}
