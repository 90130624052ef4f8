//! Why there is no decision. A denial is none of these: it is a decision. Each error says whose doing it is, whether
//! something may have been charged, and what to do.

use std::sync::Arc;

/// No decision could be had. Decide for yourself what that means for the request; the client does not guess.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CheckError {
    /// The question could not be put: it is malformed, its domain is not known, or the token does not allow it. The
    /// caller's doing; nothing was spent. Asking again gives the same answer, so the client never does: mend the check,
    /// the policy or the token.
    #[error("{}", rejected(.code, .field, .detail))]
    Rejected {
        /// One of the stable error codes of the API, such as `unknown-domain`.
        code: String,
        /// The field at fault, such as `attributes.client`; empty when none is.
        field: String,
        /// What is wrong and what was expected, for people.
        detail: String,
    },
    /// No node could be reached in time, or all are known to be unreachable for longer than the deadline. Nobody's doing
    /// in this process. `may_have_spent` says whether the check left before a connection broke: then it may have been
    /// charged, once at most. Asking again with the same id within two seconds charges once.
    #[error("no node could be reached in time; the last: {last}")]
    Unreachable {
        /// What happened last.
        last: Trouble,
        /// Whether some attempt left this process and was not answered.
        may_have_spent: bool,
    },
    /// The deadline passed while a node had the question: nodes answer by the limit's failure mode before it, so this
    /// one, or this process, or the network in between was held up. The same is known of what was spent as with
    /// [`CheckError::Unreachable`].
    #[error("no answer within the deadline")]
    DeadlineExceeded {
        /// Whether some attempt left this process and was not answered.
        may_have_spent: bool,
    },
    /// Too many checks are under way in this client already. The caller's doing: ask less at once, or raise the bound
    /// with [`Builder::queue_max`](crate::Builder::queue_max). Nothing was spent.
    #[error("too many checks under way: at most {max}")]
    QueueFull {
        /// How many there may be.
        max: usize,
    },
    /// The client was shut down. The caller's doing.
    #[error("the client is shut down")]
    ShutDown {
        /// Whether some attempt left this process and was not answered.
        may_have_spent: bool,
    },
}

impl CheckError {
    /// Whether the check may have been charged although there is no decision; false when it certainly was not.
    pub const fn may_have_spent(&self) -> bool {
        match self {
            CheckError::Rejected { .. } | CheckError::QueueFull { .. } => false,
            CheckError::Unreachable { may_have_spent, .. }
            | CheckError::DeadlineExceeded { may_have_spent }
            | CheckError::ShutDown { may_have_spent } => *may_have_spent,
        }
    }
}

fn rejected(code: &str, field: &str, detail: &str) -> String {
    match field {
        "" => format!("{code}: {detail}"),
        field => format!("{code}: {field}: {detail}"),
    }
}

/// What went wrong at one node.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{node}: {what}: {detail}")]
pub struct Trouble {
    /// The node's address, as the client was told it.
    pub node: Arc<str>,
    /// What kind of trouble.
    pub what: TroubleKind,
    /// In words, for people.
    pub detail: Arc<str>,
}

/// The kinds of trouble that a client has with a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum TroubleKind {
    /// No connection, or no stream on it. The check never left.
    #[error("no connection")]
    NoConnection,
    /// The stream ended while the check was on its way.
    #[error("stream broken")]
    StreamBroken,
    /// The node took the check and said nothing at all any more.
    #[error("silent")]
    Silent,
    /// The check's time was up before it could leave. The check never left.
    #[error("too late to leave")]
    TooLate,
}

impl TroubleKind {
    /// Whether a check that met this trouble may have been decided.
    pub(crate) const fn may_have_spent(self) -> bool {
        match self {
            TroubleKind::NoConnection | TroubleKind::TooLate => false,
            TroubleKind::StreamBroken | TroubleKind::Silent => true,
        }
    }
}

/// A client cannot be built like this. The caller's doing; nothing was started.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// Without a node there is nobody to ask; and more than [`NODES_MAX`](crate::NODES_MAX) are too many to try.
    #[error("nodes: expected 1 to {max} addresses, found {found}")]
    Nodes {
        /// How many there may be.
        max: usize,
        /// How many there were.
        found: usize,
    },
    /// An address is not `host:port`.
    #[error("nodes: expected host:port, found {address:?}")]
    Address {
        /// The address.
        address: String,
    },
    /// The token holds characters that a header field cannot carry. It is not repeated here.
    #[error("token: expected visible ASCII characters")]
    Token,
    /// A bound is outside its range.
    #[error("{name}: expected {expected}, found {found}")]
    OutOfRange {
        /// The builder's method.
        name: &'static str,
        /// The range.
        expected: String,
        /// What was given.
        found: String,
    },
    /// [`Builder::build`](crate::Builder::build) was called outside a Tokio runtime, on which the client's tasks run.
    #[error("no Tokio runtime: build the client inside one")]
    NoRuntime,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_say_what_where_and_why() {
        let (field, detail) = ("cost".to_owned(), "expected less".to_owned());
        let rejected = CheckError::Rejected { code: "out-of-range".to_owned(), field, detail };
        assert_eq!(rejected.to_string(), "out-of-range: cost: expected less");
        let last = Trouble { node: "a:1".into(), what: TroubleKind::NoConnection, detail: "refused".into() };
        let unreachable = CheckError::Unreachable { last, may_have_spent: true };
        assert_eq!(unreachable.to_string(), "no node could be reached in time; the last: a:1: no connection: refused");
        assert!(unreachable.may_have_spent() && !rejected.may_have_spent());
    }
}
