//! The cluster of a story: how many nodes, what leases obey, how clocks run, what the network is like.

use limits::{Moment, Span};
use ownership::lease::Terms;

use super::super::{ClockSpec, NODES_MAX, NODES_MIN, Weather};
use super::Chance;

/// Mostly three: a majority is lost soonest there.
pub fn nodes(chance: &mut Chance) -> u8 {
    *chance.weighed(&[(6, NODES_MIN), (1, NODES_MIN + 1), (3, NODES_MAX)])
}

/// Few, so that keys meet in one; clusters have powers of two.
pub fn partitions(chance: &mut Chance) -> u16 {
    *chance.pick(&[8, 8, 16, 16, 32])
}

/// What most clusters take, or others that hold.
pub fn terms(chance: &mut Chance) -> Terms {
    if chance.percent(55) {
        return Terms::DEFAULT;
    }
    let d_max = chance.millis(60, 400);
    let renew = chance.millis(100, 700);
    let rho = u16::try_from(*chance.pick(&[1, 5, 10, 20, 50])).expect("a tolerance is small");
    let ttl = chance.millis(1_500, 5_000);
    // Some of what is drawn would cost a lease with each change of leader.
    Terms::new(ttl, renew, d_max, rho).unwrap_or(Terms::DEFAULT)
}

/// Boots long ago or a moment ago, rates up to what leases assume and often exactly there, wall clocks that disagree.
pub fn clocks(chance: &mut Chance, nodes: u8, terms: &Terms) -> Vec<ClockSpec> {
    let rho = i32::from(terms.rho_per_mille()) * 1_000;
    let strict = chance.one_in(3);
    (0..nodes).map(|_| clock(chance, rho, strict)).collect()
}

fn clock(chance: &mut Chance, rho: i32, strict: bool) -> ClockSpec {
    let ppm = match strict {
        true => *chance.pick(&[-rho, rho]),
        false => i32::try_from(chance.between(0, 2 * u64::from(rho.unsigned_abs()))).expect("rho is small") - rho,
    };
    let boot = chance.millis_of_any_size(1_000, 4_000_000_000);
    let wall_ms = match chance.below(10) {
        0 => i64::try_from(chance.between(0, 8_000)).expect("a few seconds") - 4_000,
        _ => i64::try_from(chance.between(0, 100)).expect("a few milliseconds") - 50,
    };
    ClockSpec { boot: Moment::ZERO.saturating_add(boot), ppm, wall_ms }
}

/// A machine room, mostly; sometimes a poor line.
pub fn weather(chance: &mut Chance) -> Weather {
    let micros = |chance: &mut Chance, low, high| Span::from_micros(chance.between(low, high));
    let poor = chance.one_in(6);
    let delay_min = micros(chance, 50, if poor { 4_000 } else { 500 });
    let spread = if poor { micros(chance, 1_000, 30_000) } else { micros(chance, 100, 3_000) };
    Weather {
        delay_min,
        delay_max: delay_min.saturating_add(spread),
        lost_per_mille: if chance.one_in(3) { u16::try_from(chance.between(1, 8)).expect("few") } else { 0 },
        doubled_per_mille: if chance.one_in(3) { u16::try_from(chance.between(1, 15)).expect("few") } else { 0 },
    }
}
