//! Values of everything that travels, small ones to read and arbitrary ones to try.

use std::num::NonZeroU64;
use std::sync::Arc;

use control::founding::{Birth, Hello, PromiseAnswer, PromiseReply, PromiseRequest, VOTERS_MAX, Voter};
use control::{
    Addresses, AppointedBy, ClusterId, Command, Expected, FoundersDigest, Genesis, GenesisError, HashIds,
    InlineProposal, LeaseTerms, LimitDigest, NodeSpec, PolicyProposal, Refusal, Run, VersionRange,
};
use limits::{FingerprintKey, Span};
use ownership::SessionId;
use ownership::kept::Incarnation;
use proptest::prelude::*;
use ring::{NodeId, PartitionCount, PartitionId, RoutingSeed};

pub(super) fn node(n: u64) -> NodeId {
    NodeId(NonZeroU64::new(n).unwrap())
}

pub(super) fn session(n: u64, counter: u32) -> SessionId {
    SessionId { node: node(n), nonce: n * 100, counter }
}

pub(super) fn genesis() -> Genesis {
    Genesis {
        cluster: ClusterId([3; 16]),
        format: Genesis::FORMAT,
        cluster_version: 1,
        name: "main".into(),
        founders: (1..=3).map(|n| format!("n{n}")).collect(),
        partitions: PartitionCount::new(16).unwrap(),
        hashes: HashIds::KNOWN,
        key_encoding: Genesis::KEY_ENCODING,
        routing_seed: RoutingSeed([1; 16]),
        fingerprint_key: FingerprintKey([2; 16]),
        lease: LeaseTerms::default(),
    }
}

pub(super) fn open(n: u64, counter: u32) -> Command {
    let addresses = Addresses { peer: format!("n{n}:7601"), api: format!("n{n}:7600"), admin: format!("n{n}:7602") };
    let versions = VersionRange { oldest: 1, newest: 2 };
    let node = NodeSpec { id: node(n), name: format!("n{n}"), addresses, versions };
    Command::OpenSession { session: session(n, counter), node: Box::new(node) }
}

pub(super) fn proposal(domain: &str, document: &str, limits: &[&str]) -> PolicyProposal {
    let digest = |name: &&str| LimitDigest { name: (*name).into(), digest: [9; 16], renamed_from: None };
    PolicyProposal {
        domain: domain.into(),
        expected: Expected::Any,
        document: Arc::from(document),
        limits: limits.iter().map(digest).collect(),
        author: "ann".into(),
        reason: "launch".into(),
        at_unix_ms: 1_700_000_000_000,
    }
}

pub(super) fn inline(domain: &str, revision: u64, name: &str) -> InlineProposal {
    InlineProposal {
        domain: domain.into(),
        revision,
        name: name.into(),
        digest: [7; 16],
        definition: Arc::from("5/min by user"),
        most: 8,
    }
}

/// One refusal of each kind.
pub(super) fn refusals() -> Vec<Refusal> {
    vec![
        Refusal::NotFounded,
        Refusal::AlreadyFounded { cluster: ClusterId([5; 16]) },
        GenesisError::Name { name: "x".into() }.into(),
        GenesisError::Founders.into(),
        GenesisError::Unknown { format: 9 }.into(),
        GenesisError::Lease.into(),
        Refusal::NameInUse { name: "n1".into(), held_by: "n1:7601".into() },
        Refusal::AlreadyLive { session: session(1, 2) },
        Refusal::SessionEnded,
        Refusal::TooManySessions,
        Refusal::BadNode,
        Refusal::VersionUnsupported { cluster_version: 4 },
        Refusal::NotLive { session: session(2, 1) },
        Refusal::Empty,
        Refusal::RunOutside,
        Refusal::PartitionTwice { partition: PartitionId(4_095) },
        Refusal::OwnerLives { partition: PartitionId(0) },
        Refusal::FounderMissing { missing: "n3".into() },
        Refusal::FirstPlacementPartial,
        Refusal::NMax { n_max: 5, lending: 4 },
        Refusal::NothingToSettle,
        Refusal::StoreOutdated { taken: 8 },
        Refusal::RevisionConflict { current: 12 },
        Refusal::BadText,
        Refusal::DocumentTooLarge,
        Refusal::DocumentsFull,
        Refusal::TooManyDomains,
        Refusal::TooManyLimits,
        Refusal::LimitTwice { name: "a".into() },
        Refusal::RenameTaken { name: "b".into() },
        Refusal::LimitIdsExhausted,
        Refusal::InlineConflict { definition: "5/min".into() },
        Refusal::InlineFull { most: 64 },
    ]
}

fn any_session() -> impl Strategy<Value = SessionId> {
    (1u64..6, 0u64..3, 0u32..4).prop_map(|(n, nonce, counter)| SessionId { node: node(n), nonce, counter })
}

fn any_runs() -> impl Strategy<Value = Vec<Run>> {
    let run = (0u16..20, 0u16..20, any_session());
    prop::collection::vec(run.prop_map(|(first, len, to)| Run { first: PartitionId(first), len, to }), 0..6)
}

fn any_genesis() -> impl Strategy<Value = Genesis> {
    (any::<[u8; 16]>(), any::<(u16, u32, u8, u16)>(), any::<(u64, u64, u64)>(), 0u32..=12, ".{0,20}").prop_map(
        |(bytes, (format, version, hash, rho_per_mille), (ttl, renew, d_max), bits, name)| Genesis {
            cluster: ClusterId(bytes),
            format,
            cluster_version: version,
            founders: vec![name.clone(), String::new()],
            name,
            partitions: PartitionCount::new(1 << bits).unwrap(),
            hashes: HashIds { routing: hash, ..HashIds::KNOWN },
            key_encoding: hash,
            routing_seed: RoutingSeed(bytes),
            fingerprint_key: FingerprintKey(bytes),
            lease: LeaseTerms {
                ttl: Span::from_nanos(ttl),
                renew: Span::from_nanos(renew),
                rho_per_mille,
                d_max: Span::from_nanos(d_max),
            },
        },
    )
}

fn any_spec(id: NodeId) -> impl Strategy<Value = NodeSpec> {
    ("n[1-4]", "[a-z]{0,6}", 0u32..3, 0u32..3).prop_map(move |(name, host, oldest, newest)| NodeSpec {
        id,
        name,
        addresses: Addresses { peer: host.clone(), api: format!("{host}:1"), admin: format!("{host}:2") },
        versions: VersionRange { oldest, newest },
    })
}

fn any_policy() -> impl Strategy<Value = PolicyProposal> {
    let limit = ("[a-d]", any::<[u8; 16]>(), prop::option::of("[a-d]"))
        .prop_map(|(name, digest, renamed_from)| LimitDigest { name, digest, renamed_from });
    let limits = prop::collection::vec(limit, 0..5);
    ("[a-c]", prop::option::of(0u64..3), ".{0,40}", limits, ".{0,9}", any::<u64>()).prop_map(
        |(domain, expected, document, limits, author, at_unix_ms)| PolicyProposal {
            domain,
            expected: expected.map_or(Expected::Any, Expected::Revision),
            document: document.into(),
            limits,
            reason: author.clone(),
            author,
            at_unix_ms,
        },
    )
}

fn any_inline() -> impl Strategy<Value = InlineProposal> {
    (".{0,20}", any::<u64>(), ".{0,20}", any::<[u8; 16]>(), ".{0,20}", any::<u32>()).prop_map(
        |(domain, revision, name, digest, definition, most)| InlineProposal {
            domain,
            revision,
            name,
            digest,
            definition: definition.into(),
            most,
        },
    )
}

fn any_incarnation() -> impl Strategy<Value = Incarnation> {
    (any::<[u8; 20]>(), any::<[u8; 20]>()).prop_map(|(run, history)| Incarnation { run, history })
}

pub(super) fn any_command() -> impl Strategy<Value = Command> {
    let open = any_session().prop_flat_map(|session| (Just(session), any_spec(session.node)));
    prop_oneof![
        any_genesis().prop_map(|genesis| Command::Found(Box::new(genesis))),
        open.prop_map(|(session, node)| Command::OpenSession { session, node: Box::new(node) }),
        (any_session(), any_runs()).prop_map(|(session, takeovers)| Command::Release { session, takeovers }),
        (prop::collection::vec(any_session(), 0..3), any_runs())
            .prop_map(|(sessions, takeovers)| Command::Expire { sessions, takeovers }),
        (any_runs(), any::<bool>()).prop_map(|(runs, operator)| Command::Appoint {
            runs,
            by: if operator { AppointedBy::Operator } else { AppointedBy::Leader },
        }),
        any_session().prop_map(|to| Command::Appoint {
            runs: vec![Run { first: PartitionId(0), len: 16, to }],
            by: AppointedBy::Operator,
        }),
        any_policy().prop_map(|proposal| Command::ApplyPolicy(Box::new(proposal))),
        any_inline().prop_map(|proposal| Command::DefineInline(Box::new(proposal))),
        any::<u32>().prop_map(|to| Command::LowerNMax { to }),
        (0u64..9_000_000_000).prop_map(|nanos| Command::SetTtl { ttl: Span::from_nanos(nanos) }),
        (0u64..40).prop_map(|since| Command::SettleTtl { since }),
        (any_session(), 0u64..9, prop::option::of(any_incarnation()))
            .prop_map(|(session, number, store)| Command::Keep { session, number, store }),
        any_incarnation().prop_map(|incarnation| Command::Trust { incarnation }),
    ]
}

fn any_voter() -> impl Strategy<Value = Voter> {
    ("[a-z]{1,8}", 1u64.., "[a-z:]{0,9}").prop_map(|(name, id, peer)| Voter { name, id: node(id), peer })
}

fn any_birth() -> impl Strategy<Value = Birth> {
    (any::<[u8; 16]>(), 1u64.., prop::collection::vec(any_voter(), 1..=VOTERS_MAX))
        .prop_map(|(cluster, founder, voters)| Birth { cluster: ClusterId(cluster), founder: node(founder), voters })
}

pub(super) fn any_hello() -> impl Strategy<Value = Hello> {
    (any_voter(), any::<[u8; 16]>(), prop::option::of(any_birth()), any::<(u64, Option<u64>)>()).prop_map(
        |(from, founders, cluster, (challenge, echo))| Hello {
            from,
            founders: FoundersDigest(founders),
            cluster,
            challenge,
            echo,
        },
    )
}

pub(super) fn any_request() -> impl Strategy<Value = PromiseRequest> {
    (any_voter(), any::<[u8; 16]>(), any::<(u64, Option<u64>)>()).prop_map(|(from, founders, (nonce, proof))| {
        PromiseRequest { from, founders: FoundersDigest(founders), nonce, proof }
    })
}

pub(super) fn any_reply() -> impl Strategy<Value = PromiseReply> {
    let answer = prop_oneof![
        Just(PromiseAnswer::Promised),
        any_birth().prop_map(PromiseAnswer::Member),
        any::<u64>().prop_map(|challenge| PromiseAnswer::Prove { challenge }),
        Just(PromiseAnswer::WrongFounders),
        Just(PromiseAnswer::NotYours),
        "[a-z]{1,8}".prop_map(|founder| PromiseAnswer::PromisedTo { founder }),
    ];
    (any_voter(), any::<u64>(), answer).prop_map(|(from, nonce, answer)| PromiseReply { from, nonce, answer })
}
