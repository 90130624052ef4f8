//! What this node shows in handshakes. Shared by everything that dials or listens, because it changes while they run: a
//! cluster is founded, a secret rotated. Every handshake takes what holds when it begins; what stands stays up.

use parking_lot::RwLock;
use ring::NodeId;

use super::hello::Held;
use crate::cluster::{ClusterId, ClusterUuid};
use crate::secret::Secrets;

/// Who this node is, which cluster it belongs to, and how it proves it.
#[derive(Debug)]
pub struct Credentials(RwLock<Held>);

impl Credentials {
    /// The credentials that `node` starts with.
    pub fn new(node: NodeId, cluster: ClusterId, secrets: Secrets) -> Credentials {
        Credentials(RwLock::new(Held { node, cluster, secrets }))
    }

    /// This node belongs to `uuid` from now on: nodes of another uuid are refused.
    pub fn set_uuid(&self, uuid: ClusterUuid) {
        self.0.write().cluster.uuid = Some(uuid);
    }

    /// These secrets are in force from now on.
    pub fn set_secrets(&self, secrets: Secrets) {
        self.0.write().secrets = secrets;
    }

    pub(super) fn held(&self) -> Held {
        self.0.read().clone()
    }
}
