//! The settings as the node wants them: typed, and held against each other. What does not fit together is told like any
//! other mistake, at the place of the value that is at fault.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use node::config::{Bounds, Given};
use ownership::lease::Terms;
use server::{NETWORKS_MAX, Network, Token};
use store::RedisUrl;

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
    /// `api.trusted_proxies`
    pub trusted_proxies: Vec<Network>,
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
    /// `[redis]`
    pub redis: Option<RedisSettings>,
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

/// `[redis]`
#[derive(Clone, Debug)]
pub struct RedisSettings {
    /// `redis.url`
    pub url: RedisUrl,
    /// Where the password comes from, if there is one.
    pub password: Option<SecretSource>,
    /// `redis.ca_file`
    pub ca_file: Option<PathBuf>,
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
        let trusted_proxies = reader.networks("api.trusted_proxies");
        let redis = reader.redis();
        let [api, peer, admin] = ports?;
        let settings = NodeSettings {
            name: name?,
            data_dir: data_dir?.into(),
            drain_timeout: drain_timeout?,
            api,
            trusted_proxies: trusted_proxies?,
            peer,
            admin,
            open_metrics: open_metrics?,
            cluster: cluster?,
            terms: terms?,
            given: given(effective),
            bounds: bounds?,
            redis,
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

    fn networks(&mut self, key: &'static str) -> Option<Vec<Network>> {
        let texts = self.list(key)?;
        if texts.len() > NETWORKS_MAX {
            let wrong = Wrong::new(format!("`{key}` has {} networks", texts.len()), format!("at most {NETWORKS_MAX}"));
            self.wrong(key, wrong);
        }
        texts.iter().map(|text| text.parse().ok()).collect()
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

    fn redis(&mut self) -> Option<RedisSettings> {
        let password = self.secret("redis.password", "redis.password_file");
        let Some(url) = self.text("redis.url") else {
            for key in ["redis.password", "redis.password_file", "redis.ca_file"] {
                if self.said(key).value.is_some() {
                    self.wrong(key, Wrong::new(format!("`{key}` is said, and `redis.url` is not"), "`redis.url`"));
                }
            }
            return None;
        };
        // Read before, as its kind is.
        let url = url.parse().ok()?;
        Some(RedisSettings { url, password, ca_file: self.text("redis.ca_file").map(PathBuf::from) })
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::config::layers::Sources;
    use crate::config::mistake::FileText;

    const LEAST: &str = "[cluster]\nfounders = [\"n1\"]\nsecret_file = \"/run/secret\"\n";
    const TOKEN: &str = "[{ name = \"ops\", sha256 = \"21f1ad23759d3dc205994f04524c4ad14d2e54c999f5b1d42e5eb0b5e1e89211\", scopes = [\"admin\"] }]";

    fn sources(text: &str, flags: &[(&'static str, &str)]) -> Sources {
        Sources {
            flags: flags.iter().map(|(key, text)| (*key, (*text).to_owned())).collect(),
            environment: Vec::new(),
            file: Some(Arc::new(FileText { path: "n.toml".into(), text: text.to_owned() })),
            host_name: "box".to_owned(),
        }
    }

    fn settled(sources: &Sources) -> Result<NodeSettings, Vec<String>> {
        let mut mistakes = Vec::new();
        let effective = Effective::of(sources, &mut mistakes);
        let settings = NodeSettings::of(&effective, &mut mistakes);
        let shown = |mistake: &Mistake| format!("{}: {}", mistake.origin.place(), mistake.wrong.message);
        settings.filter(|_| mistakes.is_empty()).ok_or_else(|| mistakes.iter().map(shown).collect())
    }

    /// What is wrong when these flags come on top of the least that a node must be told.
    fn wrong(flags: &[(&'static str, &str)]) -> Vec<String> {
        settled(&sources(LEAST, flags)).unwrap_err()
    }

    #[test]
    fn the_least_that_a_node_must_be_told_is_who_founds_and_where_the_secret_is() {
        let settings = settled(&sources(LEAST, &[])).unwrap();
        assert_eq!((settings.name.as_str(), settings.cluster.name.as_str()), ("box", "main"));
        assert_eq!(settings.api.advertise, None, "the address that is bound");
        assert_eq!(settings.given, Given::NOTHING, "defaults give way to genesis");
        assert_eq!((settings.terms, settings.bounds), (Terms::DEFAULT, Bounds::default()));
        assert_eq!(
            settled(&sources("", &[])).unwrap_err(),
            [
                "cluster.founders: nobody is named who founds the cluster",
                "cluster.secret_file: the cluster has no secret, and without one anybody could join it",
            ]
        );
    }

    #[test]
    fn a_time_of_the_lease_that_somebody_said_counts_as_given() {
        let settings = settled(&sources(LEAST, &[("lease.ttl", "5s")])).unwrap();
        assert_eq!(settings.given, Given { ttl: true, ..Given::NOTHING });
        assert!(
            wrong(&[("lease.ttl", "1s")])[0].starts_with("--lease-ttl: `lease.ttl`: a ttl of 1s is not longer than")
        );
        assert!(wrong(&[("lease.renew", "3s")])[0].starts_with("--lease-renew: `lease.renew`: "));
    }

    #[test]
    fn an_admin_port_that_others_reach_needs_a_token() {
        let public: [(&'static str, &str); 2] = [("admin.listen", "192.0.2.1:7602"), ("node.name", "n1")];
        assert!(wrong(&public)[0].starts_with("--admin-listen: `admin.listen` can be reached by other machines"));
        let with_token = [public[0], public[1], ("auth.tokens", TOKEN)];
        assert_eq!(settled(&sources(LEAST, &with_token)).unwrap().tokens[0].name, "ops");
        // A token that was said wrongly is the mistake, and not that there is none.
        assert_eq!(wrong(&[public[0], ("auth.tokens", "[{ name = 5 }]")]).len(), 1);
        for local in ["127.9.9.9:7602", "[::1]:7602", "[::ffff:127.0.0.1]:7602"] {
            settled(&sources(LEAST, &[("admin.listen", local)])).unwrap();
        }
    }

    #[test]
    fn every_address_is_no_address_to_call() {
        for (listen, advertise) in
            [("api.listen", "api.advertise"), ("peer.listen", "peer.advertise"), ("admin.listen", "admin.advertise")]
        {
            for every in ["0.0.0.0:18000", "[::]:18000"] {
                let said = wrong(&[(listen, every), ("auth.tokens", TOKEN)]);
                assert!(said[0].contains(&format!("`{listen}` is every address of this machine")), "{said:?}");
                settled(&sources(LEAST, &[(listen, every), (advertise, "n1:18000"), ("auth.tokens", TOKEN)])).unwrap();
                let said = wrong(&[(advertise, every)]);
                assert!(said[0].contains("nobody can call"), "{said:?}");
            }
        }
    }

    #[test]
    fn trusted_proxies_are_none_or_a_list_with_an_end() {
        assert_eq!(settled(&sources(LEAST, &[])).unwrap().trusted_proxies, []);
        let file = format!("api.trusted_proxies = [\"10.0.0.0/8\", \"::1\"]\n{LEAST}");
        let networks = ["10.0.0.0/8", "::1"].map(|text| text.parse().unwrap());
        assert_eq!(settled(&sources(&file, &[])).unwrap().trusted_proxies, networks);
        let many = vec!["192.0.2.1"; NETWORKS_MAX + 1].join(",");
        let said = wrong(&[("api.trusted_proxies", &many)]);
        assert_eq!(said, ["--api-trusted-proxies: `api.trusted_proxies` has 257 networks"]);
        settled(&sources(LEAST, &[("api.trusted_proxies", &many[10..])])).unwrap();
        let file = format!("api.trusted_proxies = [\"::1\", \"0.0.0.0/0\"]\n{LEAST}");
        let said = settled(&sources(&file, &[])).unwrap_err();
        let at = "n.toml:1:31: `api.trusted_proxies`: `0.0.0.0/0` does not fit: it is every address";
        assert!(said[0].starts_with(at), "{said:?}");
    }

    #[test]
    fn two_ports_of_one_node_differ() {
        let said = wrong(&[("peer.listen", "127.0.0.1:7600")]);
        assert_eq!(said, ["--peer-listen: `peer.listen` is the port of `api.listen`"]);
        let every = [("api.listen", "0.0.0.0:7602"), ("api.advertise", "n1:7602")];
        assert_eq!(
            wrong(&every),
            ["default: `admin.listen` is the port of `api.listen`".replace("default", "admin.listen")]
        );
        settled(&sources(LEAST, &[("peer.listen", "127.0.0.2:7600")])).unwrap();
        settled(&sources(LEAST, &[("api.listen", "127.0.0.1:0"), ("admin.listen", "127.0.0.1:0")])).unwrap();
    }

    #[test]
    fn founders_are_named_once() {
        let said = wrong(&[("cluster.founders", "n1,n2,n1")]);
        assert_eq!(said, ["--cluster-founders: `n1` stands there twice"]);
        assert_eq!(wrong(&[("cluster.founders", "")]), ["--cluster-founders: nobody is named who founds the cluster"]);
        // Said wrongly is not the same as not said.
        assert_eq!(wrong(&[("cluster.founders", "n1,two words")]).len(), 1);
    }

    #[test]
    fn a_secret_comes_from_one_place_the_one_that_was_said_higher_up() {
        let mut sources = sources(LEAST, &[]);
        sources.environment = vec![("RINGFENCE_CLUSTER__SECRET".to_owned(), "0123456789abcdef".to_owned())];
        let cluster = settled(&sources).unwrap().cluster;
        assert!(
            matches!(&cluster.secret, SecretSource::Given(said) if said.value == "0123456789abcdef"),
            "{cluster:?}"
        );
        sources.environment.push(("RINGFENCE_CLUSTER__SECRET_FILE".to_owned(), "/run/other".to_owned()));
        assert_eq!(
            settled(&sources).unwrap_err(),
            ["RINGFENCE_CLUSTER__SECRET_FILE: `cluster.secret` and `cluster.secret_file` are both said"]
        );
        sources.flags.push(("cluster.secret_file", "/run/third".to_owned()));
        let cluster = settled(&sources).unwrap().cluster;
        assert!(matches!(&cluster.secret, SecretSource::File(said) if said.value.ends_with("third")), "{cluster:?}");
    }

    #[test]
    fn deadlines_are_some_time_and_in_order() {
        assert_eq!(
            wrong(&[("limits.deadline_default", "2s"), ("limits.deadline_max", "0ms")]),
            [
                "--limits-deadline-max: `limits.deadline_max`: nothing can be asked in no time",
                "--limits-deadline-default: `limits.deadline_default` is longer than `limits.deadline_max`",
            ]
        );
    }
}
