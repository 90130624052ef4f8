//! The times of the protocol that the suite holds a cluster to, and the slack it grants. A node of the suite runs with the
//! defaults; whoever changes those changes these.

use std::time::Duration;

use limits::Span;

/// How long a lease lives.
pub const LEASE_TTL: Span = Span::from_millis(3_000);

/// How long a change of leader takes, measured: twice the longest election timeout and a heartbeat.
pub const FAILOVER: Span = Span::from_millis(650);

/// What real processes get on top, beyond what the machine was seen to stand still.
pub const SLACK: Span = Span::from_millis(1_000);

/// By when every partition has an owner again after an owner was lost, the machine's own stalls apart.
pub const OWNED_AGAIN: Span = LEASE_TTL.saturating_add(FAILOVER).saturating_add(SLACK);

/// By when a node that leaves as planned has given everything away: nobody waits for a lease.
pub const GIVEN_AWAY: Span = SLACK;

/// By when the log says that nothing counts any more, after Redis was lost: a link that passes nothing on is left behind
/// within two seconds.
pub const STORE_LEFT: Span = Span::from_millis(2_000).saturating_add(SLACK);

/// By when what is kept counts again, after Redis can be reached again: the longest attempt to connect that is under way, the
/// longest wait for the next, and five seconds that have to pass after it failed.
pub const STORE_BACK: Span = Span::from_millis(1_000)
    .saturating_add(Span::from_millis(1_000))
    .saturating_add(Span::from_millis(5_000))
    .saturating_add(SLACK);

/// How long a cluster may take to found itself or to be whole again before the suite gives a scenario up.
pub const SETTLED_WITHIN: Duration = Duration::from_secs(30);

/// How often the suite looks at the map.
pub const LOOK_EVERY: Duration = Duration::from_millis(20);
