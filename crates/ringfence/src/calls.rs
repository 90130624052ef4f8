//! Calls to a node over HTTP: JSON in, JSON out, bounded in time, with the token that the caller was given. Whoever cannot
//! be reached is told apart from whoever says no.

use std::io::Read as _;
use std::path::Path;
use std::time::Duration;

use anyhow::Context as _;
use serde_json::Value;
use server::code::Code;
use ureq::{Agent, RequestBuilder};

use crate::cli::Target;
use crate::exit::Exit;

/// How long one call may take in all.
pub const CALL_TIMEOUT: Duration = Duration::from_secs(10);

/// How long a call may take that waits for all nodes: what the node waits at most, and a call's own time.
pub const WAITING_CALL_TIMEOUT: Duration = node::BINDING_WITHIN.saturating_add(CALL_TIMEOUT);

/// How long a connection may take to open.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);

/// The largest file that is read as a token, in bytes; what is larger is no token, but something secret or huge that was
/// named by mistake.
pub const TOKEN_FILE_BYTES_MAX: u64 = 4_096;

/// A node's HTTP API.
pub struct Calls {
    agent: Agent,
    base: String,
    /// The value of the header field; empty without a token.
    authorization: String,
}

impl std::fmt::Debug for Calls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Calls").field("base", &self.base).finish_non_exhaustive()
    }
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

    /// A problem document: what is wrong, where, and the code; where a token would help, also that.
    pub fn problem(&self) -> String {
        let code = self.body.get("code").and_then(Value::as_str).and_then(Code::of_word);
        let problem = self.line();
        match code {
            Some(Code::Unauthorised) => {
                format!("{problem}\n  show a token of this cluster with --token-file FILE or RINGFENCE_TOKEN_FILE")
            }
            Some(Code::Forbidden) => {
                format!("{problem}\n  use a token that is good for this; `ringfence errors forbidden` tells more")
            }
            Some(_) | None => problem,
        }
    }

    fn line(&self) -> String {
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
    /// Calls to the target's API.
    pub fn to_api(target: &Target) -> anyhow::Result<Calls> {
        Ok(Calls::to(&target.api).with_token(token_of(target)?))
    }

    /// Calls to the target's admin API.
    pub fn to_admin(target: &Target) -> anyhow::Result<Calls> {
        Ok(Calls::to(&target.admin).with_token(token_of(target)?))
    }

    /// Calls to `address` (`host:port`), without a token.
    pub fn to(address: &str) -> Calls {
        let config = Agent::config_builder()
            .timeout_global(Some(CALL_TIMEOUT))
            .timeout_connect(Some(CONNECT_TIMEOUT))
            .http_status_as_error(false)
            .build();
        Calls { agent: config.into(), base: format!("http://{address}"), authorization: String::new() }
    }

    fn with_token(self, token: Option<String>) -> Calls {
        Calls { authorization: token.map_or_else(String::new, |token| format!("Bearer {token}")), ..self }
    }

    fn authorised<Body>(&self, request: RequestBuilder<Body>) -> RequestBuilder<Body> {
        match self.authorization.as_str() {
            "" => request,
            authorization => request.header("authorization", authorization),
        }
    }

    /// `GET path`.
    pub fn get(&self, path: &str) -> anyhow::Result<Answer> {
        self.read(path, self.authorised(self.agent.get(format!("{}{path}", self.base))).call())
    }

    /// `POST path` with a JSON body.
    pub fn post(&self, path: &str, body: &Value) -> anyhow::Result<Answer> {
        let request = self.agent.post(format!("{}{path}", self.base)).content_type("application/json");
        self.read(path, self.authorised(request).send(body.to_string()))
    }

    /// `PUT path` with a JSON body.
    pub fn put_json(&self, path: &str, body: &Value) -> anyhow::Result<Answer> {
        let request = self.agent.put(format!("{}{path}", self.base)).content_type("application/json");
        self.read(path, self.authorised(request).send(body.to_string()))
    }

    /// `PUT path` with a text body and an `If-Match`, which may take so long.
    pub fn put(&self, path: &str, if_match: &str, body: &str, within: Duration) -> anyhow::Result<Answer> {
        let request = self.agent.put(format!("{}{path}", self.base)).content_type("application/yaml");
        let request = request.config().timeout_global(Some(within)).build();
        self.read(path, self.authorised(request.header("if-match", if_match)).send(body))
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

fn token_of(target: &Target) -> anyhow::Result<Option<String>> {
    let Some(file) = &target.token_file else { return Ok(None) };
    let token = read_token(file).with_context(|| format!("the token file {}", file.display()));
    token.map(Some).map_err(|error| error.context(Exit::BadConfig))
}

/// A token is one line of visible characters; what surrounds it is an editor's, and is taken off.
fn read_token(file: &Path) -> anyhow::Result<String> {
    let mut text = String::new();
    std::fs::File::open(file)?.take(TOKEN_FILE_BYTES_MAX + 1).read_to_string(&mut text)?;
    anyhow::ensure!(text.len() as u64 <= TOKEN_FILE_BYTES_MAX, "has more than {TOKEN_FILE_BYTES_MAX} bytes");
    let token = text.trim();
    anyhow::ensure!(!token.is_empty(), "is empty");
    anyhow::ensure!(
        token.bytes().all(|byte| byte.is_ascii_graphic()),
        "has more in it than one token; expected one line of visible ASCII characters"
    );
    Ok(token.to_owned())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use serde_json::json;

    use super::*;

    fn token_in(content: &[u8]) -> Result<String, String> {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("token");
        std::fs::write(&file, content).unwrap();
        read_token(&file).map_err(|error| error.to_string())
    }

    #[test]
    fn a_token_is_one_line_whatever_an_editor_added() {
        assert_eq!(token_in(b"secret-1\n").as_deref(), Ok("secret-1"));
        assert_eq!(token_in(b"  secret-1\r\n").as_deref(), Ok("secret-1"));
        assert_eq!(token_in(b" \n").unwrap_err(), "is empty");
        assert!(token_in(b"one\ntwo\n").unwrap_err().contains("more in it than one token"));
        assert!(token_in("gr\u{fc}n".as_bytes()).is_err());
        assert!(token_in(&[b'a'; 5_000]).unwrap_err().contains("4096 bytes"));
    }

    #[test]
    fn a_missing_token_file_is_named_and_a_matter_of_configuration() {
        let target = Target { api: String::new(), admin: String::new(), token_file: Some("/nowhere/token".into()) };
        let error = Calls::to_api(&target).unwrap_err();
        assert!(format!("{error:#}").contains("/nowhere/token"), "{error:#}");
        assert_eq!(Exit::of_error(&error), Exit::BadConfig);
    }

    #[test]
    fn a_refused_caller_is_told_the_code_and_what_to_do() {
        let answer = |status, code| Answer { status, body: json!({ "detail": "d", "field": "f", "code": code }) };
        let text = answer(401, "unauthorised").problem();
        assert!(text.starts_with("f: d (unauthorised)") && text.contains("--token-file"), "{text}");
        let text = answer(403, "forbidden").problem();
        assert!(text.contains("(forbidden)") && text.contains("ringfence errors forbidden"), "{text}");
        assert_eq!(answer(404, "unknown-domain").problem(), "f: d (unknown-domain)");
    }

    #[test]
    fn a_token_does_not_show_in_debug_output() {
        let calls = Calls::to("127.0.0.1:1").with_token(Some("secret-1".to_owned()));
        assert!(!format!("{calls:?}").contains("secret-1"));
    }
}
