//! Who sees whom, and how soon.

use limits::Span;
use ringfence_node::gossip::{Event, Incarnation, State};

use crate::network::{Network, Start, address, cluster, node_id, uuid};

/// How many seeds a claim over all of them is tried with.
const SEEDS: u64 = 40;

const SECOND: Span = Span::from_secs(1);

/// The longest that a death can stay unnoticed by its prober, and the news under way: a member's turn to be probed comes
/// at the latest after the others had theirs twice; then the probe's period, the suspicion, and one round of gossip.
fn death_bound(nodes: u64) -> Span {
    Span::from_millis(300 * (2 * (nodes - 1) - 1) + 300 + 1_200 + 100 + 10)
}

fn is_gone(event: &Event) -> bool {
    match event {
        Event::Gone(_) => true,
        Event::Seen(_) | Event::Suspected(_) | Event::Refused { .. } | Event::Returned(_) => false,
    }
}

fn gone(network: &Network) -> usize {
    network.told.iter().filter(|told| is_gone(&told.event)).count()
}

#[test]
fn nodes_find_each_other_within_a_second() {
    for (seed, nodes) in (0..SEEDS).flat_map(|seed| [(seed, 3), (seed, 10)]) {
        let mut network = Network::of(nodes, seed, 0);
        let took = network.run_until(SECOND, Network::agrees);
        assert!(took.is_some(), "seed {seed}, {nodes} nodes");
    }
}

#[test]
fn a_death_is_seen_by_everyone_within_the_bound() {
    for (seed, nodes) in (0..SEEDS).flat_map(|seed| [(seed, 3), (seed, 5)]) {
        let mut network = Network::of(nodes, seed, 0);
        network.run_for(Span::from_secs(5));
        network.kill(2);
        let seen = |network: &Network| (1..=nodes).filter(|n| *n != 2).all(|n| network.sees(n, 2) == Some(State::Down));
        let took = network.run_until(death_bound(nodes), seen);
        assert!(took.is_some(), "seed {seed}, {nodes} nodes");
        assert_eq!(gone(&network), usize::try_from(nodes - 1).unwrap(), "each survivor says it once; seed {seed}");
    }
}

#[test]
fn five_percent_of_loss_gives_up_no_living_node() {
    for seed in 0..SEEDS {
        let mut network = Network::of(3, seed, 50);
        network.run_for(Span::from_secs(20));
        assert_eq!(gone(&network), 0, "seed {seed}");
        let given_up: u64 = (1..=3).map(|node| network.core(node).counters().returned()).sum();
        assert_eq!(given_up, 0, "no refuted suspicion is held against anyone; seed {seed}");
        assert!(network.run_until(SECOND, Network::agrees).is_some(), "seed {seed}");
    }
}

#[test]
fn a_seed_that_does_not_resolve_yet_is_asked_again() {
    let mut network = Network::new(1, 0);
    let seeds = std::mem::take(&mut network.seeds);
    (1..=3).for_each(|number| network.start(Start::node(number)));
    network.run_for(Span::from_secs(3));
    assert!(network.core(1).view().members.is_empty());
    network.seeds = seeds;
    assert!(network.run_until(SECOND, Network::agrees).is_some());
}

#[test]
fn an_announce_that_was_lost_is_repeated() {
    for seed in 0..SEEDS {
        let mut network = Network::of(3, seed, 500);
        network.run_for(Span::from_secs(2));
        network.loss = 0;
        assert!(network.run_until(Span::from_secs(3), Network::agrees).is_some(), "seed {seed}");
    }
}

#[test]
fn a_restart_is_seen_at_once() {
    for (seed, at) in (0..SEEDS).flat_map(|seed| [(seed, 3), (seed, 4)]) {
        let mut network = Network::of(3, seed, 0);
        network.run_for(Span::from_secs(5));
        network.kill(3);
        network.start(Start { at, boot: 2, ..Start::node(3) });
        let took = network.run_until(Span::from_millis(200), Network::agrees);
        assert!(took.is_some(), "seed {seed}, address {at}");
        assert_eq!(network.core(1).view().members[&node_id(3)].peer, address(at));
        assert_eq!(gone(&network), 0, "nobody was given up; seed {seed}");
    }
}

#[test]
fn a_new_id_at_an_old_address_is_another_node() {
    let mut network = Network::of(3, 1, 0);
    network.run_for(Span::from_secs(5));
    network.kill(3);
    network.start(Start { id: 33, ..Start::node(3) });
    let seen =
        |network: &Network| network.sees(1, 33) == Some(State::Alive) && network.sees(2, 33) == Some(State::Alive);
    assert!(network.run_until(Span::from_millis(200), seen).is_some());
    assert!(network.run_until(death_bound(4), Network::agrees).is_some(), "the old one goes its own way");
    assert_eq!(network.sees(1, 3), Some(State::Down));
}

#[test]
fn an_earlier_life_stays_dead() {
    let mut network = Network::of(3, 1, 0);
    network.run_for(Span::from_secs(5));
    network.kill(3);
    network.start(Start { boot: 0, ..Start::node(3) });
    network.run_for(Span::from_secs(5));
    assert_eq!(network.core(1).view().members[&node_id(3)].incarnation, Incarnation::of_boot(1));
    assert_eq!(network.sees(1, 3), Some(State::Down), "what answers there is not the life that was known");
}

#[test]
fn who_leaves_is_gone_without_a_suspicion() {
    for seed in 0..SEEDS {
        let mut network = Network::of(5, seed, 50);
        network.run_for(Span::from_secs(5));
        let before = network.told.len();
        network.with(4, |core, now| core.handle_leave(now));
        assert_eq!(network.core(4).poll_timeout(), None);
        let gone = |network: &Network| [1, 2, 3, 5].iter().all(|n| network.sees(*n, 4) == Some(State::Down));
        assert!(network.run_until(Span::from_millis(500), gone).is_some(), "seed {seed}");
        let suspected = network.told[before..].iter().any(|told| match &told.event {
            Event::Suspected(who) => who.id == node_id(4),
            Event::Seen(_) | Event::Gone(_) | Event::Refused { .. } | Event::Returned(_) => false,
        });
        assert!(!suspected, "seed {seed}");
    }
}

#[test]
fn a_healed_network_heals_the_views() {
    for (seed, parts) in (0..SEEDS).flat_map(|seed| [(seed, (&[1][..], &[2, 3][..])), (seed, (&[1, 2], &[3, 4]))]) {
        let (one, other) = parts;
        let nodes = u64::try_from(one.len() + other.len()).unwrap();
        let mut network = Network::of(nodes, seed, 0);
        network.run_for(Span::from_secs(5));
        network.split(one, other);
        network.run_for(Span::from_secs(10));
        assert_eq!(network.sees(one[0], other[0]), Some(State::Down), "seed {seed}");
        network.heal();
        let took = network.run_until(Span::from_secs(3), Network::agrees);
        assert!(took.is_some(), "seed {seed}, {nodes} nodes");
    }
}

#[test]
fn islands_that_never_met_find_each_other_through_the_seeds() {
    let mut network = Network::new(3, 0);
    network.split(&[1, 2], &[3, 4]);
    (1..=4).for_each(|number| network.start(Start::node(number)));
    network.run_for(Span::from_secs(20));
    assert_eq!(network.sees(1, 3), None);
    network.heal();
    assert!(network.run_until(Span::from_secs(11), Network::agrees).is_some());
}

#[test]
fn a_node_that_stood_still_gives_up_nobody() {
    for seed in 0..SEEDS {
        let mut network = Network::of(3, seed, 0);
        network.run_for(Span::from_secs(5));
        network.freeze(1);
        network.run_for(Span::from_secs(30));
        assert_eq!(network.sees(2, 1), Some(State::Down), "the others could not wait; seed {seed}");
        let before = network.told.len();
        network.thaw(1);
        assert!(network.run_until(Span::from_secs(3), Network::agrees).is_some(), "seed {seed}");
        let gave_up = network.told[before..].iter().any(|told| told.by == 1 && is_gone(&told.event));
        assert!(!gave_up, "seed {seed}");
        assert_eq!(network.core(1).counters().returned(), 1, "it learnt that it had been given up; seed {seed}");
    }
}

#[test]
fn a_blank_node_hears_that_a_cluster_exists() {
    let mut network = Network::of(2, 1, 0);
    for founder in [1, 2] {
        network.with(founder, |core, _| {
            core.set_uuid(uuid(7));
            core.set_map_version(41);
        });
    }
    network.run_for(SECOND);
    network.start(Start::node(3));
    let heard = |network: &Network| network.core(3).view().uuid == Some(uuid(7));
    assert!(network.run_until(Span::from_millis(100), heard).is_some());
    assert!(network.run_until(SECOND, |network| network.core(3).view().map_version == 41).is_some());
    let who_to_ask =
        |network: &Network| network.core(3).view().members.values().all(|member| member.uuid == Some(uuid(7)));
    assert!(network.run_until(SECOND, who_to_ask).is_some());
    assert_eq!(network.core(1).view().members[&node_id(3)].uuid, None, "hearing of a cluster is not joining it");
    assert!(network.agrees());
}

#[test]
fn the_newest_map_of_any_member_is_known_to_all() {
    let mut network = Network::of(3, 1, 0);
    network.run_for(SECOND);
    network.with(2, |core, _| core.set_map_version(9));
    assert!(network.run_until(SECOND, |network| network.core(3).view().map_version == 9).is_some());
    assert_eq!(network.core(3).view().members[&node_id(2)].map_version, 9);
}

#[test]
fn two_clusters_that_were_founded_apart_stay_apart() {
    let mut network = Network::new(1, 0);
    for (number, byte) in [(1, 7), (2, 7), (3, 8)] {
        let mut start = Start::node(number);
        start.cluster.uuid = Some(uuid(byte));
        network.start(start);
    }
    network.run_for(Span::from_secs(3));
    assert_eq!(network.sees(1, 2), Some(State::Alive));
    assert_eq!(network.sees(1, 3), None);
    assert_eq!(network.sees(3, 1), None);
}

#[test]
fn a_cluster_of_another_name_is_not_joined() {
    let mut network = Network::of(2, 1, 0);
    network.start(Start { cluster: cluster("other"), ..Start::node(3) });
    network.run_for(Span::from_secs(3));
    assert_eq!(network.sees(1, 3), None);
    assert!(network.core(3).view().members.is_empty());
}

#[test]
fn one_seed_gives_one_history() {
    let history = |seed| {
        let mut network = Network::of(5, seed, 50);
        network.run_for(Span::from_secs(5));
        network.kill(2);
        network.run_for(Span::from_secs(5));
        network.start(Start { boot: 2, ..Start::node(2) });
        network.run_for(Span::from_secs(5));
        (network.told, network.sent)
    };
    assert_eq!(history(7), history(7));
    assert_ne!(history(7), history(8));
}

#[test]
#[ignore = "prints the figures that the settings' documentation quotes; run it in release with --nocapture"]
fn figures() {
    let seeds = std::env::var("SEEDS").map_or(200, |seeds| seeds.parse().unwrap());
    println!("nodes  loss  converged p50/p99  first gone p50/p99  all gone p50/p99  false downs  unseen  datagrams/s");
    for (nodes, loss) in [(3, 0), (3, 10), (3, 50), (5, 50), (10, 0), (10, 10), (10, 50)] {
        println!("{}", figures_of(nodes, loss, seeds));
    }
}

fn figures_of(nodes: u64, loss: u32, seeds: u64) -> String {
    let (mut converged, mut first, mut all) = (Vec::new(), Vec::new(), Vec::new());
    let (mut false_downs, mut unseen, mut sent) = (0, 0, 0);
    for seed in 0..seeds {
        let mut network = Network::of(nodes, seed, loss);
        network.run_until(Span::from_secs(20), Network::agrees);
        converged.push(network.age());
        network.run_for(Span::from_secs(20).saturating_sub(network.age()));
        sent += network.sent;
        false_downs += gone(&network);
        network.kill(2);
        let sees = |network: &Network, n: u64| network.sees(n, 2) == Some(State::Down);
        let others = || (1..=nodes).filter(|n| *n != 2);
        let killed = network.age();
        first.extend(network.run_until(SECOND.scaled(60, 1), |network| others().any(|n| sees(network, n))));
        match network.run_until(SECOND.scaled(60, 1), |network| others().all(|n| sees(network, n))) {
            Some(_) => all.push(network.age().saturating_sub(killed)),
            None => unseen += 1,
        }
    }
    let [converged, first, all] = [converged, first, all].map(percentiles);
    let rate = sent / seeds / 20;
    format!("{nodes:>5} {loss:>4}‰  {converged}  {first}  {all}  {false_downs:>11}  {unseen:>6}  {rate:>11}")
}

fn percentiles(mut spans: Vec<Span>) -> String {
    spans.sort();
    let at = |percent: usize| spans[(spans.len() - 1) * percent / 100].as_nanos() as f64 / 1e9;
    format!("{:>7.2} / {:<7.2}", at(50), at(99))
}
