//! Log lines on stderr, as text or as JSON, with times in UTC as RFC 3339 has them.

use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::ParseError;

/// The variable that overrides which lines are written.
pub const FILTER_VARIABLE: &str = "RINGFENCE_LOG";

/// What consensus says of itself is for its developers: it is left out unless a filter names it.
const ALWAYS: &str = "openraft=off";

/// Which lines are written.
///
/// # Errors
///
/// The text is not a filter.
pub fn filter(text: &str) -> Result<EnvFilter, ParseError> {
    EnvFilter::builder().parse(format!("{ALWAYS},{text}"))
}

/// Begins to write log lines that pass `default`, or what the environment says instead.
///
/// # Errors
///
/// Neither is a filter.
pub fn start(json: bool, default: &str) -> anyhow::Result<()> {
    let text = std::env::var(FILTER_VARIABLE).ok().filter(|text| !text.is_empty());
    let filter = match &text {
        Some(text) => {
            filter(text).map_err(|error| anyhow::anyhow!("bad-config: {FILTER_VARIABLE}: `{text}`: {error}"))?
        }
        None => filter(default)?,
    };
    let lines = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    let ansi = std::io::IsTerminal::is_terminal(&std::io::stderr()) && std::env::var_os("NO_COLOR").is_none();
    match json {
        true => lines.json().flatten_event(true).init(),
        false => lines.with_ansi(ansi).init(),
    }
    Ok(())
}

/// From now on a panic, in whatever thread or task, is a log line and the end of the process. A task of a node that has
/// gone would leave a node behind that looks alive and no longer does part of its work; its lease is better left to run
/// out. The process aborts, since whatever runs on its way out could rely on what was just found broken.
pub fn end_on_panic() {
    std::panic::set_hook(Box::new(|panic| {
        let message = panic.payload_as_str().unwrap_or("no message");
        let place = panic.location().map(ToString::to_string).unwrap_or_default();
        let backtrace = std::backtrace::Backtrace::capture();
        tracing::error!(place, %backtrace, "panic: {message}");
        std::process::abort();
    }));
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt as _;

    use super::*;

    /// Set in the process that a test starts of itself, to break.
    const BREAK: &str = "RINGFENCE_TEST_BREAKS";

    #[test]
    fn filters_are_read_and_consensus_is_silent_unless_it_is_named() {
        for (text, wanted) in [("info", "openraft=off,info"), ("debug,openraft=warn", "openraft=warn,debug")] {
            assert_eq!(filter(text).unwrap().to_string(), wanted);
        }
        assert!(filter("info,==").is_err());
    }

    #[test]
    fn a_panic_in_a_task_is_a_log_line_and_the_end_of_the_process() {
        if std::env::var_os(BREAK).is_some() {
            start(true, "info").unwrap();
            end_on_panic();
            let runtime = tokio::runtime::Builder::new_multi_thread().build().unwrap();
            let task = runtime.spawn(async { panic!("an invariant is broken") });
            let _ = runtime.block_on(task);
            return;
        }
        let name = "logging::tests::a_panic_in_a_task_is_a_log_line_and_the_end_of_the_process";
        let mut again = std::process::Command::new(std::env::current_exe().unwrap());
        let ended = again.args(["--exact", name, "--nocapture"]).env(BREAK, "1").output().unwrap();
        let said = String::from_utf8_lossy(&ended.stderr);
        assert_eq!(ended.status.signal(), Some(6), "SIGABRT: {said}");
        assert!(said.contains("\"message\":\"panic: an invariant is broken\""), "{said}");
        assert!(said.contains("logging.rs:"), "it says where: {said}");
    }
}
