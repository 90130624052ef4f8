//! Stories of single entries first, then what every history keeps.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::collections::{BTreeMap, BTreeSet};

use limits::LimitId;
use ownership::kept::{Incarnation, Keeper};
use proptest::prelude::*;
use ring::PartitionId;

use super::fixtures::*;
use super::*;
use crate::command::{Expected, LimitDigest, NodeSpec};
use crate::sessions::{SESSIONS_MAX, SESSIONS_REMEMBERED};

#[test]
fn nothing_happens_before_genesis_and_genesis_happens_once() {
    let mut history = History::empty();
    assert_eq!(history.apply(open(1, 1)), Err(Refusal::NotFounded));
    let broken = Genesis { founders: vec![], ..genesis(3) };
    assert!(matches!(history.apply(Command::Found(Box::new(broken))), Err(Refusal::BadGenesis(_))));
    assert_eq!(history.state.cluster(), None);
    assert_eq!(history.apply(Command::Found(Box::new(genesis(3)))), Ok(Applied::Founded));
    assert_eq!(history.words(), ["cluster_founded"]);
    let again = history.apply(Command::Found(Box::new(genesis(3))));
    assert_eq!(again, Err(Refusal::AlreadyFounded { cluster: genesis(3).cluster }));
}

#[test]
fn a_session_opens_once_and_its_node_shares_emergency_budgets_at_once() {
    let mut history = History::founded(3);
    assert_eq!(history.apply(open(1, 1)), Ok(Applied::SessionOpened { n_max: 1 }));
    assert_eq!(history.words(), ["session_opened"]);
    assert_eq!(history.apply(open(2, 1)), Ok(Applied::SessionOpened { n_max: 2 }));
    assert_eq!(history.apply(open(1, 1)), Ok(Applied::SessionOpened { n_max: 2 }), "asked again, nothing new");
    assert_eq!(history.words(), Vec::<&str>::new());
    assert_eq!(history.cluster().sessions.live[&session(1, 1)].opened_at, 2);
}

#[test]
fn a_node_waits_for_the_end_of_its_own_earlier_session() {
    let mut history = History::founded(1);
    history.apply(open(1, 1)).unwrap();
    assert_eq!(history.apply(open(1, 2)), Err(Refusal::AlreadyLive { session: session(1, 1) }));
    history.apply(Command::Expire { sessions: vec![session(1, 1)], takeovers: vec![] }).unwrap();
    assert!(history.apply(open(1, 2)).is_ok());
}

#[test]
fn a_name_is_in_use_until_its_session_ends() {
    let mut history = History::founded(3);
    history.apply(open(1, 1)).unwrap();
    let wiped = Box::new(NodeSpec { name: "n1".into(), ..spec(9) });
    let returning = Command::OpenSession { session: session(9, 1), node: wiped };
    let in_use = Refusal::NameInUse { name: "n1".into(), held_by: "n1:7601".into() };
    assert_eq!(history.apply(returning.clone()), Err(in_use));
    history.apply(Command::Release { session: session(1, 1), takeovers: vec![] }).unwrap();
    assert!(history.apply(returning).is_ok());
}

#[test]
fn s5_a_session_that_ended_does_not_come_back() {
    let mut history = History::founded(1);
    history.apply(open(1, 2)).unwrap();
    history.apply(Command::Expire { sessions: vec![session(1, 2)], takeovers: vec![] }).unwrap();
    assert_eq!(history.words(), ["session_expired"]);
    assert_eq!(history.apply(open(1, 2)), Err(Refusal::SessionEnded));
    assert_eq!(history.apply(open(1, 1)), Err(Refusal::SessionEnded), "nor does an earlier one of its process");
    assert!(history.apply(open(1, 3)).is_ok());
}

#[test]
fn a_node_that_describes_itself_wrongly_is_refused() {
    let mut history = History::founded(1);
    let mut refused = |change: fn(&mut NodeSpec)| {
        let mut node = Box::new(spec(1));
        change(&mut node);
        history.apply(Command::OpenSession { session: session(1, 1), node }).unwrap_err()
    };
    assert_eq!(refused(|n| n.id = node(2)), Refusal::BadNode);
    assert_eq!(refused(|n| n.name.clear()), Refusal::BadNode);
    assert_eq!(refused(|n| n.addresses.api = "x".repeat(254)), Refusal::BadNode);
    assert_eq!(refused(|n| n.versions.oldest = 2), Refusal::VersionUnsupported { cluster_version: 1 });
}

#[test]
fn sessions_are_bounded() {
    let mut history = History::founded(1);
    for n in 1..=SESSIONS_MAX as u64 {
        history.apply(open(n, 1)).unwrap();
    }
    assert_eq!(history.apply(open(1_000, 1)), Err(Refusal::TooManySessions));
    for counter in 1..=SESSIONS_REMEMBERED as u32 + 10 {
        history.apply(Command::Release { session: session(1, counter), takeovers: vec![] }).unwrap();
        history.apply(open(1, counter + 1)).unwrap();
    }
    assert_eq!(history.cluster().sessions.ended.len(), SESSIONS_REMEMBERED);
}

#[test]
fn the_first_placement_waits_for_all_founders_and_is_one_entry() {
    let mut history = History::founded(3);
    history.apply(open(1, 1)).unwrap();
    history.apply(open(2, 1)).unwrap();
    let all = vec![run(0, 16, session(1, 1))];
    let early = history.apply(Command::Appoint { runs: all.clone(), by: AppointedBy::Leader });
    assert_eq!(early, Err(Refusal::FounderMissing { missing: "n3".into() }));
    assert_eq!(history.cluster().plan_first_placement(&BTreeSet::new()), None);
    history.apply(open(3, 1)).unwrap();
    let partial = vec![run(0, 15, session(1, 1))];
    let partial = history.apply(Command::Appoint { runs: partial, by: AppointedBy::Leader });
    assert_eq!(partial, Err(Refusal::FirstPlacementPartial));
    let placed = history.apply(Command::Appoint { runs: all, by: AppointedBy::Leader });
    assert_eq!(placed, Ok(Applied::MapChanged { version: 7, appointed: 16 }));
    assert_eq!(history.words(), ["map_published"], "nobody decided before, so nobody is taken over from");
    assert!(history.effects.appointments.iter().all(|a| a.epoch == Epoch(1) && !a.has_predecessor() && a.index == 7));
}

#[test]
fn an_operator_may_place_without_a_founder_that_will_not_come() {
    let mut history = History::founded(3);
    history.apply(open(1, 1)).unwrap();
    let runs = vec![run(0, 16, session(1, 1))];
    assert!(history.apply(Command::Appoint { runs, by: AppointedBy::Operator }).is_ok());
}

#[test]
fn before_the_first_placement_an_expiry_appoints_nobody() {
    let mut history = History::founded(2);
    history.apply(open(1, 1)).unwrap();
    history.apply(open(2, 1)).unwrap();
    let takeovers = vec![run(0, 1, session(2, 1))];
    let refused = history.apply(Command::Expire { sessions: vec![session(1, 1)], takeovers });
    assert_eq!(refused, Err(Refusal::FirstPlacementPartial));
    assert_eq!(history.cluster().plan_takeovers(&[session(1, 1)], &BTreeSet::new()), []);
}

#[test]
fn an_expiry_and_its_takeovers_are_one_entry() {
    let mut history = History::placed(3);
    let gone = session(2, 1);
    let owned: BTreeSet<PartitionId> = history.cluster().map.owned_by(gone).collect();
    let takeovers = history.cluster().plan_takeovers(&[gone], &BTreeSet::new());
    history.apply(Command::Expire { sessions: vec![gone], takeovers }).unwrap();
    assert_eq!(history.words(), ["session_expired", "takeover", "takeover", "map_published"]);
    let taken: BTreeSet<PartitionId> = history.effects.appointments.iter().map(|a| a.partition).collect();
    assert_eq!(taken, owned, "only what the expired session owned moves");
    assert!(history.effects.appointments.iter().all(|a| a.epoch == Epoch(2) && a.has_predecessor()));
    assert_eq!(history.owned(session(1, 1)), 8);
    assert_eq!(history.cluster().sessions.n_max, 3, "it falls by command only");
}

#[test]
fn with_nobody_left_partitions_wait_and_keep_their_epochs() {
    let mut history = History::placed(1);
    history.apply(Command::Expire { sessions: vec![session(1, 1)], takeovers: vec![] }).unwrap();
    assert_eq!(history.words(), ["session_expired", "map_published"]);
    assert_eq!(history.cluster().plan_vacant(&BTreeSet::new()), [], "nobody lives");
    history.apply(open(1, 2)).unwrap();
    let runs = history.cluster().plan_vacant(&BTreeSet::new());
    assert_eq!(runs, [run(0, 16, session(1, 2))]);
    history.apply(Command::Appoint { runs, by: AppointedBy::Leader }).unwrap();
    assert!(history.effects.appointments.iter().all(|a| a.epoch == Epoch(2) && a.has_predecessor()));
    assert_eq!(history.words(), ["takeover", "map_published"]);
}

#[test]
fn s7_an_owner_that_lives_is_never_replaced() {
    let mut history = History::placed(3);
    let partition = history.cluster().map.owned_by(session(1, 1)).next().unwrap();
    let runs = vec![run(partition.0, 1, session(2, 1))];
    let refused = history.apply(Command::Appoint { runs: runs.clone(), by: AppointedBy::Operator });
    assert_eq!(refused, Err(Refusal::OwnerLives { partition }));
    let refused = history.apply(Command::Release { session: session(3, 1), takeovers: runs });
    assert_eq!(refused, Err(Refusal::OwnerLives { partition }));
    assert!(history.cluster().sessions.lives(session(3, 1)), "all of an entry or nothing");
}

#[test]
fn a_takeover_by_one_who_does_not_live_is_refused() {
    let mut history = History::placed(3);
    let gone = session(2, 1);
    for to in [gone, session(9, 1)] {
        let takeovers = vec![run(0, 16, to)];
        let refused = history.apply(Command::Expire { sessions: vec![gone], takeovers });
        assert_eq!(refused, Err(Refusal::NotLive { session: to }));
    }
    let twice = Command::Expire { sessions: vec![gone, gone], takeovers: vec![] };
    assert_eq!(history.apply(twice), Err(Refusal::NotLive { session: gone }));
    assert_eq!(history.apply(Command::Expire { sessions: vec![], takeovers: vec![] }), Err(Refusal::Empty));
}

#[test]
fn runs_that_cannot_be_are_refused() {
    let mut history = History::founded(1);
    history.apply(open(1, 1)).unwrap();
    let to = session(1, 1);
    let mut refused = |runs| history.apply(Command::Appoint { runs, by: AppointedBy::Leader }).unwrap_err();
    assert_eq!(refused(vec![]), Refusal::Empty);
    assert_eq!(refused(vec![run(0, 0, to)]), Refusal::RunOutside);
    assert_eq!(refused(vec![run(16, 1, to)]), Refusal::RunOutside);
    assert_eq!(refused(vec![run(u16::MAX, u16::MAX, to)]), Refusal::RunOutside);
    assert_eq!(refused(vec![run(0, 4, to), run(3, 1, to)]), Refusal::PartitionTwice { partition: PartitionId(3) });
}

#[test]
fn n_max_falls_to_the_number_of_those_who_may_lend_at_most() {
    let mut history = History::placed(3);
    assert_eq!(history.apply(Command::LowerNMax { to: 3 }), Err(Refusal::NMax { n_max: 3, lending: 3 }));
    history.apply(Command::Release { session: session(3, 1), takeovers: vec![] }).unwrap();
    assert_eq!(history.apply(Command::LowerNMax { to: 1 }), Err(Refusal::NMax { n_max: 3, lending: 2 }));
    assert_eq!(history.apply(Command::LowerNMax { to: 4 }), Err(Refusal::NMax { n_max: 3, lending: 2 }));
    assert_eq!(history.cluster().plan_lower_n_max(), Some(2));
    assert_eq!(history.apply(Command::LowerNMax { to: 2 }), Ok(Applied::NMaxLowered));
    assert_eq!(history.words(), ["n_max_lowered"]);
    assert_eq!((history.cluster().sessions.n_max, history.cluster().plan_lower_n_max()), (2, None));
}

#[test]
fn a_node_whose_session_expired_may_lend_until_it_opens_another() {
    let mut history = History::placed(3);
    history.apply(Command::Expire { sessions: vec![session(3, 1)], takeovers: vec![] }).unwrap();
    assert_eq!(history.cluster().sessions.lenders(), BTreeSet::from([node(3)]));
    assert_eq!(history.cluster().plan_lower_n_max(), None, "cut off, it still has its third");
    assert_eq!(history.apply(open(4, 1)), Ok(Applied::SessionOpened { n_max: 4 }));
    assert_eq!(
        history.apply(open(3, 2)),
        Ok(Applied::SessionOpened { n_max: 4 }),
        "its own word that the other is over"
    );
    assert_eq!(history.cluster().sessions.lenders(), BTreeSet::new());
    history.apply(Command::Release { session: session(3, 2), takeovers: vec![] }).unwrap();
    assert_eq!((history.cluster().sessions.lending(), history.cluster().plan_lower_n_max()), (3, Some(3)));
}

#[test]
fn who_may_lend_is_counted_when_its_session_has_long_been_forgotten() {
    let mut history = History::founded(1);
    history.apply(open(1, 1)).unwrap();
    for n in 2..2 + SESSIONS_REMEMBERED as u64 {
        history.apply(open(n, 1)).unwrap();
        history.apply(Command::Expire { sessions: vec![session(n, 1)], takeovers: vec![] }).unwrap();
    }
    let all = SESSIONS_REMEMBERED as u32 + 1;
    let sessions = &history.cluster().sessions;
    assert_eq!((sessions.n_max, sessions.lending(), sessions.forgotten_lenders), (all, all, 0));
    assert_eq!(sessions.lenders_known().map(|lenders| lenders.len()), Some(SESSIONS_REMEMBERED));
    history.apply(open(900, 1)).unwrap();
    history.apply(Command::Expire { sessions: vec![session(900, 1)], takeovers: vec![] }).unwrap();
    let sessions = &history.cluster().sessions;
    assert_eq!((sessions.n_max, sessions.lending(), sessions.forgotten_lenders), (all + 1, all + 1, 1));
    assert_eq!(sessions.lenders_known(), None, "one is counted and not known");
    assert_eq!(sessions.ended.len(), SESSIONS_REMEMBERED);
}

#[test]
fn a_node_that_comes_back_again_and_again_makes_nobody_else_forgotten() {
    let mut history = History::founded(1);
    history.apply(open(3, 1)).unwrap();
    history.apply(Command::Expire { sessions: vec![session(3, 1)], takeovers: vec![] }).unwrap();
    for counter in 1..=2 * SESSIONS_REMEMBERED as u32 {
        history.apply(open(2, counter)).unwrap();
        history.apply(Command::Expire { sessions: vec![session(2, counter)], takeovers: vec![] }).unwrap();
    }
    let sessions = &history.cluster().sessions;
    assert_eq!(sessions.ended.len(), SESSIONS_REMEMBERED);
    assert_eq!((sessions.lending(), sessions.forgotten_lenders), (2, 0), "n2 and n3, each once");
    history.apply(open(3, 2)).unwrap();
    history.apply(open(2, 900)).unwrap();
    assert_eq!(history.cluster().sessions.lending(), 2, "and both are back");
}

#[test]
fn a_ttl_is_set_by_command_and_a_shorter_one_is_settled_by_another() {
    let mut history = History::placed(3);
    let secs = Span::from_secs;
    assert_eq!((history.cluster().terms().ttl(), history.cluster().terms().waited()), (secs(3), secs(3)));
    assert_eq!(history.apply(Command::SetTtl { ttl: secs(6) }), Ok(Applied::LeaseChanged));
    assert_eq!(history.words(), ["lease_changed"]);
    assert_eq!(history.apply(Command::SetTtl { ttl: secs(6) }), Ok(Applied::LeaseChanged));
    assert_eq!(history.words(), Vec::<&str>::new(), "asked again");
    assert_eq!(history.apply(Command::SetTtl { ttl: secs(2) }), Ok(Applied::LeaseChanged));
    assert_eq!((history.cluster().terms().ttl(), history.cluster().terms().waited()), (secs(2), secs(6)));
    let since = history.cluster().lease.changed_at;
    assert_eq!(history.apply(Command::SettleTtl { since: since - 1 }), Err(Refusal::NothingToSettle));
    assert_eq!(history.apply(Command::SettleTtl { since }), Ok(Applied::LeaseChanged));
    assert_eq!(history.words(), ["lease_settled"]);
    assert_eq!(history.cluster().terms().waited(), secs(2));
    assert_eq!(history.cluster().genesis.lease.ttl, secs(3), "what the cluster was founded with stays known");
    let too_short = history.apply(Command::SetTtl { ttl: secs(1) });
    assert_eq!(too_short, Err(Refusal::BadGenesis(crate::GenesisError::Lease)));
}

#[test]
fn a_snapshot_that_contradicts_itself_is_refused() {
    let history = History::placed(3);
    let restored = |change: fn(&mut Cluster)| {
        let mut cluster = history.cluster().clone();
        change(&mut cluster);
        State::restore(history.state.applied(), Some(cluster))
    };
    assert_eq!(restored(|_| ()).as_ref(), Ok(&history.state));
    assert_eq!(restored(|c| c.genesis.founders.clear()), Err(Corrupt::Genesis));
    assert_eq!(restored(|c| c.sessions.n_max = 2), Err(Corrupt::Sessions));
    assert_eq!(restored(|c| c.lease.ttl = Span::from_secs(1)), Err(Corrupt::Lease));
    assert_eq!(restored(|c| c.lease.waited = Span::from_secs(2)), Err(Corrupt::Lease));
    assert_eq!(restored(|c| c.lease.changed_at = 99), Err(Corrupt::Lease));
    assert_eq!(restored(|c| c.map.assignments[0].owner = Some(session(9, 1))), Err(Corrupt::Map));
    assert_eq!(restored(|c| c.map.assignments[0].epoch = Epoch(0)), Err(Corrupt::Map));
    assert_eq!(restored(|c| c.map.assignments.truncate(15)), Err(Corrupt::Map));
    assert_eq!(restored(|c| c.map.version = 99), Err(Corrupt::Map));
    let no_revision = restored(|c| drop(c.policies.domains.insert("d".into(), Default::default())));
    assert_eq!(no_revision, Err(Corrupt::Policies));
}

/// Something to try; what exactly depends on the state it meets, so that most entries are legal and some are not.
#[derive(Clone, Debug)]
enum Attempt {
    Open { n: u64, back: bool },
    End { nth: usize, release: bool, planned: bool, with_next: bool },
    AppointPlanned { operator: bool },
    AppointAt { first: u16, len: u16, nth: usize },
    Policy { domain: u8, expected: Option<u64>, limits: Vec<(u8, u8, Option<u8>)> },
    LowerNMax { to: u32 },
    SetTtl { secs: u64 },
    SettleTtl { back: u64 },
    Keep { nth: usize, number: u64, life: Option<u8> },
    Trust { life: u8 },
}

fn attempt() -> impl Strategy<Value = Attempt> {
    let limits = prop::collection::vec((0u8..4, 0u8..3, prop::option::of(0u8..4)), 0..4);
    prop_oneof![
        4 => (1u64..7, any::<bool>()).prop_map(|(n, back)| Attempt::Open { n, back }),
        3 => (0usize..6, any::<bool>(), any::<bool>(), any::<bool>())
            .prop_map(|(nth, release, planned, with_next)| Attempt::End { nth, release, planned, with_next }),
        3 => any::<bool>().prop_map(|operator| Attempt::AppointPlanned { operator }),
        1 => (0u16..18, 0u16..18, 0usize..6).prop_map(|(first, len, nth)| Attempt::AppointAt { first, len, nth }),
        2 => (0u8..2, prop::option::of(0u64..4), limits)
            .prop_map(|(domain, expected, limits)| Attempt::Policy { domain, expected, limits }),
        1 => (0u32..8).prop_map(|to| Attempt::LowerNMax { to }),
        1 => (0u64..8).prop_map(|secs| Attempt::SetTtl { secs }),
        1 => (0u64..2).prop_map(|back| Attempt::SettleTtl { back }),
        3 => (0usize..6, 0u64..9, prop::option::of(0u8..3))
            .prop_map(|(nth, number, life)| Attempt::Keep { nth, number, life }),
        1 => (0u8..3).prop_map(|life| Attempt::Trust { life }),
    ]
}

impl Attempt {
    fn command(self, cluster: &Cluster) -> Command {
        let live: Vec<SessionId> = cluster.sessions.live.keys().copied().collect();
        let nth = |nth: usize| live.get(nth).copied().unwrap_or(session(9, 9));
        match self {
            Attempt::Open { n, back } => {
                let ended = cluster.sessions.ended.iter().filter(|ended| ended.session.node == node(n));
                let last = ended.map(|ended| ended.session.counter).max().unwrap_or(0);
                open(n, if back { last.max(1) } else { last + 1 })
            }
            Attempt::End { nth: first, release, planned, with_next } => {
                let mut sessions = vec![nth(first)];
                sessions.extend(with_next.then(|| nth(first + 1)));
                let takeovers = if planned { cluster.plan_takeovers(&sessions, &BTreeSet::new()) } else { vec![] };
                match release {
                    true => Command::Release { session: sessions[0], takeovers },
                    false => Command::Expire { sessions, takeovers },
                }
            }
            Attempt::AppointPlanned { operator } => {
                let runs = cluster
                    .plan_first_placement(&BTreeSet::new())
                    .unwrap_or_else(|| cluster.plan_vacant(&BTreeSet::new()));
                Command::Appoint { runs, by: if operator { AppointedBy::Operator } else { AppointedBy::Leader } }
            }
            Attempt::AppointAt { first, len, nth: to } => {
                Command::Appoint { runs: vec![run(first, len, nth(to))], by: AppointedBy::Operator }
            }
            Attempt::Policy { domain, expected, limits } => {
                let mut proposal = policy(&format!("d{domain}"), Expected::Any, "text", &[]);
                proposal.expected = expected.map_or(Expected::Any, Expected::Revision);
                proposal.limits = limits.into_iter().map(limit_digest).collect();
                Command::ApplyPolicy(Box::new(proposal))
            }
            Attempt::LowerNMax { to } => Command::LowerNMax { to },
            Attempt::SetTtl { secs } => Command::SetTtl { ttl: Span::from_secs(secs) },
            Attempt::SettleTtl { back } => Command::SettleTtl { since: cluster.lease.changed_at.saturating_sub(back) },
            Attempt::Keep { nth: of, number, life } => {
                Command::Keep { session: nth(of), number, store: life.map(incarnation) }
            }
            Attempt::Trust { life } => Command::Trust { incarnation: incarnation(life) },
        }
    }
}

const fn incarnation(life: u8) -> Incarnation {
    Incarnation { run: [life; 20], history: [life; 20] }
}

fn limit_digest((name, digest, from): (u8, u8, Option<u8>)) -> LimitDigest {
    let name_of = |n: u8| format!("limit-{n}");
    LimitDigest { name: name_of(name), digest: [digest; 16], renamed_from: from.map(name_of) }
}

/// What no history may contradict, noted down entry by entry.
#[derive(Default)]
struct Ledger {
    reigns: BTreeMap<(PartitionId, Epoch), SessionId>,
    ended: BTreeSet<SessionId>,
    digests: BTreeMap<LimitId, (String, [u8; 16])>,
}

impl Ledger {
    fn check(&mut self, before: &Cluster, after: &Cluster, effects: &Effects) {
        for appointment in &effects.appointments {
            let reign = (appointment.partition, appointment.epoch);
            assert_eq!(self.reigns.insert(reign, appointment.session), None, "S2: one session per epoch");
            assert_eq!(after.map.appointment(appointment.partition), Some(*appointment), "S1: the map says the same");
            assert_eq!(appointment.has_predecessor(), before.map.get(appointment.partition).unwrap().epoch > Epoch(0));
        }
        for (partition, now) in after.map.iter() {
            let then = before.map.get(partition).unwrap();
            assert!(now.epoch >= then.epoch, "S2: epochs only rise");
            assert_eq!(now.epoch == then.epoch, now.owner.is_none() || now.owner == then.owner, "S2: a reign each");
            if let Some(owner) = now.owner {
                assert_eq!(self.reigns.get(&(partition, now.epoch)), Some(&owner), "S1: by an entry of the log");
            }
            if let Some(owner) = then.owner.filter(|_| now.owner != then.owner) {
                assert!(!after.sessions.lives(owner), "S7: only after its session ended");
                let store = before.sessions.live[&owner].kept.store;
                let keeper = Keeper { epoch: then.epoch, session: owner };
                let ended = now.before.map(|before| (before.keeper, before.store));
                assert_eq!(
                    ended,
                    Some((keeper, store)),
                    "S11: who decided last, and where that was kept when it ended"
                );
            } else {
                assert_eq!(now.before, then.before, "S11: who decided last stays who decided last");
            }
        }
        assert_eq!(before.map.assignments != after.map.assignments, before.map.version != after.map.version);
        self.ended.extend(before.sessions.live.keys().filter(|&&session| !after.sessions.lives(session)));
        assert!(after.sessions.live.keys().all(|live| !self.ended.contains(live)), "S5: sessions do not come back");
        assert!(after.sessions.n_max >= after.sessions.lending(), "whoever may lend has a share");
        assert!(after.terms().waited() >= after.terms().ttl(), "S4: nobody is ended before a lease could end");
        for (name, domain) in &after.policies.domains {
            for entry in domain.limits.values() {
                let known = self.digests.entry(entry.id).or_insert((name.clone(), entry.digest));
                assert_eq!(*known, (name.clone(), entry.digest), "a number is one limit's for ever");
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn every_history_keeps_one_owner_per_epoch_and_restores_and_replays_alike(
        founders in 1u64..4,
        attempts in prop::collection::vec(attempt(), 1..80),
    ) {
        let mut history = History::founded(founders);
        let mut twin = history.state.clone();
        let mut ledger = Ledger::default();
        for attempt in attempts {
            let before = history.cluster().clone();
            let command = attempt.command(&before);
            let answer = history.apply(command.clone());
            if answer.is_err() {
                prop_assert_eq!(&before, history.cluster(), "a refusal changes nothing");
            }
            ledger.check(&before, history.cluster(), &history.effects);
            let by_command = matches!(command, Command::LowerNMax { .. });
            let falls = history.cluster().sessions.n_max < before.sessions.n_max;
            prop_assert!(by_command || !falls, "n_max falls by command only");
            let waits_less = history.cluster().terms().waited() < before.terms().waited();
            prop_assert!(matches!(command, Command::SettleTtl { .. }) || !waits_less, "holders first");

            let mut effects = Effects::default();
            prop_assert_eq!(twin.apply(history.state.applied(), &command, &mut effects), answer);
            prop_assert_eq!(&effects, &history.effects);
            twin = State::restore(twin.applied(), twin.cluster().cloned()).unwrap();
            prop_assert_eq!(&twin, &history.state);
        }
    }
}
