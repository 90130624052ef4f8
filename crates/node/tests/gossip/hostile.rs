//! What others may send: nothing of it panics, and what does not verify is dropped and counted by reason.

use hmac::{Hmac, Mac as _};
use limits::Span;
use proptest::prelude::*;
use ringfence_node::gossip::{DATAGRAM_MAX, Dropped, Event, State};
use ringfence_node::secret::ClusterSecret;
use sha2::{Digest as _, Sha256};

use crate::network::{Network, Start, address, cluster, secrets, uuid};

const SECOND: Span = Span::from_secs(1);

/// The frame as its documentation lays it out, made without the code under test.
fn frame(secret: &[u8], name: &str, uuid: u8, sender: u64, body: &[u8]) -> Vec<u8> {
    let mut bytes = vec![1];
    bytes.extend(&Sha256::digest(name)[..16]);
    bytes.extend([uuid; 16]);
    bytes.extend(sender.to_be_bytes());
    bytes.extend((1_u64 << 32).to_be_bytes());
    bytes.extend(0_u64.to_be_bytes());
    bytes.extend(body);
    resign(secret, &mut bytes);
    bytes
}

/// Appends the tag that `secret` gives.
fn resign(secret: &[u8], bytes: &mut Vec<u8>) {
    let mac = Hmac::<Sha256>::new_from_slice(secret).unwrap();
    let tag = mac.chain_update("ringfence gossip").chain_update(&bytes).finalize().into_bytes();
    bytes.extend(tag);
}

fn reports(network: &Network, wanted: Dropped) -> usize {
    let is_report = |event: &Event| match event {
        Event::Refused { reason, .. } => *reason == wanted,
        Event::Seen(_) | Event::Suspected(_) | Event::Gone(_) | Event::Returned(_) => false,
    };
    network.told.iter().filter(|told| told.by == 1 && is_report(&told.event)).count()
}

#[test]
fn a_wrong_secret_is_dropped_counted_and_said_once_in_a_while() {
    let mut network = Network::of(2, 1, 0);
    network.start(Start { secrets: secrets(9), ..Start::node(3) });
    network.run_for(Span::from_secs(9));
    let counters = network.core(1).counters();
    assert!(counters.dropped(Dropped::WrongSecret) >= 9, "the stranger asks twice a second");
    assert_eq!(counters.dropped(Dropped::WrongCluster), 0);
    assert_eq!(reports(&network, Dropped::WrongSecret), 1);
    network.run_for(Span::from_secs(9));
    assert_eq!(reports(&network, Dropped::WrongSecret), 2);
    assert_eq!(network.sees(1, 3), None);
    assert!(network.core(3).view().members.is_empty());
}

#[test]
fn a_wrong_cluster_is_dropped_and_counted() {
    let mut network = Network::of(2, 1, 0);
    network.start(Start { cluster: cluster("other"), ..Start::node(3) });
    network.run_for(Span::from_secs(9));
    assert!(network.core(1).counters().dropped(Dropped::WrongCluster) >= 9);
    assert_eq!(network.core(1).counters().dropped(Dropped::WrongSecret), 0);
    assert_eq!(reports(&network, Dropped::WrongCluster), 1);
}

#[test]
fn a_secret_is_rotated_while_everyone_stays_a_member() {
    let secret = |byte: u8| ClusterSecret::new(&[byte; 16]).unwrap();
    let mut network = Network::of(3, 1, 0);
    network.run_for(Span::from_secs(2));
    for step in [secrets(1).and_accept(secret(2)), secrets(2).and_accept(secret(1)), secrets(2)] {
        for node in 1..=3 {
            network.with(node, |core, _| core.set_secrets(step.clone()));
            network.run_for(Span::from_secs(5));
            assert!(network.agrees());
        }
    }
    assert!((1..=3).all(|node| network.core(node).counters().dropped(Dropped::WrongSecret) == 0));
}

#[test]
fn every_reason_to_drop_a_datagram_has_its_counter() {
    let mut network = Network::of(1, 1, 0);
    network.with(1, |core, _| core.set_uuid(uuid(7)));
    let good = [1; 16];
    let cases = [
        (Dropped::Length, vec![1; DATAGRAM_MAX + 1]),
        (Dropped::Length, Vec::new()),
        (Dropped::Version, vec![2; 100]),
        (Dropped::WrongSecret, frame(&[9; 16], "main", 7, 3, b"")),
        (Dropped::WrongCluster, frame(&good, "other", 7, 3, b"")),
        (Dropped::WrongCluster, frame(&good, "main", 8, 3, b"")),
        (Dropped::OwnId, frame(&good, "main", 7, 1, b"")),
        (Dropped::Malformed, frame(&good, "main", 7, 3, b"no message")),
        (Dropped::Malformed, frame(&good, "main", 7, 0, b"")),
    ];
    for (reason, bytes) in cases {
        let before = network.core(1).counters().dropped(reason);
        network.inject(1, address(3), &bytes);
        assert_eq!(network.core(1).counters().dropped(reason), before + 1, "{reason:?}");
    }
    let dropped: u64 = Dropped::ALL.iter().map(|reason| network.core(1).counters().dropped(*reason)).sum();
    assert_eq!(dropped, 9);
    assert!(network.core(1).view().members.is_empty());
}

#[test]
fn a_node_does_not_listen_to_its_own_echo() {
    let mut network = Network::of(2, 1, 0);
    network.run_until(SECOND, |network| !network.flying_from(1).is_empty()).unwrap();
    for echo in network.flying_from(1) {
        network.inject(1, address(2), &echo);
    }
    assert!(network.core(1).counters().dropped(Dropped::OwnId) > 0);
    network.run_for(SECOND);
    assert!(network.agrees());
}

#[test]
fn a_datagram_for_another_reader_moves_nothing() {
    let mut network = Network::of(3, 1, 0);
    network.run_for(Span::from_secs(3));
    network.run_until(SECOND, |network| !network.flying_from(1).is_empty()).unwrap();
    let before = network.core(3).view().clone();
    for bytes in network.flying_from(1) {
        network.inject(3, address(1), &bytes);
    }
    assert_eq!(network.core(3).view(), &before);
    assert_eq!(network.sees(3, 1), Some(State::Alive));
}

proptest! {
    #[test]
    fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..DATAGRAM_MAX + 2)) {
        let mut network = Network::of(1, 1, 0);
        network.inject(1, address(3), &bytes);
        prop_assert!(network.core(1).view().members.is_empty());
    }

    #[test]
    fn arbitrary_authentic_bodies_never_panic(body in prop::collection::vec(any::<u8>(), 0..1_311)) {
        let mut network = Network::of(2, 1, 0);
        network.inject(1, address(3), &frame(&[1; 16], "main", 0, 3, &body));
        network.run_for(SECOND);
    }

    /// Closer to the truth than noise: real messages with a few bytes changed, signed again.
    #[test]
    fn altered_authentic_messages_never_panic(
        seed in 0..50_u64,
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        cut in prop::option::of(any::<prop::sample::Index>()),
    ) {
        let mut network = Network::of(3, seed, 100);
        network.run_for(Span::from_secs(2));
        network.run_until(Span::from_secs(2), |network| !network.flying_from(1).is_empty());
        for mut bytes in network.flying_from(1) {
            bytes.truncate(bytes.len() - 32);
            bytes.truncate(cut.map_or(bytes.len(), |cut| 57 + cut.index(bytes.len() - 57)));
            for (at, byte) in &changes {
                let at = at.index(bytes.len());
                bytes[at] = *byte;
            }
            resign(&[1; 16], &mut bytes);
            network.inject(2, address(1), &bytes);
        }
        network.run_for(SECOND);
        prop_assert_eq!(network.core(2).counters().faults(), 0);
    }
}
