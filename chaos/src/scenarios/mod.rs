//! What is done to a cluster, one script per event. The cluster is founded and under load when a script begins, and has to
//! be whole again after it ends; everything in between is the script's.

mod clocks;
mod crashes;
mod cuts;
mod freezes;
mod ledger;
mod redis;
mod restarts;

use std::path::Path;

use anyhow::Result;

use crate::stage::Stage;

/// One event.
pub struct Scenario {
    /// Its name, for `--only`.
    pub name: &'static str,
    /// The event in a few words, as the table of failures has it.
    pub event: &'static str,
    /// What is prepared before the nodes are started; given faketime's library.
    pub prepare: fn(&mut Stage, &Path) -> Result<()>,
    /// The script.
    pub script: fn(&mut Stage) -> Result<()>,
    /// Whether keys of nodes that nobody touches must be answered by their owners all the time.
    pub spares: bool,
}

/// Every scenario, in the order in which they run.
pub const ALL: &[Scenario] = &[
    Scenario {
        name: "kill-owner",
        event: "`kill -9` of an owner",
        prepare: nothing,
        script: crashes::owner,
        spares: true,
    },
    Scenario {
        name: "kill-ingress",
        event: "`kill -9` of the node that callers ask",
        prepare: nothing,
        script: crashes::ingress,
        spares: true,
    },
    Scenario {
        name: "kill-leader",
        event: "`kill -9` of the raft leader",
        prepare: nothing,
        script: crashes::leader,
        spares: true,
    },
    Scenario {
        name: "freeze",
        event: "an owner frozen for 10 s (SIGSTOP)",
        prepare: nothing,
        script: freezes::ten_seconds,
        spares: false,
    },
    Scenario {
        name: "hiccups",
        event: "a node that stands still again and again, for 190 ms",
        prepare: nothing,
        script: ledger::hiccups,
        spares: false,
    },
    Scenario {
        name: "freeze-all",
        event: "all nodes frozen for 10 s",
        prepare: nothing,
        script: freezes::everybody,
        spares: false,
    },
    Scenario {
        name: "cut-both",
        event: "the raft leader cut off, both ways",
        prepare: nothing,
        script: cuts::both,
        spares: false,
    },
    Scenario {
        name: "cut-inbound",
        event: "an owner that hears nobody",
        prepare: nothing,
        script: cuts::inbound,
        spares: false,
    },
    Scenario {
        name: "cut-outbound",
        event: "an owner that nobody hears",
        prepare: nothing,
        script: cuts::outbound,
        spares: false,
    },
    Scenario {
        name: "planned-exit",
        event: "planned exit (SIGTERM) and restart",
        prepare: nothing,
        script: restarts::planned,
        spares: true,
    },
    Scenario {
        name: "wiped",
        event: "restarted with an empty data directory",
        prepare: nothing,
        script: restarts::wiped,
        spares: true,
    },
    Scenario {
        name: "two-of-three",
        event: "all killed, two of three restarted",
        prepare: nothing,
        script: restarts::two_of_three,
        spares: false,
    },
    Scenario {
        name: "all-three",
        event: "all killed, all restarted",
        prepare: nothing,
        script: restarts::all_three,
        spares: false,
    },
    Scenario {
        name: "no-quorum",
        event: "all killed, one restarted alone, then the others",
        prepare: nothing,
        script: restarts::alone,
        spares: false,
    },
    Scenario {
        name: "asked-again",
        event: "questions asked again and again while a node dies",
        prepare: nothing,
        script: ledger::asked_again,
        spares: true,
    },
    Scenario {
        name: "wall-step",
        event: "the raft leader's wall clock set an hour ahead, and an owner killed",
        prepare: clocks::settable,
        script: clocks::step,
        spares: false,
    },
    Scenario {
        name: "clock-rate",
        event: "one node's clocks half a percent fast, and another killed",
        prepare: clocks::fast,
        script: clocks::rate,
        spares: false,
    },
    Scenario {
        name: "redis-owner",
        event: "with Redis: `kill -9` of an owner",
        prepare: redis::alone,
        script: redis::owner,
        spares: true,
    },
    Scenario {
        name: "redis-empty",
        event: "Redis killed and back empty, then an owner killed",
        prepare: redis::alone,
        script: redis::back_empty,
        spares: true,
    },
    Scenario {
        name: "redis-frozen",
        event: "Redis frozen for 3 s (SIGSTOP)",
        prepare: redis::alone,
        script: redis::frozen,
        spares: false,
    },
    Scenario {
        name: "redis-cut",
        event: "Redis cut off for 3 s, silently",
        prepare: redis::alone,
        script: redis::cut_off,
        spares: false,
    },
    Scenario {
        name: "redis-flushed",
        event: "Redis flushed, then an owner killed",
        prepare: redis::alone,
        script: redis::flushed,
        spares: true,
    },
    Scenario {
        name: "redis-failover",
        event: "Redis failed over to a replica that lacks a second, an owner killed; and back, another killed",
        prepare: redis::replicated,
        script: redis::failed_over,
        spares: false,
    },
    Scenario {
        name: "redis-all-three",
        event: "with Redis: all killed, all restarted",
        prepare: redis::alone,
        script: redis::all_killed,
        spares: false,
    },
    Scenario {
        name: "redis-and-all",
        event: "all killed, Redis too, all restarted",
        prepare: redis::alone,
        script: redis::all_and_redis_killed,
        spares: false,
    },
];

/// The scenario of this name.
pub fn named(name: &str) -> Option<&'static Scenario> {
    ALL.iter().find(|scenario| scenario.name == name)
}

#[allow(clippy::unnecessary_wraps, reason = "some scenarios prepare something")]
fn nothing(_: &mut Stage, _: &Path) -> Result<()> {
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn names_and_events_are_told_apart() {
        for word in [|scenario: &Scenario| scenario.name, |scenario: &Scenario| scenario.event] {
            assert_eq!(ALL.iter().map(word).collect::<BTreeSet<_>>().len(), ALL.len());
        }
        assert!(named("kill-owner").is_some() && named("kill").is_none());
    }
}
