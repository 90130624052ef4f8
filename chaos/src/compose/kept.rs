//! A limit of a thousand an hour, spent slowly, so that a write to Redis allows for no more than a chunk beyond what is used.
//! Whoever owns a key next knows what was used of it: no more is left than before, and less by a chunk at most.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use client::{Check, Client, Decision};
use tokio::runtime::Runtime;

use crate::bounds::{LOOK_EVERY, SETTLED_WITHIN};

/// A limit that outlives its owners.
pub const POLICY: &str = "\
ringfence: 1
domain: kept
limits: { hourly: { rate: 1000/h, algorithm: sliding-log, key: [client], fail: closed } }
";

/// What one write allows beyond what is used: a fiftieth of the limit.
const CHUNK: u64 = 20;

/// From one check to the next: so slowly that half a second's demand is less than a chunk.
const EVERY: Duration = Duration::from_millis(40);

/// Keys that are looked at to find one of the right owner.
const CANDIDATES: usize = 200;

/// Spends of that limit.
pub struct Spender {
    runtime: Runtime,
    client: Client,
}

impl Spender {
    /// One that asks whichever node is there.
    ///
    /// # Errors
    /// When a client cannot be made.
    pub fn new(apis: &[(String, Arc<str>)], token: &str) -> Result<Spender> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let entered = runtime.enter();
        let nodes = apis.iter().map(|(address, _)| address.clone());
        let client = Client::builder().nodes(nodes).token(token).deadline(Duration::from_secs(1)).build()?;
        drop(entered);
        Ok(Spender { runtime, client })
    }

    /// A key that this node owns.
    ///
    /// # Errors
    /// When none is found.
    pub fn key_of(&self, node: &str) -> Result<String> {
        // A node that was only just told of the policy may not know it yet.
        self.ask_until_owned("anybody").map(drop)?;
        let is_its_own = |key: &String| self.ask(key, 0).is_ok_and(|told| told.owner.as_deref() == Some(node));
        let mut keys = (0..CANDIDATES).map(|number| format!("kept-{number}"));
        keys.find(is_its_own).with_context(|| format!("of {CANDIDATES} keys {node} owns none"))
    }

    /// Spends so many units, one at a time, each of which an owner has to admit; says how many are left.
    ///
    /// # Errors
    /// The first answer that is another.
    pub fn spend(&self, key: &str, units: u64) -> Result<u64> {
        let mut left = 0;
        for _ in 0..units {
            // The pace of a load, not a wait.
            std::thread::sleep(EVERY);
            let told = self.ask(key, 1)?;
            ensure!(told.allowed && !told.degraded, "{key} of a limit that has {left} left: {told:?}");
            left = told.remaining.with_context(|| format!("nobody says what remains of {key}"))?;
        }
        Ok(left)
    }

    /// Waits until an owner answers who knows what was used of the key, of which so much was left; says how much is now.
    ///
    /// # Errors
    /// When more is left than before, or less by more than a chunk.
    pub fn known(&self, key: &str, left: u64) -> Result<u64> {
        let told = self.ask_until_owned(key)?;
        let now = told.remaining.with_context(|| format!("nobody says what remains of {key}"))?;
        let least = left.saturating_sub(CHUNK);
        ensure!((least..=left).contains(&now), "{now} are left of {key}, where {least} to {left} are right: {told:?}");
        self.spend(key, 1)
    }

    fn ask_until_owned(&self, key: &str) -> Result<Decision> {
        let began = Instant::now();
        loop {
            match self.ask(key, 0) {
                Ok(told) if !told.degraded => return Ok(told),
                Ok(_) | Err(_) if began.elapsed() < SETTLED_WITHIN => std::thread::sleep(LOOK_EVERY),
                Ok(told) => bail!("no owner answers for {key}: {told:?}"),
                Err(error) => return Err(error.context(format!("nobody answers for {key}"))),
            }
        }
    }

    fn ask(&self, key: &str, cost: u64) -> Result<Decision> {
        let check = Check::new("kept").attribute("client", key).cost(cost);
        Ok(self.runtime.block_on(self.client.check(check))?)
    }
}
