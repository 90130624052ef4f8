//! The keys that are hit or denied most, over the admin API: `GET /v1/keys/top?domain=&limit=&by=hits|denials&count=`.
//! Any node answers for all, names the nodes that did not answer it, and says how far each number may be off.

use std::collections::HashMap;

use axum::extract::{Request, State};
use axum::response::Response;
use http::StatusCode;
use limits::LimitId;
use limits::top::By;
use node::{Policies, TopKeys, TopQuestion};
use serde_json::{Value, json};

use super::{JSON, query_of, unknown_domain};
use crate::access::Scope;
use crate::asked::DOMAIN_DEFAULT;
use crate::asked::shown;
use crate::check::{json_response, rejected};
use crate::code::{Code, Rejection};
use crate::front::Front;
use crate::time::rfc3339_of_millis;

/// Keys in one answer, unless the caller says how many.
pub const COUNT_DEFAULT: usize = 10;

/// Keys in one answer at most.
pub const COUNT_MAX: usize = 256;

/// `GET /v1/keys/top`
pub async fn top(State(front): State<Front>, request: Request) -> Response {
    let question = match question_of(&front, &request) {
        Ok(question) => question,
        Err(rejection) => return rejected(&rejection),
    };
    let told = front.node.top_keys(&question).await;
    json_response(StatusCode::OK, JSON, &body_of(&question, &told))
}

fn question_of(front: &Front, request: &Request) -> Result<TopQuestion, Rejection> {
    let caller = front.admit_operator(request, Scope::Read)?;
    let query = query_of(request, &["domain", "limit", "by", "count"])?;
    let domain = query.get("domain").map_or(DOMAIN_DEFAULT, String::as_str);
    caller.may_use(domain, "domain")?;
    let limit = limit_of(&front.node.policies(), domain, query.get("limit").map(String::as_str))?;
    Ok(TopQuestion { domain: domain.to_owned(), limit, by: by_of(&query)?, count: count_of(&query)? })
}

fn limit_of(policies: &Policies, domain: &str, limit: Option<&str>) -> Result<Option<LimitId>, Rejection> {
    let known = policies.catalogue.domain(domain).ok_or_else(|| unknown_domain(domain))?;
    let Some(name) = limit else { return Ok(None) };
    let found = known.limits().iter().find(|limit| limit.name() == name);
    let unknown = || {
        let detail = format!("domain `{domain}` has no limit `{}`", shown(name));
        Rejection::of_field(Code::UnknownLimit, "limit", detail)
    };
    found.map(|limit| Some(limit.id())).ok_or_else(unknown)
}

fn by_of(query: &HashMap<String, String>) -> Result<By, Rejection> {
    let Some(word) = query.get("by") else { return Ok(By::Hits) };
    By::of_word(word).ok_or_else(|| Rejection::of_field(Code::OutOfRange, "by", "expected hits or denials"))
}

fn count_of(query: &HashMap<String, String>) -> Result<usize, Rejection> {
    let Some(text) = query.get("count") else { return Ok(COUNT_DEFAULT) };
    text.parse().ok().filter(|count| (1..=COUNT_MAX).contains(count)).ok_or_else(|| {
        Rejection::of_field(Code::OutOfRange, "count", format!("expected a whole number from 1 to {COUNT_MAX}"))
    })
}

fn body_of(question: &TopQuestion, told: &TopKeys) -> Value {
    let keys = told
        .keys
        .iter()
        .map(|(limit, key)| json!({ "limit": limit, "key": key.text, "count": key.count, "error": key.error }));
    let limits =
        told.limits.iter().map(|limit| json!({ "limit": limit.limit, "total": limit.total, "absent": limit.absent }));
    let silent = told.silent.iter().map(|silent| json!({ "node": silent.node, "why": silent.why }));
    json!({
        "domain": question.domain,
        "by": question.by.as_str(),
        "since": rfc3339_of_millis(told.since.as_unix_nanos() / 1_000_000),
        "keys": keys.collect::<Vec<_>>(),
        "limits": limits.collect::<Vec<_>>(),
        "limits_left_out": told.limits_left_out,
        "nodes": told.nodes,
        "silent": silent.collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use limits::top::TopKey;
    use limits::{Fingerprint, WallTime};
    use node::{Silent, TopLimit};

    use super::*;

    fn query(pairs: &[(&str, &str)]) -> HashMap<String, String> {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn what_is_asked_for_is_checked() {
        assert_eq!(by_of(&query(&[])).unwrap(), By::Hits);
        assert_eq!(by_of(&query(&[("by", "denials")])).unwrap(), By::Denials);
        assert_eq!(by_of(&query(&[("by", "Hits")])).unwrap_err().field, "by");
        assert_eq!(count_of(&query(&[])).unwrap(), COUNT_DEFAULT);
        assert_eq!(count_of(&query(&[("count", "256")])).unwrap(), COUNT_MAX);
        for wrong in ["0", "257", "-1", "1.5", "", "99999999999999999999"] {
            assert_eq!(count_of(&query(&[("count", wrong)])).unwrap_err().field, "count", "{wrong}");
        }
    }

    #[test]
    fn an_answer_says_how_far_each_number_may_be_off_and_who_is_not_in_it() {
        let question = TopQuestion { domain: "default".to_owned(), limit: None, by: By::Hits, count: 1 };
        let key = TopKey { key: Fingerprint([1, 2]), text: "client=alice".into(), count: 900, error: 2 };
        let told = TopKeys {
            since: WallTime::from_unix_nanos(1_767_225_600_000_000_000),
            keys: vec![("per-client".into(), key)],
            limits: vec![TopLimit { limit: "per-client".into(), total: 1_000, absent: 40 }],
            limits_left_out: 0,
            nodes: vec!["n1".to_owned()],
            silent: vec![Silent { node: "n2".to_owned(), why: "expired".to_owned() }],
        };
        let expected = json!({
            "domain": "default", "by": "hits", "since": "2026-01-01T00:00:00Z",
            "keys": [{ "limit": "per-client", "key": "client=alice", "count": 900, "error": 2 }],
            "limits": [{ "limit": "per-client", "total": 1_000, "absent": 40 }],
            "limits_left_out": 0, "nodes": ["n1"], "silent": [{ "node": "n2", "why": "expired" }],
        });
        assert_eq!(body_of(&question, &told), expected);
    }
}
