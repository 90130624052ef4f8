//! Consensus' times and sizes, each with the reason for its default where there is one.

use std::ops::Range;
use std::time::Duration;

use openraft::SnapshotPolicy;

/// Consensus' times and sizes. The defaults are the measured ones: failover takes about twice the longest election
/// timeout.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// How often a leader shows that it lives; also the deadline of one append. Default 50 ms.
    pub heartbeat: Duration,
    /// How long a follower hears nothing before it stands for election, drawn at random once per start. Longer than a
    /// heartbeat. Default 150 to 300 ms.
    pub election: Range<Duration>,
    /// Entries of one append, at most. Default 64.
    pub append_entries_max: u64,
    /// Entries after which the next snapshot is made. Default 2,000.
    pub snapshot_entries: u64,
    /// Bytes of commands after which the next snapshot is made. Default 8 MiB.
    pub snapshot_bytes: u64,
    /// Entries kept behind a snapshot, so that a follower that lags a little needs no snapshot. Default 1,000.
    pub log_kept: u64,
    /// How long a whole snapshot may take to one peer; then it begins anew. Default 30 s.
    pub snapshot_within: Duration,
    /// How long a proposal waits for its outcome; then it is undecided. Default 5 s.
    pub propose_within: Duration,
    /// How long one confirmation of leadership may take, its wait for the machine included. Default 2 s.
    pub confirm_within: Duration,
    /// How long a change of members, or a learner's catching up, may take. Default 60 s.
    pub members_within: Duration,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            heartbeat: Duration::from_millis(50),
            election: Duration::from_millis(150)..Duration::from_millis(300),
            append_entries_max: 64,
            snapshot_entries: 2_000,
            snapshot_bytes: 8 * 1024 * 1024,
            log_kept: 1_000,
            snapshot_within: Duration::from_secs(30),
            propose_within: Duration::from_secs(5),
            confirm_within: Duration::from_secs(2),
            members_within: Duration::from_secs(60),
        }
    }
}

impl Settings {
    /// As openraft wants it, or why it refuses.
    pub(crate) fn config(&self) -> Result<openraft::Config, String> {
        let millis = |span: Duration| u64::try_from(span.as_millis()).unwrap_or(u64::MAX);
        let config = openraft::Config {
            cluster_name: "ringfence".to_owned(),
            heartbeat_interval: millis(self.heartbeat),
            election_timeout_min: millis(self.election.start),
            election_timeout_max: millis(self.election.end),
            install_snapshot_timeout: millis(self.snapshot_within),
            max_payload_entries: self.append_entries_max,
            // What openraft itself calls caught up; `members` waits for more.
            replication_lag_threshold: self.append_entries_max,
            snapshot_policy: SnapshotPolicy::LogsSinceLast(self.snapshot_entries),
            max_in_snapshot_log_to_keep: self.log_kept,
            ..openraft::Config::default()
        };
        config.validate().map_err(|error| error.to_string())
    }
}
