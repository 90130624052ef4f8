//! What callers ask: about all subjects, through all nodes, alone and in herds that meet one key at one moment through
//! several nodes. Half of them ask again elsewhere when they hear nothing.

use limits::{Moment, Span};
use ownership::lease::Terms;

use super::super::Ask;
use super::Chance;
use super::policies::Subject;

/// Questions of the safety phase, at least and at most.
const SAFETY: (u64, u64) = (400, 470);

/// Questions of the liveness phase, at least and at most.
const LIVENESS: (u64, u64) = (180, 240);

/// How long before its end a story's last question is put, so that its answer is heard.
const QUIET: Span = Span::from_millis(1_200);

/// What asks have to fit into.
#[derive(Debug)]
pub struct Scene {
    /// How many nodes can be asked.
    pub nodes: u8,
    /// The leases' terms.
    pub terms: Terms,
    /// The first ask.
    pub from: Moment,
    /// Where the liveness phase begins.
    pub heal_at: Moment,
    /// The end of the story.
    pub end_at: Moment,
}

/// All asks of a story in the order of time.
pub fn drawn(scene: &Scene, subjects: &[Subject], chance: &mut Chance) -> Vec<Ask> {
    let mut asks = Vec::new();
    // Some stories are mostly about one key.
    let favourite = chance.one_in(4).then(|| chance.pick(subjects).clone());
    let about = |chance: &mut Chance| match &favourite {
        Some(subject) if chance.percent(45) => subject.clone(),
        _ => chance.pick(subjects).clone(),
    };
    let phases = [(SAFETY, scene.from, scene.heal_at), (LIVENESS, scene.heal_at, scene.end_at.saturating_sub(QUIET))];
    for ((low, high), from, until) in phases {
        let wanted = asks.len() + usize::try_from(chance.between(low, high)).expect("a few hundred");
        while asks.len() < wanted {
            let (at, subject) = (chance.moment(from, until), about(chance));
            let herd = if chance.one_in(10) { chance.between(3, 8) } else { 1 };
            for _ in 0..herd {
                let at = if herd == 1 { at } else { at.saturating_add(chance.millis(0, 4)) };
                asks.push(ask(scene, &subject, at, chance));
            }
        }
    }
    asks.sort_by_key(|ask| ask.at);
    asks
}

fn ask(scene: &Scene, subject: &Subject, at: Moment, chance: &mut Chance) -> Ask {
    let node = node(scene, chance);
    let budget = match chance.below(10) {
        // So short that it is often over before an answer is there: cancels and debts.
        0 => chance.millis(3, 40),
        1..=7 => chance.millis(100, 500),
        // Longer than an answer may be old.
        _ => scene.terms.d_max().saturating_add(chance.millis(100, 700)),
    };
    let mut cost = 1;
    if chance.one_in(6) {
        cost = chance.between(1, subject.cost_max.clamp(1, 3));
    }
    let attributes = [("rule", subject.rule), ("key", subject.key), ("org", subject.org)];
    Ask {
        at,
        node,
        attributes: attributes.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec(),
        cost,
        budget,
        own_id: chance.one_in(3),
        again: again(scene, node, chance),
    }
}

/// Where and when the same question is put when nothing was heard: soon, so that both ask at the same time, or late.
fn again(scene: &Scene, first: u8, chance: &mut Chance) -> Vec<(Span, u8)> {
    let times = *chance.weighed(&[(5, 0), (3, 1), (2, 2_u8)]);
    let mut last = first;
    let step = |_| {
        let other =
            (1 + u8::try_from(chance.below(u64::from(scene.nodes) - 1)).expect("few nodes") + last) % scene.nodes;
        last = other;
        (chance.millis_of_any_size(5, 600), other)
    };
    (0..times).map(step).collect()
}

fn node(scene: &Scene, chance: &mut Chance) -> u8 {
    u8::try_from(chance.below(u64::from(scene.nodes))).expect("few nodes")
}
