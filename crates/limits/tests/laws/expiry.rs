//! Law 4: an entry goes at the very nanosecond at which it reads as an absent key does, not one earlier, whatever swept.

use std::cell::Cell;

use limits::{Align, Moment, Now, Shape, Span};
use proptest::prelude::*;

use crate::cases::{any_shape, go, runner, steps};
use crate::single::{Single, at, bucket, later, log, secs, window};

#[test]
fn p9_an_entry_outlives_its_refill_and_not_by_a_nanosecond() {
    let lapsed = Cell::new(0);
    runner(400)
        .run(&(any_shape(), 0..secs(100_000), steps(20)), |(shape, start, steps)| {
            let mut single = Single::new(shape);
            let (mut now, mut last) = (at(start), None);
            for step in &steps {
                let cost;
                (now, cost) = go(now, step, &shape, last.as_ref());
                last = Some(single.ask(cost, now));
            }
            let reset = single.peek(0, now).reset_after;
            if reset == Span::ZERO || reset == Span::MAX {
                return Ok(());
            }
            single.sweep(later(now, reset.saturating_sub(Span::from_nanos(1))));
            prop_assert_eq!(single.table.len(), 1, "it still says something");
            single.sweep(later(now, reset));
            prop_assert_eq!(single.table.len(), 0, "it says nothing any more");
            lapsed.set(lapsed.get() + 1);
            Ok(())
        })
        .unwrap();
    assert!(lapsed.get() > 200, "only {} cases left an entry to lapse", lapsed.get());
}

#[test]
fn an_aligned_window_never_lapses_while_cluster_time_is_unknown() {
    let mut single = Single::new(window(1, secs(1), Align::Epoch));
    assert!(single.ask(1, at(0)).allowed);
    single.sweep(Now::at(Moment::from_nanos(secs(50))));
    assert_eq!(single.table.len(), 1);
    single.sweep(at(secs(50)));
    assert_eq!(single.table.len(), 0);
}

#[test]
fn what_was_undone_whole_lapses_at_once() {
    for shape in [bucket(1, secs(9), 5), log(5, secs(9)), window(5, secs(9), Align::First)] {
        let mut single = Single::new(shape);
        single.ask(5, at(0));
        let charge = single.charge.unwrap();
        single.undo(&charge, at(1));
        assert_eq!((single.sweep(at(1)), single.table.len()), (1, 0), "{shape:?}");
    }
}

#[test]
fn a_key_that_a_changed_limit_reads_may_lapse_under_its_old_numbers() {
    let mut single = Single::new(bucket(10, secs(1), 10));
    single.ask(10, at(0));
    single.change(bucket(1, secs(3_600), 10));
    // Nobody asked after the change: a second after it was emptied the bucket is full, as it was promised then.
    assert_eq!(single.sweep(at(secs(1))), 1);
    single.change(Shape { rate: None, ..bucket(1, 1, 1) });
    assert_eq!(single.ask(1, at(secs(1))).remaining, u64::MAX);
}
