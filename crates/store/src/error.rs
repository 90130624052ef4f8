//! Why a question to the store has no answer, and why there is no store to ask.

use redis::{ErrorKind, RedisError, ServerErrorKind};
use thiserror::Error;

/// Why a call has no answer. Nothing is lost by asking again; what may have happened meanwhile differs.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum StoreError {
    /// There is no connection. Nothing was sent.
    #[error("the store is away")]
    Away,
    /// As many calls are under way as may be. Nothing was sent; slow down.
    #[error("too many calls to the store are under way")]
    Full,
    /// This part of the call is larger than a call may be. The caller's doing; nothing was sent, and asking again is of no use.
    #[error("the {0} of a call to the store is out of range")]
    TooLarge(&'static str),
    /// No answer came in time, or one that cannot be understood, or the connection broke. It may have happened, or may yet.
    #[error("whether the store did it is unknown")]
    Unknown,
    /// Redis refused, in these words. Nothing changed.
    #[error("the store refused: {0}")]
    Refused(String),
}

/// Why a connection does not serve.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NotUp {
    /// It may pass by itself.
    Down(String),
    /// Stays so until an operator acts.
    Refused(String),
}

impl NotUp {
    /// What an error says that Redis answered an ordinary command with, or the connection's end.
    pub(crate) fn of(error: &RedisError) -> NotUp {
        let not_let_in =
            matches!(error.kind(), ErrorKind::AuthenticationFailed | ErrorKind::Server(ServerErrorKind::NoPerm))
                || matches!(error.code(), Some("NOAUTH" | "WRONGPASS" | "DENIED"));
        if not_let_in { NotUp::Refused(words_of(error)) } else { NotUp::Down(words_of(error)) }
    }
}

/// What Redis said, code first; or what the crate says where that was none of Redis's doing.
pub(crate) fn words_of(error: &RedisError) -> String {
    match (error.code(), error.detail()) {
        (Some(code), Some(detail)) => format!("{code} {detail}"),
        (Some(code), None) => code.to_owned(),
        (None, _) => error.to_string(),
    }
}
