//! Calls over HTTP, as plain as curl's.

use std::time::Duration;

use serde_json::{Value, json};
use ureq::Agent;

/// What came back.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub headers: ureq::http::HeaderMap,
    pub body: Value,
}

impl Answer {
    /// A header's value; empty when it is absent.
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }
}

fn agent() -> Agent {
    let config =
        Agent::config_builder().timeout_global(Some(Duration::from_secs(20))).http_status_as_error(false).build();
    config.into()
}

fn read(response: Result<ureq::http::Response<ureq::Body>, ureq::Error>) -> Option<Answer> {
    let mut response = response.ok()?;
    let text = response.body_mut().read_to_string().unwrap();
    let body = serde_json::from_str(&text).unwrap_or(Value::String(text));
    Some(Answer { status: response.status().as_u16(), headers: response.headers().clone(), body })
}

pub fn try_get(address: &str, path: &str) -> Option<Answer> {
    read(agent().get(format!("http://{address}{path}")).call())
}

pub fn get(address: &str, path: &str) -> Answer {
    try_get(address, path).unwrap_or_else(|| panic!("{address}{path} cannot be reached"))
}

/// The same by the bearer of a token.
pub fn get_as(token: &str, address: &str, path: &str) -> Answer {
    let request = agent().get(format!("http://{address}{path}")).header("authorization", format!("Bearer {token}"));
    read(request.call()).unwrap_or_else(|| panic!("{address}{path} cannot be reached"))
}

pub fn try_post(address: &str, path: &str, body: &Value) -> Option<Answer> {
    read(agent().post(format!("http://{address}{path}")).content_type("application/json").send(body.to_string()))
}

pub fn post_text(address: &str, path: &str, content_type: &str, body: &str) -> Answer {
    let request = agent().post(format!("http://{address}{path}")).content_type(content_type);
    read(request.send(body)).unwrap_or_else(|| panic!("{address}{path} cannot be reached"))
}

pub fn put_policy(address: &str, domain: &str, if_match: &str, document: &str) -> Answer {
    let request = agent().put(format!("http://{address}/v1/policies/{domain}")).header("if-match", if_match);
    read(request.send(document)).unwrap_or_else(|| panic!("{address} cannot be reached"))
}

pub fn put_policy_as(token: &str, address: &str, domain: &str, document: &str) -> Answer {
    let request = agent().put(format!("http://{address}/v1/policies/{domain}")).header("if-match", "*");
    read(request.header("authorization", format!("Bearer {token}")).send(document))
        .unwrap_or_else(|| panic!("{address} cannot be reached"))
}

/// One check of a client in the default domain.
pub fn check(address: &str, client: &str) -> Answer {
    check_with(address, &json!({ "attributes": { "client": client } }))
}

pub fn check_with(address: &str, body: &Value) -> Answer {
    post_text(address, "/v1/check", "application/json", &body.to_string())
}

/// A check by the bearer of a token.
pub fn check_as(token: &str, address: &str, body: &Value) -> Answer {
    post_as(token, address, "/v1/check", body)
}

/// Any call by the bearer of a token.
pub fn post_as(token: &str, address: &str, path: &str, body: &Value) -> Answer {
    let request = agent().post(format!("http://{address}{path}")).content_type("application/json");
    read(request.header("authorization", format!("Bearer {token}")).send(body.to_string()))
        .unwrap_or_else(|| panic!("{address}{path} cannot be reached"))
}
