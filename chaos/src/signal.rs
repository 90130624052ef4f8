//! Signals to the suite's own children, and who runs it. The two system calls that std does not have.

use std::io;
use std::process::Child;

/// What is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// The process stands still until [`Signal::Continue`].
    Stop,
    /// It goes on.
    Continue,
    /// It is asked to end.
    Terminate,
}

/// Sends a signal to a child that has not been waited for, so that its number is still its own.
///
/// # Errors
/// When there is no such process any more.
#[allow(unsafe_code, reason = "std can only kill")]
pub fn send(child: &Child, signal: Signal) -> io::Result<()> {
    let number = match signal {
        Signal::Stop => libc::SIGSTOP,
        Signal::Continue => libc::SIGCONT,
        Signal::Terminate => libc::SIGTERM,
    };
    let process = libc::pid_t::try_from(child.id()).expect("process numbers of Linux are small");
    // SAFETY: `kill` takes two numbers and touches no memory of ours.
    match unsafe { libc::kill(process, number) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// The user whose rights this process has; 0 is root.
#[allow(unsafe_code, reason = "std does not say it")]
pub fn effective_user() -> u32 {
    // SAFETY: `geteuid` takes nothing, touches nothing, and cannot fail.
    unsafe { libc::geteuid() }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use std::os::unix::process::ExitStatusExt as _;
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn a_stopped_child_is_terminated_only_when_it_goes_on() {
        let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        send(&child, Signal::Stop).unwrap();
        send(&child, Signal::Terminate).unwrap();
        assert!(child.try_wait().unwrap().is_none());
        send(&child, Signal::Continue).unwrap();
        assert_eq!(child.wait().unwrap().signal(), Some(libc::SIGTERM));
    }
}
