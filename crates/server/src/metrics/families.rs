//! Every metric by name, kind, labels and meaning: one table that the scrape writes from, and docs/metrics.md is made of.

use std::fmt::Write as _;

use prometheus_client::metrics::MetricType;

/// A metric.
#[derive(Debug, PartialEq, Eq)]
pub struct Family {
    /// Its name, without prefix, unit and suffix.
    pub name: &'static str,
    /// How it is read.
    pub kind: Kind,
    /// Whether it is in seconds, which its name then says.
    pub seconds: bool,
    /// Its labels, in the order in which they are written.
    pub labels: &'static [&'static str],
    /// What it tells.
    pub help: &'static str,
}

/// How a metric is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It only rises, until the process ends.
    Counter,
    /// It rises and falls.
    Gauge,
    /// How many observations were at most so large.
    Histogram,
}

impl Kind {
    /// The kind as the exposition format calls it.
    pub const fn metric_type(self) -> MetricType {
        match self {
            Kind::Counter => MetricType::Counter,
            Kind::Gauge => MetricType::Gauge,
            Kind::Histogram => MetricType::Histogram,
        }
    }
}

impl Family {
    /// The name under which queries find it.
    pub fn full_name(&self) -> String {
        let unit = if self.seconds { "_seconds" } else { "" };
        let suffix = if self.kind == Kind::Counter { "_total" } else { "" };
        format!("ringfence_{}{unit}{suffix}", self.name)
    }
}

const fn counter(name: &'static str, labels: &'static [&'static str], help: &'static str) -> Family {
    Family { name, kind: Kind::Counter, seconds: false, labels, help }
}

const fn gauge(name: &'static str, labels: &'static [&'static str], help: &'static str) -> Family {
    Family { name, kind: Kind::Gauge, seconds: false, labels, help }
}

const fn histogram(name: &'static str, labels: &'static [&'static str], help: &'static str) -> Family {
    Family { name, kind: Kind::Histogram, seconds: true, labels, help }
}

/// Decisions.
pub const DECISIONS: Family = counter(
    "decisions",
    &["domain", "limit", "outcome", "source"],
    "Decisions per limit that took part; outcome: allowed, denied, shadow_denied; source: who answered",
);
/// Units.
pub const DECISION_COST: Family = counter("decision_cost", &["domain", "limit"], "Units admitted per limit");
/// Near the limit.
pub const NEAR_LIMIT: Family =
    counter("near_limit", &["domain", "limit"], "Admitted decisions that left less than a fifth of the limit");
/// Degraded decisions.
pub const DEGRADED_DECISIONS: Family = counter(
    "degraded_decisions",
    &["limit", "mode"],
    "Decisions that a limit's failure mode made because no owner answered in time; mode: closed, open, emergency",
);
/// Calls.
pub const CHECKS: Family =
    counter("checks", &["api", "code"], "Calls to the front doors, by the status that they have over HTTP");
/// Durations of calls.
pub const DECISION_DURATION: Family = histogram(
    "decision_duration",
    &["api"],
    "How long calls took at this node, from their head to their answer; a batch counts once",
);
/// What came of calls that decide nothing.
pub const RESULTS: Family = counter(
    "call_results",
    &["call", "result"],
    "Calls about what was charged before (settle, renew, release, refund) and resets, by what came of them: done; nothing (no such charge, reserve or lease, or nothing used); refused (the call was wrong); unavailable (no owner could be asked in time)",
);
/// Durations of forwards.
pub const FORWARD_DURATION: Family =
    histogram("forward_duration", &["peer"], "How long owners took to answer checks that were passed on to them");
/// Forward errors.
pub const FORWARD_ERRORS: Family =
    counter("forward_errors", &["peer", "reason"], "Checks that could not be delivered to their owner");
/// Lost cancels and debts.
pub const LOST_CORRECTIONS: Family = counter(
    "lost_corrections",
    &["peer"],
    "Cancels and debts that found too much waiting for their owner and were dropped",
);
/// Cancelled charges.
pub const CANCELLED_CHARGES: Family = counter(
    "cancelled_charges",
    &[],
    "Charges taken back because the check was refused elsewhere or answered too late",
);
/// Questions without an owner's decision.
pub const UNANSWERED: Family = counter(
    "unanswered",
    &["reason"],
    "Questions to owners that came to no decision, so that failure modes answered, by the last that was heard: no_owner, silence, unreachable, circuit_open, not_owner, late, old_epoch, lease, record, policy, clock, loading, allowance, table_full",
);
/// Circuits.
pub const CIRCUIT_OPEN: Family = gauge(
    "circuit_open",
    &["peer"],
    "1 while a node is left alone because it is silent or out of reach, and what it owns is answered by failure modes at once; where nobody asks it again, for up to twelve seconds longer",
);
/// Circuits that opened.
pub const CIRCUITS_OPENED: Family = counter(
    "circuits_opened",
    &["peer"],
    "How often a node began to be left alone because it was silent or out of reach",
);
/// Denials that are repeated.
pub const DENIALS_REMEMBERED: Family = gauge(
    "denials_remembered",
    &[],
    "Denials by other nodes that this one may repeat for a moment, those whose time is over among them",
);
/// Keys.
pub const KEYS: Family = gauge(
    "keys",
    &["domain"],
    "Keys held here per domain; a key is kept as a fingerprint, which does not tell its limit",
);
/// No room.
pub const TABLE_FULL: Family = counter(
    "table_full",
    &["limit"],
    "Checks for whose key this node, its owner, had no room, so that the limit's when_full answered",
);
/// Partitions.
pub const PARTITIONS: Family =
    gauge("partitions", &["state"], "Partitions, by what they are to this node: active, elsewhere, vacant");
/// Takeovers.
pub const TAKEOVERS: Family = counter(
    "takeovers",
    &["state"],
    "Partitions that this node began to decide for, by what was known of their use then: fresh, allowance (what the last owner had kept), worst_case (also where it was found later)",
);
/// Lease.
pub const LEASE_REMAINING: Family = Family {
    seconds: true,
    ..gauge("lease_remaining", &[], "How long this node may still decide without being renewed")
};
/// Lease terms.
pub const LEASE_TTL: Family =
    Family { seconds: true, ..gauge("lease_ttl", &[], "How long a lease lasts, as this node has applied it") };
/// Clock.
pub const CLOCK_TRUSTED: Family = gauge(
    "clock_trusted",
    &[],
    "1 if this machine's boot-time clock is held to show every pause of the machine, 0 if it is weak: a hypervisor's, without a vmclock device",
);
/// Emergency shares.
pub const N_MAX: Family = gauge(
    "n_max",
    &[],
    "Among how many nodes emergency shares are divided: those that live, and those that may not know that they do not",
);
/// Store.
pub const STORE_UP: Family = gauge("store_up", &[], "1 while the store answers this node, 0 while it cannot be used");
/// Durability.
pub const STORE_DURABLE: Family = gauge(
    "store_durable",
    &[],
    "1 while what this node keeps in the store counts, 0 while a crash of it would be a worst case",
);
/// Connections to the store.
pub const STORE_CONNECTS: Family =
    counter("store_connects", &["result"], "Connections to the store, by what came of them: up, failed");
/// Requests to the store.
pub const STORE_REQUESTS: Family = counter(
    "store_requests",
    &["op", "outcome"],
    "Requests to the store (claim, write, rewrite), by what came of them: done; lost (the partition is another's, or gone); stale (it came late); away (no connection); full and too-large (not sent); unknown (no answer in time); refused",
);
/// Keys written to the store.
pub const STORE_KEYS_WRITTEN: Family =
    counter("store_keys_written", &[], "Keys in writes that the store took: a key counts each time that it is written");
/// The age of what is kept.
pub const STORE_SNAPSHOT_AGE: Family = Family {
    seconds: true,
    ..gauge(
        "store_snapshot_age",
        &[],
        "How long ago the oldest snapshot that this node has in the store was made: a partition with a key in it, written as a whole, which is done every five minutes; what is added in between makes it no younger. 0 without any",
    )
};
/// The age of what is not kept yet.
pub const STORE_UNWRITTEN: Family = Family {
    seconds: true,
    ..gauge(
        "store_unwritten",
        &[],
        "How long it has waited to be written and acknowledged, of all that this node has to write the longest; 0 where nothing waits",
    )
};
/// Durations of requests to the store.
pub const STORE_REQUEST: Family =
    histogram("store_request", &["op"], "How long the store took to answer, where it did");
/// Claims.
pub const STORE_CLAIMS: Family = counter(
    "store_claims",
    &["result"],
    "Partitions claimed in the store, by what was found: counted; nobody (nothing was ever kept); lost (a later reign has it); or why a record was void: nothing, of_another, volatile, other_life, incomplete, damaged",
);
/// Fenced writes.
pub const FENCED_WRITES: Family = counter(
    "fenced_writes",
    &[],
    "Writes that the store refused because the partition was not held in this node's name",
);
/// Checks put off.
pub const STORE_PUT_OFF: Family = counter(
    "store_put_off",
    &["why"],
    "Answers put off: loading (it was not known yet what the last owner had kept), allowance (what the check needs was not written yet)",
);
/// Map.
pub const MAP_VERSION: Family = gauge("map_version", &[], "The version of the map applied here");
/// Members.
pub const MEMBERS: Family = gauge("members", &["state"], "Nodes, by what gossip thinks of them: alive, suspect, down");
/// Peers refused.
pub const PEER_REFUSALS: Family = counter(
    "peer_refusals",
    &["reason"],
    "Connections and datagrams between nodes that were refused here or by the other side",
);
/// Revisions.
pub const POLICY_REVISION: Family = gauge("policy_revision", &["domain"], "The policy revision in force here");
/// Policies sent here.
pub const POLICY_APPLY: Family =
    counter("policy_apply", &["result"], "Policies sent to this node: applied, invalid, conflict, no_leader, refused");
/// Tokens.
pub const AUTH: Family = counter(
    "auth",
    &["token", "result"],
    "Calls by the token they showed: ok (let in), forbidden (calls, and checks of a foreign domain); _none, without a known token: missing, malformed, unknown",
);
/// Version.
pub const BUILD_INFO: Family = gauge("build_info", &["version"], "Always 1; the label tells the running version");

/// Every metric, in the order of a scrape.
pub const ALL: &[&Family] = &[
    &DECISIONS,
    &DECISION_COST,
    &NEAR_LIMIT,
    &DEGRADED_DECISIONS,
    &CHECKS,
    &DECISION_DURATION,
    &RESULTS,
    &FORWARD_DURATION,
    &FORWARD_ERRORS,
    &LOST_CORRECTIONS,
    &CANCELLED_CHARGES,
    &UNANSWERED,
    &CIRCUIT_OPEN,
    &CIRCUITS_OPENED,
    &DENIALS_REMEMBERED,
    &KEYS,
    &TABLE_FULL,
    &PARTITIONS,
    &TAKEOVERS,
    &LEASE_REMAINING,
    &LEASE_TTL,
    &CLOCK_TRUSTED,
    &N_MAX,
    &STORE_UP,
    &STORE_DURABLE,
    &STORE_CONNECTS,
    &STORE_REQUESTS,
    &STORE_KEYS_WRITTEN,
    &STORE_SNAPSHOT_AGE,
    &STORE_UNWRITTEN,
    &STORE_REQUEST,
    &STORE_CLAIMS,
    &FENCED_WRITES,
    &STORE_PUT_OFF,
    &MAP_VERSION,
    &MEMBERS,
    &PEER_REFUSALS,
    &POLICY_REVISION,
    &POLICY_APPLY,
    &AUTH,
    &BUILD_INFO,
];

/// Metrics of parts that do not exist yet; their names are kept free.
pub const ABSENT: &[(&str, &str)] = &[
    ("ringfence_moves_total{result}", "planned moves of live partitions"),
    ("ringfence_move_seconds", "planned moves of live partitions"),
    ("ringfence_evictions_total{reason}", "giving room for one key by dropping another: a full table refuses instead"),
];

const HEAD: &str = "\
# Metrics

`GET /metrics` on the admin port, as OpenMetrics text; it needs a token with the scope `read` unless `admin.open_metrics` is
set. This page is made from the program's own table.

Labels come from the configuration only (policies, node names, token names) and from fixed words, never from what callers
send: a hundred thousand keys add no series.
";

/// docs/metrics.md.
pub fn page() -> String {
    let mut page = HEAD.to_owned();
    page.push_str("\n| metric | kind | labels | what it tells |\n|---|---|---|---|\n");
    for family in ALL {
        let Family { kind, labels, help, .. } = family;
        let kind = format!("{kind:?}").to_lowercase();
        let _ = writeln!(page, "| `{}` | {kind} | {} | {help} |", family.full_name(), labels.join(", "));
    }
    page.push_str(&format!("\n## Bounds\n\n{}\n", super::bounds::in_words()));
    page.push_str("\n## Absent so far\n\nNames that are kept for parts which this version does not have:\n\n");
    for (name, part) in ABSENT {
        let _ = writeln!(page, "- `{name}` ({part})");
    }
    page
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn names_say_unit_and_kind_once() {
        for family in ALL {
            for doubled in ["_seconds", "_total"] {
                assert!(!family.name.ends_with(doubled), "{}: the suffix is added when it is written", family.name);
            }
            assert!(!family.help.is_empty() && !family.help.ends_with('.'), "{}", family.name);
        }
        assert_eq!(DECISION_DURATION.full_name(), "ringfence_decision_duration_seconds");
        assert_eq!(DECISIONS.full_name(), "ringfence_decisions_total");
        assert_eq!(LEASE_REMAINING.full_name(), "ringfence_lease_remaining_seconds");
    }

    #[test]
    fn the_page_in_the_documentation_is_what_the_table_says() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/metrics.md");
        if std::env::var_os("RINGFENCE_WRITE_DOCS").is_some() {
            std::fs::write(path, page()).unwrap();
        }
        assert!(
            std::fs::read_to_string(path).unwrap_or_default() == page(),
            "docs/metrics.md is not what the table says; \
             `RINGFENCE_WRITE_DOCS=1 cargo test -q -p ringfence-server the_page_in` writes it"
        );
    }
}
