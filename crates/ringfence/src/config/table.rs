//! Every setting of a node, in one table. The file's keys, the flags, the environment's names, `config show` and
//! docs/configuration.md all come from here, so none of them can know a setting that the others do not.

/// One setting.
#[derive(Debug)]
pub struct Setting {
    /// `section.name`, as the file has it.
    pub key: &'static str,
    /// What its value is.
    pub kind: Kind,
    /// What holds when nobody says anything.
    pub fallback: Fallback,
    /// Whether it counts only while the cluster is founded: afterwards genesis holds it, and a node that is told
    /// otherwise refuses to run.
    pub founding: bool,
    /// One paragraph for people; its first sentence stands alone in `--help`.
    pub doc: &'static str,
}

/// What a value is, and therefore how it is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A name of a node or cluster.
    Name,
    /// A list of names.
    Names,
    /// An address of this machine and a port.
    Listen,
    /// `host:port`, resolved when it is used.
    Address,
    /// A list of addresses.
    Addresses,
    /// An IP address, or a network of them.
    Network,
    /// A list of networks.
    Networks,
    /// A path.
    Path,
    /// A list of paths.
    Paths,
    /// A length of time.
    Time,
    /// A number above zero.
    Count,
    /// Yes or no.
    Switch,
    /// One of these words.
    Word(&'static [&'static str]),
    /// Which log lines are written.
    Filter,
    /// Where a Redis server is.
    RedisUrl,
    /// A text that is never shown, and that is taken from the environment alone: files are copied, and every user of a
    /// machine sees its command lines.
    Secret,
    /// Callers' tokens.
    Tokens,
}

impl Kind {
    /// What `--help` calls a value.
    pub fn word(self) -> &'static str {
        match self {
            Kind::Name => "NAME",
            Kind::Names => "NAME,..",
            Kind::Listen | Kind::Address => "HOST:PORT",
            Kind::Addresses => "HOST:PORT,..",
            Kind::Network => "NETWORK",
            Kind::Networks => "NETWORK,..",
            Kind::Path => "PATH",
            Kind::Paths => "PATH,..",
            Kind::Time => "TIME",
            Kind::Count => "COUNT",
            Kind::Switch => "BOOL",
            Kind::Word(_) => "WORD",
            Kind::Filter => "FILTER",
            Kind::RedisUrl => "URL",
            Kind::Secret => "TEXT",
            Kind::Tokens => "TOML",
        }
    }
}

/// What holds when neither flag, environment nor file say anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fallback {
    /// This text, read as the environment's would be.
    Text(&'static str),
    /// The machine's host name.
    HostName,
    /// What the setting of this key says.
    As(&'static str),
    /// Nothing: the setting may be absent.
    Absent,
    /// The node does not start without it.
    Required,
}

impl Setting {
    /// The section of the file.
    pub fn section(&self) -> &'static str {
        self.halves().0
    }

    /// The key within the section.
    pub fn name(&self) -> &'static str {
        self.halves().1
    }

    fn halves(&self) -> (&'static str, &'static str) {
        self.key.split_once('.').expect("every key of the table has a section")
    }

    /// The flag without its dashes.
    pub fn flag(&self) -> String {
        self.key.replace(['.', '_'], "-")
    }

    /// The environment's name for it.
    pub fn variable(&self) -> String {
        format!("{VARIABLE_PREFIX}{}", self.key.replace('.', "__").to_uppercase())
    }

    /// Whether file and flags may say it.
    pub fn is_open(&self) -> bool {
        self.kind != Kind::Secret
    }
}

/// How the environment's names begin. A name with `__` behind this is a setting or a mistake.
pub const VARIABLE_PREFIX: &str = "RINGFENCE_";

/// The setting of this key.
pub fn setting(key: &str) -> Option<&'static Setting> {
    SETTINGS.iter().find(|setting| setting.key == key)
}

/// The sections in their order, each with what it is about.
pub const SECTIONS: &[(&str, &str)] = &[
    ("node", "This node."),
    ("api", "The port of those who ask: HTTP/JSON and gRPC, tcp."),
    (
        "peer",
        "The port between nodes: calls on tcp, gossip on udp. It belongs on a private network: peers prove that \
      they know the cluster's secret, and then speak in clear text.",
    ),
    ("admin", "The port of those who operate: policies, cluster, metrics, health; tcp."),
    ("cluster", "The cluster that this node founds or joins."),
    ("lease", "How long an owner may decide alone."),
    ("limits", "Bounds of this node."),
    (
        "redis",
        "Where owners keep what was used, so that a crash forgets nothing. Without it a takeover assumes the worst: a \
      window is full until it ends, a bucket has no burst left.",
    ),
    ("policy", "What the cluster starts with."),
    ("auth", "Who may call."),
    ("log", "What is written to stderr."),
];

/// Every setting, in the order in which it is shown.
pub const SETTINGS: &[Setting] = &[
    Setting {
        key: "node.name",
        kind: Kind::Name,
        fallback: Fallback::HostName,
        founding: false,
        doc: "What people call this node, unique in its cluster. A second node with the name of one that lives is \
              refused (`name-in-use`).",
    },
    Setting {
        key: "node.data_dir",
        kind: Kind::Path,
        fallback: Fallback::Text("/var/lib/ringfence"),
        founding: false,
        doc: "Where the node keeps its identity and its log. It is made, for its owner alone, if it is not there. A node \
              that starts with an empty one is a new node, which replaces the old one of its name.",
    },
    Setting {
        key: "node.drain_timeout",
        kind: Kind::Time,
        fallback: Fallback::Text("10s"),
        founding: false,
        doc: "How long a node that is asked to end tries to give its partitions away. When this is over, or when no \
              leader can be reached, it ends all the same, and its partitions are owned again once its lease has run out. \
              A second signal ends it at once.",
    },
    Setting {
        key: "api.listen",
        kind: Kind::Listen,
        fallback: Fallback::Text("127.0.0.1:7600"),
        founding: false,
        doc: "Where callers are answered. The port is taken at once, but nobody is let in before the node belongs to a \
              cluster that has a policy.",
    },
    Setting {
        key: "api.advertise",
        kind: Kind::Address,
        fallback: Fallback::As("api.listen"),
        founding: false,
        doc: "The address that callers are given for this node. It must be said when `api.listen` is every address \
              (`0.0.0.0`), or when callers reach it through a published port.",
    },
    Setting {
        key: "api.trusted_proxies",
        kind: Kind::Networks,
        fallback: Fallback::Text(""),
        founding: false,
        doc: "Gateways that are believed when they ask by `/v1/forward-auth` and say for whom: the client's address is \
              then the last one in `X-Forwarded-For` that is not of this list, at most 256 networks. Of anybody else, of \
              this host too, the address of the connection counts.",
    },
    Setting {
        key: "peer.listen",
        kind: Kind::Listen,
        fallback: Fallback::Text("127.0.0.1:7601"),
        founding: false,
        doc: "Where other nodes are answered, on tcp and on udp.",
    },
    Setting {
        key: "peer.advertise",
        kind: Kind::Address,
        fallback: Fallback::As("peer.listen"),
        founding: false,
        doc: "The address that other nodes are given for this one. It must resolve when the node starts, and must be \
              said when `peer.listen` is every address.",
    },
    Setting {
        key: "admin.listen",
        kind: Kind::Listen,
        fallback: Fallback::Text("127.0.0.1:7602"),
        founding: false,
        doc: "Where operators are answered. An address that other machines can reach is refused unless `auth.tokens` \
              has a token.",
    },
    Setting {
        key: "admin.advertise",
        kind: Kind::Address,
        fallback: Fallback::As("admin.listen"),
        founding: false,
        doc: "The address that operators are given for this node. It must be said when `admin.listen` is every address.",
    },
    Setting {
        key: "admin.open_metrics",
        kind: Kind::Switch,
        fallback: Fallback::Text("false"),
        founding: false,
        doc: "Whether `/metrics` is answered without a token. It matters only where there are tokens; otherwise a \
              scraper needs one with the scope `read`.",
    },
    Setting {
        key: "cluster.name",
        kind: Kind::Name,
        fallback: Fallback::Text("main"),
        founding: true,
        doc: "The cluster's name, the same on every node. Nodes of another name are refused (`wrong-cluster`).",
    },
    Setting {
        key: "cluster.seeds",
        kind: Kind::Addresses,
        fallback: Fallback::Text(""),
        founding: false,
        doc: "Peer addresses of nodes to ask first. Name all that are known for long; the node's own may stand among \
              them, so that one list serves every node. They are resolved anew at each try.",
    },
    Setting {
        key: "cluster.founders",
        kind: Kind::Names,
        fallback: Fallback::Required,
        founding: true,
        doc: "The names of the nodes that found the cluster, the same list on every node, also on those that join later. \
              The lowest name founds once all others have promised, so that a cluster cannot come into being twice; a \
              node with another list is refused (`wrong-founders`). One name, this node's, makes a cluster of one.",
    },
    Setting {
        key: "cluster.secret",
        kind: Kind::Secret,
        fallback: Fallback::Absent,
        founding: false,
        doc: "The secret by which nodes know each other, at least 16 bytes, the same on every node. It is taken from the \
              environment alone; `cluster.secret_file` is the better place.",
    },
    Setting {
        key: "cluster.secret_file",
        kind: Kind::Path,
        fallback: Fallback::Absent,
        founding: false,
        doc: "A file with the secret; a line end after it does not count. Without a secret a node does not start: \
              `head -c 32 /dev/urandom | base64 > secret` makes one. SIGHUP reads it anew.",
    },
    Setting {
        key: "cluster.secret_accept",
        kind: Kind::Secret,
        fallback: Fallback::Absent,
        founding: false,
        doc: "A second secret that is accepted from others but not used, while the secret is being changed. It is taken \
              from the environment alone; `cluster.secret_accept_file` is the better place.",
    },
    Setting {
        key: "cluster.secret_accept_file",
        kind: Kind::Path,
        fallback: Fallback::Absent,
        founding: false,
        doc: "A file with the second secret. It may be missing or empty, which means that there is none, so it can be \
              named long before it is needed. From A to B: first A in use with B accepted, on every node; then B with A \
              accepted, on every node; then B alone. SIGHUP reads the files anew, and no step interrupts anything.",
    },
    Setting {
        key: "lease.ttl",
        kind: Kind::Time,
        fallback: Fallback::Text("3s"),
        founding: true,
        doc: "How long an owner may decide after its last renewal; a dead node's keys are answered by their failure mode \
              for about as long. Shorter ones are refused when a change of leader could cost an owner its lease. Once the \
              cluster is founded, `ringfence cluster set-lease` changes it; a file may say what holds now, or go on saying \
              what the cluster was founded with.",
    },
    Setting {
        key: "lease.renew",
        kind: Kind::Time,
        fallback: Fallback::Text("500ms"),
        founding: true,
        doc: "How often an owner renews its lease.",
    },
    Setting {
        key: "limits.max_keys",
        kind: Kind::Count,
        fallback: Fallback::Text("10_000_000"),
        founding: false,
        doc: "How many keys this node holds at once, shared evenly between the domains. A live token-bucket key takes \
              about 65 bytes; above the bound each limit's `when_full` answers.",
    },
    Setting {
        key: "limits.deadline_default",
        kind: Kind::Time,
        fallback: Fallback::Text("250ms"),
        founding: false,
        doc: "How long a caller waits that does not say; then the limit's failure mode answers.",
    },
    Setting {
        key: "limits.deadline_max",
        kind: Kind::Time,
        fallback: Fallback::Text("1s"),
        founding: false,
        doc: "The longest that a caller may ask to wait; more is cut to it.",
    },
    Setting {
        key: "redis.url",
        kind: Kind::RedisUrl,
        fallback: Fallback::Absent,
        founding: false,
        doc: "`redis://[user@]host[:port][/db]`, or `rediss://` for TLS: one Redis 7 or later, the same for every node, with \
              `maxmemory-policy noeviction`. It need not be there when the node starts, and may go away: nothing is \
              refused meanwhile, but an owner that dies then leaves the worst case behind.",
    },
    Setting {
        key: "redis.password",
        kind: Kind::Secret,
        fallback: Fallback::Absent,
        founding: false,
        doc: "The password of the user in `redis.url`. It is taken from the environment alone; `redis.password_file` is the \
              better place.",
    },
    Setting {
        key: "redis.password_file",
        kind: Kind::Path,
        fallback: Fallback::Absent,
        founding: false,
        doc: "A file with the password; a line end after it does not count. It is read when the node starts.",
    },
    Setting {
        key: "redis.ca_file",
        kind: Kind::Path,
        fallback: Fallback::Absent,
        founding: false,
        doc: "A file of certificates in PEM, against which a `rediss://` server is held instead of those that the machine \
              trusts.",
    },
    Setting {
        key: "policy.initial",
        kind: Kind::Paths,
        fallback: Fallback::Text(""),
        founding: true,
        doc: "Policy documents that the cluster is founded with, one per domain. They are read and checked at every \
              start, applied at founding only, and never replace a newer revision. Without any the node answers nobody \
              until a policy is applied.",
    },
    Setting {
        key: "auth.tokens",
        kind: Kind::Tokens,
        fallback: Fallback::Text(""),
        founding: false,
        doc: "The tokens that callers show as `Authorization: Bearer`, each a table of `name`, `sha256` (64 hexadecimal \
              digits; the token itself is kept nowhere), `scopes`, and `domains` (left out: all of them). Without tokens \
              everybody may check on the API port, and the admin port is for this machine alone. Flag and environment \
              take the list as TOML.",
    },
    Setting {
        key: "log.format",
        kind: Kind::Word(&["text", "json"]),
        fallback: Fallback::Text("text"),
        founding: false,
        doc: "Lines for people, or one JSON object per line.",
    },
    Setting {
        key: "log.level",
        kind: Kind::Filter,
        fallback: Fallback::Text("info"),
        founding: false,
        doc: "Which lines are written: `error`, `warn`, `info`, `debug`, `trace`, or a list such as `info,node=debug`. \
              The variable RINGFENCE_LOG overrides it.",
    },
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_setting_has_one_key_one_flag_and_one_variable_and_stands_in_a_known_section() {
        let sections: Vec<_> = SECTIONS.iter().map(|(section, _)| *section).collect();
        for names in [|setting: &Setting| setting.key.to_owned(), Setting::flag, Setting::variable] {
            let all: BTreeSet<_> = SETTINGS.iter().map(names).collect();
            assert_eq!(all.len(), SETTINGS.len());
        }
        let mut order: Vec<_> = SETTINGS.iter().map(Setting::section).collect();
        order.dedup();
        assert_eq!(order, sections, "the settings of a section stand together");
    }

    #[test]
    fn the_names_of_a_setting_follow_from_its_key() {
        let data_dir = setting("node.data_dir").unwrap();
        assert_eq!((data_dir.section(), data_dir.name()), ("node", "data_dir"));
        assert_eq!(data_dir.flag(), "node-data-dir");
        assert_eq!(data_dir.variable(), "RINGFENCE_NODE__DATA_DIR");
    }

    #[test]
    fn every_secret_can_also_be_given_as_a_file() {
        for secret in SETTINGS.iter().filter(|setting| setting.kind == Kind::Secret) {
            let file = setting(&format!("{}_file", secret.key)).expect("a twin");
            assert_eq!(file.kind, Kind::Path);
        }
    }

    #[test]
    fn a_setting_that_falls_back_on_another_names_one_that_is_there() {
        for one in SETTINGS {
            if let Fallback::As(key) = one.fallback {
                assert!(setting(key).is_some(), "{key}");
            }
        }
    }
}
