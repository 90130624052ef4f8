//! A node stands still for longer than its lease, and goes on as if nothing had happened.

use std::time::Duration;

use anyhow::Result;
use limits::Span;

use crate::stage::{Stage, sessions};

/// How long it stands still.
const FROZEN: Duration = Duration::from_secs(10);

pub fn ten_seconds(stage: &mut Stage) -> Result<()> {
    let (_, owner) = stage.leader_and_follower()?;
    let lost = sessions(&stage.cluster(owner)?, &[owner]);
    let at = stage.freeze(owner)?;
    stage.claim_taken_over(at, &lost)?;
    let frozen = stage.watch.now().since(at);
    stage.pass(Span::from(FROZEN).saturating_sub(frozen).into());
    stage.thaw(owner)?;
    let session = stage.settle().and_then(|_| stage.cluster(owner)).map(|cluster| sessions(&cluster, &[owner]))?;
    let but = Some("it lives under the session that had expired".to_owned()).filter(|_| session == lost);
    stage.claim("the node that stood still opens another session", but);
    Ok(())
}
