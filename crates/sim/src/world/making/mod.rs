//! Scenarios out of seeds. Everything that a story needs is drawn here, each part from a row of chance of its own: the
//! cluster, its policies, what is asked, what breaks. Every second seed aims at one cell of the coverage grid, which
//! follows from its number, so that a seed tells the same story whatever else has been played.

mod aim;
mod asks;
mod chance;
mod cluster;
mod faults;
mod policies;

use limits::{Moment, Span};
use ownership::lease::Terms;

pub use aim::Aim;
pub use chance::Chance;
pub use policies::DOMAIN;

use super::{Fault, FaultKind, Phase, Scenario};

/// The rows of chance, so that no two parts share one.
mod stream {
    pub const CLUSTER: u64 = 1;
    pub const POLICIES: u64 = 2;
    pub const ASKS: u64 = 3;
    pub const FAULTS: u64 = 4;
    pub const TIMES: u64 = 5;
    pub const STORE: u64 = 6;
    pub const STORE_FAULTS: u64 = 7;
}

/// When the first question is put: a cluster has been founded by then, if nothing hinders it.
const ASKS_FROM: Moment = Moment::from_nanos(1_200_000_000);

/// When the first fault begins at the earliest.
const FAULTS_FROM: Moment = Moment::from_nanos(1_500_000_000);

/// The shortest story, in virtual time.
pub const STORY_MIN: Span = Span::from_secs(12);

/// What the liveness phase lasts beyond the time in which leases run out and are granted anew, twice: a change of leader,
/// claims, and a while in which nothing may be wrong any more.
const LIVELY: Span = Span::from_millis(2_500);

impl Scenario {
    /// The story that this seed tells.
    pub fn of(seed: u64) -> Scenario {
        let mut chance = Chance::of(seed, stream::CLUSTER);
        let terms = cluster::terms(&mut chance);
        let nodes = cluster::nodes(&mut chance);
        let heal_at = healed(seed);
        let policies = policies::Policies::drawn(&mut Chance::of(seed, stream::POLICIES));
        let store = has_store(seed);
        let scene = faults::Scene { nodes, terms, store, from: FAULTS_FROM, heal_at };
        let faults = faults::drawn(seed, &scene, &mut Chance::of(seed, stream::FAULTS));
        let end_at = ended(heal_at, &super::scenario::longest(terms, &faults));
        let applied = faults.iter().filter(|planned| matches!(planned.fault, Fault::Policy { .. })).count();
        let asked = asks::Scene { nodes, terms, from: ASKS_FROM, heal_at, end_at };
        Scenario {
            seed,
            nodes,
            partitions: cluster::partitions(&mut chance),
            store,
            terms,
            clocks: cluster::clocks(&mut chance, nodes, &terms),
            weather: cluster::weather(&mut chance),
            asks: asks::drawn(&asked, policies.subjects(), &mut Chance::of(seed, stream::ASKS)),
            policies: policies.documents(applied),
            faults,
            heal_at,
            end_at,
        }
    }
}

/// Most stories have a store, and all that aim at something of it.
fn has_store(seed: u64) -> bool {
    let of_store = |aim: Aim| FaultKind::OF_STORE.contains(&aim.kind) || Phase::OF_STORE.contains(&aim.phase);
    Chance::of(seed, stream::STORE).percent(60) || Aim::of(seed).is_some_and(of_store)
}

/// When everything is mended.
fn healed(seed: u64) -> Moment {
    let mut chance = Chance::of(seed, stream::TIMES);
    Moment::ZERO.saturating_add(chance.millis(8_000, 9_000))
}

/// When the story ends, by the longest terms that leases have in it.
fn ended(heal_at: Moment, longest: &Terms) -> Moment {
    let twice = longest.granted().saturating_add(longest.granted());
    let end_at = heal_at.saturating_add(twice).saturating_add(LIVELY);
    end_at.max(Moment::ZERO.saturating_add(STORY_MIN))
}

#[cfg(test)]
mod tests {
    use super::super::When;
    use super::*;

    /// Enough for what is drawn rarely.
    const SEEDS: std::ops::Range<u64> = 0..800;

    #[test]
    fn a_seed_tells_one_story() {
        let told = |seed| format!("{:?}", Scenario::of(seed));
        assert_eq!(told(17), told(17));
        assert_ne!(told(17), told(18));
    }

    #[test]
    fn every_story_is_as_large_as_stories_have_to_be() {
        for scenario in SEEDS.map(Scenario::of) {
            assert!((super::super::NODES_MIN..=super::super::NODES_MAX).contains(&scenario.nodes));
            assert!((8..=32).contains(&scenario.partitions) && scenario.partitions.is_power_of_two());
            assert_eq!(scenario.clocks.len(), usize::from(scenario.nodes));
            assert!(scenario.end_at >= Moment::ZERO.saturating_add(STORY_MIN));
            assert!(scenario.asks.len() >= 500, "{} asks", scenario.asks.len());
            let mut keys: Vec<_> = scenario.asks.iter().map(|ask| &ask.attributes).collect();
            keys.sort();
            keys.dedup();
            assert!(keys.len() >= 8, "{} keys", keys.len());
            assert!(scenario.faults.len() >= 3, "{} faults", scenario.faults.len());
        }
    }

    #[test]
    fn asks_stand_in_the_order_of_time_and_some_belong_to_the_liveness_phase() {
        for scenario in SEEDS.map(Scenario::of) {
            assert!(scenario.asks.is_sorted_by_key(|ask| ask.at));
            assert!(scenario.asks.last().is_some_and(|ask| ask.at < scenario.end_at));
            assert!(scenario.asks.iter().filter(|ask| ask.at >= scenario.heal_at).count() >= 100);
            assert!(scenario.asks.iter().all(|ask| ask.node < scenario.nodes));
            assert!(scenario.asks.iter().flat_map(|ask| &ask.again).all(|(_, node)| *node < scenario.nodes));
        }
    }

    #[test]
    fn every_policy_is_one_that_a_cluster_takes_and_every_change_has_its_document() {
        for scenario in SEEDS.map(Scenario::of) {
            for text in &scenario.policies {
                if let Err(findings) = policy::Document::parse(text) {
                    panic!("seed {}: {findings:?}\n{text}", scenario.seed);
                }
            }
            for planned in &scenario.faults {
                if let Fault::Policy { number } = planned.fault {
                    assert!(usize::from(number) < scenario.policies.len() && number > 0);
                }
            }
        }
    }

    #[test]
    fn faults_begin_before_the_healing() {
        for scenario in SEEDS.map(Scenario::of) {
            for planned in &scenario.faults {
                let (When::At(from) | When::In(_, from)) = planned.when;
                assert!(from >= FAULTS_FROM && from < scenario.heal_at, "seed {}: {planned:?}", scenario.seed);
            }
        }
    }

    #[test]
    fn what_leases_are_made_to_last_holds_and_the_story_is_long_enough_for_it() {
        let (mut longer, mut shorter) = (0, 0);
        for scenario in SEEDS.map(Scenario::of) {
            let terms = scenario.terms;
            for planned in &scenario.faults {
                let Fault::Ttl { ttl } = planned.fault else { continue };
                let changed = Terms::new(ttl, terms.renew(), terms.d_max(), terms.rho_per_mille());
                assert!(changed.is_ok_and(|changed| scenario.longest().granted() >= changed.granted()));
                assert!(ttl >= scenario.ttl_least() && ttl != terms.ttl());
                (longer, shorter) = (longer + u32::from(ttl > terms.ttl()), shorter + u32::from(ttl < terms.ttl()));
            }
            let waited = scenario.longest().granted();
            assert!(scenario.end_at >= scenario.heal_at.saturating_add(waited).saturating_add(waited));
        }
        assert!(longer >= 15 && shorter >= 15, "{longer} longer, {shorter} shorter");
    }

    #[test]
    fn no_cut_is_drawn_that_cuts_nothing() {
        for scenario in SEEDS.map(Scenario::of) {
            let all = (1_u8 << scenario.nodes) - 1;
            for planned in &scenario.faults {
                if let Fault::OneWay { from, to, .. } = planned.fault {
                    assert_ne!(Some(from), to);
                }
                if let Fault::Split { side, bridge, .. } = planned.fault {
                    let apart = all & !bridge.map_or(0, |bridge| 1 << bridge);
                    assert!(side & apart != 0 && apart & !side != 0, "seed {}: {planned:?}", scenario.seed);
                }
            }
        }
    }

    #[test]
    fn most_stories_stay_within_what_leases_assume_and_some_do_not() {
        let beyond =
            |scenario: &Scenario| scenario.faults.iter().any(|planned| planned.fault.is_beyond(&scenario.terms));
        let count = SEEDS.map(Scenario::of).filter(beyond).count();
        assert!((80..200).contains(&count), "{count} of 800");
    }

    #[test]
    fn clocks_keep_to_rho_at_the_beginning() {
        for scenario in SEEDS.map(Scenario::of) {
            let rho = u32::from(scenario.terms.rho_per_mille()) * 1_000;
            assert!(scenario.clocks.iter().all(|clock| clock.ppm.unsigned_abs() <= rho));
        }
    }

    #[test]
    fn every_kind_of_fault_is_drawn() {
        let mut counts = vec![0_u32; super::super::FaultKind::ALL.len()];
        for planned in SEEDS.flat_map(|seed| Scenario::of(seed).faults) {
            planned.fault.kinds(|kind| counts[kind as usize] += 1);
        }
        assert!(counts.iter().all(|count| *count >= 15), "{counts:?}");
    }
}
