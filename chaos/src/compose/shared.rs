//! One limit, asked through three nodes: what the first two spend is missing at the third. The window is an hour, so no
//! clock has a say, and the counts are exact.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use client::{Check, CheckError, Client};

use crate::bounds::{LOOK_EVERY, SETTLED_WITHIN};

/// A limit of twenty in any hour.
pub const POLICY: &str = "\
ringfence: 1
domain: shared
limits: { hourly: { rate: 20/h, algorithm: sliding-log, key: [client], fail: closed } }
";

/// What is asked for at each node.
const COST: u64 = 7;

/// The answers, by what remains: two fit, and the third is refused, which costs nothing.
const EXPECTED: [(bool, u64); 3] = [(true, 13), (true, 6), (false, 6)];

/// Makes the three calls.
///
/// # Errors
/// When a node counts otherwise, or does not answer as an owner would.
pub fn three_calls(apis: &[(String, Arc<str>)], token: &str) -> Result<String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut answers = Vec::new();
        for (address, name) in apis {
            let client =
                Client::builder().nodes([address.clone()]).token(token).deadline(Duration::from_secs(1)).build()?;
            wait_for_policy(&client).await.with_context(|| format!("asking {name}"))?;
            let decision = client.check(about().cost(COST)).await.with_context(|| format!("asking {name}"))?;
            ensure!(!decision.degraded, "{name} answers without an owner: {decision:?}");
            let remaining = decision.remaining.with_context(|| format!("{name} does not say what remains"))?;
            answers.push((decision.allowed, remaining));
        }
        ensure!(answers == EXPECTED, "(allowed, remaining) were {answers:?}, and {EXPECTED:?} is right");
        Ok(format!("{COST} of 20 each: 13 left, 6 left, refused"))
    })
}

/// A policy decides everywhere at once, but a node that is behind learns of it a moment later.
async fn wait_for_policy(client: &Client) -> Result<()> {
    let began = Instant::now();
    loop {
        match client.check(about().cost(0)).await {
            Ok(_) => return Ok(()),
            Err(CheckError::Rejected { code, .. }) if code == "unknown-domain" && began.elapsed() < SETTLED_WITHIN => {
                tokio::time::sleep(LOOK_EVERY).await;
            }
            Err(error) => bail!(error),
        }
    }
}

fn about() -> Check {
    Check::new("shared").attribute("client", "alice")
}
