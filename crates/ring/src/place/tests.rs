//! What the placement promises, over fresh clusters, over joins and leaves one by one, and over whatever it is handed.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::collections::BTreeMap;
use std::hash::BuildHasher as _;
use std::num::NonZeroU64;

use hashring::DefaultHashBuilder;
use proptest::prelude::*;

use super::*;

fn member(number: usize) -> Member {
    named(&format!("n{number}"), number as u64)
}

fn named(name: &str, id: u64) -> Member {
    Member { name: name.to_owned(), id: NodeId(NonZeroU64::new(id).unwrap()) }
}

fn cluster(size: usize) -> Vec<Member> {
    (1..=size).map(member).collect()
}

fn fresh(members: &[Member]) -> Vec<Option<NodeId>> {
    place(members, &[], PartitionCount::MAX)
}

fn loads(placement: &[Option<NodeId>], members: &[Member]) -> Vec<usize> {
    members.iter().map(|member| placement.iter().filter(|&&owner| owner == Some(member.id)).count()).collect()
}

fn max_over_mean(placement: &[Option<NodeId>], members: &[Member]) -> f64 {
    let loads = loads(placement, members);
    *loads.iter().max().unwrap() as f64 * members.len() as f64 / loads.iter().sum::<usize>() as f64
}

/// How many partitions went from one owner to another.
fn moves(before: &[Option<NodeId>], after: &[Option<NodeId>]) -> BTreeMap<(Option<NodeId>, Option<NodeId>), usize> {
    let mut moves = BTreeMap::new();
    for (from, to) in before.iter().zip(after).filter(|(from, to)| from != to) {
        *moves.entry((*from, *to)).or_insert(0) += 1;
    }
    moves
}

#[test]
fn a_fresh_cluster_is_even() {
    for size in [1, 3, 10, 16, 100] {
        let members = cluster(size);
        let placement = fresh(&members);
        assert!(placement.iter().all(Option::is_some));
        let ratio = max_over_mean(&placement, &members);
        assert!(ratio <= 1.05, "{size} nodes: max/mean {ratio}");
    }
}

#[test]
fn joins_and_leaves_one_by_one_keep_it_even_and_move_only_what_must() {
    let mut members = cluster(3);
    let mut placement = fresh(&members);
    for number in 4..=16 {
        members.push(member(number));
        placement = after_join(&placement, &members);
    }
    for gone in [2, 16, 7, 1, 9, 4, 12, 3, 11, 5, 8, 6, 10] {
        members.retain(|member| member.id != self::member(gone).id);
        placement = after_leave(&placement, &members);
    }
    assert_eq!(members.len(), 3);
}

/// Lets the last of `members` join, and checks what that moved.
fn after_join(before: &[Option<NodeId>], members: &[Member]) -> Vec<Option<NodeId>> {
    let newcomer = members.last().unwrap().id;
    let after = place(members, before, PartitionCount::MAX);
    let moves = moves(before, &after);
    assert!(moves.keys().all(|&(_, to)| to == Some(newcomer)), "a join moves nothing between old nodes: {moves:?}");
    let moved: usize = moves.values().sum();
    let fair = 4096.0 / members.len() as f64;
    assert!(moved as f64 <= 1.1 * fair && moved as f64 >= fair - 1.0, "{moved} moved, {fair} is fair");
    assert!(max_over_mean(&after, members) <= 1.05);
    after
}

fn after_leave(before: &[Option<NodeId>], members: &[Member]) -> Vec<Option<NodeId>> {
    let after = place(members, before, PartitionCount::MAX);
    let stays = |id: NodeId| members.iter().any(|member| member.id == id);
    for (from, to) in moves(before, &after).keys() {
        assert!(!stays(from.unwrap()) && stays(to.unwrap()), "a leave moves only what the leaver had");
    }
    assert!(max_over_mean(&after, members) <= 1.05);
    after
}

#[test]
fn the_circle_decides_most_places_and_the_cap_the_rest() {
    let members = cluster(3);
    let refs: Vec<&Member> = members.iter().collect();
    let circle = Circle::of(&refs);
    let placement = fresh(&members);
    let at_home = (0..4096).filter(|&p| placement[p] == Some(members[circle.first(p)].id)).count();
    assert!(at_home > 3_900, "{at_home} of 4096 lie at their own node's points");
    let without_cap: Vec<_> = (0..4096).map(|p| Some(members[circle.first(p)].id)).collect();
    assert!(max_over_mean(&without_cap, &members) > max_over_mean(&placement, &members));
}

#[test]
fn a_newcomer_takes_what_lies_at_its_own_points_first() {
    let mut members = cluster(3);
    let before = fresh(&members);
    members.push(member(4));
    let after = place(&members, &before, PartitionCount::MAX);
    let refs: Vec<&Member> = members.iter().collect();
    let circle = Circle::of(&refs);
    let taken: Vec<usize> = (0..4096).filter(|&p| after[p] != before[p]).collect();
    let at_home = taken.iter().filter(|&&p| circle.first(p) == 3).count();
    assert!(at_home * 10 >= taken.len() * 9, "{at_home} of {} taken lie at its points", taken.len());
}

#[test]
fn a_wiped_node_that_returns_under_its_name_has_its_old_place() {
    let members = cluster(3);
    let mut wiped = members.clone();
    wiped[1] = named("n2", 77);
    let (before, after) = (fresh(&members), fresh(&wiped));
    assert_eq!(moves(&before, &after).len(), 1, "only from the old id to the new");
    assert!(moves(&before, &after).contains_key(&(Some(members[1].id), Some(wiped[1].id))));
}

#[test]
fn without_members_everything_is_vacant() {
    let count = PartitionCount::new(8).unwrap();
    assert_eq!(place(&[], &[Some(member(1).id); 8], count), vec![None; 8]);
}

#[test]
fn the_points_and_places_on_the_circle_never_change() {
    // Computed by an independent implementation of SipHash over the documented bytes.
    let points: Vec<u64> = Point::all_of(0, "n1").map(|point| DefaultHashBuilder.hash_one(point)).collect();
    let pinned = [points[0], points[1], points[511]];
    assert_eq!(pinned, [0x0287_05c9_36e7_a4a9, 0xb9f9_85ff_ace7_3a27, 0xc21f_67f8_1838_4fa6]);
    assert_eq!(DefaultHashBuilder.hash_one(Place(PartitionId(0))), 0x71ab_1974_9231_4cc4);
    assert_eq!(DefaultHashBuilder.hash_one(Place(PartitionId(4095))), 0xbd8e_ce60_ead5_eb83);
    let first: String = fresh(&cluster(3))[..32].iter().map(|owner| owner.unwrap().0.to_string()).collect();
    assert_eq!(first, "13113133311332313332121323213332");
}

/// Members by number, and for each partition an owner's number or none: any picture a placement may be handed.
fn any_picture() -> impl Strategy<Value = (Vec<Member>, Vec<Option<NodeId>>, PartitionCount)> {
    let numbers = prop::collection::btree_set(1u64..40, 0..20);
    let owners = prop::collection::vec(prop::option::of(1u64..40), 0..300);
    (numbers, owners, 0u32..=8).prop_map(|(numbers, owners, bits)| {
        let members = numbers.into_iter().map(|n| member(n as usize)).collect();
        let owners = owners.into_iter().map(|n| n.map(|n| member(n as usize).id)).collect();
        (members, owners, PartitionCount::new(1 << bits).unwrap())
    })
}

/// Names that join or leave, one by one.
fn any_history() -> impl Strategy<Value = (usize, Vec<usize>)> {
    (1usize..8, prop::collection::vec(1usize..24, 1..12))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn whatever_it_is_handed_it_places_all_and_takes_only_from_above_a_share(
        (members, current, count) in any_picture(),
    ) {
        let after = place(&members, &current, count);
        prop_assert_eq!(after.len(), usize::from(count.get()));
        prop_assert!(after.iter().all(|owner| owner.is_some() != members.is_empty()));
        if members.is_empty() {
            return Ok(());
        }
        let share = after.len() / members.len();
        let before_loads = loads(&current[..current.len().min(after.len())], &members);
        for (seat, load) in loads(&after, &members).into_iter().enumerate() {
            prop_assert!(load >= share, "everybody gets a fair share");
            prop_assert!(load >= before_loads[seat].min(share), "nobody falls below it to feed another");
            prop_assert!(load <= (share + 1).max(before_loads[seat]), "nobody is filled above it");
        }
        prop_assert_eq!(&place(&members, &after, count), &after, "a placement is at rest");
    }

    #[test]
    fn the_order_of_members_means_nothing((members, current, count) in any_picture()) {
        let mut reversed = members.clone();
        reversed.reverse();
        prop_assert_eq!(place(&members, &current, count), place(&reversed, &current, count));
    }

    #[test]
    fn any_history_stays_within_one_of_even((size, toggles) in any_history()) {
        let count = PartitionCount::new(256).unwrap();
        let mut members = cluster(size);
        let mut placement = place(&members, &[], count);
        for number in toggles {
            let joins = !members.contains(&member(number));
            if joins { members.push(member(number)) } else { members.retain(|m| *m != member(number)) }
            let after = place(&members, &placement, count);
            for (from, to) in moves(&placement, &after).into_keys() {
                let touched = if joins { to } else { from };
                prop_assert!(from.is_none() || touched == Some(member(number).id), "only the one who came or went");
            }
            let loads = loads(&after, &members);
            let spread = loads.iter().max().unwrap_or(&0) - loads.iter().min().unwrap_or(&0);
            prop_assert!(spread <= 1, "{loads:?}");
            placement = after;
        }
    }
}
