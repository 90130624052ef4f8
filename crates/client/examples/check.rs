//! Asks a cluster about one client until it is denied, and then once more after the wait that the denial names.
//!
//! ```text
//! ringfence dev
//! cargo run -p ringfence-client --example check -- 127.0.0.1:7600 127.0.0.1:7610 127.0.0.1:7620
//! ```
#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use std::error::Error;
use std::time::Duration;

use ringfence_client::{Check, Client, Decision};

/// More than the sample policy lets through at once.
const CHECKS_MAX: usize = 100;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let nodes: Vec<String> = std::env::args().skip(1).collect();
    if nodes.is_empty() {
        return Err("usage: check HOST:PORT [HOST:PORT ...]".into());
    }
    let client = Client::builder().nodes(nodes).deadline(Duration::from_millis(500)).build()?;
    let check = || Check::new("default").attribute("client", "example");
    for _ in 0..CHECKS_MAX {
        let decision = client.check(check()).await?;
        println!("{}", line(&decision));
        if let Some(wait) = decision.retry_after {
            tokio::time::sleep(wait).await;
            println!("{}", line(&client.check(check()).await?));
            break;
        }
    }
    client.shutdown().await;
    Ok(())
}

fn line(decision: &Decision) -> String {
    let Decision { allowed, limit, remaining, retry_after, reason, source, owner, .. } = decision;
    let word = if *allowed { "allowed" } else { "denied" };
    let limit = limit.as_deref().unwrap_or("no limit");
    let mut line = format!("{word}  {limit}: {reason}");
    if let Some(remaining) = remaining {
        line += &format!(", {remaining} left");
    }
    if let Some(wait) = retry_after {
        line += &format!(", come back in {wait:?}");
    }
    let owner = owner.as_deref().unwrap_or("nobody");
    format!("{line} (decided by {owner}, source {source}, told by {})", decision.answered_by)
}
