//! The conformance table, the third way: three nodes of one cluster, asked over HTTP in turn, while limit time stands still
//! and moves when a case says so. The program with such a clock is not the one that is given to anybody; the other has to
//! know nothing of it.

#[cfg(not(feature = "test-clock"))]
#[test]
fn a_program_without_the_test_clock_does_not_know_its_command() {
    let mut dev = crate::dev::Dev::start();
    let said = dev.command("clock +1500ms");
    assert_eq!(said, "`clock +1500ms` is no command; there are status, kill NODE, start NODE, stop\n");
    let flag = crate::dev::program().args(["dev", "--test-clock"]).output().unwrap();
    assert_eq!(flag.status.code(), Some(2), "and no flag either");
}

#[cfg(feature = "test-clock")]
mod nodes;
