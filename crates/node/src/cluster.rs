//! Which cluster a node belongs to, said in every datagram and handshake, and what people call both. Before founding a
//! cluster has only a name; from founding on it also has a uuid. One rule, [`ClusterId::admits`], says whether two nodes
//! may talk.

use std::fmt;
use std::sync::Arc;

use sha2::{Digest as _, Sha256};
use thiserror::Error;

/// The longest cluster or node name, in bytes.
pub const NAME_MAX: usize = 63;

/// A name that no cluster or node can have. The configuration's doing; nothing changed.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[error("a name is 1 to {NAME_MAX} visible ASCII characters")]
pub struct NameError;

/// A cluster's name: 1 to [`NAME_MAX`] visible ASCII characters.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClusterName(Box<str>);

impl ClusterName {
    /// `text` as a cluster's name.
    ///
    /// # Errors
    ///
    /// [`NameError`] if it is empty, too long, or holds anything but visible ASCII.
    pub fn new(text: &str) -> Result<ClusterName, NameError> {
        checked(text).map(|text| ClusterName(text.into()))
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The first 16 bytes of the name's SHA-256: its fixed-size stand-in on the wire.
    pub fn digest(&self) -> [u8; 16] {
        let whole = Sha256::digest(self.0.as_bytes());
        std::array::from_fn(|at| whole[at])
    }
}

impl fmt::Display for ClusterName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A node's name, what people see: 1 to [`NAME_MAX`] visible ASCII characters. Cheap to clone.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeName(Arc<str>);

impl NodeName {
    /// `text` as a node's name.
    ///
    /// # Errors
    ///
    /// [`NameError`] if it is empty, too long, or holds anything but visible ASCII.
    pub fn new(text: &str) -> Result<NodeName, NameError> {
        checked(text).map(|text| NodeName(text.into()))
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for NodeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

fn checked(text: &str) -> Result<&str, NameError> {
    let fits = (1..=NAME_MAX).contains(&text.len());
    if fits && text.bytes().all(|byte| byte.is_ascii_graphic()) { Ok(text) } else { Err(NameError) }
}

/// What founding gave a cluster: 16 random bytes, never all zero (which on the wire means "none yet").
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClusterUuid([u8; 16]);

impl ClusterUuid {
    /// The uuid with these bytes; `None` if all are zero.
    pub fn from_bytes(bytes: [u8; 16]) -> Option<ClusterUuid> {
        (bytes != [0; 16]).then_some(ClusterUuid(bytes))
    }

    /// Its bytes.
    pub const fn bytes(self) -> [u8; 16] {
        self.0
    }
}

impl fmt::Display for ClusterUuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// `uuid` as 16 bytes on the wire, zeros for none.
pub(crate) fn uuid_bytes(uuid: Option<ClusterUuid>) -> [u8; 16] {
    uuid.map_or([0; 16], ClusterUuid::bytes)
}

/// A cluster as one node knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterId {
    /// The configured name.
    pub name: ClusterName,
    /// The uuid, once this node has founded or joined.
    pub uuid: Option<ClusterUuid>,
}

impl ClusterId {
    /// Whether a node that says `name_digest` and `uuid` of itself may talk to this one: the names agree, and so do the
    /// uuids where both know one. A blank node is let in by name alone: that is how it hears that a cluster exists.
    pub fn admits(&self, name_digest: &[u8; 16], uuid: Option<ClusterUuid>) -> bool {
        let other = match (self.uuid, uuid) {
            (Some(ours), Some(theirs)) => ours != theirs,
            (None, _) | (_, None) => false,
        };
        self.name.digest() == *name_digest && !other
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cluster(name: &str, uuid: u8) -> ClusterId {
        ClusterId { name: ClusterName::new(name).unwrap(), uuid: ClusterUuid::from_bytes([uuid; 16]) }
    }

    fn talks(a: &ClusterId, b: &ClusterId) -> bool {
        let one_way = a.admits(&b.name.digest(), b.uuid);
        assert_eq!(one_way, b.admits(&a.name.digest(), a.uuid), "the rule is the same from both sides");
        one_way
    }

    #[test]
    fn nodes_talk_when_the_names_agree_and_no_two_uuids_differ() {
        assert!(talks(&cluster("main", 0), &cluster("main", 0)));
        assert!(talks(&cluster("main", 1), &cluster("main", 1)));
        assert!(talks(&cluster("main", 1), &cluster("main", 0)));
        assert!(!talks(&cluster("main", 1), &cluster("main", 2)));
        assert!(!talks(&cluster("main", 0), &cluster("other", 0)));
        assert!(!talks(&cluster("main", 1), &cluster("other", 1)));
    }

    #[test]
    fn a_name_is_visible_ascii_of_bounded_length() {
        assert!(ClusterName::new(&"x".repeat(NAME_MAX)).is_ok());
        for bad in ["", "two words", "line\nbreak", "naïve", &"x".repeat(NAME_MAX + 1)] {
            assert_eq!(ClusterName::new(bad), Err(NameError), "{bad:?}");
            assert_eq!(NodeName::new(bad), Err(NameError), "{bad:?}");
        }
    }

    #[test]
    fn a_uuid_of_zeros_is_no_uuid() {
        assert_eq!(ClusterUuid::from_bytes([0; 16]), None);
        let uuid = ClusterUuid::from_bytes([0xab; 16]).unwrap();
        assert_eq!(uuid.to_string(), "ab".repeat(16));
        assert_eq!(uuid_bytes(Some(uuid)), [0xab; 16]);
    }
}
