//! The settings as the node wants them: typed, and held against each other. What does not fit together is told like any
//! other mistake, at the place of the value that is at fault.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use node::config::{Bounds, Given};
use ownership::lease::Terms;
use server::Token;

use crate::config::layers::{Effective, Said};
use crate::config::mistake::{Mistake, Origin, Wrong};
use crate::config::table::Kind;
use crate::config::value::{Value, expected};

/// Everything a node is told, but for the secrets' bytes and the policies' text.
#[derive(Debug)]
pub struct NodeSettings {
    /// `node.name`
    pub name: String,
    /// `node.data_dir`
    pub data_dir: PathBuf,
    /// `node.drain_timeout`
    pub drain_timeout: Duration,
    /// `[api]`
    pub api: Port,
    /// `[peer]`
    pub peer: Port,
    /// `[admin]`
    pub admin: Port,
    /// `admin.open_metrics`
    pub open_metrics: bool,
    /// `[cluster]`
    pub cluster: ClusterSettings,
    /// `[lease]`
    pub terms: Terms,
    /// Which of the lease's times somebody said.
    pub given: Given,
    /// `[limits]`
    pub bounds: Bounds,
    /// `policy.initial`
    pub policies: Vec<Placed<PathBuf>>,
    /// `auth.tokens`
    pub tokens: Vec<Token>,
    /// `[log]`
    pub log: LogSettings,
}

/// A port of this node.
#[derive(Debug)]
pub struct Port {
    /// Where to listen, and where that was said.
    pub listen: Placed<SocketAddr>,
    /// What others are told; `None`: the address that was bound.
    pub advertise: Option<String>,
}

/// `[cluster]`
#[derive(Clone, Debug)]
pub struct ClusterSettings {
    /// `cluster.name`
    pub name: String,
    /// `cluster.seeds`
    pub seeds: Vec<String>,
    /// `cluster.founders`
    pub founders: Vec<String>,
    /// Where the secret comes from.
    pub secret: SecretSource,
    /// Where the second accepted secret comes from, if there is one.
    pub accept: Option<SecretSource>,
}

/// Where a secret comes from.
#[derive(Clone, Debug)]
pub enum SecretSource {
    /// From the environment; it stays what it was for as long as the process lives.
    Given(Placed<String>),
    /// From a file, which can be read anew.
    File(Placed<PathBuf>),
}

/// `[log]`
#[derive(Clone, Debug)]
pub struct LogSettings {
    /// Whether lines are JSON objects.
    pub json: bool,
    /// Which lines are written.
    pub filter: String,
}

/// A value that remembers where it was said.
#[derive(Clone, Debug)]
pub struct Placed<T> {
    /// The key, for messages.
    pub key: &'static str,
    /// The value.
    pub value: T,
    /// Where it was said.
    pub origin: Origin,
}

impl NodeSettings {
    /// The settings, or `None` with what is wrong in `mistakes`; everything that can be looked at is, whatever else is
    /// wrong.
    pub fn of(effective: &Effective, mistakes: &mut Vec<Mistake>) -> Option<NodeSettings> {
        if !effective.is_whole() {
            return None;
        }
        let before = mistakes.len();
        let mut reader = Reader { effective, mistakes };
        let tokens = reader.tokens();
        reader.refuse_public_admin(&tokens);
        let (name, cluster, ports) = (reader.text("node.name"), reader.cluster(), reader.ports());
        let (terms, bounds) = (reader.terms(), reader.bounds());
        let (data_dir, policies, log) = (reader.text("node.data_dir"), reader.paths("policy.initial"), reader.log());
        let (drain_timeout, open_metrics) = (reader.time("node.drain_timeout"), reader.switch("admin.open_metrics"));
        let [api, peer, admin] = ports?;
        let settings = NodeSettings {
            name: name?,
            data_dir: data_dir?.into(),
            drain_timeout: drain_timeout?,
            api,
            peer,
            admin,
            open_metrics: open_metrics?,
            cluster: cluster?,
            terms: terms?,
            given: given(effective),
            bounds: bounds?,
            policies,
            tokens,
            log: log?,
        };
        (mistakes.len() == before).then_some(settings)
    }
}

/// What somebody said; the rest are defaults, which give way to what genesis holds.
fn given(effective: &Effective) -> Given {
    let is_given = |key| effective.said(key).origin.rank() > 0;
    Given { ttl: is_given("lease.ttl"), renew: is_given("lease.renew"), ..Given::NOTHING }
}

struct Reader<'e> {
    effective: &'e Effective,
    mistakes: &'e mut Vec<Mistake>,
}

impl Reader<'_> {
    fn said(&self, key: &'static str) -> &Said {
        self.effective.said(key)
    }

    fn wrong(&mut self, key: &'static str, wrong: Wrong) {
        let origin = self.said(key).origin.clone();
        self.mistakes.push(wrong.at(origin));
    }

    fn text(&self, key: &'static str) -> Option<String> {
        match &self.said(key).value {
            Some(Value::Text(text)) => Some(text.clone()),
            Some(_) | None => None,
        }
    }

    fn list(&self, key: &'static str) -> Option<Vec<String>> {
        match &self.said(key).value {
            Some(Value::List(items)) => Some(items.clone()),
            Some(_) | None => None,
        }
    }

    fn time(&self, key: &'static str) -> Option<Duration> {
        match self.said(key).value {
            Some(Value::Time(time)) => Some(time),
            Some(_) | None => None,
        }
    }

    fn switch(&self, key: &'static str) -> Option<bool> {
        match self.said(key).value {
            Some(Value::Switch(yes)) => Some(yes),
            Some(_) | None => None,
        }
    }

    fn tokens(&self) -> Vec<Token> {
        match &self.said("auth.tokens").value {
            Some(Value::Tokens(tokens)) => tokens.clone(),
            Some(_) | None => Vec::new(),
        }
    }

    fn paths(&self, key: &'static str) -> Vec<Placed<PathBuf>> {
        let origin = &self.said(key).origin;
        let paths = self.list(key).unwrap_or_default();
        paths.into_iter().map(|path| Placed { key, value: path.into(), origin: origin.clone() }).collect()
    }

    fn log(&self) -> Option<LogSettings> {
        Some(LogSettings { json: self.text("log.format")? == "json", filter: self.text("log.level")? })
    }

    fn ports(&mut self) -> Option<[Port; 3]> {
        let api = self.port("api.listen", "api.advertise");
        let peer = self.port("peer.listen", "peer.advertise");
        let admin = self.port("admin.listen", "admin.advertise");
        let ports = [api?, peer?, admin?];
        self.refuse_equal_ports(&ports);
        Some(ports)
    }

    fn port(&mut self, listen: &'static str, advertise: &'static str) -> Option<Port> {
        let address: SocketAddr = self.text(listen)?.parse().ok()?;
        let told = self.text(advertise);
        if let Some(told) = &told
            && told.parse::<SocketAddr>().is_ok_and(|told| told.ip().is_unspecified())
        {
            let wrong = Wrong::new(format!("`{advertise}`: nobody can call {told}"), expected(Kind::Address));
            self.wrong(advertise, wrong);
        } else if told.is_none() && self.said(advertise).origin.rank() == 0 && address.ip().is_unspecified() {
            let message = format!("`{listen}` is every address of this machine, and others must be told one of them");
            self.wrong(
                listen,
                Wrong::new(message, format!("`{advertise}` beside it, such as \"n1:{}\"", address.port())),
            );
        }
        let listen = Placed { key: listen, value: address, origin: self.said(listen).origin.clone() };
        Some(Port { listen, advertise: told })
    }

    /// Two listeners cannot share a port; that is better said by their names than by the system.
    fn refuse_equal_ports(&mut self, ports: &[Port; 3]) {
        for (at, port) in ports.iter().enumerate() {
            let same = ports[..at].iter().find(|other| {
                let (a, b) = (port.listen.value, other.listen.value);
                let meet = a.ip() == b.ip() || a.ip().is_unspecified() || b.ip().is_unspecified();
                a.port() == b.port() && a.port() != 0 && meet
            });
            if let Some(other) = same {
                let message = format!("`{}` is the port of `{}`", port.listen.key, other.listen.key);
                self.wrong(port.listen.key, Wrong::new(message, "a port of its own for each"));
            }
        }
    }

    fn refuse_public_admin(&mut self, tokens: &[Token]) {
        let address: Option<SocketAddr> = self.text("admin.listen").and_then(|text| text.parse().ok());
        let public = address.is_some_and(|address| !address.ip().to_canonical().is_loopback());
        // Tokens that were said wrongly are a mistake of their own.
        if public && tokens.is_empty() && self.said("auth.tokens").value.is_some() {
            self.wrong(
                "admin.listen",
                Wrong::new(
                    "`admin.listen` can be reached by other machines, and there is no token: anybody could change policies",
                    "an address of this machine alone, such as 127.0.0.1:7602, or a token in `auth.tokens`",
                ),
            );
        }
    }

    fn cluster(&mut self) -> Option<ClusterSettings> {
        let (name, seeds) = (self.text("cluster.name"), self.list("cluster.seeds"));
        let founders = self.founders();
        let secret = self.secret("cluster.secret", "cluster.secret_file");
        let accept = self.secret("cluster.secret_accept", "cluster.secret_accept_file");
        if secret.is_none()
            && ["cluster.secret", "cluster.secret_file"].map(|key| self.said(key).origin.rank()) == [0, 0]
        {
            let wrong = Wrong::new(
                "the cluster has no secret, and without one anybody could join it",
                "a file with at least 16 bytes, the same on every node: `head -c 32 /dev/urandom | base64 > FILE`",
            );
            self.wrong("cluster.secret_file", wrong);
        }
        Some(ClusterSettings { name: name?, seeds: seeds?, founders: founders?, secret: secret?, accept })
    }

    fn founders(&mut self) -> Option<Vec<String>> {
        let said = self.said("cluster.founders");
        let missing = said.value.is_none() && said.origin.rank() == 0;
        let founders = self.list("cluster.founders").filter(|founders| !founders.is_empty());
        if founders.is_none() && (missing || said.value.is_some()) {
            let wrong = Wrong::new(
                "nobody is named who founds the cluster",
                "the names of the founding nodes, the same list on every node, such as [\"n1\", \"n2\", \"n3\"]",
            );
            self.wrong("cluster.founders", wrong);
        }
        let mut sorted = founders.clone()?;
        sorted.sort();
        if let Some(twice) = sorted.windows(2).find(|pair| pair[0] == pair[1]) {
            self.wrong("cluster.founders", Wrong::new(format!("`{}` stands there twice", twice[0]), "each name once"));
        }
        founders
    }

    /// The text or the file, whichever was said higher up; both on one level is a mistake.
    fn secret(&mut self, text: &'static str, file: &'static str) -> Option<SecretSource> {
        let ranks = (self.said(text).origin.rank(), self.said(file).origin.rank());
        if ranks.0 == ranks.1 && ranks.0 > 0 {
            self.wrong(file, Wrong::new(format!("`{text}` and `{file}` are both said"), "one of them"));
            return None;
        }
        let key = if ranks.0 > ranks.1 { text } else { file };
        let (value, origin) = (self.text(key)?, self.said(key).origin.clone());
        Some(if key == text {
            SecretSource::Given(Placed { key, value, origin })
        } else {
            SecretSource::File(Placed { key, value: value.into(), origin })
        })
    }

    fn terms(&mut self) -> Option<Terms> {
        let (ttl, renew) = (self.time("lease.ttl")?, self.time("lease.renew")?);
        let (d_max, rho) = (Terms::DEFAULT.d_max(), Terms::DEFAULT.rho_per_mille());
        match Terms::new(ttl.into(), renew.into(), d_max, rho) {
            Ok(terms) => Some(terms),
            Err(error) => {
                // Whichever of the two somebody said is at fault; of both, the length of the lease.
                let key = if given(self.effective).ttl { "lease.ttl" } else { "lease.renew" };
                self.wrong(key, Wrong::new(format!("`{key}`: {error}"), "a longer ttl, or the defaults"));
                None
            }
        }
    }

    fn bounds(&mut self) -> Option<Bounds> {
        let keys_max = match self.said("limits.max_keys").value {
            Some(Value::Count(count)) => count,
            Some(_) | None => return None,
        };
        let (default, max) = (self.time("limits.deadline_default")?, self.time("limits.deadline_max")?);
        for (key, time) in [("limits.deadline_default", default), ("limits.deadline_max", max)] {
            if time.is_zero() {
                self.wrong(key, Wrong::new(format!("`{key}`: nothing can be asked in no time"), "at least 1ms"));
            }
        }
        if default > max {
            let key = "limits.deadline_default";
            self.wrong(key, Wrong::new(format!("`{key}` is longer than `limits.deadline_max`"), "the shorter one"));
        }
        Some(Bounds { keys_max, deadline_default: default.into(), deadline_max: max.into() })
    }
}
