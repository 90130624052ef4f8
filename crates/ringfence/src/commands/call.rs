//! The calls about keys: asked over HTTP, and what came of them, readable. Those that decide are told alike; the others
//! begin with what they did.

mod spoken;

use serde_json::Value;
use server::call::Call;

use crate::calls::Calls;
use crate::cli::{Output, Target};
use crate::commands::call::spoken::Spoken;
use crate::commands::{print_json, put, shown};
use crate::exit::Exit;

/// Makes the call and prints what came of it.
pub fn run(spoken: Spoken, target: &Target, output: Output) -> anyhow::Result<Exit> {
    let Spoken { call, body } = spoken;
    let answer = Calls::to_api(target)?.post(&call.path(), &Value::Object(body))?;
    let Some(done) = done(call, &answer.body).filter(|_| call.decides() || answer.is_ok()) else {
        anyhow::bail!("{}", answer.problem());
    };
    match (output, call.decides()) {
        (Output::Json, true) => print_json("decision", &answer.body),
        (Output::Json, false) => print_json(call.word(), &answer.body),
        (Output::Text, true) => put(&decision_text(&answer.body, done)),
        (Output::Text, false) => put(&came_to_text(call, &answer.body, done)),
    }
    Ok(match (done, call.decides()) {
        (true, _) => Exit::Ok,
        (false, true) => Exit::Denied,
        (false, false) => Exit::Failure,
    })
}

/// Whether the call was allowed, or did what it was to do; `None` when the body is not an answer to it. A reset that
/// finds nothing has made keys as ones that were never used all the same.
fn done(call: Call, body: &Value) -> Option<bool> {
    match call {
        Call::Check | Call::Peek | Call::Reserve | Call::Acquire => body.get("allowed")?.as_bool(),
        Call::Settle => body.get("settled")?.as_bool(),
        Call::Renew => body.get("renewed")?.as_bool(),
        Call::Release => body.get("released")?.as_bool(),
        Call::Refund => body.get("found")?.as_bool(),
        Call::Reset => body.get("reset")?.as_u64().map(|_| true),
    }
}

/// `allowed  per-client: 19 of 20 left, owner n2, epoch 1, revision 1`
fn decision_text(decision: &Value, allowed: bool) -> String {
    let word = if allowed { "allowed" } else { "denied" };
    let mut text = match legs(decision) {
        [] => format!("{word}  {}\n", shown(decision, "reason")),
        legs => legs.iter().map(|leg| format!("{}  {}\n", leg_word(leg), leg_text(leg))).collect(),
    };
    if decision.get("granted").is_some() {
        text.push_str(&format!("granted {} of {}\n", shown(decision, "granted"), shown(decision, "cost")));
    }
    if decision.get("expires_after_ms").is_some() {
        text.push_str(&format!("expires in {} ms\n", shown(decision, "expires_after_ms")));
    }
    text.push_str(&format!("revision {}, id {}\n", shown(decision, "revision"), shown(decision, "id")));
    text
}

fn came_to_text(call: Call, body: &Value, done: bool) -> String {
    let number = |name| shown(body, name);
    let mut text = match (call, done) {
        (Call::Settle, _) => format!("settled: {} came back\n", number("refunded")),
        (Call::Renew, _) => format!("renewed: expires in {} ms\n", number("expires_after_ms")),
        (Call::Release, true) => "released\n".to_owned(),
        (Call::Release, false) => format!("nothing is held under {}\n", number("id")),
        (Call::Refund, true) => format!("refunded: {} came back\n", number("refunded")),
        (Call::Refund, false) => format!("no charge to undo under {}\n", number("id")),
        (Call::Reset, _) => format!("reset: {} had anything to forget\n", counted(body.get("reset"), "limit")),
        (Call::Check | Call::Peek | Call::Reserve | Call::Acquire, _) => String::new(),
    };
    if body.get("replayed").and_then(Value::as_bool).unwrap_or(false) {
        text.insert_str(text.len() - 1, ", as was told a moment ago");
    }
    text.extend(legs(body).iter().map(|leg| format!("  {}\n", leg_text(leg))));
    text
}

fn counted(count: Option<&Value>, what: &str) -> String {
    match count.and_then(Value::as_u64) {
        Some(1) => format!("1 {what}"),
        count => format!("{} {what}s", count.unwrap_or_default()),
    }
}

fn legs(body: &Value) -> &[Value] {
    body.get("limits").and_then(Value::as_array).map_or(&[], Vec::as_slice)
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
    #![allow(clippy::unwrap_used, reason = "tests")]

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
            decision_text(&decision, false),
            "denied  per-client: limit, 0 of 20 left, again in 100 ms, owner n2 at epoch 7\nrevision 3, id x\n"
        );
    }

    #[test]
    fn a_check_that_nothing_limits_says_so() {
        let decision = json!({"revision": 1, "id": "x", "reason": "no_limit", "limits": []});
        assert_eq!(decision_text(&decision, true), "allowed  no_limit\nrevision 1, id x\n");
    }

    #[test]
    fn a_partial_grant_and_a_lease_say_what_they_are() {
        let decision = json!({
            "revision": 1, "id": "x", "cost": 9, "granted": 4, "expires_after_ms": 30_000,
            "limits": [{"limit": "jobs", "allowed": true, "reason": "ok", "source": "open"}]
        });
        let text = decision_text(&decision, true);
        assert_eq!(text, "allowed  jobs: ok, open\ngranted 4 of 9\nexpires in 30000 ms\nrevision 1, id x\n");
    }

    #[test]
    fn a_call_that_decides_nothing_begins_with_what_it_did() {
        let leg = json!({"limit": "per-client", "reason": "ok", "capacity": 20, "remaining": 20, "source": "owner",
                         "owner": "n2", "epoch": 7});
        let refund = json!({"id": "x", "found": true, "refunded": 5, "limits": [leg]});
        assert_eq!(
            came_to_text(Call::Refund, &refund, true),
            "refunded: 5 came back\n  per-client: ok, 20 of 20 left, owner n2 at epoch 7\n"
        );
        let text = |call, body: &Value| came_to_text(call, body, done(call, body).unwrap());
        let again = json!({"id": "x", "found": true, "refunded": 5, "replayed": true});
        assert_eq!(text(Call::Refund, &again), "refunded: 5 came back, as was told a moment ago\n");
        assert_eq!(text(Call::Refund, &json!({"id": "x", "found": false})), "no charge to undo under x\n");
        assert_eq!(text(Call::Release, &json!({"id": "x", "released": false})), "nothing is held under x\n");
        assert_eq!(text(Call::Release, &json!({"id": "x", "released": true})), "released\n");
        assert_eq!(text(Call::Settle, &json!({"settled": true, "refunded": 3})), "settled: 3 came back\n");
        assert_eq!(text(Call::Renew, &json!({"renewed": true, "expires_after_ms": 9})), "renewed: expires in 9 ms\n");
        assert_eq!(text(Call::Reset, &json!({"reset": 1})), "reset: 1 limit had anything to forget\n");
        assert_eq!(done(Call::Refund, &json!({"code": "forbidden"})), None, "a problem is no answer");
    }
}
