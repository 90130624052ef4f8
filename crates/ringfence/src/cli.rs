//! The command line: what can be said, and what its words mean. `--help` is made from this file.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Arg, ArgMatches, Args, FromArgMatches, Parser, Subcommand, ValueEnum};
use ownership::kept::Incarnation;
use store::RedisUrl;

use crate::config::reference::default;
use crate::config::table::{Kind, SETTINGS, Setting};

/// A rate limiter that runs as a cluster and stays exact.
#[derive(Debug, Parser)]
#[command(name = "ringfence", version, propagate_version = true, max_term_width = 100)]
#[command(
    after_help = "Exit codes: 0 ok, 1 failure, 2 usage, 3 a check was denied, 4 cluster unreachable, 78 bad configuration."
)]
pub struct Cli {
    /// Where the cluster answers.
    #[command(flatten)]
    pub target: Target,
    /// How to print data.
    #[arg(long, global = true, value_enum, default_value_t = Output::Text)]
    pub output: Output,
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// Where the cluster answers; any node does.
#[derive(Clone, Debug, Args)]
pub struct Target {
    /// The API of any node, `host:port`.
    #[arg(long, global = true, env = "RINGFENCE_API", default_value = "127.0.0.1:7600", value_name = "ADDR")]
    pub api: String,
    /// The admin API of any node, `host:port`.
    #[arg(long, global = true, env = "RINGFENCE_ADMIN", default_value = "127.0.0.1:7602", value_name = "ADDR")]
    pub admin: String,
    /// A file with the token to show; without it calls are made without one.
    #[arg(long, global = true, env = "RINGFENCE_TOKEN_FILE", value_name = "FILE")]
    pub token_file: Option<PathBuf>,
}

/// How data is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Output {
    /// For people.
    Text,
    /// One JSON object with a `version`, for programs.
    Json,
}

/// Everything that `ringfence` does.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run a whole cluster in this process, on loopback, in memory.
    Dev(Dev),
    /// Run one node.
    Serve(Told),
    /// Look at what a node is told.
    #[command(subcommand)]
    Config(Config),
    /// Ask for one decision; exits with 3 when it is denied.
    Check(Check),
    /// Look at what a check would meet, without spending; exits with 3 when it would be denied.
    Peek(Peek),
    /// Spend the most that something may cost, to be settled at what it did cost; exits with 3 when it is denied.
    Reserve(Reserve),
    /// Close a reserve: what was not needed comes back.
    Settle(Settle),
    /// Take slots of concurrency limits, until they are released or their time is over; exits with 3 when it is denied.
    Acquire(Acquire),
    /// Hold slots for longer, counted from now.
    Renew(Renew),
    /// Give slots back; exits with 1 when nothing was held any more.
    Release(Named),
    /// Undo one charge, once; exits with 1 when there is none under the id.
    Refund(Named),
    /// Make keys as ones that were never used.
    Reset(Reset),
    /// Work on policies, in a file or on the cluster.
    #[command(subcommand)]
    Policy(Policy),
    /// Look at the cluster.
    #[command(subcommand)]
    Cluster(Cluster),
    /// List the keys that are hit or denied most, of the whole cluster, over the last five to ten minutes.
    Top(Top),
    /// Exit with 0 if the node behind --admin is ready to answer checks.
    Healthcheck,
    /// Print the completions of a shell.
    Completion {
        /// The shell.
        shell: clap_complete::Shell,
    },
    /// Print the manual page of the program or of one command, in roff.
    Man {
        /// The command, for example cluster status.
        command: Vec<String>,
    },
    /// Explain an error code, or list them all.
    Errors(Errors),
}

/// `ringfence errors`
#[derive(Debug, Args)]
pub struct Errors {
    /// The code, for example no-leader.
    #[arg(value_name = "CODE")]
    pub code: Option<String>,
    /// Print the page that lists every code, docs/errors.md.
    #[arg(long, conflicts_with = "code")]
    pub page: bool,
}

/// `ringfence dev`
#[derive(Debug, Args)]
pub struct Dev {
    /// How many nodes, n1 to nN.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..=16))]
    pub nodes: u16,
    /// The policy to found the cluster with, instead of the sample; may be given once per domain.
    #[arg(long, value_name = "FILE")]
    pub policy: Vec<PathBuf>,
    /// The API port of n1; its peer port is one above, its admin port two above, and each further node is ten above. With
    /// 0 the system chooses every port.
    #[arg(long, default_value_t = 7600, value_parser = clap::value_parser!(u16).range(0..=65_000), value_name = "PORT")]
    pub port: u16,
    /// Where the nodes keep what was used, such as redis://127.0.0.1:6379; in memory alone without it.
    #[arg(long, value_name = "URL")]
    pub redis: Option<RedisUrl>,
    /// How many slices the key space has: a power of two, 1 to 4096.
    #[arg(long, default_value_t = 4096, value_name = "COUNT", hide = true)]
    pub partitions: u16,
    /// Limit time stands still, and moves by the command `clock`.
    #[cfg(feature = "test-clock")]
    #[arg(long, hide = true)]
    pub test_clock: bool,
}

/// `ringfence serve`: what a node is told by its command line.
#[derive(Clone, Debug, Args)]
pub struct Told {
    /// The node's file; without this /etc/ringfence/ringfence.toml, if it is there.
    #[arg(long, value_name = "FILE", env = "RINGFENCE_CONFIG")]
    pub config: Option<PathBuf>,
    /// One flag per setting.
    #[command(flatten)]
    pub settings: SettingFlags,
}

/// The flags of the table of settings, by key.
#[derive(Clone, Debug, Default)]
pub struct SettingFlags(pub Vec<(&'static str, String)>);

impl Args for SettingFlags {
    fn augment_args(command: clap::Command) -> clap::Command {
        SETTINGS.iter().filter(|setting| setting.is_open()).fold(command, |command, setting| command.arg(flag(setting)))
    }

    fn augment_args_for_update(command: clap::Command) -> clap::Command {
        SettingFlags::augment_args(command)
    }
}

impl FromArgMatches for SettingFlags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<SettingFlags, clap::Error> {
        let said = |setting: &'static Setting| {
            let text = matches.get_one::<String>(setting.key)?;
            Some((setting.key, text.clone()))
        };
        Ok(SettingFlags(SETTINGS.iter().filter(|setting| setting.is_open()).filter_map(said).collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = SettingFlags::from_arg_matches(matches)?;
        Ok(())
    }
}

/// What a setting is read from is the configuration's business, so every flag is a text here.
fn flag(setting: &'static Setting) -> Arg {
    let sentence = setting.doc.split_inclusive(". ").next().unwrap_or(setting.doc).trim_end().trim_end_matches('.');
    let help = format!("{sentence} [env: {}] [default: {}]", setting.variable(), default(setting));
    let arg = Arg::new(setting.key).long(setting.flag()).help(help).value_name(setting.kind.word());
    let arg = arg.help_heading(format!("Settings: [{}]", setting.section()));
    match setting.kind == Kind::Switch {
        true => arg.num_args(0..=1).require_equals(true).default_missing_value("true"),
        false => arg,
    }
}

/// `ringfence config`
#[derive(Debug, Subcommand)]
pub enum Config {
    /// Print what holds for every setting.
    Show {
        /// Also print where each value was said.
        #[arg(long)]
        origin: bool,
        /// What the node would be told.
        #[command(flatten)]
        told: Told,
    },
    /// Look at everything that `serve` would start from, without starting.
    Validate {
        /// The node's file, as with --config.
        #[arg(conflicts_with = "config")]
        file: Option<PathBuf>,
        /// What the node would be told.
        #[command(flatten)]
        told: Told,
    },
    /// Print the page that lists every setting, docs/configuration.md.
    Reference,
}

/// Which key is meant, and how long its owner is waited for.
#[derive(Debug, Args)]
pub struct Key {
    /// What is known of the request, for example client=alice; with every call about one charge the same.
    #[arg(value_name = "KEY=VALUE", value_parser = attribute)]
    pub attributes: Vec<(String, String)>,
    /// The policy's name space.
    #[arg(long, default_value = "default")]
    pub domain: String,
    /// A limit to bring along, for example 'downloads=5/min by user,file', where the domain allows it.
    #[arg(long, value_parser = inline, value_name = "NAME=RATE by KEY")]
    pub inline: Vec<Inline>,
    /// How long to wait for the owner before the limit's failure mode answers.
    #[arg(long, value_parser = duration, value_name = "TIME")]
    pub deadline: Option<Duration>,
}

/// A limit that a call brings along; what is wrong with its parts is the node's to say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inline {
    /// Its name in the domain.
    pub name: String,
    /// Its rate.
    pub rate: String,
    /// The attributes that it counts by.
    pub key: Vec<String>,
}

/// `ringfence check`
#[derive(Debug, Args)]
pub struct Check {
    /// Which key.
    #[command(flatten)]
    pub key: Key,
    /// Units to spend; 0 only looks.
    #[arg(long, default_value_t = 1)]
    pub cost: u64,
    /// Spend as much as there is, up to --cost.
    #[arg(long)]
    pub up_to: bool,
    /// An id of your own; asking again with it within two seconds repeats the answer, and `refund` undoes it.
    #[arg(long)]
    pub id: Option<String>,
}

/// `ringfence peek`
#[derive(Debug, Args)]
pub struct Peek {
    /// Which key.
    #[command(flatten)]
    pub key: Key,
    /// Units that would be spent.
    #[arg(long, default_value_t = 1)]
    pub cost: u64,
    /// Only this one of the limits that apply.
    #[arg(long, value_name = "NAME")]
    pub limit: Option<String>,
}

/// `ringfence reserve`
#[derive(Debug, Args)]
pub struct Reserve {
    /// Which key.
    #[command(flatten)]
    pub key: Key,
    /// The most units that may be spent in the end.
    #[arg(long)]
    pub cost: u64,
    /// How long the reserve can be settled; what is not settled in time stays spent.
    #[arg(long, value_parser = duration, value_name = "TIME")]
    pub ttl: Duration,
    /// An id of your own to settle by; one is made and printed without it.
    #[arg(long)]
    pub id: Option<String>,
}

/// `ringfence settle`
#[derive(Debug, Args)]
pub struct Settle {
    /// Which key.
    #[command(flatten)]
    pub key: Key,
    /// The id of the reserve.
    #[arg(long)]
    pub id: String,
    /// Units that were spent in the end.
    #[arg(long)]
    pub cost: u64,
    /// Book what was spent above the reserve, outside the limit's promise.
    #[arg(long)]
    pub debt: bool,
}

/// `ringfence acquire`
#[derive(Debug, Args)]
pub struct Acquire {
    /// Which key.
    #[command(flatten)]
    pub key: Key,
    /// Slots to take.
    #[arg(long, default_value_t = 1)]
    pub cost: u64,
    /// How long to hold them unless renewed; the limit's own time without it.
    #[arg(long, value_parser = duration, value_name = "TIME")]
    pub ttl: Option<Duration>,
    /// An id of your own to renew and release by; one is made and printed without it.
    #[arg(long)]
    pub id: Option<String>,
}

/// `ringfence renew`
#[derive(Debug, Args)]
pub struct Renew {
    /// Which lease.
    #[command(flatten)]
    pub named: Named,
    /// How long to hold on; the limit's own time without it.
    #[arg(long, value_parser = duration, value_name = "TIME")]
    pub ttl: Option<Duration>,
    /// The slots that are held: an owner that took over does not know, and believes it.
    #[arg(long, default_value_t = 1)]
    pub cost: u64,
}

/// `ringfence release` and `ringfence refund`
#[derive(Debug, Args)]
pub struct Named {
    /// Which key.
    #[command(flatten)]
    pub key: Key,
    /// The id of the lease or charge.
    #[arg(long)]
    pub id: String,
}

/// `ringfence reset`
#[derive(Debug, Args)]
pub struct Reset {
    /// Which key.
    #[command(flatten)]
    pub key: Key,
    /// Only this one of the limits that apply.
    #[arg(long, value_name = "NAME")]
    pub limit: Option<String>,
}

/// `ringfence policy`
#[derive(Debug, Subcommand)]
pub enum Policy {
    /// Check a document without touching any cluster.
    Validate {
        /// The document.
        file: PathBuf,
    },
    /// Make a document the next revision of its domain, on all nodes at once.
    Apply {
        /// The document.
        file: PathBuf,
        /// Refuse unless this is the current revision (0: none yet).
        #[arg(long, value_name = "REVISION")]
        if_revision: Option<u64>,
        /// Why; kept in the history.
        #[arg(long, default_value = "")]
        reason: String,
        /// Wait until every node that lives goes by it; exit 1 if that is not so after ten seconds.
        #[arg(long)]
        wait: bool,
    },
    /// Print the current document of a domain.
    Show {
        /// The domain.
        #[arg(default_value = "default")]
        domain: String,
    },
    /// List the revisions of a domain.
    History {
        /// The domain.
        #[arg(default_value = "default")]
        domain: String,
    },
}

/// `ringfence cluster`
#[derive(Debug, Subcommand)]
pub enum Cluster {
    /// Nodes, sessions, leader, and whether every partition has an owner.
    Status {
        /// Wait up to this long until the asked node is ready, the log has a leader and every partition has an owner; fail
        /// if that does not come. Nodes that ended and did not return are not waited for: see --nodes.
        #[arg(long, value_parser = duration, value_name = "TIME")]
        wait: Option<Duration>,
        /// With --wait: also wait until so many nodes live.
        #[arg(long, value_name = "COUNT", requires = "wait")]
        nodes: Option<usize>,
    },
    /// How long leases last, on all nodes: for about so long nobody decides for what a dead node owned. Leases are granted by
    /// the new length at once; where it is shorter, a dead node is still waited for by the longer until every such lease is over.
    SetLease {
        /// The new length, such as 5s; longer than a change of leader takes, and at most 60s.
        #[arg(long, value_parser = duration, value_name = "TIME")]
        ttl: Duration,
    },
    /// Vouch for the store: on its way into this life (a restart with its data, a failover) it has lost nothing. Nodes that
    /// took over meanwhile and assumed the worst then read what was kept. Wrong words here let limits be exceeded.
    TrustStore {
        /// Which life, as `cluster status` shows it.
        #[arg(long, value_name = "INCARNATION")]
        incarnation: Incarnation,
    },
    /// Which node owns which partitions, at which epoch.
    Map,
    /// What the asked node saw happen, the oldest first.
    Events {
        /// Go on printing what happens, until interrupted; with --output json one object per line.
        #[arg(long)]
        follow: bool,
    },
}

/// `ringfence top`
#[derive(Debug, Args)]
pub struct Top {
    /// The policy's name space.
    #[arg(long, default_value = "default")]
    pub domain: String,
    /// Only this limit; all of the domain without it.
    #[arg(long, value_name = "NAME")]
    pub limit: Option<String>,
    /// What is counted: units of checks that passed, or checks that the limit refused.
    #[arg(long, value_enum, default_value_t = TopBy::Hits)]
    pub by: TopBy,
    /// How many keys, 1 to 256.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u16).range(1..=256))]
    pub count: u16,
    /// Look again and again, with this pause (at least 500ms), until interrupted.
    #[arg(long, value_parser = duration, value_name = "TIME", num_args = 0..=1, default_missing_value = "2s")]
    pub watch: Option<Duration>,
}

/// What `ringfence top` counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum TopBy {
    /// Units of checks that passed.
    Hits,
    /// Checks that the limit refused, whatever they would have cost.
    Denials,
}

impl TopBy {
    /// The word that the API uses.
    pub const fn as_str(self) -> &'static str {
        match self {
            TopBy::Hits => "hits",
            TopBy::Denials => "denials",
        }
    }
}

fn attribute(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        Some(_) | None => Err(format!("expected KEY=VALUE, for example client=alice, found `{text}`")),
    }
}

/// `downloads=5/min by user,file`; without `by` it is one count over all.
fn inline(text: &str) -> Result<Inline, String> {
    let (name, rest) = text
        .split_once('=')
        .ok_or_else(|| format!("expected NAME=RATE by KEY, for example 'downloads=5/min by user', found `{text}`"))?;
    let (rate, key) = rest.split_once(" by ").unwrap_or((rest, ""));
    let key = key.split(',').map(|part| part.trim().to_owned()).filter(|part| !part.is_empty()).collect();
    Ok(Inline { name: name.trim().to_owned(), rate: rate.trim().to_owned(), key })
}

/// `250ms`, `20s`, `2min`; a number without a unit is refused.
///
/// # Errors
///
/// What was expected, in words.
pub fn duration(text: &str) -> Result<Duration, String> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let number: u64 = number.parse().map_err(|_| format!("expected a time such as 250ms or 20s, found `{text}`"))?;
    let millis = match unit {
        "ms" => Some(number),
        "s" => number.checked_mul(1_000),
        "min" => number.checked_mul(60_000),
        _ => None,
    };
    millis.map(Duration::from_millis).ok_or_else(|| format!("expected ms, s or min after the number, found `{text}`"))
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn times_need_a_unit() {
        assert_eq!(duration("20s"), Ok(Duration::from_secs(20)));
        assert_eq!(duration("250ms"), Ok(Duration::from_millis(250)));
        for wrong in ["20", "s", "", "-1s", "5m", "99999999999999999999s"] {
            assert!(duration(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_limit_to_bring_along_has_a_name_a_rate_and_what_it_counts_by() {
        let limit = |name: &str, rate: &str, key: &[&str]| Inline {
            name: name.to_owned(),
            rate: rate.to_owned(),
            key: key.iter().map(|part| (*part).to_owned()).collect(),
        };
        assert_eq!(inline("downloads=5/min by user, file"), Ok(limit("downloads", "5/min", &["user", "file"])));
        assert_eq!(inline("all=10/s burst 20"), Ok(limit("all", "10/s burst 20", &[])));
        assert!(inline("5/min by user").is_err());
    }

    #[test]
    fn attributes_are_pairs() {
        assert_eq!(attribute("a=b=c"), Ok(("a".to_owned(), "b=c".to_owned())));
        assert!(attribute("alice").is_err());
        assert!(attribute("=x").is_err());
    }
}
