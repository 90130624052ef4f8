//! Calls to a node over HTTP: JSON in, JSON out, bounded in time. Whoever cannot be reached is told apart from whoever
//! says no.

use std::time::Duration;

use anyhow::Context as _;
use serde_json::Value;
use ureq::Agent;

use crate::exit::Exit;

/// How long one call may take in all.
pub const CALL_TIMEOUT: Duration = Duration::from_secs(10);

/// How long a connection may take to open.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);

/// A node's HTTP API.
#[derive(Debug)]
pub struct Calls {
    agent: Agent,
    base: String,
}

/// What a node answered.
#[derive(Debug)]
pub struct Answer {
    /// The HTTP status.
    pub status: u16,
    /// The body; null when it was empty.
    pub body: Value,
}

impl Answer {
    /// Whether the status is one of success.
    pub fn is_ok(&self) -> bool {
        (200..300).contains(&self.status)
    }

    /// A problem document as one line: what is wrong, where, and the code.
    pub fn problem(&self) -> String {
        let text = |name: &str| self.body.get(name).and_then(Value::as_str).unwrap_or("");
        let detail = match text("detail") {
            "" => "no detail",
            detail => detail,
        };
        match (text("field"), text("code")) {
            ("", "") => format!("{detail} (status {})", self.status),
            ("", code) => format!("{detail} ({code})"),
            (field, code) => format!("{field}: {detail} ({code})"),
        }
    }
}

impl Calls {
    /// Calls to `address` (`host:port`).
    pub fn to(address: &str) -> Calls {
        let config = Agent::config_builder()
            .timeout_global(Some(CALL_TIMEOUT))
            .timeout_connect(Some(CONNECT_TIMEOUT))
            .http_status_as_error(false)
            .build();
        Calls { agent: config.into(), base: format!("http://{address}") }
    }

    /// `GET path`.
    pub fn get(&self, path: &str) -> anyhow::Result<Answer> {
        self.read(path, self.agent.get(format!("{}{path}", self.base)).call())
    }

    /// `POST path` with a JSON body.
    pub fn post(&self, path: &str, body: &Value) -> anyhow::Result<Answer> {
        let request = self.agent.post(format!("{}{path}", self.base)).content_type("application/json");
        self.read(path, request.send(body.to_string()))
    }

    /// `PUT path` with a text body and an `If-Match`.
    pub fn put(&self, path: &str, if_match: &str, body: &str) -> anyhow::Result<Answer> {
        let request = self.agent.put(format!("{}{path}", self.base)).content_type("application/yaml");
        self.read(path, request.header("if-match", if_match).send(body))
    }

    fn read(
        &self,
        path: &str,
        response: Result<ureq::http::Response<ureq::Body>, ureq::Error>,
    ) -> anyhow::Result<Answer> {
        let mut response = response
            .map_err(|error| anyhow::Error::new(Exit::Unreachable).context(format!("{}{path}: {error}", self.base)))?;
        let status = response.status().as_u16();
        let text = response.body_mut().read_to_string().context("the answer could not be read")?;
        let body =
            if text.is_empty() { Value::Null } else { serde_json::from_str(&text).unwrap_or(Value::String(text)) };
        Ok(Answer { status, body })
    }
}
