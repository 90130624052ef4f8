//! What is going on in a cluster when something breaks: the other side of the coverage grid. A phase is a fact about the
//! world's state at one moment; several can hold at once. Phases of parts that are not built yet are listed as absent, so
//! that nobody takes their cells for covered.

/// What is going on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Phase {
    /// Every partition has an owner with a lease, and nothing below holds.
    Stable,
    /// An owner has less of its lease left than twice `D_max`.
    LeaseLow,
    /// A renewal or its acknowledgement is under way.
    Renewing,
    /// A confirmation of leadership is under way.
    Confirming,
    /// Nobody leads, or the leader has not applied the first entry of its term.
    Electing,
    /// A session's lease has run out, and the log has not ended it.
    Expiring,
    /// A takeover is committed, and somebody has not applied it.
    Publishing,
    /// A successor decides through a floor that still matters.
    Recovering,
    /// A question is asked for the second time or later.
    Retrying,
    /// A cancel or a debt is under way.
    Correcting,
    /// A node has no session, and waits for one.
    Opening,
    /// Policies differ from node to node.
    PolicyChanging,
    /// A planned exit is under way: sealed, and not released.
    Leaving,
    /// Leases last longer or shorter than they did, and not everybody knows it, or leaders still wait for longer ones.
    TtlChanging,
    /// A partition that was taken over is being claimed in the store.
    Claiming,
    /// What is used of a key is being written down.
    Writing,
    /// A session whose store is in trouble has asked the log to say that its records count nowhere.
    VolatilePending,
}

impl Phase {
    /// All that can be reached.
    pub const ALL: &[Phase] = &[
        Phase::Stable,
        Phase::LeaseLow,
        Phase::Renewing,
        Phase::Confirming,
        Phase::Electing,
        Phase::Expiring,
        Phase::Publishing,
        Phase::Recovering,
        Phase::Retrying,
        Phase::Correcting,
        Phase::Opening,
        Phase::PolicyChanging,
        Phase::Leaving,
        Phase::TtlChanging,
        Phase::Claiming,
        Phase::Writing,
        Phase::VolatilePending,
    ];

    /// Those that only a story with a store has.
    pub const OF_STORE: &[Phase] = &[Phase::Claiming, Phase::Writing, Phase::VolatilePending];

    /// Of parts that are not built: named in the grid, never counted.
    pub const ABSENT: &[&str] =
        &["pre-copy", "sealed, not sent", "certificate in flight", "activated, not published", "escrow out"];

    /// The word in the grid.
    pub const fn as_str(self) -> &'static str {
        match self {
            Phase::Stable => "stable",
            Phase::LeaseLow => "lease low",
            Phase::Renewing => "renewing",
            Phase::Confirming => "confirming",
            Phase::Electing => "electing",
            Phase::Expiring => "expiring",
            Phase::Publishing => "publishing",
            Phase::Recovering => "recovering",
            Phase::Retrying => "retrying",
            Phase::Correcting => "correcting",
            Phase::Opening => "opening",
            Phase::PolicyChanging => "policy changing",
            Phase::Leaving => "leaving",
            Phase::TtlChanging => "ttl changing",
            Phase::Claiming => "claim and read",
            Phase::Writing => "allowance write in flight",
            Phase::VolatilePending => "volatile pending",
        }
    }
}
