//! Charged once: what a limit says is used, against what callers were told. The questions are about a key whose owner is
//! not touched, under a limit to which nothing flows back.

use std::time::Duration;

use anyhow::{Context as _, Result, anyhow};
use limits::Moment;
use sim::ledger::{Attempt, Standing, reconcile};

use crate::load::Callers;
use crate::node_file::name;
use crate::stage::{NODES, Stage, sessions};
use crate::terms::{LEDGER, LEDGER_CAPACITY};

/// Keys that are looked at to find one of the right owner.
const CANDIDATES: usize = 200;

/// Questions of [`asked_again`], each asked at every node, one a millisecond.
const ASKED_AGAIN: usize = 600;

/// When the node dies: in the middle of them.
const DIES_AFTER: Duration = Duration::from_millis(400);

/// Questions are asked again and again under one id, at every node, by callers some of whom hang up at once, while a node
/// dies that is neither the key's owner nor the leader.
pub fn asked_again(stage: &mut Stage) -> Result<()> {
    let (leader, dies) = stage.leader_and_follower()?;
    let callers = stage.callers()?;
    let key = key_of_the_third(&callers, leader, dies)?;
    let lost = sessions(&stage.cluster(leader)?, &[dies]);
    let asking = || callers.ask_again_and_again(LEDGER, &key, ASKED_AGAIN);
    let (attempts, at) = while_asking(asking, || {
        stage.pass(DIES_AFTER);
        stage.kill(dies)
    })?;
    claim_reconciled(stage, &callers, &key, &attempts, ASKED_AGAIN)?;
    stage.claim_taken_over(at, &lost)?;
    stage.start(dies)?;
    stage.up(dies)
}

/// How often an ingress hiccups, how long it stands still each time, and how long it runs in between. Each pause is longer
/// than callers wait before they ask another node, and far shorter than a lease.
const HICCUPS: u32 = 16;
const STILL: Duration = Duration::from_millis(190);
const RUNS: Duration = Duration::from_millis(210);

/// From one question to the next: so many that each pause finds some on their way.
const PRESS_EVERY: Duration = Duration::from_micros(500);

/// A node stands still for moments, with questions in its hands: their callers ask another under the same id, while the
/// first still has its own idea of how they ended.
pub fn hiccups(stage: &mut Stage) -> Result<()> {
    let (leader, ingress) = stage.leader_and_follower()?;
    let callers = stage.callers()?;
    let key = key_of_the_third(&callers, leader, ingress)?;
    let before = stage.cluster(leader)?;
    let questions = usize::try_from(((STILL + RUNS) * HICCUPS).as_micros() / PRESS_EVERY.as_micros()).unwrap_or(0);
    let asking = || callers.ask_steadily(LEDGER, &key, ingress, questions, PRESS_EVERY);
    let (attempts, ()) = while_asking(asking, || {
        for _ in 0..HICCUPS {
            stage.pass(RUNS);
            stage.freeze(ingress)?;
            stage.pass(STILL);
            stage.thaw(ingress)?;
        }
        stage.up(ingress)
    })?;
    claim_reconciled(stage, &callers, &key, &attempts, questions / 2)?;
    let after = stage.cluster(leader)?;
    let moved = after.map_version != before.map_version;
    let but = Some(format!("the map went from {} to {}", before.map_version, after.map_version)).filter(|_| moved);
    stage.claim("no partition moves for it", but);
    Ok(())
}

/// A key that the node owns which is neither of these two.
fn key_of_the_third(callers: &Callers, one: usize, other: usize) -> Result<String> {
    let third = (0..NODES).find(|node| *node != one && *node != other).context("a third node")?;
    let is_its_own = |key: &String| callers.owner_of(LEDGER, key).is_some_and(|owner| owner == name(third));
    let mut keys = (0..CANDIDATES).map(|number| format!("ledger-{number}"));
    keys.find(is_its_own).context("no key of the third node")
}

fn while_asking<T>(
    asking: impl FnOnce() -> Vec<Attempt> + Send,
    script: impl FnOnce() -> Result<T>,
) -> Result<(Vec<Attempt>, T)> {
    std::thread::scope(|scope| {
        let asked = scope.spawn(asking);
        let done = script();
        let attempts = asked.join().map_err(|_| anyhow!("whoever asked panicked"))?;
        Ok((attempts, done?))
    })
}

/// Claims that every id was charged at most once, that what was told to be admitted was charged, and that enough was told
/// for that to say something.
fn claim_reconciled(
    stage: &mut Stage,
    callers: &Callers,
    key: &str,
    attempts: &[Attempt],
    told_min: usize,
) -> Result<Moment> {
    let remaining = callers.remaining(LEDGER, key).context("the owner does not say what remains")?;
    let used = LEDGER_CAPACITY - remaining;
    let told = attempts.iter().filter(|attempt| attempt.admitted == Some(true)).count();
    let but = reconcile(attempts, Standing { used }).err().map(|found| found.to_string());
    stage.claim("every id is charged once, and what was admitted is charged", but);
    let but = Some(format!("{told} answers of {}", attempts.len())).filter(|_| told < told_min);
    stage.claim("enough is answered for the ledger to say something", but);
    Ok(stage.mark(format!("{used} units used, {told} told")))
}
