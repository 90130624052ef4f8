//! Where the store is and how long it may take. Read once, from what an operator wrote; a password goes in and comes out in
//! no message.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use redis::{ConnectionAddr, IntoConnectionInfo as _, ProtocolVersion, RedisConnectionInfo};
use thiserror::Error;

use crate::dial::Dialler;

/// The longest name of a cluster, in bytes.
pub const CLUSTER_NAME_MAX: usize = 255;

/// What a store is opened with.
#[derive(Clone, Debug)]
pub struct StoreConfig {
    /// Where Redis is, and who asks.
    pub url: RedisUrl,
    /// The cluster's name: 1 to [`CLUSTER_NAME_MAX`] bytes.
    pub cluster: String,
    /// A file of certificates in PEM, against which a `rediss://` server is held; `None` for those that the system trusts.
    pub ca_file: Option<PathBuf>,
    /// How long name, TCP, TLS and login may take together; by default 1 s.
    pub connect_timeout: Duration,
    /// How long the answer to a claim, or to the rewriting of a whole partition, may take; by default 1 s.
    pub claim_timeout: Duration,
    /// How long the answer to a write may take; by default 200 ms.
    pub write_timeout: Duration,
}

impl StoreConfig {
    /// The store of the cluster of that name at `url`, and defaults for the rest.
    pub fn new(url: RedisUrl, cluster: impl Into<String>) -> StoreConfig {
        StoreConfig {
            url,
            cluster: cluster.into(),
            ca_file: None,
            connect_timeout: Duration::from_secs(1),
            claim_timeout: Duration::from_secs(1),
            write_timeout: Duration::from_millis(200),
        }
    }

    /// Whether a store can be opened like that, without opening one.
    ///
    /// # Errors
    ///
    /// [`BadConfig`]; a file of certificates is read here.
    pub fn check(&self) -> Result<(), BadConfig> {
        if !(1..=CLUSTER_NAME_MAX).contains(&self.cluster.len()) {
            return Err(BadConfig::Name);
        }
        Dialler::new(self).map(drop)
    }
}

/// Why no store can be opened like that. The configuration's doing; nothing was sent.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum BadConfig {
    /// No key can be made of that name.
    #[error("the cluster's name must have 1 to {CLUSTER_NAME_MAX} bytes")]
    Name,
    /// The certificates cannot be used.
    #[error("certificates of {}: {why}", file.as_ref().map_or_else(|| "the system".to_owned(), |file| file.display().to_string()))]
    Certificates {
        /// The file; `None` for those of the system.
        file: Option<PathBuf>,
        /// What is wrong with them.
        why: String,
    },
    /// Certificates were given for a connection without TLS.
    #[error("a file of certificates is given, and the URL begins with redis://: TLS wants rediss://")]
    NoTls,
    /// No certificate can be made out to that host.
    #[error("{0} is no name that a certificate can have")]
    Host(String),
}

/// Not a URL of a Redis server. The configuration's doing. What was written is not repeated, since it may hold a password.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("not a URL of a Redis server: {0}")]
pub struct BadUrl(&'static str);

/// `redis://[user][:password]@host[:port][/db]`, or `rediss://` for TLS. Neither its `Debug` nor its `Display` tells the
/// password.
#[derive(Clone)]
pub struct RedisUrl {
    pub(crate) host: String,
    pub(crate) port: u16,
    pub(crate) tls: bool,
    pub(crate) login: RedisConnectionInfo,
}

impl RedisUrl {
    /// Whether it says a password.
    pub fn has_password(&self) -> bool {
        self.login.password().is_some()
    }

    /// The same, with this password: for one that is kept apart from the rest.
    #[must_use]
    pub fn with_password(self, password: &str) -> RedisUrl {
        RedisUrl { login: self.login.set_password(password), ..self }
    }
}

impl FromStr for RedisUrl {
    type Err = BadUrl;

    fn from_str(text: &str) -> Result<RedisUrl, BadUrl> {
        let (tls, rest) = match text.split_once("://") {
            Some(("redis", rest)) => (false, rest),
            Some(("rediss", rest)) => (true, rest),
            _ => return Err(BadUrl("it must begin with redis:// or rediss://")),
        };
        if rest.contains(['?', '#']) {
            return Err(BadUrl("it takes no options; in a password, write ? as %3F and # as %23"));
        }
        let malformed = |_| BadUrl("it must read redis://[user][:password]@host[:port][/db]");
        let parsed = format!("redis://{rest}").into_connection_info().map_err(malformed)?;
        let ConnectionAddr::Tcp(host, port) = parsed.addr() else { return Err(BadUrl("it must name a host")) };
        // The older protocol asks for no permission of its own, and the crate's name is nothing that Redis must know.
        let login = parsed.redis_settings().clone().set_protocol(ProtocolVersion::RESP2).set_skip_set_lib_name();
        Ok(RedisUrl { host: host.clone(), port: *port, tls, login })
    }
}

impl fmt::Display for RedisUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.tls { "rediss" } else { "redis" };
        let user = self.login.username().unwrap_or_default();
        let login = match self.login.password() {
            Some(_) => format!("{user}:***@"),
            None if user.is_empty() => String::new(),
            None => format!("{user}@"),
        };
        let host = if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() };
        write!(f, "{scheme}://{login}{host}:{}/{}", self.port, self.login.db())
    }
}

impl fmt::Debug for RedisUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RedisUrl({self})")
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_read_with_all_its_parts_and_told_without_its_password() {
        for (text, told) in [
            ("redis://localhost", "redis://localhost:6379/0"),
            ("redis://:secret@10.0.0.1:7000/2", "redis://:***@10.0.0.1:7000/2"),
            ("rediss://ringfence:sec%23ret@redis.example:6380", "rediss://ringfence:***@redis.example:6380/0"),
            ("redis://ringfence@[::1]:1", "redis://ringfence@[::1]:1/0"),
        ] {
            let url: RedisUrl = text.parse().unwrap();
            assert_eq!(url.to_string(), told);
            assert_eq!(url.has_password(), told.contains(":***@"), "{text}");
            let config = StoreConfig::new(url.with_password("secret"), "c");
            assert!(!format!("{config:?}").contains("sec"), "{config:?}");
        }
        let url: RedisUrl = "rediss://ringfence:sec%23ret@redis.example".parse().unwrap();
        assert_eq!((url.login.username(), url.login.password()), (Some("ringfence"), Some("sec#ret")));
    }

    #[test]
    fn what_is_no_url_of_a_server_is_refused_without_repeating_it() {
        for text in [
            "",
            "localhost:6379",
            "http://secret",
            "unix:///run/secret",
            "redis://",
            "redis://:secret@",
            "redis://:secret@host/x",
            "redis://:secret@host:99999",
            "redis://:secret@host/0?protocol=resp3",
            "rediss://:secret@host#insecure",
            "redis://:sec#ret@host",
        ] {
            let refused = text.parse::<RedisUrl>().unwrap_err().to_string();
            assert!(!refused.contains("secret"), "{text}: {refused}");
        }
    }
}
