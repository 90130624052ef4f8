//! The report of a run, to be read by programs.

use serde_json::{Map, Value, json};
use sim::LimitVerdict;

use crate::report::{table, told_violations};
use crate::trial::Trial;

/// All of it.
pub fn report(trials: &[Trial]) -> Value {
    json!({ "version": 1, "scenarios": trials.iter().map(scenario).collect::<Vec<_>>() })
}

fn scenario(trial: &Trial) -> Value {
    let measured = trial.notes.measured.iter().map(|one| {
        json!({
            "what": one.what, "took_ns": one.took.as_nanos(), "bound_ns": one.bound.as_nanos(),
            "stalled_ns": one.stalled.as_nanos(), "holds": one.holds(),
        })
    });
    let claims = trial.notes.claims.iter().map(|claim| json!({ "says": claim.says, "but": claim.but }));
    let marks = trial.notes.marks.iter().map(|mark| json!({ "at_ns": mark.at.as_nanos(), "says": mark.says }));
    json!({
        "name": trial.scenario.name,
        "event": trial.scenario.event,
        "passed": trial.failures().is_empty(),
        "failures": trial.failures(),
        "checks": trial.rows,
        "took_ms": u64::try_from(trial.took.as_millis()).unwrap_or(u64::MAX),
        "stalls": { "count": trial.stalls.count(), "longest_ns": trial.stalls.longest().as_nanos() },
        "measured": measured.collect::<Vec<_>>(),
        "claims": claims.collect::<Vec<_>>(),
        "marks": marks.collect::<Vec<_>>(),
        "limits": trial.limits.iter().map(|seen| limit(&seen.verdict, seen.degraded, seen.degraded_for.as_nanos())).collect::<Vec<_>>(),
    })
}

fn limit(verdict: &LimitVerdict, degraded: u64, degraded_for_ns: u64) -> Value {
    let fullest = verdict.fullest.iter().map(|fullest| {
        json!({
            "part": fullest.part.to_string(), "key": &*fullest.key,
            "admitted": number(fullest.worst.admitted), "allowed": number(fullest.worst.allowed),
            "excess": number(fullest.worst.excess()),
            "from_ns": fullest.worst.from.as_nanos(), "until_ns": fullest.worst.until.as_nanos(),
        })
    });
    let counts = |all: Vec<(&str, u64)>| {
        Value::Object(all.into_iter().map(|(word, count)| (word.to_owned(), json!(count))).collect::<Map<_, _>>())
    };
    json!({
        "limit": &*verdict.limit,
        "fail": table::fail_words(verdict.fail),
        "asked": verdict.asked,
        "allowed": counts(verdict.allowed.iter().map(|(source, count)| (source.as_str(), *count)).collect()),
        "denied": counts(verdict.denied.iter().map(|(reason, count)| (reason.as_str(), *count)).collect()),
        "silent": verdict.silent,
        "degraded": degraded,
        "degraded_for_ns": degraded_for_ns,
        "slowest_ns": verdict.slowest.as_nanos(),
        "fullest": fullest.collect::<Vec<_>>(),
        "violations": told_violations(verdict),
    })
}

/// Sums of a suite's run are far below what JSON's numbers hold.
fn number(sum: u128) -> u64 {
    u64::try_from(sum).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::made_up;

    #[test]
    fn programs_find_the_excess_and_the_failures() {
        let report = report(&[made_up::trial(), made_up::broken()]);
        assert_eq!(report["scenarios"][0]["limits"][0]["fullest"][0]["excess"], 0);
        assert_eq!(report["scenarios"][0]["passed"], true);
        assert_eq!(report["scenarios"][1]["failures"][0], "it could not be founded");
    }
}
