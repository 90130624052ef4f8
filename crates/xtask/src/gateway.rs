//! The tests of forward-auth behind a real gateway as an errand and as a step of their own: cargo's runner cannot say that a
//! test did not run for want of a program, so those tests are ignored there, and run here once nginx is seen to.

use std::path::Path;

use anyhow::{Result, ensure};

use crate::machine::{self, Program};
use crate::shell;

/// The gateway. Debian has several packages with the module that asks (`ngx_http_auth_request_module`); this is the smallest.
const NGINX: &[Program] = &[Program { name: "nginx", package: "nginx-light" }];

/// How the names of these tests begin.
const TESTS: &str = "forward_auth::nginx_";

/// Sees to nginx and runs the tests.
///
/// # Errors
/// When nginx is missing ([`DidNotRun`](crate::machine::DidNotRun)), when something does not build, when a test fails, or
/// when there is none: a name that nothing has any more must not look like a test that passed.
pub fn run(root: &Path, mut see: impl FnMut(&str)) -> Result<()> {
    machine::need_programs(NGINX)?;
    // Of the whole workspace, so that cargo chooses the features that it chose for the tests, and builds nothing twice.
    let words = ["test", "--quiet", "--workspace", "--test", "cluster", "--", "--ignored", TESTS];
    let mut ran = false;
    shell::run_and_read(&mut shell::cargo(root, &words), |line| {
        ran |= is_start_of_some(line);
        see(line);
    })?;
    ensure!(ran, "no test is called {TESTS}..");
    Ok(())
}

/// Whether cargo's runner says that it is about to run at least one test.
fn is_start_of_some(line: &str) -> bool {
    line.strip_prefix("running ").and_then(|rest| rest.split(' ').next()).is_some_and(|count| count != "0")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_of_no_test_is_told_from_a_run_of_some() {
        assert!(is_start_of_some("running 1 test") && is_start_of_some("running 10 tests"));
        assert!(!is_start_of_some("running 0 tests") && !is_start_of_some("test result: ok. 0 passed"));
    }
}
