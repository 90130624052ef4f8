//! Exit codes: a script that calls `ringfence` can tell what happened without reading.

use std::process::ExitCode;

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// It did what was asked; of `check`: allowed.
    Ok,
    /// It could not, or the answer is a plain no.
    Failure,
    /// A check was not allowed.
    Denied,
    /// Nobody answered.
    Unreachable,
    /// The configuration is wrong, or a port is taken: nothing was started.
    BadConfig,
}

impl Exit {
    /// The exit code of an error: an [`Exit`] that travels in its chain, or plain failure.
    pub fn of_error(error: &anyhow::Error) -> Exit {
        error.downcast_ref::<Exit>().copied().unwrap_or(Exit::Failure)
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(match exit {
            Exit::Ok => 0,
            Exit::Failure => 1,
            // 2 is what clap answers to wrong usage.
            Exit::Denied => 3,
            Exit::Unreachable => 4,
            Exit::BadConfig => 78,
        })
    }
}

impl std::fmt::Display for Exit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Exit::Ok => "ok",
            Exit::Failure => "failed",
            Exit::Denied => "denied",
            Exit::Unreachable => "cluster unreachable",
            Exit::BadConfig => "bad configuration",
        })
    }
}

impl std::error::Error for Exit {}
