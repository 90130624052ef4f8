//! Everything survives the way to bytes and back, the bytes never change, and no bytes make a panic.
#![allow(clippy::unwrap_used, reason = "tests")]

mod strategies;

use std::collections::BTreeSet;
use std::fmt::Write as _;

use control::founding::{Birth, Standing, Voter};
use control::{Applied, AppointedBy, ClusterId, Command, Effects, Expected, FoundersDigest, Refusal, Run, State};
use proptest::prelude::*;
use ring::PartitionId;

use super::*;
use strategies::*;

/// What was written once, by name. A line is never changed, only added: logs and disks hold such bytes.
const GOLDEN: &str = include_str!("tests/golden.txt");

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").unwrap();
        text
    })
}

fn unhex(text: &str) -> Vec<u8> {
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap()).collect()
}

fn golden(name: &str) -> Vec<u8> {
    let line = GOLDEN.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    unhex(line.unwrap_or_else(|| panic!("golden.txt has no line for {name}")))
}

/// One command of each kind.
fn commands() -> [(&'static str, Command); 13] {
    let runs = vec![
        Run { first: PartitionId(0), len: 9, to: session(1, 1) },
        Run { first: PartitionId(9), len: 6, to: session(2, 1) },
        Run { first: PartitionId(15), len: 1, to: session(1, 1) },
    ];
    let mut policy = proposal("api", "ringfence: 1", &["per-client", "renamed"]);
    policy.limits[1].renamed_from = Some("before".into());
    policy.expected = Expected::Revision(0);
    [
        ("found", Command::Found(Box::new(genesis()))),
        ("open_session", open(2, 1)),
        ("release", Command::Release { session: session(1, 1), takeovers: runs[1..2].to_vec() }),
        ("expire", Command::Expire { sessions: vec![session(2, 1), session(3, 1)], takeovers: runs.clone() }),
        ("appoint", Command::Appoint { runs, by: AppointedBy::Leader }),
        ("apply_policy", Command::ApplyPolicy(Box::new(policy))),
        ("define_inline", Command::DefineInline(Box::new(inline("api", 3, "downloads")))),
        ("lower_n_max", Command::LowerNMax { to: 2 }),
        ("set_ttl", Command::SetTtl { ttl: limits::Span::from_secs(5) }),
        ("settle_ttl", Command::SettleTtl { since: 77 }),
        ("keep", Command::Keep { session: session(1, 1), number: 9, store: Some(INCARNATION) }),
        ("keep_nowhere", Command::Keep { session: session(1, 1), number: 10, store: None }),
        ("trust", Command::Trust { incarnation: INCARNATION }),
    ]
}

/// A state in which everything occurs: sessions that live and ended, owners and vacancies, limits that went.
fn eventful() -> State {
    let whole = vec![Run { first: PartitionId(0), len: 16, to: session(1, 1) }];
    let mut state = State::new();
    let history = [
        Command::Found(Box::new(genesis())),
        open(1, 1),
        open(2, 1),
        Command::Appoint { runs: whole, by: AppointedBy::Operator },
        Command::ApplyPolicy(Box::new(proposal("api", "one", &["a", "b"]))),
        Command::ApplyPolicy(Box::new(proposal("api", "two", &["b"]))),
        Command::Expire {
            sessions: vec![session(1, 1)],
            takeovers: vec![Run { first: PartitionId(3), len: 2, to: session(2, 1) }],
        },
        Command::Release { session: session(2, 1), takeovers: vec![] },
        open(3, 7),
        Command::Appoint {
            runs: vec![Run { first: PartitionId(4), len: 4, to: session(3, 7) }],
            by: AppointedBy::Leader,
        },
    ];
    for (index, command) in (1..).zip(&history) {
        state.apply(index * 3, command, &mut Effects::default()).unwrap();
    }
    state
}

const INCARNATION: Incarnation = Incarnation { run: [4; 20], history: [5; 20] };

/// The same where sessions kept something: one that lives, and one that was taken over from.
fn kept() -> State {
    let mut state = eventful();
    let more = [
        Command::Keep { session: session(3, 7), number: 4, store: Some(INCARNATION) },
        Command::Trust { incarnation: INCARNATION },
        open(1, 9),
        Command::Expire {
            sessions: vec![session(3, 7)],
            takeovers: vec![Run { first: PartitionId(4), len: 2, to: session(1, 9) }],
        },
        Command::Keep { session: session(1, 9), number: 1, store: Some(INCARNATION) },
        Command::Keep { session: session(1, 9), number: 2, store: None },
    ];
    for (index, command) in (100..).zip(&more) {
        state.apply(index, command, &mut Effects::default()).unwrap();
    }
    state
}

#[test]
fn limits_that_checks_brought_along_survive_a_snapshot() {
    let mut state = eventful();
    let define = Command::DefineInline(Box::new(inline("api", 2, "downloads")));
    state.apply(100, &define, &mut Effects::default()).unwrap();
    assert_eq!(state_from_bytes(&state_to_bytes(&state)), Ok(state));
}

#[test]
fn a_ttl_that_was_changed_and_lenders_that_were_forgotten_survive_a_snapshot() {
    let mut state = eventful();
    state.apply(100, &Command::SetTtl { ttl: limits::Span::from_secs(2) }, &mut Effects::default()).unwrap();
    assert_eq!(state_from_bytes(&state_to_bytes(&state)), Ok(state.clone()));
    let mut cluster = state.cluster().unwrap().clone();
    (cluster.sessions.forgotten_lenders, cluster.sessions.n_max) = (4, 9);
    let state = State::restore(100, Some(cluster)).unwrap();
    assert_eq!(state_from_bytes(&state_to_bytes(&state)), Ok(state));
}

fn standing() -> Standing {
    let voter = |n: u64| Voter { name: format!("n{n}"), id: node(n), peer: format!("n{n}:7601") };
    Standing::Member(Birth { cluster: ClusterId([3; 16]), founder: node(1), voters: (1..=3).map(voter).collect() })
}

#[test]
fn the_bytes_of_every_command_never_change() {
    for (name, command) in commands() {
        assert_eq!(hex(&command_to_bytes(&command)), hex(&golden(name)), "{name}");
        assert_eq!(command_from_bytes(&golden(name)), Ok(command), "{name}");
    }
}

#[test]
fn the_bytes_of_a_snapshot_never_change() {
    assert_eq!(hex(&state_to_bytes(&kept())), hex(&golden("state_kept")));
    assert_eq!(state_from_bytes(&golden("state_kept")), Ok(kept()));
}

#[test]
fn a_snapshot_from_before_there_were_stores_knows_of_nobody_who_decided_before() {
    let mut cluster = eventful().cluster().unwrap().clone();
    cluster.map.assignments.iter_mut().for_each(|assignment| assignment.before = None);
    assert_eq!(
        state_from_bytes(&golden("state")),
        State::restore(eventful().applied(), Some(cluster)).map_err(Into::into)
    );
}

#[test]
fn a_predecessor_that_a_snapshot_does_not_name_is_refused() {
    let mut message = proto::State::decode(&state_to_bytes(&kept())[1..]).unwrap();
    message.cluster.as_mut().unwrap().map.as_mut().unwrap().before[3] = 99;
    let bytes = [&[FORMAT][..], &message.encode_to_vec()].concat();
    assert_eq!(state_from_bytes(&bytes), Err(DecodeError::OutOfRange("map.before")));
}

#[test]
fn the_bytes_of_what_founding_wrote_never_change() {
    let promised = Standing::Promised {
        name: "n1".into(),
        founder: node(1),
        founders: FoundersDigest::of("main", &["n1".into()]),
    };
    for (name, standing) in
        [("standing_member", standing()), ("standing_promised", promised), ("standing_free", Standing::Free)]
    {
        assert_eq!(hex(&standing_to_bytes(&standing)), hex(&golden(name)), "{name}");
        assert_eq!(standing_from_bytes(&golden(name)), Ok(standing), "{name}");
    }
}

#[test]
fn every_outcome_survives() {
    for outcome in outcomes() {
        assert_eq!(outcome_from_bytes(&outcome_to_bytes(&outcome)), Ok(outcome.clone()), "{outcome:?}");
    }
    let golden = golden("outcome_name_in_use");
    let in_use = Err(Refusal::NameInUse { name: "n1".into(), held_by: "n1:7601".into() });
    assert_eq!((hex(&outcome_to_bytes(&in_use)), outcome_from_bytes(&golden)), (hex(&golden), Ok(in_use)));
}

#[test]
fn what_a_newer_build_wrote_stops_us() {
    assert_eq!(command_from_bytes(&[]), Err(DecodeError::Empty));
    assert_eq!(command_from_bytes(&[2, 0]), Err(DecodeError::Format(2)));
    assert_eq!(state_from_bytes(&[0]), Err(DecodeError::Format(0)));
    // Field 99 of a oneof that this build does not know.
    assert_eq!(command_from_bytes(&[FORMAT, 0x98, 0x06, 1]), Err(DecodeError::UnknownCommand));
}

#[test]
fn a_snapshot_that_contradicts_itself_is_refused() {
    let state = eventful();
    let mut message: proto::State = from_bytes(&state_to_bytes(&state)).unwrap();
    let map = message.cluster.as_mut().unwrap().map.as_mut().unwrap();
    map.owner[0] = 9;
    assert_eq!(state_from_bytes(&to_bytes(&message)), Err(DecodeError::OutOfRange("map.owner")));
    let map = message.cluster.as_mut().unwrap().map.as_mut().unwrap();
    map.owner.truncate(3);
    assert_eq!(state_from_bytes(&to_bytes(&message)), Err(DecodeError::OutOfRange("map")));
    let map = message.cluster.as_mut().unwrap().map.as_mut().unwrap();
    (map.epoch, map.owner, map.since, map.before) = (vec![1], vec![0], vec![1], vec![0]);
    assert_eq!(state_from_bytes(&to_bytes(&message)), Err(DecodeError::Corrupt(Corrupt::Map)));
}

#[test]
fn a_map_of_4096_partitions_with_scattered_owners_stays_small() {
    let mut state = State::new();
    let mut index = 0;
    let mut apply = |state: &mut State, command: &Command| {
        index += 1;
        state.apply(index, command, &mut Effects::default()).unwrap();
    };
    let large = control::Genesis { partitions: ring::PartitionCount::MAX, ..genesis() };
    apply(&mut state, &Command::Found(Box::new(large)));
    for n in 1..=16 {
        apply(&mut state, &open(n, 1));
    }
    let runs = state.cluster().unwrap().plan_first_placement(&BTreeSet::new()).unwrap();
    let placement = Command::Appoint { runs, by: AppointedBy::Leader };
    apply(&mut state, &placement);
    assert!(command_to_bytes(&placement).len() < 24_000, "one entry of the log");
    assert!(state_to_bytes(&state).len() < 24_000, "one snapshot");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn any_command_survives(command in any_command()) {
        prop_assert_eq!(command_from_bytes(&command_to_bytes(&command)), Ok(command));
    }

    #[test]
    fn any_state_survives(commands in prop::collection::vec(any_command(), 0..40)) {
        let mut state = State::new();
        let _ = state.apply(1, &Command::Found(Box::new(genesis())), &mut Effects::default());
        for (index, command) in (2..).zip(&commands) {
            let _ = state.apply(index, command, &mut Effects::default());
        }
        prop_assert_eq!(state_from_bytes(&state_to_bytes(&state)), Ok(state));
    }

    #[test]
    fn any_word_of_founding_survives(hello in any_hello(), request in any_request(), reply in any_reply()) {
        prop_assert_eq!(hello_from_proto(hello_to_proto(&hello)), Ok(hello));
        prop_assert_eq!(promise_request_from_proto(promise_request_to_proto(&request)), Ok(request));
        prop_assert_eq!(promise_reply_from_proto(promise_reply_to_proto(&reply)), Ok(reply));
    }

    #[test]
    fn no_bytes_make_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        read_all(&bytes);
    }

    #[test]
    fn no_damage_makes_a_panic(
        command in any_command(),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
        cut: prop::sample::Index,
    ) {
        for whole in [command_to_bytes(&command), state_to_bytes(&eventful()), standing_to_bytes(&standing())] {
            let mut bytes = whole.to_vec();
            for (at, byte) in &damage {
                let at = 1 + at.index(bytes.len() - 1).min(bytes.len() - 2);
                bytes[at] = *byte;
            }
            read_all(&bytes);
            read_all(&bytes[..cut.index(bytes.len())]);
        }
    }
}

/// Reads the bytes as everything there is. What can be read can be written, and is then the same.
fn read_all(bytes: &[u8]) {
    if let Ok(command) = command_from_bytes(bytes) {
        assert_eq!(command_from_bytes(&command_to_bytes(&command)), Ok(command));
    }
    if let Ok(state) = state_from_bytes(bytes) {
        assert_eq!(state_from_bytes(&state_to_bytes(&state)), Ok(state));
    }
    if let Ok(outcome) = outcome_from_bytes(bytes) {
        assert_eq!(outcome_from_bytes(&outcome_to_bytes(&outcome)), Ok(outcome));
    }
    if let Ok(standing) = standing_from_bytes(bytes) {
        assert_eq!(standing_from_bytes(&standing_to_bytes(&standing)), Ok(standing));
    }
    let messages =
        (proto::Hello::decode(bytes), proto::PromiseRequest::decode(bytes), proto::PromiseReply::decode(bytes));
    let _ = messages.0.map(hello_from_proto);
    let _ = messages.1.map(promise_request_from_proto);
    let _ = messages.2.map(promise_reply_from_proto);
}

fn outcomes() -> Vec<Result<Applied, Refusal>> {
    let applied = [
        Applied::Founded,
        Applied::SessionOpened { n_max: 3 },
        Applied::MapChanged { version: 7, appointed: 4_096 },
        Applied::PolicyApplied { revision: 2 },
        Applied::NMaxLowered,
        Applied::InlineDefined,
        Applied::LeaseChanged,
        Applied::StoreNoted,
    ];
    applied.into_iter().map(Ok).chain(refusals().into_iter().map(Err)).collect()
}
