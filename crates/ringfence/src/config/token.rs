//! Callers' tokens in the configuration: a name, the SHA-256 of the token, and what it is good for. The token itself is
//! kept nowhere, and its digest is not shown either, since short tokens can be guessed from it.

use std::ops::Range;

use serde_json::json;
use server::{Domains, Scope, Scopes, Token};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::config::mistake::{Wrong, one_of};
use crate::config::table::Kind;
use crate::config::value::{Value, WrongAt, expected, listed, quoted, unfit};

const KEYS: [&str; 4] = ["name", "sha256", "domains", "scopes"];

/// Reads a list that a flag or variable gives as TOML.
///
/// # Errors
///
/// What is wrong with it first.
pub fn from_text(text: &str) -> Result<Value, Wrong> {
    if text.is_empty() {
        return Ok(Value::Tokens(Vec::new()));
    }
    let wrong = |message: &str| Wrong::new(message, format!("{}, written as TOML", expected(Kind::Tokens)));
    let value = DeValue::parse(text).map_err(|error| wrong(error.message()))?;
    Value::from_toml(Kind::Tokens, &value)
        .map_err(|all| all.into_iter().next().map_or_else(|| wrong("it does not fit"), |(first, _)| first))
}

/// Reads the list of a file.
///
/// # Errors
///
/// Everything that is wrong with it, each with its place.
pub fn from_toml(items: &[Spanned<DeValue<'_>>]) -> Result<Value, Vec<WrongAt>> {
    let mut wrong = Vec::new();
    let mut tokens: Vec<Token> = Vec::new();
    for item in items {
        let DeValue::Table(table) = item.get_ref() else {
            wrong.push((unfit(Kind::Tokens, item.get_ref()), item.span()));
            continue;
        };
        match one(table, item.span()) {
            Ok(token) if tokens.iter().any(|other| other.name == token.name) => {
                wrong.push((
                    Wrong::new(format!("there are two tokens `{}`", token.name), "names that differ"),
                    item.span(),
                ));
            }
            Ok(token) => tokens.push(token),
            Err(more) => wrong.extend(more),
        }
    }
    if wrong.is_empty() { Ok(Value::Tokens(tokens)) } else { Err(wrong) }
}

fn one(table: &DeTable<'_>, span: Range<usize>) -> Result<Token, Vec<WrongAt>> {
    let mut wrong: Vec<WrongAt> = table
        .keys()
        .filter(|key| !KEYS.contains(&key.get_ref().as_ref()))
        .map(|key| {
            let name = key.get_ref();
            (Wrong::unknown(format!("unknown key `{name}` in a token"), name, KEYS.into_iter()), key.span())
        })
        .collect();
    let mut field = |name: &str, kind: Kind| match table.get(name).map(|value| Value::from_toml(kind, value)) {
        Some(Ok(value)) => Some(value),
        Some(Err(more)) => {
            wrong.extend(more);
            None
        }
        None => None,
    };
    let (name, sha256) = (field("name", Kind::Name), field("sha256", Kind::Secret));
    let (domains, scopes) = (field("domains", Kind::Names), field("scopes", Kind::Names));
    for missing in ["name", "sha256", "scopes"].into_iter().filter(|name| !table.contains_key(*name)) {
        wrong.push((Wrong::new(format!("a token has no `{missing}`"), expected(Kind::Tokens)), span.clone()));
    }
    let place = |key: &str| table.get(key).map_or(span.clone(), Spanned::span);
    let sha256 = match sha256 {
        Some(Value::Text(text)) => digest(&text).map_err(|error| wrong.push((error, place("sha256")))).ok(),
        _ => None,
    };
    let scopes = match scopes {
        Some(Value::List(words)) => scopes_of(&words).map_err(|error| wrong.push((error, place("scopes")))).ok(),
        _ => None,
    };
    let domains = match domains {
        Some(Value::List(names)) => Domains::Only(names),
        _ => Domains::All,
    };
    match (name, sha256, scopes) {
        (Some(Value::Text(name)), Some(sha256), Some(scopes)) if wrong.is_empty() => {
            Ok(Token { name, sha256, domains, scopes })
        }
        _ => Err(wrong),
    }
}

fn scopes_of(words: &[String]) -> Result<Scopes, Wrong> {
    let names = Scope::ALL.into_iter().map(Scope::as_str);
    if words.is_empty() {
        return Err(Wrong::new("a token without scopes is good for nothing", format!("some of {}", one_of(names))));
    }
    let scope = |word: &String| {
        word.parse::<Scope>().map_err(|_| Wrong::unknown(format!("`{word}` is no scope"), word, names.clone()))
    };
    words.iter().map(scope).collect()
}

/// 64 hexadecimal digits.
fn digest(text: &str) -> Result<[u8; 32], Wrong> {
    let mut digest = [0; 32];
    let digits = text.as_bytes();
    let fits = digits.len() == 2 * digest.len() && digits.iter().all(u8::is_ascii_hexdigit);
    for (byte, pair) in digest.iter_mut().zip(digits.chunks_exact(2)) {
        let pair = std::str::from_utf8(pair).ok().and_then(|pair| u8::from_str_radix(pair, 16).ok());
        match pair {
            Some(value) if fits => *byte = value,
            Some(_) | None => {
                let message = format!("a `sha256` of {} characters does not fit", text.chars().count());
                return Err(Wrong::new(message, "64 hexadecimal digits: printf %s TOKEN | sha256sum"));
            }
        }
    }
    Ok(digest)
}

/// A token as TOML has it; its digest is not shown.
pub fn toml(token: &Token) -> String {
    let domains = match &token.domains {
        Domains::All => String::new(),
        Domains::Only(names) => format!(", domains = {}", listed(names.iter().map(|name| quoted(name)))),
    };
    let scopes = listed(token.scopes.iter().map(|scope| quoted(scope.as_str())));
    format!("{{ name = {}, sha256 = \"(secret)\"{domains}, scopes = {scopes} }}", quoted(&token.name))
}

/// A token for programs; its digest is not shown.
pub fn json(token: &Token) -> serde_json::Value {
    let domains = match &token.domains {
        Domains::All => serde_json::Value::Null,
        Domains::Only(names) => json!(names),
    };
    let scopes: Vec<_> = token.scopes.iter().map(Scope::as_str).collect();
    json!({ "name": token.name, "sha256": "(secret)", "domains": domains, "scopes": scopes })
}
