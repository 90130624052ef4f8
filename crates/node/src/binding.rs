//! When a policy binds: once every live session has said that it applied it, nobody decides by an older one any more, since a
//! session that says nothing expires. Until then an owner may still go by the revision before.

use std::time::Duration;

use control::Event;

use crate::node::Node;

/// How long whoever waits for a policy to bind waits at most. A session that is cut off expires within the time of a lease.
pub const BINDING_WITHIN: Duration = Duration::from_secs(10);

/// How long the leader is left in peace between two questions. Sessions tell it how far they are with each renewal.
const ASK_AGAIN: Duration = Duration::from_millis(100);

impl Node {
    /// Waits until `revision` of a domain's policy binds everywhere; false when that is not known after [`BINDING_WITHIN`].
    pub async fn until_binding(&self, domain: &str, revision: u64) -> bool {
        let bound = tokio::time::timeout(BINDING_WITHIN, self.bound(domain, revision)).await.is_ok();
        if bound && self.is_news(domain, revision) {
            self.tell(Event::PolicyBinding { domain: domain.to_owned(), revision });
        }
        bound
    }

    /// Whether nobody waited here before for that revision, or for a later one, until it bound.
    fn is_news(&self, domain: &str, revision: u64) -> bool {
        let mut told = self.told_binding.lock();
        let newest = told.entry(domain.to_owned()).or_default();
        std::mem::replace(newest, revision.max(*newest)) < revision
    }

    async fn bound(&self, domain: &str, revision: u64) {
        // This node's own log has it first: what it has applied by then is what all the others must have applied.
        let mut changes = self.changes();
        while self.policy(domain).is_none_or(|known| known.revision < revision) {
            if changes.changed().await.is_err() {
                return std::future::pending().await;
            }
        }
        let index = self.replica().read(control::State::applied);
        while self.proposer().applied_by_all(self.desk()).await.is_none_or(|applied| applied < index) {
            tokio::time::sleep(ASK_AGAIN).await;
        }
    }
}
