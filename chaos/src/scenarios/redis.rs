//! What becomes of limits when Redis does: alone, where nothing may be felt but by keys that outrun what was written for them;
//! and before an owner, whose successor then knows what was used, or says that it does not.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result};
use limits::{Moment, Span};

use crate::admin::ReportedRedis;
use crate::bounds::OWNED_AGAIN;
use crate::stage::{NODES, Stage, sessions};
use crate::succession::Knows;

/// How long Redis stands still or is cut off.
const AWAY: Duration = Duration::from_secs(3);

/// How long the survivors go on spending before a dead node returns.
const ALONE: Duration = Duration::from_secs(1);

/// By when every key with room has asked for another chunk: what one allows lasts a second and a half at the load's pace.
const RAISED: Duration = Duration::from_secs(2);

/// How long the replica hears nothing before it takes over.
const DEAF: Duration = Duration::from_secs(1);

/// One server.
pub fn alone(stage: &mut Stage, _: &Path) -> Result<()> {
    stage.add_redis(1)
}

/// A primary and a replica.
pub fn replicated(stage: &mut Stage, _: &Path) -> Result<()> {
    stage.add_redis(2)
}

pub fn owner(stage: &mut Stage) -> Result<()> {
    stage.wait_durable()?;
    let (_, owner) = stage.leader_and_follower()?;
    dies_and_returns(stage, owner)
}

pub fn back_empty(stage: &mut Stage) -> Result<()> {
    stage.wait_durable()?;
    let before = stage.life()?;
    let at = stage.kill_redis()?;
    stage.wipe_redis()?;
    stage.claim_volatile(at)?;
    let at = stage.start_redis()?;
    stage.claim_durable_again(at)?;
    let but = Some(format!("it is {before} still")).filter(|life| stage.life().is_ok_and(|now| *life == now));
    stage.claim("it is another life of Redis", but);
    let (_, owner) = stage.leader_and_follower()?;
    dies_and_returns(stage, owner)
}

pub fn frozen(stage: &mut Stage) -> Result<()> {
    away_and_back(stage, Stage::freeze_redis, Stage::thaw_redis)
}

/// Nothing passes, and nobody is told: the connections look as if they were there.
pub fn cut_off(stage: &mut Stage) -> Result<()> {
    away_and_back(stage, Stage::cut_redis, Stage::mend_redis)
}

fn away_and_back(
    stage: &mut Stage,
    goes: impl FnOnce(&mut Stage) -> Result<Moment>,
    returns: impl FnOnce(&mut Stage) -> Result<Moment>,
) -> Result<()> {
    stage.wait_durable()?;
    let gone = goes(stage)?;
    let known = stage.claim_volatile(gone)?;
    let passed = stage.watch.now().since(gone);
    stage.pass(Span::from(AWAY).saturating_sub(passed).into());
    let back = returns(stage)?;
    (stage.notes.away, stage.notes.is_unmoved) = (Some((known, back)), true);
    stage.claim_durable_again(back)
}

/// Somebody empties it under a running cluster. Keys that are spent from are written anew; then an owner dies.
pub fn flushed(stage: &mut Stage) -> Result<()> {
    stage.wait_durable()?;
    let before = stage.sum(|redis| redis.fenced_writes)?;
    stage.flush_redis()?;
    stage.wait_counted("a node finding out", before, |redis| redis.fenced_writes)?;
    stage.mark("found out");
    stage.pass(RAISED);
    let (_, owner) = stage.leader_and_follower()?;
    dies_and_returns(stage, owner)
}

/// A replica takes over that lacks the last second, an owner dies; and the same once more, back to the first server.
pub fn failed_over(stage: &mut Stage) -> Result<()> {
    stage.wait_durable()?;
    let (_, owner) = stage.leader_and_follower()?;
    replica_takes_over(stage)?;
    dies_and_returns(stage, owner)?;
    stage.follow_back()?;
    let (leader, _) = stage.leader_and_follower()?;
    let another = (0..NODES).find(|node| *node != leader && *node != owner).context("a third node")?;
    replica_takes_over(stage)?;
    dies_and_returns(stage, another)
}

fn replica_takes_over(stage: &mut Stage) -> Result<()> {
    stage.deafen_replica()?;
    stage.pass(DEAF);
    let at = stage.fail_over()?;
    stage.claim_durable_again(at)
}

pub fn all_killed(stage: &mut Stage) -> Result<()> {
    all_die_and_return(stage, Knows::TheRest, |_| Ok(()))
}

/// Nobody is left who knows whether Redis has all that it had acknowledged.
pub fn all_and_redis_killed(stage: &mut Stage) -> Result<()> {
    all_die_and_return(stage, Knows::Nothing, |stage| {
        stage.wait_in_its_file()?;
        stage.kill_redis()?;
        stage.start_redis().map(drop)
    })?;
    let doubted = |redis: &ReportedRedis| redis.claims.get("other_life").copied().unwrap_or(0);
    stage.wait_counted("what the restarted Redis has being found to be of another life", 0, doubted)
}

fn dies_and_returns(stage: &mut Stage, owner: usize) -> Result<()> {
    let lost = sessions(&stage.cluster(owner)?, &[owner]);
    let at = stage.kill(owner)?;
    stage.succeeded(at, &[owner], Knows::TheRest);
    stage.claim_taken_over(at, &lost)?;
    stage.pass(ALONE);
    stage.start(owner)?;
    stage.up(owner)
}

fn all_die_and_return(stage: &mut Stage, knows: Knows, meanwhile: impl FnOnce(&mut Stage) -> Result<()>) -> Result<()> {
    stage.wait_durable()?;
    let all: Vec<usize> = (0..NODES).collect();
    let lost = sessions(&stage.cluster(0)?, &all);
    let mut first: Option<Moment> = None;
    for node in &all {
        let at = stage.kill(*node)?;
        first.get_or_insert(at);
    }
    stage.succeeded(first.context("a node")?, &all, knows);
    meanwhile(stage)?;
    for node in &all {
        stage.start(*node)?;
    }
    for node in &all {
        stage.up(*node)?;
    }
    let at = stage.mark("three are ready");
    stage.claim_owned_again(at, &lost, OWNED_AGAIN).map(drop)
}
