//! From the words of a command line to the body of a call. The fields' names are those of the table of calls.

use std::time::Duration;

use serde_json::{Map, Value, json};
use server::call::{Call, Field};

use crate::cli::{Acquire, Check, Inline, Key, Named, Peek, Renew, Reserve, Reset, Settle};

/// A call, as it is sent.
#[derive(Debug)]
pub struct Spoken {
    /// Which call.
    pub call: Call,
    /// Its body.
    pub body: Map<String, Value>,
}

impl Spoken {
    fn about(call: Call, key: &Key) -> Spoken {
        let pair = |(name, value): &(String, String)| (name.clone(), Value::from(value.as_str()));
        let attributes: Map<_, _> = key.attributes.iter().map(pair).collect();
        let limits: Vec<_> = key.inline.iter().map(Inline::spoken).collect();
        let spoken = Spoken { call, body: Map::new() };
        spoken
            .with(Field::Domain, Some(key.domain.as_str()))
            .with(Field::Attributes, Some(attributes))
            .with(Field::Inline, Some(limits).filter(|limits| !limits.is_empty()))
            .with(Field::Deadline, key.deadline.map(millis))
    }

    fn with(mut self, field: Field, value: Option<impl Into<Value>>) -> Spoken {
        if let Some(value) = value {
            self.body.insert(field.as_str().to_owned(), value.into());
        }
        self
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// What is not said is not sent, so that the node's own default holds.
fn set(switch: bool) -> Option<bool> {
    switch.then_some(true)
}

impl Inline {
    fn spoken(&self) -> Value {
        json!({ "name": self.name, "rate": self.rate, "key": self.key })
    }
}

impl Check {
    /// The check as it is sent.
    pub fn spoken(&self) -> Spoken {
        Spoken::about(Call::Check, &self.key)
            .with(Field::Cost, Some(self.cost))
            .with(Field::UpTo, set(self.up_to))
            .with(Field::Id, self.id.as_deref())
    }
}

impl Peek {
    /// The peek as it is sent.
    pub fn spoken(&self) -> Spoken {
        Spoken::about(Call::Peek, &self.key)
            .with(Field::Cost, Some(self.cost))
            .with(Field::Limit, self.limit.as_deref())
    }
}

impl Reserve {
    /// The reserve as it is sent.
    pub fn spoken(&self) -> Spoken {
        Spoken::about(Call::Reserve, &self.key)
            .with(Field::Cost, Some(self.cost))
            .with(Field::Ttl, Some(millis(self.ttl)))
            .with(Field::Id, self.id.as_deref())
    }
}

impl Settle {
    /// The settlement as it is sent.
    pub fn spoken(&self) -> Spoken {
        Spoken::about(Call::Settle, &self.key)
            .with(Field::Id, Some(self.id.as_str()))
            .with(Field::Cost, Some(self.cost))
            .with(Field::Debt, set(self.debt))
    }
}

impl Acquire {
    /// The acquisition as it is sent.
    pub fn spoken(&self) -> Spoken {
        Spoken::about(Call::Acquire, &self.key)
            .with(Field::Cost, Some(self.cost))
            .with(Field::Ttl, self.ttl.map(millis))
            .with(Field::Id, self.id.as_deref())
    }
}

impl Renew {
    /// The renewal as it is sent.
    pub fn spoken(&self) -> Spoken {
        self.named.spoken(Call::Renew).with(Field::Ttl, self.ttl.map(millis)).with(Field::Cost, Some(self.cost))
    }
}

impl Named {
    /// The call about it, as it is sent: there is only its name to say.
    pub fn spoken(&self, call: Call) -> Spoken {
        Spoken::about(call, &self.key).with(Field::Id, Some(self.id.as_str()))
    }
}

impl Reset {
    /// The reset as it is sent.
    pub fn spoken(&self) -> Spoken {
        Spoken::about(Call::Reset, &self.key).with(Field::Limit, self.limit.as_deref())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

    use clap::Parser as _;
    use server::json::asked_from_body;

    use super::*;
    use crate::cli::{Cli, Command};

    fn spoken(line: &str) -> Spoken {
        let command = Cli::try_parse_from(line.split_whitespace()).unwrap().command;
        match command {
            Command::Check(check) => check.spoken(),
            Command::Peek(peek) => peek.spoken(),
            Command::Reserve(reserve) => reserve.spoken(),
            Command::Settle(settle) => settle.spoken(),
            Command::Acquire(acquire) => acquire.spoken(),
            Command::Renew(renew) => renew.spoken(),
            Command::Release(named) => named.spoken(Call::Release),
            Command::Refund(named) => named.spoken(Call::Refund),
            Command::Reset(reset) => reset.spoken(),
            Command::Dev(_)
            | Command::Serve(_)
            | Command::Config(_)
            | Command::Policy(_)
            | Command::Cluster(_)
            | Command::Top(_)
            | Command::Healthcheck
            | Command::Completion { .. }
            | Command::Man { .. }
            | Command::Errors(_) => panic!("{line} is no call"),
        }
    }

    #[test]
    fn every_field_of_every_call_can_be_said_and_is_read_as_it_was_said() {
        for line in [
            "ringfence check a=b --domain d --inline l=5/s --cost 5 --up-to --id x --deadline 50ms",
            "ringfence peek a=b --domain d --inline l=5/s --cost 5 --limit l --deadline 50ms",
            "ringfence reserve a=b --domain d --inline l=5/s --cost 5 --ttl 2min --id x --deadline 50ms",
            "ringfence acquire a=b --domain d --inline l=5/s --cost 5 --ttl 2min --id x --deadline 50ms",
            "ringfence settle a=b --domain d --inline l=5/s --id x --cost 5 --debt --deadline 50ms",
            "ringfence renew a=b --domain d --inline l=5/s --id x --cost 5 --ttl 2min --deadline 50ms",
            "ringfence release a=b --domain d --inline l=5/s --id x --deadline 50ms",
            "ringfence refund a=b --domain d --inline l=5/s --id x --deadline 50ms",
            "ringfence reset a=b --domain d --inline l=5/s --limit l --deadline 50ms",
        ] {
            let Spoken { call, body } = spoken(line);
            assert!(line.starts_with(&format!("ringfence {} ", call.word())), "{line} is {}", call.word());
            let said: Vec<_> = body.keys().map(String::as_str).collect();
            let mut takes: Vec<_> = call.takes().iter().map(|field| field.as_str()).collect();
            takes.sort_unstable();
            assert_eq!(said, takes, "{line}");
            let asked = asked_from_body(call, Value::from(body).to_string().as_bytes()).unwrap();
            assert_eq!((asked.domain.as_str(), asked.call), ("d", call));
        }
    }

    #[test]
    fn what_was_not_said_is_not_sent() {
        let said = |line| spoken(line).body.keys().cloned().collect::<Vec<_>>();
        assert_eq!(said("ringfence check a=b"), ["attributes", "cost", "domain"]);
        assert_eq!(said("ringfence reset"), ["attributes", "domain"]);
        assert!(Cli::try_parse_from(["ringfence", "refund", "a=b"]).is_err(), "a refund is of something");
        assert!(Cli::try_parse_from(["ringfence", "reserve", "a=b", "--cost", "5"]).is_err(), "a reserve ends");
    }
}
