//! Every way in which a handshake can go wrong, as bytes.

use super::*;
use crate::secret::ClusterSecret;

fn node(number: u64) -> NodeId {
    NodeId(NonZeroU64::new(number).unwrap())
}

fn secret(byte: u8) -> ClusterSecret {
    ClusterSecret::new(&[byte; 16]).unwrap()
}

fn held(number: u64) -> Held {
    let cluster = ClusterId { name: ClusterName::new("main").unwrap(), uuid: None };
    Held { node: node(number), cluster, secrets: Secrets::new(secret(1)) }
}

fn of_cluster(number: u64, name: &str, uuid: u8) -> Held {
    let cluster = ClusterId { name: ClusterName::new(name).unwrap(), uuid: ClusterUuid::from_bytes([uuid; 16]) };
    Held { cluster, ..held(number) }
}

fn with(number: u64, secrets: Secrets) -> Held {
    Held { secrets, ..held(number) }
}

/// Both conclusions of one whole handshake: the caller's and the answerer's.
type Both = (Result<Met, HandshakeError>, Result<Met, HandshakeError>);

fn shake(caller: Held, meant: Option<NodeId>, answerer: Held) -> Both {
    shake_altered(caller, meant, answerer, |_, bytes| bytes)
}

/// A handshake whose messages pass through somebody's hands; `alter` gets each message with its number, 0 to 3.
fn shake_altered(
    caller: Held,
    meant: Option<NodeId>,
    answerer: Held,
    alter: impl Fn(usize, Vec<u8>) -> Vec<u8>,
) -> Both {
    let caller = Caller::new(caller, meant, [10; NONCE_LEN]);
    let answerer = Answerer::new(answerer, [20; NONCE_LEN]);
    let first = alter(0, caller.hello().to_vec()).try_into().unwrap();
    let second = alter(1, answerer.hello().to_vec()).try_into().unwrap();
    let (claimed, claim) = match caller.claim(second) {
        Ok(claimed) => claimed,
        Err(error) => return (Err(error), Err(HandshakeError::Closed)),
    };
    let (reply, met) = answerer.answer(&first, &alter(2, claim.to_vec()).try_into().unwrap());
    (conclude(&claimed, &alter(3, reply)), met)
}

fn conclude(claimed: &Claimed, reply: &[u8]) -> Result<Met, HandshakeError> {
    let (verdict, rest) = reply.split_first().ok_or(HandshakeError::Closed)?;
    let verdict = Verdict::read(*verdict)?;
    if !verdict.is_explained() {
        return Err(HandshakeError::WrongSecret);
    }
    claimed.conclude(verdict, rest.try_into().map_err(|_| HandshakeError::Closed)?)
}

#[test]
fn two_nodes_of_one_cluster_meet() {
    let (caller, answerer) = shake(held(1), Some(node(2)), of_cluster(2, "main", 7));
    assert_eq!(caller, Ok(Met { node: node(2), uuid: ClusterUuid::from_bytes([7; 16]), version: 1 }));
    assert_eq!(answerer, Ok(Met { node: node(1), uuid: None, version: 1 }));
}

#[test]
fn a_wrong_secret_is_named_on_both_sides() {
    let both = shake(held(1), None, with(2, Secrets::new(secret(9))));
    assert_eq!(both, (Err(HandshakeError::WrongSecret), Err(HandshakeError::WrongSecret)));
}

#[test]
fn another_cluster_is_named_on_both_sides() {
    for (ours, theirs) in [
        (held(1), of_cluster(2, "other", 0)),
        (of_cluster(1, "main", 7), of_cluster(2, "main", 8)),
        (of_cluster(1, "main", 7), of_cluster(2, "other", 7)),
    ] {
        let wrong = |held: &Held| Err(HandshakeError::WrongCluster { theirs: held.cluster.clone() });
        let expected = (wrong(&theirs), wrong(&ours));
        assert_eq!(shake(ours, None, theirs), expected);
    }
}

#[test]
fn another_node_than_the_one_meant_is_named_on_both_sides() {
    let wrong = HandshakeError::WrongNode { meant: node(3), met: node(2) };
    assert_eq!(shake(held(1), Some(node(3)), held(2)), (Err(wrong.clone()), Err(wrong)));
}

#[test]
fn neighbouring_steps_of_a_rotation_meet_and_distant_ones_do_not() {
    let steps = [
        Secrets::new(secret(1)),
        Secrets::new(secret(1)).and_accept(secret(2)),
        Secrets::new(secret(2)).and_accept(secret(1)),
        Secrets::new(secret(2)),
    ];
    for pair in steps.windows(2) {
        for (caller, answerer) in [(0, 1), (1, 0), (0, 0)] {
            let (a, b) = shake(with(1, pair[caller].clone()), None, with(2, pair[answerer].clone()));
            assert!(a.is_ok() && b.is_ok());
        }
    }
    let both = shake(with(1, steps[0].clone()), None, with(2, steps[3].clone()));
    assert_eq!(both, (Err(HandshakeError::WrongSecret), Err(HandshakeError::WrongSecret)));
}

#[test]
fn a_version_that_nobody_shares_is_refused_by_name() {
    let newer = |number, mut bytes: Vec<u8>| {
        if number <= 1 {
            (bytes[5], bytes[7]) = (8, 9);
        }
        bytes
    };
    let theirs = Versions { oldest: 8, newest: 9 };
    let (caller, _) = shake_altered(held(1), None, held(2), newer);
    assert_eq!(caller, Err(HandshakeError::Version { ours: SPOKEN, theirs }));
    let answerer = Answerer::new(held(2), [20; NONCE_LEN]);
    let (reply, met) = answerer.answer(&hello(theirs, &[10; NONCE_LEN]), &[0; CLAIM_LEN]);
    assert_eq!(met, Err(HandshakeError::Version { ours: SPOKEN, theirs }));
    assert!(reply.is_empty());
}

#[test]
fn versions_agree_on_the_newest_that_both_speak() {
    let versions = |oldest, newest| Versions { oldest, newest };
    assert_eq!(versions(1, 3).agree(versions(2, 5)), Some(3));
    assert_eq!(versions(2, 5).agree(versions(1, 3)), Some(3));
    assert_eq!(versions(1, 1).agree(versions(2, 2)), None);
    assert_eq!(versions(1, 9).agree(versions(5, 4)), None, "an empty range shares nothing");
}

#[test]
fn one_changed_bit_anywhere_fails_on_at_least_the_side_that_reads_it() {
    let lengths = [HELLO_LEN, HELLO_LEN, CLAIM_LEN, 1 + CLAIM_LEN];
    for (message, length) in lengths.into_iter().enumerate() {
        for bit in 0..length * 8 {
            let flip = |number, mut bytes: Vec<u8>| {
                if number == message && bit / 8 < bytes.len() {
                    bytes[bit / 8] ^= 1 << (bit % 8);
                }
                bytes
            };
            let (caller, answerer) = shake_altered(held(1), Some(node(2)), held(2), flip);
            assert!(caller.is_err(), "message {message}, bit {bit}");
            assert!(answerer.is_err() || message == 3, "message {message}, bit {bit}");
        }
    }
}

#[test]
fn a_caller_whose_own_words_come_back_is_not_fooled() {
    let caller = Caller::new(held(1), None, [10; NONCE_LEN]);
    let echo = caller.hello();
    let (claimed, claim) = caller.claim(echo).unwrap();
    for verdict in [Verdict::Granted, Verdict::WrongCluster, Verdict::WrongNode] {
        assert_eq!(claimed.conclude(verdict, &claim), Err(HandshakeError::WrongSecret));
    }
}

#[test]
fn an_answerer_does_not_take_its_own_claim_for_a_callers() {
    let answerer = Answerer::new(held(2), [20; NONCE_LEN]);
    let caller = Caller::new(held(1), None, [10; NONCE_LEN]);
    let first = caller.hello();
    let (_, claim) = caller.claim(answerer.hello()).unwrap();
    let (reply, met) = answerer.answer(&first, &claim);
    assert!(met.is_ok());
    let own: [u8; CLAIM_LEN] = reply[1..].try_into().unwrap();
    assert_eq!(answerer.answer(&first, &own).1, Err(HandshakeError::WrongSecret));
}

#[test]
fn a_recorded_claim_is_worth_nothing_in_another_handshake() {
    let recorded = Answerer::new(held(2), [20; NONCE_LEN]);
    let caller = Caller::new(held(1), None, [10; NONCE_LEN]);
    let first = caller.hello();
    let (_, claim) = caller.claim(recorded.hello()).unwrap();
    assert!(recorded.answer(&first, &claim).1.is_ok());
    let later = Answerer::new(held(2), [21; NONCE_LEN]);
    let (reply, met) = later.answer(&first, &claim);
    assert_eq!(met, Err(HandshakeError::WrongSecret));
    assert_eq!(reply, [1], "the answerer says nothing of itself");
}

#[test]
fn what_is_no_hello_is_no_peer() {
    let mut bytes = hello(SPOKEN, &[10; NONCE_LEN]);
    bytes[..4].copy_from_slice(b"GET ");
    assert_eq!(agreed(&bytes), Err(HandshakeError::NotAPeer));
}
