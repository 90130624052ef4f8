//! The question: what a caller says about a request before it asks whether that may spend. Nothing is validated here but
//! its size: the node answers for the rest, with a code and the field at fault.

use std::collections::HashMap;
use std::time::Duration;

use wire::v1 as proto;

/// What protobuf adds to an attribute: three tags and three lengths, of up to three bytes each in a check that may be sent.
const PAIR_BYTES: usize = 12;

/// What protobuf takes for everything that has no length of its own, and for the tags and lengths of what has.
const REST_BYTES: usize = 64;

/// May this key spend this much?
///
/// ```
/// use ringfence_client::Check;
///
/// let check = Check::new("payments").attribute("org", "acme").attribute("user", 4711).cost(5);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    domain: String,
    attributes: HashMap<String, String>,
    cost: u64,
    name: Name,
    deadline: Option<Duration>,
}

/// How the question is known, so that asking it twice charges once.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Name {
    /// The client makes 16 bytes.
    Made,
    Binary([u8; 16]),
    Text(String),
}

impl Check {
    /// A check in this domain, without attributes, that spends one unit.
    pub fn new(domain: impl Into<String>) -> Check {
        Check { domain: domain.into(), attributes: HashMap::new(), cost: 1, name: Name::Made, deadline: None }
    }

    /// Says something about the request: a name (`[a-z][a-z0-9_]{0,62}`) and a value (text, 1 to 256 bytes; numbers are
    /// written as their decimal text). The policy decides which attributes matter; at most 32. A name that is given
    /// twice has the last value.
    #[must_use]
    pub fn attribute(mut self, name: impl Into<String>, value: impl ToString) -> Check {
        self.attributes.insert(name.into(), value.to_string());
        self
    }

    /// Spends this many units, 0 to 10^15 - 1. With 0 the check only looks: it is answered, and charges nothing.
    #[must_use]
    pub fn cost(mut self, units: u64) -> Check {
        self.cost = units;
        self
    }

    /// Names the question in your own words: up to 64 printable ASCII characters. Whoever asks the same question under
    /// the same name within two seconds gets the recorded answer and is charged once; another question under a known
    /// name is rejected as `id-reused`. Takes the place of [`binary_id`](Check::binary_id).
    #[must_use]
    pub fn id(mut self, text: impl Into<String>) -> Check {
        self.name = Name::Text(text.into());
        self
    }

    /// Names the question by 16 bytes of your own; the client makes such a name where none is given. It is cheaper than
    /// a text, since a node looks it up only when the client says that it asks again: a name of this kind must be given
    /// to one check only. Takes the place of [`id`](Check::id).
    #[must_use]
    pub fn binary_id(mut self, id: [u8; 16]) -> Check {
        self.name = Name::Binary(id);
        self
    }

    /// Waits this long for the answer, in place of the client's own deadline; at least a millisecond makes sense. Nodes
    /// have a longest deadline of their own (one second unless configured), after which they answer by failure mode.
    #[must_use]
    pub fn deadline(mut self, deadline: Duration) -> Check {
        self.deadline = Some(deadline);
        self
    }

    /// How long this check waits, if it says so itself.
    pub(crate) const fn own_deadline(&self) -> Option<Duration> {
        self.deadline
    }

    /// About how many bytes it takes on the wire; not less.
    pub(crate) fn size(&self) -> usize {
        let name = match &self.name {
            Name::Made | Name::Binary(_) => 16,
            Name::Text(text) => text.len(),
        };
        let attributes = self.attributes.iter().map(|(name, value)| name.len() + value.len() + PAIR_BYTES);
        self.domain.len() + name + attributes.sum::<usize>() + REST_BYTES
    }

    /// The question on the wire, but for its attempt and what is left of its time. `made` makes the name where none was
    /// given.
    pub(crate) fn into_request(self, made: impl FnOnce() -> [u8; 16]) -> proto::CheckRequest {
        let (id, binary_id) = match self.name {
            Name::Made => (String::new(), made().to_vec()),
            Name::Binary(id) => (String::new(), id.to_vec()),
            Name::Text(text) => (text, Vec::new()),
        };
        proto::CheckRequest {
            domain: self.domain,
            attributes: self.attributes,
            cost: Some(self.cost),
            id,
            deadline_ms: None,
            binary_id: binary_id.into(),
            attempt: 0,
            up_to: false,
            inline: Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use prost::Message as _;

    use super::*;

    #[test]
    fn a_check_goes_out_as_it_was_said() {
        let check = Check::new("payments").attribute("org", "acme").attribute("user", 4711).cost(5).binary_id([7; 16]);
        let request = check.into_request(|| unreachable!("the check has a name"));
        assert_eq!((request.domain.as_str(), request.cost, request.id.as_str()), ("payments", Some(5), ""));
        assert_eq!((request.attributes["org"].as_str(), request.attributes["user"].as_str()), ("acme", "4711"));
        assert_eq!(request.binary_id.as_ref(), [7; 16]);
    }

    #[test]
    fn a_check_takes_no_more_room_than_it_says() {
        let text = |length: usize| "x".repeat(length);
        let largest = (0..32).fold(Check::new(text(255)).id(text(64)).cost(u64::MAX), |check, number| {
            check.attribute(format!("{number:02}{}", text(61)), text(256))
        });
        for check in [Check::new(""), Check::new("d").binary_id([1; 16]), Check::new("d").id("7"), largest] {
            let said = check.size();
            let mut request = check.into_request(|| [1; 16]);
            (request.deadline_ms, request.attempt) = (Some(u64::MAX), u32::MAX);
            assert!((request.encoded_len()..crate::CHECK_BYTES_MAX).contains(&said), "{request:?}");
        }
    }

    #[test]
    fn a_check_without_a_name_is_given_one_and_a_text_is_left_alone() {
        assert_eq!(Check::new("d").into_request(|| [1; 16]).binary_id.as_ref(), [1; 16]);
        let named = Check::new("d").binary_id([2; 16]).id("order-7").into_request(|| [1; 16]);
        assert_eq!((named.id.as_str(), named.binary_id.len()), ("order-7", 0));
    }
}
