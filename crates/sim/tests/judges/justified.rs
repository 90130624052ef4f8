//! Denials of a true limiter are always explained by what was charged; one that came out of nowhere is found.

use limits::Moment;
use sim::justified::{Charged, Refusal, unjustified};
use sim::{Clocks, Promise};

use crate::limiter::{Decided, Dice, fits, promise};

const MILLI: u64 = 1_000_000;

/// A limiter that is asked often, and every answer with delays around it.
fn history(promise: &Promise, dice: &mut Dice, delay: u64) -> (Vec<Charged>, Vec<Refusal>) {
    let (mut admitted, mut charges, mut refusals) = (Vec::<Decided>::new(), Vec::new(), Vec::new());
    let mut at = crate::limiter::EDGE_AT;
    for _ in 0..60 {
        at += dice.below(promise.rate.period().as_nanos() / 12);
        let one = Decided { at, cost: 1 + dice.below(2) };
        let invoked = Moment::from_nanos(at - dice.below(delay + 1));
        let returned = Moment::from_nanos(at + dice.below(delay + 1));
        if fits(promise, &admitted, one) {
            admitted.push(one);
            charges.push(Charged { earliest: invoked, latest: returned, cost: one.cost });
        } else {
            refusals.push(Refusal { invoked, returned, cost: one.cost });
        }
    }
    (charges, refusals)
}

#[test]
fn what_a_true_limiter_refuses_is_always_explained() {
    let mut refused = 0;
    for seed in 0..2_000 {
        let mut dice = Dice(seed);
        let promise = promise(&mut dice);
        let delay = [0, MILLI, 50 * MILLI][dice.below(3) as usize];
        let (charges, refusals) = history(&promise, &mut dice, delay);
        refused += refusals.len();
        assert_eq!(unjustified(&charges, &refusals, &promise, &Clocks::ALIKE), Ok(vec![]), "seed {seed}: {promise:?}");
    }
    assert!(refused > 10_000, "{refused} refusals are too few to say anything");
}

/// One of the charges that explain a refusal is taken away, and the refusal stands alone.
#[test]
fn a_refusal_that_nothing_explains_is_found() {
    let mut found = 0;
    for seed in 0..500 {
        let mut dice = Dice(seed);
        let promise = promise(&mut dice);
        let (charges, refusals) = history(&promise, &mut dice, 0);
        let Some(first) = refusals.first() else { continue };
        let before: Vec<_> = charges.into_iter().filter(|charge| charge.latest <= first.invoked).skip(2).collect();
        let alone = unjustified(&before, &[*first], &promise, &Clocks::ALIKE).unwrap();
        found += alone.len();
    }
    assert!(found > 350, "only {found} of some 500 were found");
    let refusal = Refusal { invoked: Moment::from_nanos(MILLI), returned: Moment::from_nanos(MILLI), cost: 1 };
    let any = promise(&mut Dice(1));
    assert_eq!(unjustified(&[], &[refusal], &any, &Clocks::ALIKE), Ok(vec![0]));
}

/// On a slow clock what was used comes back later, and a refusal that this explains is right.
#[test]
fn a_slow_clock_explains_a_refusal_a_little_later() {
    let rate = limits::Rate::new(1, limits::Span::from_secs(1)).unwrap();
    let promise = Promise { rate, counted: sim::Counted::Log };
    let at = |millis: u64| Moment::from_nanos(millis * MILLI);
    let charge = Charged { earliest: at(0), latest: at(0), cost: 1 };
    let refusal = Refusal { invoked: at(1_004), returned: at(1_004), cost: 1 };
    assert_eq!(unjustified(&[charge], &[refusal], &promise, &Clocks::ALIKE), Ok(vec![0]));
    assert_eq!(unjustified(&[charge], &[refusal], &promise, &Clocks::within_millionths(5_000)), Ok(vec![]));
}
