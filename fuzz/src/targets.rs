//! What is fuzzed: everything that reads bytes of outsiders. Each target reads its bytes as the program does, goes on to
//! what the program would do with the value, and holds the reader to what it promises; a broken promise is a panic. The
//! fuzzer runs them, and a test of the server's runs them over the corpus on stable Rust.

use std::net::Ipv4Addr;
use std::sync::OnceLock;

use http::{HeaderMap, HeaderName, HeaderValue, Uri};
use limits::{AMOUNT_MAX, Book as _, Fingerprint, FingerprintKey, LimitId, WallTime};
use policy::rate_text::RateText;
use policy::{Catalogue, Document, Matched, PolicyError};
use prost::Message;
use server::asked::{Asked, ID_MAX, Said};
use server::call::Call;
use server::code::Rejection;
use server::forward_auth::{Proxies, Wish};
use server::grpc::messages::Says;
use server::json::{BATCH_MAX, asked_from_body, batch_from_body};
use wire::forward::{Forwarded, Reply};
use wire::v1 as public;
use wire::{control, forward, lease, peer, top};

/// The longest that a field or a detail of a rejection may be, in bytes: what a caller gets back must not grow with what it
/// sent.
const REJECTION_BYTES_MAX: usize = 2_048;

/// Header fields of a request, at most: what the HTTP library lets through.
const HEADERS_MAX: usize = 100;

/// One reader of bytes.
#[derive(Debug)]
pub struct Target {
    /// What the command line and the corpus call it.
    pub name: &'static str,
    /// Reads; whether the bytes were something that the program acts on.
    pub run: fn(&[u8]) -> bool,
}

/// All targets.
pub const TARGETS: [Target; 9] = [
    Target { name: "http_call", run: http_call },
    Target { name: "http_batch", run: http_batch },
    Target { name: "grpc_call", run: grpc_call },
    Target { name: "grpc_batch", run: grpc_batch },
    Target { name: "forward_auth", run: forward_auth },
    Target { name: "forward", run: forward },
    Target { name: "peer", run: peer_message },
    Target { name: "policy", run: policy_document },
    Target { name: "rate", run: rate_literal },
];

/// A policy that reads attributes in every way there is.
const POLICY: &str = include_str!("policy.yaml");

/// Its domain.
const DOMAIN: &str = "default";

/// The JSON body of a call; the first byte picks the call, so that what the fuzzer finds for one helps with the others.
fn http_call(bytes: &[u8]) -> bool {
    let Some((call, body)) = picked(bytes) else { return false };
    is_put(asked_from_body(call, body), "")
}

/// The JSON body of a batch of checks.
fn http_batch(bytes: &[u8]) -> bool {
    match batch_from_body(bytes) {
        Err(rejection) => told(&rejection),
        Ok(checks) => {
            assert!(checks.len() <= BATCH_MAX);
            let place = |index| server::front::place(index, true);
            checks.into_iter().enumerate().fold(true, |all, (index, asked)| is_put(asked, &place(index)) && all)
        }
    }
}

/// The protobuf of a call; the first byte picks the call.
fn grpc_call(bytes: &[u8]) -> bool {
    let Some((call, body)) = picked(bytes) else { return false };
    match call {
        Call::Check => grpc_asked::<public::CheckRequest>(call, body),
        Call::Peek => grpc_asked::<public::PeekRequest>(call, body),
        Call::Reserve => grpc_asked::<public::ReserveRequest>(call, body),
        Call::Acquire => grpc_asked::<public::AcquireRequest>(call, body),
        Call::Settle => grpc_asked::<public::SettleRequest>(call, body),
        Call::Renew => grpc_asked::<public::RenewRequest>(call, body),
        Call::Release => grpc_asked::<public::ReleaseRequest>(call, body),
        Call::Refund => grpc_asked::<public::RefundRequest>(call, body),
        Call::Reset => grpc_asked::<public::ResetRequest>(call, body),
    }
}

fn grpc_asked<Asks: Message + Says + Default>(call: Call, body: &[u8]) -> bool {
    Asks::decode(body).is_ok_and(|message| is_put(asked_of(call, message.said("")), ""))
}

/// The protobuf of a batch of checks, as it comes by itself and on a stream.
fn grpc_batch(bytes: &[u8]) -> bool {
    let Ok(batch) = public::CheckBatchRequest::decode(bytes) else { return false };
    // Counted, not asked of all: those behind a bad one are to be tried too.
    let put = |check: public::CheckRequest| is_put(asked_of(Call::Check, check.said("")), "");
    batch.checks.into_iter().map(put).filter(|put| !put).count() == 0
}

/// What a gateway asks for a visitor: the first line is the path with its query, the others are header fields. It comes
/// from a trusted proxy, so that everything is looked at.
fn forward_auth(bytes: &[u8]) -> bool {
    let mut lines = bytes.split(|byte| *byte == b'\n');
    let Some(uri) = lines.next().and_then(|line| Uri::try_from(line).ok()) else { return false };
    let field = |line: &[u8]| {
        let colon = line.iter().position(|byte| *byte == b':')?;
        let (name, value) = line.split_at(colon);
        Some((HeaderName::from_bytes(name).ok()?, HeaderValue::from_bytes(value[1..].trim_ascii()).ok()?))
    };
    let mut headers = HeaderMap::new();
    lines.filter_map(field).take(HEADERS_MAX).for_each(|(name, value)| {
        headers.append(name, value);
    });
    let proxies = Proxies::of(vec!["127.0.0.0/8".parse().expect("a network")]);
    let said = Wish::of(&uri).and_then(|wish| wish.said(&headers, Some(Ipv4Addr::LOCALHOST.into()), &proxies));
    is_put(asked_of(Call::Check, said), "")
}

/// What nodes send each other on the path of a check: a batch of forwarded items, or after a first byte of `1`, replies.
fn forward(bytes: &[u8]) -> bool {
    match bytes.split_first() {
        Some((b'1', replies)) => peer::ForwardReplies::decode(replies).is_ok_and(|replies| {
            let same = |reply: &Reply| forward::reply_from_proto(forward::reply_to_proto(reply)).as_ref() == Ok(reply);
            all_read(replies.replies, forward::reply_from_proto, same)
        }),
        Some((_, batch)) => peer::ForwardBatch::decode(batch).is_ok_and(|batch| {
            let same = |item: &Forwarded| {
                forward::forwarded_from_proto(forward::forwarded_to_proto(item)).as_ref() == Ok(item)
            };
            all_read(batch.items, forward::forwarded_from_proto, same)
        }),
        None => false,
    }
}

/// Reads each message; what is read must come back as it was from the wire.
fn all_read<Wire, Value: std::fmt::Debug, Error>(
    messages: Vec<Wire>,
    read: impl Fn(Wire) -> Result<Value, Error>,
    same: impl Fn(&Value) -> bool,
) -> bool {
    let one = |message| {
        let value = read(message);
        value.inspect(|value| assert!(same(value), "not the same after it was written: {value:?}")).is_ok()
    };
    messages.into_iter().map(one).filter(|read| !read).count() == 0
}

/// The other messages between nodes, and what lies on disks; the first byte picks which.
fn peer_message(bytes: &[u8]) -> bool {
    let Some((which, body)) = bytes.split_first() else { return false };
    match digit(*which) % 8 {
        0 => peer::RenewRequest::decode(body).is_ok_and(|message| lease::renewal_from_proto(&message).is_ok()),
        1 => peer::RenewReply::decode(body).is_ok_and(|message| lease::renewed_from_proto(&message).is_ok()),
        2 => peer::Hello::decode(body).is_ok_and(|message| control::hello_from_proto(message).is_ok()),
        3 => control::standing_from_bytes(body).is_ok(),
        4 => peer::TopReply::decode(body).is_ok_and(|message| top::top_told_from_proto(message).is_ok()),
        5 => control::outcome_from_bytes(body).is_ok(),
        6 => control::command_from_bytes(body).is_ok_and(|command| {
            let again = control::command_from_bytes(&control::command_to_bytes(&command));
            assert_eq!(again.as_ref(), Ok(&command), "an entry reads the same on every node");
            true
        }),
        _ => control::state_from_bytes(body).is_ok_and(|state| {
            let again = control::state_from_bytes(&control::state_to_bytes(&state));
            assert_eq!(again.as_ref(), Ok(&state), "a snapshot reads the same on every node");
            true
        }),
    }
}

/// A policy document, from its text to the catalogue that checks are matched with.
fn policy_document(bytes: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(bytes) else { return false };
    match Document::parse(text) {
        Err(errors) => {
            assert!(!errors.is_empty() && errors.len() <= policy::error::FINDINGS_MAX, "{}", errors.len());
            errors.iter().for_each(|error| has_a_place(error, text));
            false
        }
        Ok(document) => {
            let catalogue = compiled(&document).expect("every limit has an id of its own");
            for pairs in [&[][..], &[("client", "alice")], &[("ip", "192.0.2.1"), ("path", "/v1/x"), ("plan", "pro")]] {
                let attributes = policy::Attributes::new(pairs.iter().copied()).expect("they are well formed");
                matched(&catalogue, document.domain(), &attributes, 7);
            }
            true
        }
    }
}

fn has_a_place(error: &PolicyError, text: &str) {
    let lines = u32::try_from(text.split(['\n', '\r']).count()).unwrap_or(u32::MAX);
    assert!((1..=lines.saturating_add(1)).contains(&error.line) && error.column > 0, "{error:?}");
    assert!(!error.message.is_empty() && error.message.len() <= REJECTION_BYTES_MAX, "{error:?}");
    assert!(error.render("policy.yaml", text).len() <= 2 * REJECTION_BYTES_MAX, "{error:?}");
}

/// A rate literal of a policy, or of a check that brings a limit along; what is read is the same after it was printed.
fn rate_literal(bytes: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(bytes) else { return false };
    let inline = catalogue().domain(DOMAIN).and_then(policy::Domain::inline).expect("the policy lets rates come along");
    if let Ok(numbers) = inline.numbers(text) {
        assert!(RateText::parse(text).is_ok(), "{text:?} is {numbers:?} in a check and no rate in a policy");
    }
    match RateText::parse(text) {
        Ok(rate) => {
            let printed = rate.to_string();
            assert_eq!(RateText::parse(&printed).as_ref(), Ok(&rate), "{text:?} is printed as {printed:?}");
            true
        }
        Err(error) => {
            assert!(text.is_char_boundary(error.offset), "{error:?} in {text:?}");
            assert!(!error.message.is_empty() && error.message.len() <= REJECTION_BYTES_MAX, "{error:?}");
            if let Some(suggestion) = &error.suggestion {
                assert!(RateText::parse(suggestion).is_ok(), "{text:?}: `{suggestion}` is suggested and wrong");
            }
            false
        }
    }
}

/// The call that a first byte picks, and the rest.
fn picked(bytes: &[u8]) -> Option<(Call, &[u8])> {
    let (which, body) = bytes.split_first()?;
    Some((Call::ALL[digit(*which) % Call::ALL.len()], body))
}

/// A first byte as a choice; seeds spell it as a digit.
fn digit(byte: u8) -> usize {
    usize::from(byte.wrapping_sub(b'0'))
}

fn asked_of(call: Call, said: Result<Said, Rejection>) -> Result<Asked, Rejection> {
    Asked::of(call, said?, "")
}

/// Whether a call would be put to the node; what is put keeps to the ranges that the node relies on.
fn is_put(asked: Result<Asked, Rejection>, place: &str) -> bool {
    let asked = match asked {
        Ok(asked) => asked,
        Err(rejection) => return told(&rejection),
    };
    assert!(asked.call.costs().contains(&asked.cost), "{asked:?}");
    assert!(asked.id.as_ref().is_none_or(|id| (1..=ID_MAX).contains(&id.len())), "{asked:?}");
    assert!(!asked.domain.is_empty(), "{asked:?}");
    match asked.attributes(place) {
        Ok(attributes) => matched(catalogue(), DOMAIN, &attributes, asked.cost),
        Err(rejection) => return told(&rejection),
    }
    true
}

/// A rejection that a caller could be told; it is one, so no.
fn told(Rejection { code, field, detail }: &Rejection) -> bool {
    assert!(!detail.is_empty(), "{}", code.as_str());
    assert!(
        field.len() + detail.len() <= REJECTION_BYTES_MAX,
        "{}: {} bytes",
        code.as_str(),
        field.len() + detail.len()
    );
    false
}

/// Matches a check, and takes of what applies everything that the node takes.
fn matched(book: &Catalogue, name: &str, attributes: &policy::Attributes<'_>, cost: u64) {
    const KEY: FingerprintKey = FingerprintKey([7; 16]);
    /// In January of 2027, while the policy's override holds.
    const NOW: WallTime = WallTime::from_unix_nanos(1_800_000_000_000_000_000);
    let domain = book.domain(name).expect("a domain of the catalogue");
    match domain.matching(attributes, cost, Some(NOW)) {
        Err(_) | Ok(Matched::NoLimit { .. }) => {}
        Ok(Matched::MissingAttribute { attribute, .. }) => assert!(attributes.get(attribute).is_none()),
        Ok(Matched::Limits(limits)) => {
            assert!(!limits.is_empty() && limits.len() <= policy::bounds::LIMITS_PER_CHECK_MAX);
            for applied in limits.iter() {
                assert!(applied.cost() <= AMOUNT_MAX);
                assert!(book.limit(applied.id(), applied.variant()).is_some(), "an owner knows these numbers");
                Fingerprint::of(&KEY, applied.id(), applied.key());
                let key: Vec<_> = applied.key().collect();
                let routed = applied.route().into_iter().flatten();
                routed.for_each(|part| assert!(key.contains(&part), "a route is a part of its key"));
            }
        }
    }
}

fn catalogue() -> &'static Catalogue {
    static CATALOGUE: OnceLock<Catalogue> = OnceLock::new();
    CATALOGUE.get_or_init(|| {
        let document = Document::parse(POLICY).unwrap_or_else(|errors| panic!("{errors:#?}"));
        compiled(&document).expect("its limits have ids")
    })
}

fn compiled(document: &Document) -> Result<Catalogue, policy::CatalogueError> {
    let places = |name: &str| document.limits().iter().position(|limit| limit.name == name);
    let ids = |name: &str| Some((LimitId(u32::try_from(places(name)?).ok()? + 1), 1));
    Catalogue::empty().with_domain(document, 1, &ids, 1_000_000)
}
