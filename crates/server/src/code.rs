//! The stable error codes: one enum, whose docs are the operators' page. A code says whose doing it is and what to do;
//! none of them means that anything was spent.

use http::StatusCode;

/// Why a request could not be served. The words never change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    /// The body is not JSON, or not an object. The caller's mistake: send a JSON object.
    MalformedBody,
    /// A field that the request does not have. The caller's mistake; the detail names the fields there are.
    UnknownField,
    /// A field that must be there is not. The caller's mistake.
    MissingField,
    /// A field has another type than expected. The caller's mistake.
    WrongType,
    /// A number or a text is outside its range. The caller's mistake; the detail names the range.
    OutOfRange,
    /// An attribute's value is longer than 256 bytes. The caller's mistake: such values are no keys; hash them.
    ValueTooLong,
    /// More than 32 attributes. The caller's mistake: send those that the policy reads.
    TooManyAttributes,
    /// More than 1,000 checks in one batch. The caller's mistake: split it.
    BatchTooLarge,
    /// The body is larger than the server reads. The caller's mistake.
    BodyTooLarge,
    /// The content type is not `application/json`. The caller's mistake.
    UnsupportedMediaType,
    /// No such path, or not with this method. The caller's mistake.
    NotFound,
    /// No policy for this domain. The caller's mistake, or the policy is still to be applied.
    UnknownDomain,
    /// The id belongs to another question asked a moment ago. The caller's mistake: ids name one question.
    IdReused,
    /// The policy document is wrong; `errors` lists where and what was expected. Nothing changed.
    PolicyInvalid,
    /// The policy has another revision than `If-Match` said. Somebody else was quicker: look, then decide again.
    RevisionConflict,
    /// No leader could take the change in time, or what became of it is not known: the detail says which. Look at the
    /// current revision, then try again.
    NoLeader,
    /// The caller showed no token that this node knows. The caller's mistake: send `authorization: Bearer TOKEN`.
    Unauthorised,
    /// The token is not good for this call or this domain; without tokens: the caller sits on another host.
    Forbidden,
}

impl Code {
    /// The word of the API.
    pub const fn as_str(self) -> &'static str {
        match self {
            Code::MalformedBody => "malformed-body",
            Code::UnknownField => "unknown-field",
            Code::MissingField => "missing-field",
            Code::WrongType => "wrong-type",
            Code::OutOfRange => "out-of-range",
            Code::ValueTooLong => "value-too-long",
            Code::TooManyAttributes => "too-many-attributes",
            Code::BatchTooLarge => "batch-too-large",
            Code::BodyTooLarge => "body-too-large",
            Code::UnsupportedMediaType => "unsupported-media-type",
            Code::NotFound => "not-found",
            Code::UnknownDomain => "unknown-domain",
            Code::IdReused => "id-reused",
            Code::PolicyInvalid => "policy-invalid",
            Code::RevisionConflict => "revision-conflict",
            Code::NoLeader => "no-leader",
            Code::Unauthorised => "unauthorised",
            Code::Forbidden => "forbidden",
        }
    }

    /// The status that goes with it.
    pub const fn status(self) -> StatusCode {
        match self {
            Code::MalformedBody
            | Code::UnknownField
            | Code::MissingField
            | Code::WrongType
            | Code::OutOfRange
            | Code::ValueTooLong
            | Code::TooManyAttributes
            | Code::IdReused => StatusCode::BAD_REQUEST,
            Code::BatchTooLarge | Code::BodyTooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Code::UnsupportedMediaType => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Code::NotFound | Code::UnknownDomain => StatusCode::NOT_FOUND,
            Code::PolicyInvalid => StatusCode::UNPROCESSABLE_ENTITY,
            Code::RevisionConflict => StatusCode::PRECONDITION_FAILED,
            Code::NoLeader => StatusCode::SERVICE_UNAVAILABLE,
            Code::Unauthorised => StatusCode::UNAUTHORIZED,
            Code::Forbidden => StatusCode::FORBIDDEN,
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
