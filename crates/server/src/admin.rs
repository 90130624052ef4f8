//! The admin API: policies, the cluster, its map and events, health and metrics. Any node answers for the cluster. Without
//! tokens it answers on loopback only; the binary refuses any other bind.

pub mod cluster;
pub mod health;
pub mod policies;
pub mod top;

use std::collections::HashMap;

use axum::extract::{Query, Request};

use crate::access::{Caller, Scope};
use crate::asked::shown;
use crate::code::{Code, Rejection};
use crate::front::Front;

const JSON: &str = "application/json";

const PROBLEM: &str = "application/problem+json";

impl Front {
    /// Lets a caller of the admin API in.
    fn admit_operator(&self, request: &Request, scope: Scope) -> Result<Caller<'_>, Rejection> {
        self.access.at_admin(request.headers(), request.extensions().get().copied(), scope)
    }
}

/// The query's parameters; one that is none of `known` is refused.
fn query_of(request: &Request, known: &[&str]) -> Result<HashMap<String, String>, Rejection> {
    let query = Query::<HashMap<String, String>>::try_from_uri(request.uri());
    let Query(query) = query.map_err(|error| Rejection::of_field(Code::OutOfRange, "query", error.body_text()))?;
    match query.keys().find(|name| !known.contains(&name.as_str())) {
        None => Ok(query),
        Some(unknown) => {
            let expected = match known {
                [] => "this call takes no parameters".to_owned(),
                known => format!("expected one of {}", known.join(", ")),
            };
            Err(Rejection::of_field(Code::UnknownField, unknown.as_str(), expected))
        }
    }
}

fn unknown_domain(domain: &str) -> Rejection {
    Rejection::of_field(Code::UnknownDomain, "domain", format!("no policy for domain `{}`", shown(domain)))
}
