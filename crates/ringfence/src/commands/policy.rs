//! `ringfence policy`: documents checked here before any cluster hears of them.

use std::path::Path;

use anyhow::Context as _;
use policy::Document;
use serde_json::{Value, json};

use crate::calls::{Answer, CALL_TIMEOUT, Calls, WAITING_CALL_TIMEOUT};
use crate::cli::{Output, Policy, Target};
use crate::commands::{print_json, put, shown};
use crate::exit::Exit;

/// Runs one of the policy commands.
pub fn run(command: &Policy, target: &Target, output: Output) -> anyhow::Result<Exit> {
    match command {
        Policy::Validate { file } => validate(file, output),
        Policy::Apply { file, if_revision, reason, wait } => {
            let asked = Asked { if_revision: *if_revision, reason, wait: *wait };
            apply(&Calls::to_admin(target)?, file, &asked, output)
        }
        Policy::Show { domain } => show(&Calls::to_admin(target)?, domain, output),
        Policy::History { domain } => history(&Calls::to_admin(target)?, domain, output),
    }
}

/// Reads and checks a document; what is wrong with it is printed to stderr, every finding with its place.
pub fn read_document(file: &Path) -> anyhow::Result<Option<(String, Document)>> {
    let text = std::fs::read_to_string(file).with_context(|| format!("{} could not be read", file.display()))?;
    match Document::parse(&text) {
        Ok(document) => Ok(Some((text, document))),
        Err(errors) => {
            for error in errors {
                eprintln!("{}", error.render(&file.display().to_string(), &text));
            }
            Ok(None)
        }
    }
}

fn validate(file: &Path, output: Output) -> anyhow::Result<Exit> {
    let Some((_, document)) = read_document(file)? else { return Ok(Exit::Failure) };
    match output {
        Output::Json => print_json("policy", &json!({ "domain": document.domain(), "valid": true })),
        Output::Text => put(&format!("{} is valid: domain {}\n", file.display(), document.domain())),
    }
    Ok(Exit::Ok)
}

/// How a document is to be applied.
struct Asked<'a> {
    if_revision: Option<u64>,
    reason: &'a str,
    wait: bool,
}

fn apply(calls: &Calls, file: &Path, asked: &Asked<'_>, output: Output) -> anyhow::Result<Exit> {
    let Some((text, document)) = read_document(file)? else { return Ok(Exit::Failure) };
    let if_match = asked.if_revision.map_or("*".to_owned(), |revision| revision.to_string());
    let wait = if asked.wait { "&wait=binding" } else { "" };
    let path = format!("/v1/policies/{}?reason={}{wait}", document.domain(), percent_encoded(asked.reason));
    let within = if asked.wait { WAITING_CALL_TIMEOUT } else { CALL_TIMEOUT };
    let answer = calls.put(&path, &if_match, &text, within)?;
    if !answer.is_ok() {
        report_refusal(&answer);
        return Ok(Exit::Failure);
    }
    match output {
        Output::Json => print_json("applied", &answer.body),
        Output::Text => put(&applied_text(document.domain(), &answer.body)),
    }
    match answer.body.get("binding").and_then(Value::as_bool) {
        Some(false) => {
            eprintln!("ringfence: applied, but some node may still go by the revision before");
            Ok(Exit::Failure)
        }
        Some(true) | None => Ok(Exit::Ok),
    }
}

/// A node may know better than this program: its findings are printed as ours would be.
fn report_refusal(answer: &Answer) {
    eprintln!("ringfence: {}", answer.problem());
    for error in answer.body.get("errors").and_then(Value::as_array).into_iter().flatten() {
        eprintln!("  line {}, column {}: {}", shown(error, "line"), shown(error, "column"), shown(error, "message"));
    }
}

fn applied_text(domain: &str, body: &Value) -> String {
    let mut text = format!("{domain}: revision {}\n", shown(body, "revision"));
    for change in body.get("changes").and_then(Value::as_array).into_iter().flatten() {
        text.push_str(&format!("  {} {}\n", shown(change, "change"), shown(change, "limit")));
    }
    if body.get("binding").and_then(Value::as_bool) == Some(true) {
        text.push_str("binding: every node goes by it\n");
    }
    text
}

fn show(calls: &Calls, domain: &str, output: Output) -> anyhow::Result<Exit> {
    let answer = calls.get(&format!("/v1/policies/{}", percent_encoded(domain)))?;
    anyhow::ensure!(answer.is_ok(), "{}", answer.problem());
    match output {
        Output::Json => print_json("policy", &answer.body),
        Output::Text => put(&shown(&answer.body, "document")),
    }
    Ok(Exit::Ok)
}

fn history(calls: &Calls, domain: &str, output: Output) -> anyhow::Result<Exit> {
    let answer = calls.get(&format!("/v1/policies/{}/history", percent_encoded(domain)))?;
    anyhow::ensure!(answer.is_ok(), "{}", answer.problem());
    if output == Output::Json {
        print_json("history", &answer.body);
        return Ok(Exit::Ok);
    }
    let mut text = format!("{:>8}  {:<24} {:<16} REASON\n", "REVISION", "APPLIED", "AUTHOR");
    for revision in answer.body.get("revisions").and_then(Value::as_array).into_iter().flatten() {
        text.push_str(&format!(
            "{:>8}  {:<24} {:<16} {}\n",
            shown(revision, "revision"),
            shown(revision, "applied_at"),
            shown(revision, "author"),
            shown(revision, "reason")
        ));
    }
    put(&text);
    Ok(Exit::Ok)
}

/// Percent-encoding (RFC 3986) of everything but the unreserved characters.
pub fn percent_encoded(text: &str) -> String {
    text.bytes()
        .map(|byte| match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => char::from(byte).to_string(),
            _ => format!("%{byte:02X}"),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_survive_a_url() {
        assert_eq!(percent_encoded("launch week & more"), "launch%20week%20%26%20more");
        assert_eq!(percent_encoded("per-client_1.~"), "per-client_1.~");
    }
}
