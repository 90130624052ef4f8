//! What the cluster agrees on: genesis, sessions, the map that appoints owners, and policies, as one replicated state
//! machine. Commands come out of the log in order, [`State::apply`] decides what is legal, and every node that applied
//! the same entries holds the same state. Beside it: the plans a leader proposes from, and how a cluster is founded
//! once.

mod command;
pub mod event;
pub mod founding;
mod genesis;
mod inline;
mod lease;
mod map;
mod plan;
mod policies;
mod refusal;
mod sessions;
mod state;

pub use command::{
    Addresses, AppointedBy, Command, Expected, InlineProposal, LimitDigest, NodeSpec, PolicyProposal, Run, VersionRange,
};
pub use event::Event;
pub use genesis::{ClusterId, FOUNDERS_MAX, FoundersDigest, Genesis, GenesisError, HashIds, LeaseTerms, NAME_MAX};
pub use inline::{INLINE_KEPT, InlineLimit, InlineLimits};
pub use lease::{Lease, TTL_MAX};
pub use map::{Appointment, Assignment, Map};
pub use policies::{
    DOCUMENT_MAX, DOCUMENTS_MAX, DOMAINS_MAX, DomainPolicies, HISTORY_MAX, LIMITS_MAX, LimitEntry, Policies,
    PolicyRevision, RETIRED_MAX, REVISIONS_KEPT, RetiredLimit, TEXT_MAX,
};
pub use refusal::{Applied, Refusal};
pub use sessions::{EndedSession, Ending, KeptIn, LiveSession, SESSIONS_MAX, SESSIONS_REMEMBERED, Sessions};
pub use state::{Cluster, Corrupt, Effects, State};
