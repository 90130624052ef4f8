//! How a client is made: which nodes, and a bound for everything that could go on for ever.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tonic::metadata::{Ascii, MetadataValue};
use tonic::transport::{Endpoint, Uri};

use crate::backoff::Backoff;
use crate::client::Client;
use crate::error::ConfigError;

/// Nodes that one client may be given.
pub const NODES_MAX: usize = 64;

/// How long a check waits for its answer, unless it or the client says otherwise.
pub const DEADLINE_DEFAULT: Duration = Duration::from_millis(250);

/// The longest deadline: nodes answer much earlier, so a minute is already a mistake.
pub const DEADLINE_MAX: Duration = Duration::from_secs(60);

/// Checks in one batch, unless configured; a node takes [`BATCH_MAX`].
pub const BATCH_DEFAULT: usize = 512;

/// Checks in one batch at most: what a node takes.
pub const BATCH_MAX: usize = 1_000;

/// Checks under way in one client, unless configured. One more is answered
/// [`QueueFull`](crate::CheckError::QueueFull) at once.
pub const QUEUE_DEFAULT: usize = 65_536;

/// Checks under way in one client at most.
pub const QUEUE_MAX: usize = 1 << 20;

/// How long it may take to connect to a node and open a stream, unless configured.
pub const CONNECT_TIMEOUT_DEFAULT: Duration = Duration::from_millis(500);

/// Makes a [`Client`]. Only [`nodes`](Builder::nodes) must be given.
#[derive(Clone)]
pub struct Builder {
    nodes: Vec<String>,
    token: Option<String>,
    bounds: Bounds,
}

/// What keeps everything finite.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    pub(crate) deadline: Duration,
    pub(crate) batch_max: usize,
    pub(crate) queue_max: usize,
    pub(crate) connect_timeout: Duration,
    pub(crate) backoff: Backoff,
}

/// One node as it is dialled.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    pub(crate) address: Arc<str>,
    pub(crate) endpoint: Endpoint,
}

impl Default for Builder {
    fn default() -> Builder {
        let bounds = Bounds {
            deadline: DEADLINE_DEFAULT,
            batch_max: BATCH_DEFAULT,
            queue_max: QUEUE_DEFAULT,
            connect_timeout: CONNECT_TIMEOUT_DEFAULT,
            backoff: Backoff::DEFAULT,
        };
        Builder { nodes: Vec::new(), token: None, bounds }
    }
}

impl Builder {
    /// The nodes to ask, each as `host:port` of its API. They are tried in this order, beginning with the first that is
    /// not known to be out of reach; any node answers any check, so clients that rotate the list spread their load.
    #[must_use]
    pub fn nodes(mut self, nodes: impl IntoIterator<Item = impl Into<String>>) -> Builder {
        self.nodes = nodes.into_iter().map(Into::into).collect();
        self
    }

    /// How long a check waits for its answer, all attempts together, unless it has a deadline of its own: 1 ms to a
    /// minute, [`DEADLINE_DEFAULT`] if not given.
    #[must_use]
    pub fn deadline(mut self, deadline: Duration) -> Builder {
        self.bounds.deadline = deadline;
        self
    }

    /// The caller's token, sent as `authorization: Bearer`.
    #[must_use]
    pub fn token(mut self, token: impl Into<String>) -> Builder {
        self.token = Some(token.into());
        self
    }

    /// Checks in one batch at most: 1 to [`BATCH_MAX`], [`BATCH_DEFAULT`] if not given.
    #[must_use]
    pub fn batch_max(mut self, checks: usize) -> Builder {
        self.bounds.batch_max = checks;
        self
    }

    /// Checks under way at once at most: 1 to [`QUEUE_MAX`], [`QUEUE_DEFAULT`] if not given.
    #[must_use]
    pub fn queue_max(mut self, checks: usize) -> Builder {
        self.bounds.queue_max = checks;
        self
    }

    /// How long it may take to connect to a node and open a stream: 1 ms to a minute, [`CONNECT_TIMEOUT_DEFAULT`] if
    /// not given.
    #[must_use]
    pub fn connect_timeout(mut self, timeout: Duration) -> Builder {
        self.bounds.connect_timeout = timeout;
        self
    }

    /// How long a node that failed is left alone before it is tried again: about `first` after the first failure, twice
    /// as long after each further one, `most` at most; every pause is shortened by up to half, by chance, so that clients
    /// do not come back in step. 1 ms to a minute each; 50 ms and 2 s if not given.
    #[must_use]
    pub fn backoff(mut self, first: Duration, most: Duration) -> Builder {
        self.bounds.backoff = Backoff { first, most };
        self
    }

    /// Starts the client: it begins to connect to every node, and does not wait for any. Must be called inside a Tokio
    /// runtime.
    ///
    /// # Errors
    ///
    /// What is wrong with the configuration; nothing was started.
    pub fn build(self) -> Result<Client, ConfigError> {
        if !(1..=NODES_MAX).contains(&self.nodes.len()) {
            return Err(ConfigError::Nodes { max: NODES_MAX, found: self.nodes.len() });
        }
        self.bounds.check()?;
        let targets = self.nodes.iter().map(|address| target(address)).collect::<Result<Vec<_>, _>>()?;
        let token = self.token.as_deref().map(bearer).transpose()?;
        let runtime = tokio::runtime::Handle::try_current().map_err(|_| ConfigError::NoRuntime)?;
        Ok(Client::start(targets, token, self.bounds, &runtime))
    }
}

impl fmt::Debug for Builder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let token = self.token.as_ref().map(|_| "(hidden)");
        f.debug_struct("Builder")
            .field("nodes", &self.nodes)
            .field("token", &token)
            .field("bounds", &self.bounds)
            .finish()
    }
}

impl Bounds {
    fn check(&self) -> Result<(), ConfigError> {
        time("deadline", self.deadline)?;
        time("connect_timeout", self.connect_timeout)?;
        time("backoff", self.backoff.first)?;
        time("backoff", self.backoff.most)?;
        count("batch_max", self.batch_max, BATCH_MAX)?;
        count("queue_max", self.queue_max, QUEUE_MAX)
    }
}

/// Whether a length of time is one that a client can work with.
pub(crate) fn time(name: &'static str, found: Duration) -> Result<(), ConfigError> {
    if (Duration::from_millis(1)..=DEADLINE_MAX).contains(&found) {
        return Ok(());
    }
    Err(ConfigError::OutOfRange { name, expected: "1 ms to 60 s".to_owned(), found: format!("{found:?}") })
}

fn count(name: &'static str, found: usize, max: usize) -> Result<(), ConfigError> {
    if (1..=max).contains(&found) {
        return Ok(());
    }
    Err(ConfigError::OutOfRange { name, expected: format!("1 to {max}"), found: found.to_string() })
}

fn target(address: &str) -> Result<Target, ConfigError> {
    let wrong = || ConfigError::Address { address: address.to_owned() };
    let uri: Uri = format!("http://{address}").parse().map_err(|_| wrong())?;
    let whole = uri.authority().is_some_and(|authority| authority.as_str() == address && !address.contains('@'));
    if !whole || uri.port_u16().is_none_or(|port| port == 0) {
        return Err(wrong());
    }
    Ok(Target { address: address.into(), endpoint: Endpoint::from(uri) })
}

fn bearer(token: &str) -> Result<MetadataValue<Ascii>, ConfigError> {
    if token.is_empty() || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(ConfigError::Token);
    }
    let mut value: MetadataValue<Ascii> = format!("Bearer {token}").parse().map_err(|_| ConfigError::Token)?;
    value.set_sensitive(true);
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn builder() -> Builder {
        Client::builder().nodes(["localhost:7600"])
    }

    #[tokio::test]
    async fn what_cannot_work_is_told_before_anything_starts() {
        let second = Duration::from_secs(1);
        for (wrong, said) in [
            (Client::builder(), "nodes: expected 1 to 64 addresses, found 0"),
            (builder().nodes(["localhost"]), r#"nodes: expected host:port, found "localhost""#),
            (builder().nodes(["http://a:1"]), r#"nodes: expected host:port, found "http://a:1""#),
            (builder().nodes(["a:1/x"]), r#"nodes: expected host:port, found "a:1/x""#),
            (builder().nodes(["me@a:1"]), r#"nodes: expected host:port, found "me@a:1""#),
            (builder().nodes(["a:0"]), r#"nodes: expected host:port, found "a:0""#),
            (builder().nodes([""]), r#"nodes: expected host:port, found """#),
            (builder().token("a b"), "token: expected visible ASCII characters"),
            (builder().token(""), "token: expected visible ASCII characters"),
            (builder().deadline(Duration::ZERO), "deadline: expected 1 ms to 60 s, found 0ns"),
            (builder().backoff(second, 61 * second), "backoff: expected 1 ms to 60 s, found 61s"),
            (builder().batch_max(1_001), "batch_max: expected 1 to 1000, found 1001"),
            (builder().queue_max(0), "queue_max: expected 1 to 1048576, found 0"),
        ] {
            assert_eq!(wrong.build().unwrap_err().to_string(), said);
        }
        for right in ["localhost:7600", "127.0.0.1:1", "[::1]:7600", "node-1.example.org:65535"] {
            assert!(builder().nodes([right]).build().is_ok(), "{right}");
        }
    }

    #[test]
    fn outside_a_runtime_there_is_no_client() {
        assert_eq!(builder().build().unwrap_err(), ConfigError::NoRuntime);
    }

    #[test]
    fn a_token_is_not_shown() {
        assert!(!format!("{:?}", builder().token("secret-7")).contains("secret-7"));
    }
}
