//! What a node tells of itself: each thing once, in order, and not a second time after a restart.

use crate::nodes::*;

#[tokio::test(flavor = "multi_thread")]
async fn a_founding_is_told_in_order_and_not_again_after_a_restart() {
    let directory = tempfile::tempdir().unwrap();
    let mut told = alone(directory.path());
    let first = settled(&mut told).await;
    let seen = first.events(0);
    let numbers: Vec<_> = seen.iter().map(|seen| seen.seq).collect();
    assert_eq!(numbers, (1..=seen.len() as u64).collect::<Vec<_>>());
    let expected = ["cluster_founded", "session_opened", "policy_applied", "map_published", "partition_activated"];
    let places: Vec<_> = expected.iter().map(|word| words(&first).iter().position(|told| told == word)).collect();
    assert!(places.iter().all(Option::is_some), "{:?}", words(&first));
    let activated = seen.iter().find(|seen| seen.event.word() == "partition_activated").unwrap();
    let fields = [("partitions", "16".to_owned()), ("state", "fresh".to_owned())];
    assert_eq!(activated.event.fields(), fields, "one event for all of them");
    assert_eq!(first.events(seen[1].seq).first(), seen.get(2), "what came after a number");
    first.stop().await;
    drop(first);

    let second = settled(&mut told).await;
    let words = words(&second);
    assert!(!words.contains(&"cluster_founded") && !words.contains(&"policy_applied"), "{words:?}");
    for word in ["session_expired", "session_opened", "takeover", "partition_activated"] {
        assert!(words.contains(&word), "{word}: {words:?}");
    }
    second.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_that_is_full_is_told_once_and_counted_each_time() {
    let directory = tempfile::tempdir().unwrap();
    let node = settled(&mut Told { keys_max: 2, ..alone(directory.path()) }).await;
    for client in ["a", "b", "c", "d", "e"] {
        ask(&node, "closed", client).await;
    }
    assert_eq!(node.keys(), [("default".to_owned(), 2)]);
    let full = node.events(0).into_iter().filter(|seen| seen.event.word() == "table_full");
    let full: Vec<_> = full.map(|seen| seen.event.fields()).collect();
    assert_eq!(full, [[("domain", "default".to_owned()), ("limit", "login".to_owned())]]);
    let policies = node.policies();
    assert_eq!(policies.tally.iter().map(|(_, tally)| tally.table_full()).sum::<u64>(), 3);
    node.stop().await;
}
