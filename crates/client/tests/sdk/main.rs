//! The client against small fake nodes that speak the real protocol: what it sends, what it does when they fail, and
//! what it tells its caller.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

mod bounds;
mod failing;
mod fake;
mod streams;

use std::time::Duration;

use ringfence_client::{Builder, Check, Client, NodeState};

/// Long enough that a busy machine does not decide a test's outcome; what a test waits for comes much sooner.
const PATIENT: Duration = Duration::from_secs(20);

fn builder(addresses: &[&str]) -> Builder {
    Client::builder().nodes(addresses.iter().copied()).deadline(PATIENT).connect_timeout(Duration::from_secs(5))
}

/// A client that has a stream to each of these nodes.
async fn connected(builder: Builder) -> Client {
    let client = builder.build().unwrap();
    client.wait_for(|nodes| nodes.iter().all(|node| node.state == NodeState::Reachable)).await;
    client
}

/// A check that a fake can tell from others by its cost.
fn check(cost: u64) -> Check {
    Check::new("test").attribute("client", "alice").cost(cost)
}
