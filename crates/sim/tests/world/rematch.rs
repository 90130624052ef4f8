//! What the simulator found in seed 4356: a question whose policy changed under way is matched anew, and asks again what it
//! repeats word for word. Where the owner that had charged it cannot answer the second time, the failure mode does, and the
//! first charge must be taken back all the same.

use limits::Span;
use sim::oracles;
use sim::world::trace::{Correction, Event};
use sim::world::{Ask, Fault, Planned, Scenario, When, Who, play};

use crate::scene::{all, first_leader, ms, quiet};

/// Two limits of one question that fall into different partitions; the second is wide, or a little wider.
fn policy(amount: u64) -> String {
    format!(
        "ringfence: 1\ndomain: story\nlimits:\n  \
         lent: {{ rate: 100/s, algorithm: token-bucket, key: [caller], fail: {{ emergency: 50% }} }}\n  \
         wide: {{ rate: {amount}/s, algorithm: token-bucket, key: [caller], fail: closed }}\n"
    )
}

/// `aside` hears `bridge` alone, and so lives by its lease and by the old policy; then the leader dies.
fn story(leader: u8, bridge: u8, aside: u8) -> Scenario {
    let ask = |number: u64| Ask {
        at: ms(4_450 + 10 * number),
        node: aside,
        attributes: vec![("caller".to_owned(), format!("c{number}"))],
        cost: 1,
        budget: Span::from_secs(1),
        own_id: false,
        again: Vec::new(),
    };
    let at = |millis, fault| Planned { when: When::At(ms(millis)), fault };
    let split = Fault::Split { side: 1 << aside, bridge: Some(bridge), lasts: Span::from_secs(4) };
    let crash = Fault::Crash { who: Who::Node(leader), down: Span::from_secs(2) };
    Scenario {
        policies: vec![policy(100), policy(200)],
        asks: (0..20).map(ask).collect(),
        faults: vec![at(2_000, split), at(2_100, Fault::Policy { number: 1 }), at(4_300, crash)],
        ..quiet()
    }
}

#[test]
fn what_the_first_match_charged_is_taken_back_where_the_second_has_no_answer() {
    let leader = first_leader();
    let others: Vec<u8> = (0..3).filter(|node| *node != leader).collect();
    let mut taken_back = 0;
    for (bridge, aside) in [(others[0], others[1]), (others[1], others[0])] {
        let scenario = story(leader, bridge, aside);
        let run = play(&scenario);
        assert!(run.counters.get("questions matched anew").is_some_and(|count| *count > 0), "{:?}", run.counters);
        let cancels = |event: &Event| {
            matches!(event, Event::Corrected { node, what: Correction::Cancel, .. } if *node == aside).then_some(())
        };
        taken_back += all(&run, cancels).len();
        oracles::judge(&scenario, &run).unwrap_or_else(|failure| panic!("{}: {}", failure.check, failure.words));
    }
    assert!(taken_back > 0, "some owner had no answer the second time");
}
