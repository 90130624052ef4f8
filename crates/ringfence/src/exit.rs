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
        let because = error.downcast_ref::<Because>().map(|because| because.exit);
        because.or_else(|| error.downcast_ref::<Exit>().copied()).unwrap_or(Exit::Failure)
    }
}

/// [`Exit::BadConfig`] as an error that reads as its reason alone, which begins with a stable word of its own.
pub fn bad_config(reason: anyhow::Error) -> anyhow::Error {
    Because { exit: Exit::BadConfig, reason: format!("{reason:#}") }.into()
}

#[derive(Debug)]
struct Because {
    exit: Exit,
    reason: String,
}

impl std::fmt::Display for Because {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.reason)
    }
}

impl std::error::Error for Because {}

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

#[cfg(test)]
mod tests {
    use anyhow::Context as _;

    use super::*;

    #[test]
    fn a_reason_stands_alone_and_keeps_its_exit_code() {
        let reason = anyhow::anyhow!("no such file").context("bad-config: n.toml");
        let error = bad_config(reason);
        assert_eq!(format!("{error:#}"), "bad-config: n.toml: no such file");
        assert_eq!(Exit::of_error(&error), Exit::BadConfig);
        assert_eq!(Exit::of_error(&Err::<(), _>(error).context("dev").unwrap_err()), Exit::BadConfig);
    }

    #[test]
    fn an_exit_may_travel_as_a_cause_and_anything_else_is_a_failure() {
        let unreachable = anyhow::Error::new(Exit::Unreachable).context("127.0.0.1:7600");
        assert_eq!(Exit::of_error(&unreachable), Exit::Unreachable);
        assert_eq!(Exit::of_error(&anyhow::anyhow!("odd")), Exit::Failure);
    }
}
