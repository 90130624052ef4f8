//! What a node does for its callers around the owners: it repeats denials that are certain, leaves silent nodes alone, and
//! goes by one revision of the policy with whoever decides.

use std::sync::Arc;
use std::time::{Duration, Instant};

use control::Expected;
use limits::Span;
use policy::Attributes;
use ringfence_node::{AskedId, Decision, Node, Question, Reason, Source, Wanted};

use crate::nodes::*;

async fn put(node: &Node, client: &str, wanted: Wanted, id: AskedId<'_>) -> Decision {
    let question = Question {
        domain: "default",
        attributes: Attributes::new([("kind", "closed"), ("client", client)]).unwrap(),
        wanted,
        cost: 1,
        brought: &[],
        limit: None,
        id,
        budget: Span::from_secs(1),
    };
    node.check(&[question]).await.decisions.remove(0).0.unwrap()
}

/// A client whose key another node than `asked` owns, with everything used up, and that node.
async fn used_up<'n>(asked: &Node, nodes: &'n [Arc<Node>]) -> (String, &'n Arc<Node>) {
    for number in 0..1_000 {
        let client = format!("client-{number}");
        let first = ask(asked, "closed", &client).await;
        let owner = first.legs[0].owner.and_then(|owner| asked.name_of(owner));
        let owner = nodes.iter().find(|node| owner.as_deref() == Some(node.name())).unwrap();
        if owner.name() != asked.name() {
            assert!(ask(asked, "closed", &client).await.allowed);
            return (client, owner);
        }
    }
    panic!("one node owns everything");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_certain_denial_is_repeated_without_its_owner_until_its_key_is_reset_through_any_node() {
    let directory = tempfile::tempdir().unwrap();
    let (_told, nodes) = three(directory.path()).await;
    let (asked, other) = (&nodes[0], &nodes[1]);
    let (client, _) = used_up(asked, &nodes).await;
    let fresh = ask(asked, "closed", &client).await;
    assert_eq!((fresh.allowed, fresh.legs[0].source), (false, Source::Forwarded));

    // Two seconds after the last charge nothing can be cancelled any more, and the owner says so.
    let repeated = in_time("a repeated denial", async {
        loop {
            let denied = ask(asked, "closed", &client).await;
            assert_eq!((denied.allowed, denied.reason), (false, Reason::Limit));
            if denied.legs[0].source == Source::DenialCache {
                return denied;
            }
        }
    })
    .await;
    let leg = &repeated.legs[0];
    assert_eq!((leg.owner, leg.epoch), (fresh.legs[0].owner, fresh.legs[0].epoch));
    assert_eq!(leg.numbers.unwrap().remaining, 0);
    assert!(!repeated.is_degraded());
    assert!(asked.denials() > 0);

    let named = put(asked, &client, Wanted::Spend, AskedId::Text { text: "mine", caller: "" }).await;
    assert_eq!(named.legs[0].source, Source::Forwarded, "an id that may be known is looked up where it is known");
    let looked = put(asked, &client, Wanted::Peek, AskedId::Made).await;
    assert_eq!(looked.legs[0].source, Source::Forwarded);

    assert!(put(other, &client, Wanted::Reset, AskedId::Made).await.allowed);
    assert_eq!(asked.denials(), 0, "whoever reset it had all others forget first");
    assert!(ask(asked, "closed", &client).await.allowed);
    for node in &nodes {
        node.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dead_owner_soon_costs_its_callers_no_waiting() {
    let directory = tempfile::tempdir().unwrap();
    let (_told, nodes) = three(directory.path()).await;
    let asked = &nodes[0];
    let (client, owner) = used_up(asked, &nodes).await;
    owner.stop().await;
    in_time("an answer at once", async {
        loop {
            let began = Instant::now();
            let denied = ask(asked, "closed", &client).await;
            assert!(!denied.allowed);
            if denied.reason == Reason::Unavailable && began.elapsed() < Duration::from_millis(300) {
                return;
            }
            assert_ne!(denied.reason, Reason::Recovering, "taken over before the circuit opened");
        }
    })
    .await;
    let barred = asked.unanswered().into_iter().find(|(reason, _)| *reason == "circuit_open").unwrap();
    assert!(barred.1 > 0);
    let circuits = asked.circuits();
    let (_, open, opened) = circuits.iter().find(|(name, _, _)| name == owner.name()).unwrap();
    assert!(*open && *opened > 0, "{circuits:?}");
    // Its successor is another node, and is asked.
    in_time("a successor", async { while ask(asked, "closed", &client).await.reason == Reason::Unavailable {} }).await;
    for node in nodes.iter().filter(|node| node.name() != owner.name()) {
        node.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_policy_that_changes_under_load_leaves_no_question_unanswered_and_binds() {
    let directory = tempfile::tempdir().unwrap();
    let (_told, nodes) = three(directory.path()).await;
    let stop = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let begun = Arc::new(tokio::sync::Semaphore::new(0));
    let load = nodes.iter().map(|node| {
        let (node, stop, begun) = (Arc::clone(node), Arc::clone(&stop), Arc::clone(&begun));
        tokio::spawn(async move {
            let (mut asked, mut revisions) = (0, [0; 12]);
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                let said = ask(&node, "closed", &format!("{}-{asked}", node.name())).await;
                assert!(said.allowed, "a fresh key: {said:?}");
                revisions[said.revision as usize] += 1;
                if asked == 0 {
                    begun.add_permits(1);
                }
                asked += 1;
            }
            revisions
        })
    });
    let load: Vec<_> = load.collect();
    drop(in_time("load at every node", begun.acquire_many(3)).await.unwrap());
    for revision in 2..=11 {
        let document = POLICY.replace("2/h", &format!("{}/h", revision + 1));
        let through = &nodes[revision as usize % 3];
        let applied = through.apply_policy("default", &document, Expected::Any, "test", "").await.unwrap();
        assert_eq!(applied.revision, revision);
    }
    let both = async { tokio::join!(nodes[1].until_binding("default", 11), nodes[1].until_binding("default", 11)) };
    assert_eq!(in_time("binding", both).await, (true, true));
    for node in &nodes {
        assert_eq!(node.policy("default").unwrap().revision, 11, "what binds is applied everywhere");
    }
    let told = words(&nodes[1]).into_iter().filter(|word| *word == "policy_binding").count();
    assert_eq!(told, 1, "once, however many wait for it");
    stop.store(true, std::sync::atomic::Ordering::Relaxed);
    for load in load {
        let revisions = load.await.unwrap();
        assert!(revisions[1] > 0 && revisions[11] > 0, "{revisions:?}");
    }
    for node in &nodes {
        node.stop().await;
    }
}
