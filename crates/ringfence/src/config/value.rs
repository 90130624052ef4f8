//! What a setting can say: read from a flag's or variable's text, or from a value of the file, and written back as TOML.

use std::net::SocketAddr;
use std::ops::Range;
use std::time::Duration;

use node::cluster::NodeName;
use serde_json::json;
use server::{Network, Token};
use store::RedisUrl;
use toml::Spanned;
use toml::de::DeValue;

use crate::cli;
use crate::config::mistake::{Wrong, one_of};
use crate::config::table::Kind;
use crate::config::token;

/// A value that fits its setting's kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// A name, an address, a path, a word, a secret.
    Text(String),
    /// Several of these.
    List(Vec<String>),
    /// A length of time.
    Time(Duration),
    /// A number.
    Count(u64),
    /// Yes or no.
    Switch(bool),
    /// Callers' tokens.
    Tokens(Vec<Token>),
}

/// A wrong value of a file, with the bytes it takes up.
pub type WrongAt = (Wrong, Range<usize>);

impl Value {
    /// Reads what a flag or variable says.
    ///
    /// # Errors
    ///
    /// What is wrong with it.
    pub fn from_text(kind: Kind, text: &str) -> Result<Value, Wrong> {
        match kind {
            Kind::Names => list(Kind::Name, text),
            Kind::Addresses => list(Kind::Address, text),
            Kind::Networks => list(Kind::Network, text),
            Kind::Paths => list(Kind::Path, text),
            Kind::Tokens => token::from_text(text),
            Kind::Name
            | Kind::Listen
            | Kind::Address
            | Kind::Network
            | Kind::Path
            | Kind::Time
            | Kind::Count
            | Kind::Switch
            | Kind::Word(_)
            | Kind::Filter
            | Kind::RedisUrl
            | Kind::Secret => one(kind, text),
        }
    }

    /// Reads what a file says.
    ///
    /// # Errors
    ///
    /// Everything that is wrong with it, each with its place.
    pub fn from_toml(kind: Kind, value: &Spanned<DeValue<'_>>) -> Result<Value, Vec<WrongAt>> {
        let unfit = || vec![(unfit(kind, value.get_ref()), value.span())];
        match (kind, value.get_ref()) {
            (Kind::Names, DeValue::Array(items)) => list_from_toml(Kind::Name, items),
            (Kind::Addresses, DeValue::Array(items)) => list_from_toml(Kind::Address, items),
            (Kind::Networks, DeValue::Array(items)) => list_from_toml(Kind::Network, items),
            (Kind::Paths, DeValue::Array(items)) => list_from_toml(Kind::Path, items),
            (Kind::Tokens, DeValue::Array(items)) => token::from_toml(items),
            (Kind::Names | Kind::Addresses | Kind::Networks | Kind::Paths | Kind::Tokens, _) => Err(unfit()),
            (Kind::Switch, DeValue::Boolean(yes)) => Ok(Value::Switch(*yes)),
            (Kind::Count, DeValue::Integer(number)) => {
                let count = u64::from_str_radix(number.as_str(), number.radix()).ok().filter(|count| *count > 0);
                count.map(Value::Count).ok_or_else(unfit)
            }
            (Kind::Switch | Kind::Count, _) => Err(unfit()),
            (_, DeValue::String(text)) => one(kind, text).map_err(|wrong| vec![(wrong, value.span())]),
            (_, _) => Err(unfit()),
        }
    }

    /// The value as TOML has it; secrets are not shown.
    pub fn toml(&self, kind: Kind) -> String {
        match self {
            Value::Text(_) if kind == Kind::Secret => "(secret)".to_owned(),
            Value::Text(text) => quoted(text),
            Value::List(items) => listed(items.iter().map(|item| quoted(item))),
            Value::Time(time) => quoted(&time_text(*time)),
            Value::Count(count) => count.to_string(),
            Value::Switch(yes) => yes.to_string(),
            Value::Tokens(tokens) => listed(tokens.iter().map(token::toml)),
        }
    }

    /// The value for programs; secrets are not shown.
    pub fn json(&self, kind: Kind) -> serde_json::Value {
        match self {
            Value::Text(_) if kind == Kind::Secret => json!("(secret)"),
            Value::Text(text) => json!(text),
            Value::List(items) => json!(items),
            Value::Time(time) => json!(time_text(*time)),
            Value::Count(count) => json!(count),
            Value::Switch(yes) => json!(yes),
            Value::Tokens(tokens) => tokens.iter().map(token::json).collect(),
        }
    }
}

/// What a value of this kind looks like, for people.
pub fn expected(kind: Kind) -> String {
    match kind {
        Kind::Name => "a name: 1 to 63 visible ASCII characters".to_owned(),
        Kind::Names => "a list of names, such as [\"n1\", \"n2\", \"n3\"]".to_owned(),
        Kind::Listen => "an IP address and a port, such as \"127.0.0.1:7600\" or \"[::1]:7600\"".to_owned(),
        Kind::Address => "a host and a port, such as \"n1:7601\"".to_owned(),
        Kind::Addresses => "a list of hosts with ports, such as [\"n1:7601\", \"n2:7601\"]".to_owned(),
        Kind::Network => "an IP address or the first of a network, such as \"::1\" or \"10.0.0.0/8\"".to_owned(),
        Kind::Networks => "a list of IP addresses and networks, such as [\"10.0.0.0/8\", \"::1\"]".to_owned(),
        Kind::Path => "a path".to_owned(),
        Kind::Paths => "a list of paths".to_owned(),
        Kind::Time => "a time with its unit (ms, s or min), such as \"250ms\" or \"10s\"".to_owned(),
        Kind::Count => "a number above zero".to_owned(),
        Kind::Switch => "true or false".to_owned(),
        Kind::Word(words) => one_of(words.iter().copied()),
        Kind::Filter => "error, warn, info, debug, trace, or a list such as \"info,node=debug\"".to_owned(),
        Kind::RedisUrl => "a URL such as \"redis://ringfence@redis:6379\", without a password".to_owned(),
        Kind::Secret => "a text".to_owned(),
        Kind::Tokens => "a list of tables with name, sha256, scopes and maybe domains".to_owned(),
    }
}

/// The text that reads back as this time.
pub fn time_text(time: Duration) -> String {
    match time.as_millis() {
        millis if millis > 0 && millis.is_multiple_of(60_000) => format!("{}min", millis / 60_000),
        millis if millis.is_multiple_of(1_000) => format!("{}s", millis / 1_000),
        millis => format!("{millis}ms"),
    }
}

fn one(kind: Kind, text: &str) -> Result<Value, Wrong> {
    let wrong = || Wrong::new(format!("`{text}` does not fit"), expected(kind));
    match kind {
        Kind::Name => NodeName::new(text).map(|_| text_of(text)).map_err(|_| wrong()),
        Kind::Listen => text.parse::<SocketAddr>().map(|_| text_of(text)).map_err(|_| wrong()),
        Kind::Address => {
            if is_address(text) {
                Ok(text_of(text))
            } else {
                Err(wrong())
            }
        }
        Kind::Network => match text.parse::<Network>() {
            Ok(_) => Ok(text_of(text)),
            Err(error) => Err(Wrong::new(format!("`{text}` does not fit: {error}"), expected(kind))),
        },
        Kind::Path => {
            if text.is_empty() {
                Err(wrong())
            } else {
                Ok(text_of(text))
            }
        }
        Kind::Time => cli::duration(text).map(Value::Time).map_err(|_| wrong()),
        Kind::Count => {
            let count: Option<u64> = text.replace('_', "").parse().ok();
            count.filter(|count| *count > 0).map(Value::Count).ok_or_else(wrong)
        }
        Kind::Switch => text.parse().map(Value::Switch).map_err(|_| wrong()),
        Kind::Word(words) if words.contains(&text) => Ok(text_of(text)),
        Kind::Word(words) => Err(Wrong::unknown(format!("`{text}` does not fit"), text, words.iter().copied())),
        Kind::Filter => match crate::logging::filter(text) {
            Ok(_) => Ok(text_of(text)),
            Err(_) => Err(wrong()),
        },
        // Whatever it is, it is not repeated: it may hold a password.
        Kind::RedisUrl => match text.parse::<RedisUrl>() {
            Ok(url) if !url.has_password() => Ok(text_of(text)),
            Ok(_) => Err(Wrong::new("a password has no place in the URL", "it in `redis.password_file`")),
            Err(error) => Err(Wrong::new(error.to_string(), expected(kind))),
        },
        Kind::Secret => Ok(text_of(text)),
        Kind::Names | Kind::Addresses | Kind::Networks | Kind::Paths | Kind::Tokens => Err(wrong()),
    }
}

fn text_of(text: &str) -> Value {
    Value::Text(text.to_owned())
}

/// `host:port` with a port above zero; an IPv6 address stands in brackets.
fn is_address(text: &str) -> bool {
    let Some((host, port)) = text.rsplit_once(':') else { return false };
    let host_fits = match host.strip_prefix('[') {
        Some(inner) => inner.strip_suffix(']').is_some_and(|inner| inner.parse::<std::net::Ipv6Addr>().is_ok()),
        None => !host.is_empty() && host.bytes().all(|byte| byte.is_ascii_graphic() && !b":/[]@".contains(&byte)),
    };
    let digits = port.bytes().all(|byte| byte.is_ascii_digit());
    host_fits && digits && port.parse::<u16>().is_ok_and(|port| port > 0)
}

/// `a, b`; nothing at all is an empty list.
fn list(of: Kind, text: &str) -> Result<Value, Wrong> {
    let items = text.split(',').map(str::trim).filter(|item| !item.is_empty());
    items.map(|item| one(of, item).map(|_| item.to_owned())).collect::<Result<_, _>>().map(Value::List)
}

fn list_from_toml(of: Kind, items: &[Spanned<DeValue<'_>>]) -> Result<Value, Vec<WrongAt>> {
    let mut wrong = Vec::new();
    let mut list = Vec::new();
    for item in items {
        match Value::from_toml(of, item) {
            Ok(Value::Text(text)) => list.push(text),
            Ok(_) => wrong.push((unfit(of, item.get_ref()), item.span())),
            Err(more) => wrong.extend(more),
        }
    }
    if wrong.is_empty() { Ok(Value::List(list)) } else { Err(wrong) }
}

/// A value of another type, or out of range.
pub fn unfit(kind: Kind, value: &DeValue<'_>) -> Wrong {
    let found = match value {
        DeValue::String(text) => format!("the text \"{text}\""),
        DeValue::Integer(number) => format!("the number {number}"),
        DeValue::Float(number) => format!("the number {number}"),
        DeValue::Boolean(yes) => yes.to_string(),
        DeValue::Datetime(_) => "a date".to_owned(),
        DeValue::Array(_) => "a list".to_owned(),
        DeValue::Table(_) => "a table".to_owned(),
    };
    Wrong::new(format!("{found} does not fit"), expected(kind))
}

/// A text in TOML's quotes: those of JSON are a part of them.
pub fn quoted(text: &str) -> String {
    json!(text).to_string()
}

pub fn listed(items: impl Iterator<Item = String>) -> String {
    format!("[{}]", items.collect::<Vec<_>>().join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_read_by_their_kind_or_refused() {
        let fits: [(Kind, &str, Value); 8] = [
            (Kind::Listen, "[::1]:7600", Value::Text("[::1]:7600".to_owned())),
            (Kind::Address, "n1.example:7601", Value::Text("n1.example:7601".to_owned())),
            (Kind::Addresses, "n1:7601, n2:7601,", Value::List(vec!["n1:7601".to_owned(), "n2:7601".to_owned()])),
            (Kind::Names, "", Value::List(Vec::new())),
            (Kind::Networks, "10.0.0.0/8,::1", Value::List(vec!["10.0.0.0/8".to_owned(), "::1".to_owned()])),
            (Kind::Time, "2min", Value::Time(Duration::from_secs(120))),
            (Kind::Count, "10_000_000", Value::Count(10_000_000)),
            (Kind::Switch, "false", Value::Switch(false)),
        ];
        for (kind, text, value) in fits {
            assert_eq!(Value::from_text(kind, text), Ok(value), "{text}");
        }
        let refused = [
            (Kind::Listen, "localhost:7600"),
            (Kind::Listen, "127.0.0.1"),
            (Kind::Address, "n1"),
            (Kind::Address, "n1:0"),
            (Kind::Address, "n1:+1"),
            (Kind::Address, "n1:70000"),
            (Kind::Address, ":7601"),
            (Kind::Address, "::1:7601"),
            (Kind::Address, "http://n1:7601"),
            (Kind::Addresses, "n1:7601,n2"),
            (Kind::Networks, "10.0.0.1/8"),
            (Kind::Networks, "gateway.example"),
            (Kind::Name, ""),
            (Kind::Name, "two words"),
            (Kind::Time, "10"),
            (Kind::Count, "0"),
            (Kind::Count, "-1"),
            (Kind::Switch, "yes"),
            (Kind::Word(&["text", "json"]), "jsno"),
            (Kind::Filter, "info,=="),
            (Kind::Path, ""),
            (Kind::RedisUrl, "redis"),
            (Kind::RedisUrl, "http://redis"),
            (Kind::RedisUrl, "redis://:secret@redis"),
            (Kind::Tokens, "ci"),
            (Kind::Tokens, "{ name = \"ci\" }"),
        ];
        for (kind, text) in refused {
            assert!(Value::from_text(kind, text).is_err(), "{kind:?} {text}");
        }
    }

    #[test]
    fn values_are_written_as_the_file_has_them_and_secrets_not_at_all() {
        assert_eq!(Value::Text("a \"b\"".to_owned()).toml(Kind::Path), r#""a \"b\"""#);
        assert_eq!(Value::Text("0123456789abcdef".to_owned()).toml(Kind::Secret), "(secret)");
        assert_eq!(Value::Time(Duration::from_millis(1_500)).toml(Kind::Time), "\"1500ms\"");
        assert_eq!(Value::Time(Duration::from_secs(0)).toml(Kind::Time), "\"0s\"");
        let digest = "21f1ad23759d3dc205994f04524c4ad14d2e54c999f5b1d42e5eb0b5e1e89211";
        let text =
            format!("[{{ name = \"ci\", sha256 = \"{digest}\", domains = [\"a\"], scopes = [\"read\", \"check\"] }}]");
        let tokens = Value::from_text(Kind::Tokens, &text).unwrap();
        let shown = tokens.toml(Kind::Tokens);
        assert_eq!(shown, r#"[{ name = "ci", sha256 = "(secret)", domains = ["a"], scopes = ["check", "read"] }]"#);
        assert!(!tokens.json(Kind::Tokens).to_string().contains(digest));
        let Value::Tokens(tokens) = tokens else { panic!("{tokens:?}") };
        assert_eq!((tokens[0].sha256[0], tokens[0].sha256[31]), (0x21, 0x11));
    }

    #[test]
    fn two_tokens_of_one_name_are_refused() {
        let token = "{ name = \"ci\", sha256 = \"21f1ad23759d3dc205994f04524c4ad14d2e54c999f5b1d42e5eb0b5e1e89211\", scopes = [\"read\"] }";
        let wrong = Value::from_text(Kind::Tokens, &format!("[{token}, {token}]")).unwrap_err();
        assert_eq!(wrong.message, "there are two tokens `ci`");
    }
}
