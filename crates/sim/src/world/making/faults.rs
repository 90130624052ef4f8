//! What breaks in a story. Most faults come at any time and befall whoever matters; some come in cascades, some again and
//! again, and now and then everybody dies at once. A story that aims at a cell of the grid also has what brings its phase
//! about. Faults beyond what leases assume stand in stories of their own, so that the strict bounds hold for the others.

use limits::{Moment, Span};
use ownership::kept::SHUNNED_FOR;
use ownership::lease::Terms;

use super::super::{Fault, FaultKind, Has, Phase, Planned, RESTART_MAX, StoreFault, Weather, When, Who};
use super::{Aim, Chance, stream};

/// What faults have to fit into.
#[derive(Debug)]
pub struct Scene {
    /// How many nodes there are.
    pub nodes: u8,
    /// The leases' terms.
    pub terms: Terms,
    /// Whether there is a store.
    pub store: bool,
    /// The first fault.
    pub from: Moment,
    /// All is mended.
    pub heal_at: Moment,
}

/// Seeds of which one in so many may have faults beyond what leases assume; none of those that aim.
const BEYOND_ONE_IN: u64 = 8;

/// How often each kind is drawn where nothing else decides.
const WEIGHTS: &[(u64, FaultKind)] = &[
    (4, FaultKind::CrashOwner),
    (3, FaultKind::CrashSuccessor),
    (3, FaultKind::CrashIngress),
    (4, FaultKind::CrashLeader),
    (2, FaultKind::CrashAny),
    (4, FaultKind::Restart),
    (4, FaultKind::Stop),
    (3, FaultKind::ClockSlow),
    (3, FaultKind::ClockFast),
    (2, FaultKind::WallStep),
    (5, FaultKind::OneWay),
    (5, FaultKind::CutOff),
    (4, FaultKind::Split),
    (3, FaultKind::Bridge),
    (3, FaultKind::Loss),
    (3, FaultKind::Doubled),
    (3, FaultKind::Overtaken),
    (3, FaultKind::SlowDisk),
    (3, FaultKind::Overload),
    (2, FaultKind::Suspect),
    (3, FaultKind::Policy),
    (3, FaultKind::Leave),
    (3, FaultKind::Ttl),
];

/// Every story has so many.
const FAULTS_MIN: usize = 3;

/// The shortest ttl that is tried, and by how much one is longer at most: each second makes the story longer by two.
const TTL_LEAST: Span = Span::from_millis(1_400);
const TTL_MORE: Span = Span::from_millis(2_000);

/// The patterns in which hardly anything else breaks: one node hears nothing, or everybody only half.
const DEAF: std::ops::RangeInclusive<u64> = 16..=17;

/// The kinds that leases do not assume.
const BEYOND: &[FaultKind] = &[FaultKind::Freeze, FaultKind::Clone, FaultKind::ClockSlow, FaultKind::ClockFast];

/// The story's faults, at least three.
pub fn drawn(seed: u64, scene: &Scene, chance: &mut Chance) -> Vec<Planned> {
    let pattern = chance.below(40);
    if DEAF.contains(&pattern) {
        // What is long and quiet is left alone.
        let deaf = if pattern == *DEAF.start() { deaf(scene, chance) } else { half_is_lost(scene, chance) };
        return numbered(deaf);
    }
    let beyond = seed % BEYOND_ONE_IN == 2;
    let mut faults = Vec::new();
    if let Some(aim) = Aim::of(seed) {
        faults.extend(aimed(aim, scene, chance));
    }
    if beyond {
        let kind = *chance.pick(BEYOND);
        let when = any_time(scene, chance);
        faults.push(Planned { when, fault: fault(kind, true, scene, chance) });
    }
    match pattern {
        0 => faults.extend(everybody_dies(scene, chance)),
        1..=4 => faults.extend(again_and_again(scene, chance)),
        5..=12 => faults.extend(cascade(scene, chance)),
        13..=15 => faults.extend(leaves_in_a_storm(scene, chance)),
        _ => {}
    }
    let more = usize::try_from(chance.between(1, 3)).expect("few");
    let wanted = FAULTS_MIN.max(faults.len() + more);
    while faults.len() < wanted {
        let when = any_time(scene, chance);
        faults.push(Planned { when, fault: any(scene, chance) });
    }
    if scene.store {
        faults.extend(of_store(scene, &mut Chance::of(seed, stream::STORE_FAULTS)));
    }
    numbered(faults)
}

/// At some moment, or the first time that something is going on after it.
fn any_time(scene: &Scene, chance: &mut Chance) -> When {
    let last = scene.heal_at.saturating_sub(Span::from_millis(200));
    let at = chance.moment(scene.from, last);
    let phases = if scene.store { Phase::ALL } else { &Phase::ALL[..Phase::ALL.len() - Phase::OF_STORE.len()] };
    if chance.one_in(4) { When::In(*chance.pick(phases), at) } else { When::At(at) }
}

fn any(scene: &Scene, chance: &mut Chance) -> Fault {
    let kind = *chance.weighed(WEIGHTS);
    fault(kind, false, scene, chance)
}

/// The fault in its phase, and before it what brings the phase about.
fn aimed(aim: Aim, scene: &Scene, chance: &mut Chance) -> Vec<Planned> {
    let mut at = chance.moment(scene.from, scene.from.saturating_add(Span::from_millis(1_500)));
    let mut faults = Vec::new();
    if aim.kind == FaultKind::CrashSuccessor {
        // There has to be one.
        let leaves = Fault::Leave { who: Who::Owner, down: chance.millis(50, 600) };
        faults.push(Planned { when: When::At(at), fault: leaves });
        at = at.saturating_add(chance.millis(40, 120));
    }
    if let Some(bringer) = bringer(aim.phase, scene, chance) {
        faults.push(Planned { when: When::At(at), fault: bringer });
    }
    // From the same moment on: some phases are over before long.
    faults.push(Planned { when: When::In(aim.phase, at), fault: fault(aim.kind, false, scene, chance) });
    faults
}

fn bringer(phase: Phase, scene: &Scene, chance: &mut Chance) -> Option<Fault> {
    let gone = chance.millis(500, 2_500);
    Some(match phase {
        Phase::Stable | Phase::Renewing | Phase::Confirming | Phase::Retrying | Phase::Correcting => return None,
        Phase::LeaseLow => match chance.below(3) {
            0 => Fault::OneWay { from: Who::Leader, to: Some(Who::Owner), lasts: scene.terms.granted() },
            1 => Fault::SlowDisk { who: Who::Leader, lasts: scene.terms.granted() },
            _ => Fault::Isolate { who: Who::Owner, lasts: scene.terms.granted() },
        },
        Phase::Electing => match chance.below(2) {
            0 => Fault::Crash { who: Who::Leader, down: gone },
            _ => Fault::Isolate { who: Who::Leader, lasts: gone },
        },
        Phase::Writing => return None,
        Phase::VolatilePending => {
            let kind = *chance.pick(&[FaultKind::StoreDown, FaultKind::StoreSlow, FaultKind::StoreCut]);
            fault(kind, false, scene, chance)
        }
        Phase::Expiring | Phase::Publishing | Phase::Recovering | Phase::Opening | Phase::Claiming => {
            match chance.below(3) {
                0 => Fault::Crash { who: Who::Owner, down: scene.terms.granted() },
                1 => Fault::Crash { who: Who::Owner, down: chance.millis(50, 300) },
                _ => Fault::Leave { who: Who::Owner, down: chance.millis(50, 600) },
            }
        }
        Phase::PolicyChanging => Fault::Policy { number: 1 },
        Phase::Leaving => Fault::Leave { who: Who::Owner, down: gone },
        Phase::TtlChanging => Fault::Ttl { ttl: ttl(scene, chance) },
    })
}

/// One soon after the other: what one broke is not mended when the next begins.
fn cascade(scene: &Scene, chance: &mut Chance) -> Vec<Planned> {
    let mut at = chance.moment(scene.from, scene.heal_at.saturating_sub(Span::from_millis(2_500)));
    let next = |_| {
        at = at.saturating_add(chance.millis_of_any_size(5, 800));
        Planned { when: When::At(at), fault: any(scene, chance) }
    };
    (0..3).map(next).collect()
}

/// The owner three times: takeovers within one window, each of them worst case.
fn again_and_again(scene: &Scene, chance: &mut Chance) -> Vec<Planned> {
    let mut at = chance.moment(scene.from, scene.from.saturating_add(Span::from_millis(800)));
    let leaves = chance.one_in(2);
    let next = |_| {
        let down = chance.millis(50, 1_500);
        let who = Who::Owner;
        let fault = if leaves { Fault::Leave { who, down } } else { Fault::Crash { who, down } };
        let planned = Planned { when: When::At(at), fault };
        at = at.saturating_add(chance.millis(300, 2_200));
        planned
    };
    (0..3).map(next).collect()
}

/// Owners leave while some messages are so late that a last answer comes after the new map, and is not too old yet.
fn leaves_in_a_storm(scene: &Scene, chance: &mut Chance) -> Vec<Planned> {
    let at = chance.moment(scene.from, scene.heal_at.saturating_sub(Span::from_millis(4_500)));
    let delay_max = scene.terms.d_max().scaled(chance.between(40, 90), 100);
    let weather = Weather { delay_min: chance.millis(0, 2), delay_max, lost_per_mille: 0, doubled_per_mille: 0 };
    let storm = Fault::Storm { weather, lasts: Span::from_secs(4) };
    let mut faults = vec![Planned { when: When::At(at), fault: storm }];
    let mut later = at;
    for _ in 0..3 {
        later = later.saturating_add(chance.millis(400, 1_300));
        let who = *chance.pick(&[Who::Owner, Who::Leader]);
        faults.push(Planned { when: When::At(later), fault: Fault::Leave { who, down: chance.millis(50, 800) } });
    }
    faults
}

/// An owner hears the leader no more and is heard: it has to lose its session, and nothing else may be the reason.
fn deaf(scene: &Scene, chance: &mut Chance) -> Vec<Planned> {
    let quiet = [FaultKind::WallStep, FaultKind::Suspect, FaultKind::Policy, FaultKind::Doubled];
    let twice = scene.terms.granted().saturating_add(scene.terms.granted());
    let lasts = twice.saturating_add(Span::from_secs(2));
    let at = scene.from.saturating_add(chance.millis(0, 300));
    let deaf = Fault::OneWay { from: Who::Leader, to: Some(Who::Owner), lasts };
    let mut faults = vec![Planned { when: When::At(at), fault: deaf }];
    for _ in 0..2 {
        let when = any_time(scene, chance);
        faults.push(Planned { when, fault: fault(*chance.pick(&quiet), false, scene, chance) });
    }
    faults
}

/// Half of all messages are lost, for long: acknowledgements too, several in a row.
fn half_is_lost(scene: &Scene, chance: &mut Chance) -> Vec<Planned> {
    let lost_per_mille = u16::try_from(chance.between(400, 550)).expect("about half");
    let still = Span::from_micros(500);
    let weather = Weather { delay_min: still, delay_max: still, lost_per_mille, doubled_per_mille: 0 };
    let when = When::At(scene.from.saturating_add(chance.millis(0, 300)));
    let storm = Planned { when, fault: Fault::Storm { weather, lasts: Span::from_secs(9) } };
    let quiet = [FaultKind::WallStep, FaultKind::Suspect];
    let mut more =
        || Planned { when: any_time(scene, chance), fault: fault(*chance.pick(&quiet), false, scene, chance) };
    vec![storm, more(), more()]
}

fn everybody_dies(scene: &Scene, chance: &mut Chance) -> Vec<Planned> {
    let at = chance.moment(scene.from, scene.heal_at.saturating_sub(Span::from_millis(2_500)));
    let die = |node| {
        let down = chance.millis(50, 1_200);
        let when = When::At(at.saturating_add(chance.millis(0, 60)));
        Planned { when, fault: Fault::Crash { who: Who::Node(node), down } }
    };
    (0..scene.nodes).map(die).collect()
}

/// Documents are applied in the order of the moments from which their faults wait.
fn numbered(mut faults: Vec<Planned>) -> Vec<Planned> {
    let mut places: Vec<usize> = (0..faults.len()).collect();
    places.sort_by_key(|place| {
        let (When::At(from) | When::In(_, from)) = faults[*place].when;
        from
    });
    let mut next = 1;
    for place in places {
        if let Fault::Policy { number } = &mut faults[place].fault {
            *number = next;
            next += 1;
        }
    }
    faults
}

/// One fault of this kind.
fn fault(kind: FaultKind, beyond: bool, scene: &Scene, chance: &mut Chance) -> Fault {
    let lasts = chance.millis_of_any_size(40, 6_000);
    let down = RESTART_MAX.saturating_add(chance.millis_of_any_size(30, 4_500));
    let who = who(scene, chance);
    match kind {
        FaultKind::CrashOwner => Fault::Crash { who: Who::Owner, down },
        FaultKind::CrashSuccessor => Fault::Crash { who: Who::Successor, down },
        FaultKind::CrashIngress => Fault::Crash { who: Who::Ingress, down },
        FaultKind::CrashLeader => Fault::Crash { who: Who::Leader, down },
        FaultKind::CrashAny => Fault::Crash { who: node(scene, chance), down },
        FaultKind::Restart => Fault::Crash { who, down: chance.millis(5, 300) },
        FaultKind::Stop => Fault::Stop { who, lasts },
        FaultKind::Freeze => Fault::Freeze { who, lasts },
        FaultKind::Clone => Fault::Clone { who },
        FaultKind::ClockSlow => Fault::Rate { who, ppm: -ppm(beyond, scene, chance), lasts },
        FaultKind::ClockFast => Fault::Rate { who, ppm: ppm(beyond, scene, chance), lasts },
        FaultKind::WallStep => Fault::WallStep { who, millis: wall_step(chance) },
        FaultKind::OneWay => {
            let to = chance.one_in(2).then(|| self::who(scene, chance)).filter(|to| *to != who);
            Fault::OneWay { from: who, to, lasts }
        }
        FaultKind::CutOff => Fault::Isolate { who, lasts },
        FaultKind::Split => Fault::Split { side: side(scene.nodes, chance), bridge: None, lasts },
        FaultKind::Bridge => {
            let bridge = u8::try_from(chance.below(u64::from(scene.nodes))).expect("few nodes");
            // Some of the others and never all of them: the bridge's own bit is put in between.
            let others = side(scene.nodes - 1, chance);
            let below = others & ((1 << bridge) - 1);
            Fault::Split { side: below | (others & !below) << 1, bridge: Some(bridge), lasts }
        }
        FaultKind::Loss | FaultKind::Doubled | FaultKind::Overtaken => {
            Fault::Storm { weather: storm(kind, chance), lasts }
        }
        FaultKind::SlowDisk => Fault::SlowDisk { who, lasts },
        FaultKind::Overload => Fault::Overload { who, each: chance.millis_of_any_size(1, 60), lasts },
        FaultKind::Suspect => Fault::Suspect { who },
        FaultKind::Policy => Fault::Policy { number: 0 },
        FaultKind::Ttl => Fault::Ttl { ttl: ttl(scene, chance) },
        FaultKind::StoreDown => {
            let has = match chance.below(20) {
                0..=5 => Has::Nothing,
                6..=9 => Has::All,
                _ => Has::AllBut(chance.millis(0, 1_000)),
            };
            Fault::Store(StoreFault::Down { down: lasts, has })
        }
        FaultKind::StoreSlow => Fault::Store(StoreFault::Slow { each: chance.millis_of_any_size(5, 1_500), lasts }),
        FaultKind::StoreFailover => {
            let lost = chance.millis_of_any_size(1, 1_500);
            Fault::Store(StoreFault::Failover { lost, lingers: chance.one_in(3), lasts, back: chance.one_in(2) })
        }
        FaultKind::StoreFlushed => Fault::Store(StoreFault::Flushed),
        FaultKind::StoreCut => Fault::Store(StoreFault::Cut { who, lasts }),
        FaultKind::Leave => Fault::Leave { who, down: chance.millis_of_any_size(30, 3_000) },
    }
}

fn who(scene: &Scene, chance: &mut Chance) -> Who {
    match chance.below(20) {
        0..=6 => Who::Owner,
        7..=10 => Who::Leader,
        11..=12 => Who::Successor,
        13..=15 => Who::Ingress,
        _ => node(scene, chance),
    }
}

fn node(scene: &Scene, chance: &mut Chance) -> Who {
    Who::Node(u8::try_from(chance.below(u64::from(scene.nodes))).expect("few nodes"))
}

/// Some nodes and never all.
fn side(nodes: u8, chance: &mut Chance) -> u8 {
    let all = (1_u64 << nodes) - 1;
    u8::try_from(chance.between(1, all - 1)).expect("few nodes")
}

/// What happens to the store, and at whose cost: most often whoever relied on it dies soon after.
fn of_store(scene: &Scene, chance: &mut Chance) -> Vec<Planned> {
    let mut faults = Vec::new();
    if chance.one_in(6) {
        faults.extend(relied_on_again(scene, chance));
    }
    for _ in 0..chance.below(3) {
        let kind = *chance.pick(FaultKind::OF_STORE);
        let when = any_time(scene, chance);
        faults.push(Planned { when, fault: fault(kind, false, scene, chance) });
        let (When::At(at) | When::In(_, at)) = when;
        let later = at.saturating_add(chance.millis_of_any_size(1, 2_500));
        if later < scene.heal_at && chance.percent(60) {
            let down = chance.millis_of_any_size(30, 4_500);
            faults.push(Planned { when: When::At(later), fault: Fault::Crash { who: Who::Owner, down } });
        }
    }
    faults
}

/// The store is in trouble early, so that it is not relied on, and slow when it is again: while everything is written anew.
fn relied_on_again(scene: &Scene, chance: &mut Chance) -> [Planned; 2] {
    let at = scene.from.saturating_add(chance.millis(0, 400));
    let trouble = StoreFault::Slow { each: chance.millis(250, 400), lasts: chance.millis(300, 600) };
    let again = at.saturating_add(SHUNNED_FOR);
    let slow = StoreFault::Slow { each: chance.millis(10, 80), lasts: chance.millis(1_500, 3_000) };
    [(at, trouble), (again, slow)].map(|(at, fault)| Planned { when: When::At(at), fault: Fault::Store(fault) })
}

/// Longer or shorter than it was at first, and so that the terms hold.
fn ttl(scene: &Scene, chance: &mut Chance) -> Span {
    let Scene { terms, .. } = scene;
    let holds = |ttl: &Span| Terms::new(*ttl, terms.renew(), terms.d_max(), terms.rho_per_mille()).is_ok();
    let shorter = chance.one_in(2).then(|| chance.millis(TTL_LEAST.as_millis_ceil(), terms.ttl().as_millis_ceil()));
    let drawn = shorter.filter(|ttl| *ttl < terms.ttl() && holds(ttl));
    drawn.unwrap_or_else(|| terms.ttl().saturating_add(chance.millis(100, TTL_MORE.as_millis_ceil())))
}

/// Within what leases assume, often exactly there; or beyond it by half to many times.
fn ppm(beyond: bool, scene: &Scene, chance: &mut Chance) -> i32 {
    let rho = u64::from(scene.terms.rho_per_mille()) * 1_000;
    let ppm = match beyond {
        true => rho + chance.between(rho / 2, 300_000),
        false if chance.one_in(2) => rho,
        false => chance.between(1, rho.max(1)),
    };
    i32::try_from(ppm).expect("below a million")
}

fn wall_step(chance: &mut Chance) -> i64 {
    let size = i64::try_from(chance.millis_of_any_size(20, 86_400_000).as_millis_ceil()).expect("a day at most");
    if chance.one_in(2) { -size } else { size }
}

fn storm(kind: FaultKind, chance: &mut Chance) -> Weather {
    let per_mille = |chance: &mut Chance, most| u16::try_from(chance.between(30, most)).expect("at most a thousand");
    let steady = Span::from_micros(chance.between(100, 2_000));
    // Longer than any answer may be old, and than most callers wait.
    let wild = steady.saturating_add(chance.millis_of_any_size(10, 1_000));
    Weather {
        delay_min: steady,
        delay_max: if kind == FaultKind::Overtaken || chance.one_in(4) { wild } else { steady },
        lost_per_mille: if kind == FaultKind::Loss || chance.one_in(6) { per_mille(chance, 500) } else { 0 },
        doubled_per_mille: if kind == FaultKind::Doubled || chance.one_in(6) { per_mille(chance, 600) } else { 0 },
    }
}
