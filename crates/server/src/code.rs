//! The stable error codes: one enum and one table, from which answers, `ringfence errors` and docs/errors.md are made. A
//! code says what happened, whose doing it is, whether anything changed, and what to do. None of them means that anything
//! was spent.

mod page;
mod policy_findings;
mod table;

use http::StatusCode;

pub use page::page;
pub use policy_findings::{PolicyFinding, policy_findings};

use table::TABLE;

/// Why something could not be done. The words never change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    /// The body is not JSON, or not an object.
    MalformedBody,
    /// A field that the request does not have.
    UnknownField,
    /// A field that must be there is not.
    MissingField,
    /// A field has another type than expected.
    WrongType,
    /// A number or a text is outside its range.
    OutOfRange,
    /// An attribute's value is longer than 256 bytes.
    ValueTooLong,
    /// More than 32 attributes.
    TooManyAttributes,
    /// More than 1,000 checks in one batch.
    BatchTooLarge,
    /// The body is larger than the server reads.
    BodyTooLarge,
    /// The body did not arrive in time.
    BodyTooSlow,
    /// The content type is not `application/json`.
    UnsupportedMediaType,
    /// No such path, or not with this method.
    NotFound,
    /// No policy for this domain.
    UnknownDomain,
    /// No limit of this name in the domain.
    UnknownLimit,
    /// No open reserve, or no lease that is held, under this id.
    UnknownReservation,
    /// More was spent than was reserved.
    AboveReservation,
    /// The id belongs to another question asked a moment ago.
    IdReused,
    /// The policy does not let callers bring limits along.
    InlineNotAllowed,
    /// A limit brought along differs from one that stands.
    InlineConflict,
    /// No token that this node knows.
    Unauthorised,
    /// The token is not good for this; without tokens: the caller sits on another host.
    Forbidden,
    /// The policy document is wrong.
    PolicyInvalid,
    /// The policy has another revision than `If-Match` said.
    RevisionConflict,
    /// No leader could take the change in time.
    NoLeader,
    /// Another process lives under this node's name.
    NameInUse,
    /// A peer has another cluster secret.
    WrongSecret,
    /// A peer belongs to another cluster.
    WrongCluster,
    /// The cluster was founded by others than this node was given.
    WrongFounders,
    /// Another process has a port.
    PortInUse,
    /// The configuration cannot be used.
    BadConfig,
}

/// Where a code is seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seen {
    /// In an answer over HTTP with this status, and in its gRPC equivalent.
    InAnswers(StatusCode),
    /// When a node starts: it ends with exit code 78, and its last words begin with the code.
    AtStart,
    /// In a node's log and events, about a peer that it does not talk to.
    AmongPeers,
}

/// A code, explained to whoever meets it.
#[derive(Clone, Copy, Debug)]
pub struct Explanation {
    /// The code.
    pub code: Code,
    /// Its word.
    pub word: &'static str,
    /// Where it is seen.
    pub seen: Seen,
    /// What happened.
    pub what: &'static str,
    /// Whose doing it is.
    pub whose: &'static str,
    /// Whether state has changed.
    pub changed: &'static str,
    /// What to do next.
    pub remedy: &'static str,
}

impl Code {
    /// All codes, in the order of the operators' page.
    pub const ALL: [Code; TABLE.len()] = {
        let mut all = [Code::MalformedBody; TABLE.len()];
        let mut index = 0;
        while index < all.len() {
            all[index] = TABLE[index].code;
            index += 1;
        }
        all
    };

    /// The code with this word.
    pub fn of_word(word: &str) -> Option<Code> {
        Code::ALL.into_iter().find(|code| code.as_str() == word)
    }

    /// What it means.
    pub const fn explanation(self) -> &'static Explanation {
        &TABLE[self as usize]
    }

    /// The word of the API.
    pub const fn as_str(self) -> &'static str {
        self.explanation().word
    }

    /// The status of an answer that carries it; codes that are never part of an answer would be a server's mistake.
    pub const fn status(self) -> StatusCode {
        match self.explanation().seen {
            Seen::InAnswers(status) => status,
            Seen::AtStart | Seen::AmongPeers => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }
}

/// A request that could not be served: what, where, and what was expected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejection {
    /// The stable word.
    pub code: Code,
    /// The field at fault, as a path (`checks[3].cost`); empty when none is.
    pub field: String,
    /// What is wrong and what was expected, for people.
    pub detail: String,
}

impl Rejection {
    /// A rejection that names no field.
    pub fn new(code: Code, detail: impl Into<String>) -> Rejection {
        Rejection { code, field: String::new(), detail: detail.into() }
    }

    /// A rejection of one field.
    pub fn of_field(code: Code, field: impl Into<String>, detail: impl Into<String>) -> Rejection {
        Rejection { code, field: field.into(), detail: detail.into() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_stands_in_its_own_row_under_a_word_of_its_own() {
        for (index, code) in Code::ALL.into_iter().enumerate() {
            assert_eq!(code as usize, index, "{}", code.as_str());
            assert_eq!(Code::of_word(code.as_str()), Some(code));
        }
        assert_eq!(Code::of_word("no-such-code"), None);
    }

    #[test]
    fn every_code_is_explained_in_whole_sentences() {
        for code in Code::ALL {
            let Explanation { what, whose, changed, remedy, .. } = code.explanation();
            for text in [what, whose, changed, remedy] {
                assert!(text.ends_with('.') && text.len() > 5, "{}: {text}", code.as_str());
            }
        }
    }
}
