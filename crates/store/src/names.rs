//! How keys are named. A cluster's name goes in as it is: Redis takes any bytes, and says how many there are before it says
//! which.

use ring::PartitionId;

/// The names of one cluster's keys.
#[derive(Clone, Debug)]
pub(crate) struct Names {
    /// The hash of the cluster's name.
    pub(crate) cluster: String,
    /// What keys of this very cluster begin with.
    prefix: String,
}

impl Names {
    pub(crate) fn new(cluster: &str, uuid: &str) -> Names {
        Names { cluster: format!("ringfence:{cluster}"), prefix: format!("ringfence:{cluster}:{uuid}:") }
    }

    /// The hash of a partition.
    pub(crate) fn partition(&self, partition: PartitionId) -> String {
        format!("{}p:{}", self.prefix, partition.0)
    }

    /// A key that never exists.
    pub(crate) fn probe(&self) -> String {
        format!("{}probe", self.prefix)
    }
}
