//! Friends that talk, and how a call learns why it could not.

use ringfence_node::cluster::ClusterUuid;
use ringfence_node::secret::Secrets;
use ringfence_node::transport::{DialError, HandshakeError, Reason};
use tonic::{Code, Status};

use crate::parties::*;

fn reason(status: &Status) -> Option<Reason> {
    DialError::behind(status).map(DialError::reason)
}

#[tokio::test]
async fn two_nodes_talk_and_the_service_knows_who_calls() {
    let server = serve(of_cluster(2, cluster("main", 7))).await;
    let dialler = dialler(of_cluster(1, cluster("main", 7)));
    let channel = dialler.channel(&server.address, Some(node(2)));
    ask(&channel).await.unwrap();
    ask(&channel).await.unwrap();
    let caller = server.caller.lock().unwrap().unwrap();
    assert_eq!((caller.node, caller.version), (node(1), 1));
    assert_eq!(caller.uuid, ClusterUuid::from_bytes([7; 16]));
    assert_eq!((server.counters.made(), dialler.counters().made()), (1, 1), "one connection carries both calls");
}

#[tokio::test]
async fn a_wrong_secret_is_refused_by_name_on_both_sides() {
    let server = serve(credentials(2)).await;
    let dialler = dialler(with_secrets(1, Secrets::new(secret(9))));
    let status = ask(&dialler.channel(&server.address, None)).await.unwrap_err();
    assert_eq!((status.code(), reason(&status)), (Code::Unavailable, Some(Reason::WrongSecret)));
    assert_eq!(dialler.counters().failed(Reason::WrongSecret), 1);
    until(|| server.counters.failed(Reason::WrongSecret) == 1).await;
    assert_eq!(server.counters.made(), 0);
}

#[tokio::test]
async fn another_cluster_is_refused_by_name_on_both_sides() {
    for (ours, theirs) in [(("main", 0), ("other", 0)), (("main", 7), ("main", 8))] {
        let theirs = cluster(theirs.0, theirs.1);
        let server = serve(of_cluster(2, theirs.clone())).await;
        let dialler = dialler(of_cluster(1, cluster(ours.0, ours.1)));
        let status = ask(&dialler.channel(&server.address, None)).await.unwrap_err();
        match DialError::behind(&status).unwrap() {
            DialError::Refused(error) => assert_eq!(*error, HandshakeError::WrongCluster { theirs }),
            DialError::Unreachable(error) => panic!("{error}"),
        }
        until(|| server.counters.failed(Reason::WrongCluster) == 1).await;
    }
}

#[tokio::test]
async fn an_address_that_now_belongs_to_another_node_is_noticed() {
    let server = serve(credentials(2)).await;
    let dialler = dialler(credentials(1));
    let status = ask(&dialler.channel(&server.address, Some(node(3)))).await.unwrap_err();
    assert_eq!(reason(&status), Some(Reason::WrongNode));
    until(|| server.counters.failed(Reason::WrongNode) == 1).await;
    assert_eq!(*server.caller.lock().unwrap(), None, "no request reached the wrong node");
}

#[tokio::test]
async fn a_blank_node_and_one_of_a_founded_cluster_talk() {
    let server = serve(of_cluster(2, cluster("main", 7))).await;
    let blank = dialler(credentials(1)).dial(&server.address, None).await.unwrap();
    assert_eq!(blank.peer().uuid, ClusterUuid::from_bytes([7; 16]));
    assert_eq!(blank.peer().node, node(2));
}

#[tokio::test]
async fn what_a_node_learns_holds_from_its_next_connection_on() {
    let server = serve(of_cluster(2, cluster("main", 7))).await;
    let credentials = credentials(1);
    let dialler = dialler(credentials.clone());
    let channel = dialler.channel(&server.address, None);
    ask(&channel).await.unwrap();
    credentials.set_uuid(ClusterUuid::from_bytes([8; 16]).unwrap());
    ask(&channel).await.unwrap();
    let refused = dialler.dial(&server.address, None).await.unwrap_err();
    assert_eq!(refused.reason(), Reason::WrongCluster);
}

#[tokio::test]
async fn a_secret_is_rotated_without_a_refusal() {
    let (ours, theirs) = (credentials(1), credentials(2));
    let server = serve(theirs.clone()).await;
    let dialler = dialler(ours.clone());
    let steps = [
        Secrets::new(secret(1)).and_accept(secret(2)),
        Secrets::new(secret(2)).and_accept(secret(1)),
        Secrets::new(secret(2)),
    ];
    for step in steps {
        for side in [&ours, &theirs] {
            side.set_secrets(step.clone());
            dialler.dial(&server.address, None).await.unwrap();
        }
    }
    ours.set_secrets(Secrets::new(secret(1)));
    let refused = dialler.dial(&server.address, None).await.unwrap_err();
    assert_eq!(refused.reason(), Reason::WrongSecret, "the old secret is worth nothing any more");
}

#[tokio::test]
async fn nobody_there_is_told_apart_from_a_refusal() {
    let server = serve(credentials(2)).await;
    let address = server.address.clone();
    drop(server);
    let dialler = dialler(credentials(1));
    patiently(async { while dialler.dial(&address, None).await.is_ok() {} }).await;
    let status = ask(&dialler.channel(&address, None)).await.unwrap_err();
    assert_eq!(reason(&status), Some(Reason::Unreachable));
    let status = ask(&dialler.channel("nowhere.invalid:7601", None)).await.unwrap_err();
    assert_eq!(reason(&status), Some(Reason::Unreachable));
}

#[tokio::test]
async fn a_channel_outlives_the_restart_of_its_peer() {
    let server = serve(credentials(2)).await;
    let address = server.address.clone();
    let channel = dialler(credentials(1)).channel(&address, Some(node(2)));
    ask(&channel).await.unwrap();
    drop(server);
    patiently(async { while ask(&channel).await.is_ok() {} }).await;
    let again = serve_at(&address, credentials(2)).await;
    patiently(async { while ask(&channel).await.is_err() {} }).await;
    assert_eq!(again.counters.made(), 1);
}

#[tokio::test]
async fn hanging_up_ends_every_connection_that_came_in() {
    let server = serve(credentials(2)).await;
    let channels = [1, 3].map(|number| dialler(credentials(number)).channel(&server.address, None));
    for channel in &channels {
        ask(channel).await.unwrap();
    }
    server.connections.hang_up();
    for channel in &channels {
        patiently(async { while ask(channel).await.is_ok() {} }).await;
    }
    assert!(ask(&channels[0]).await.is_err(), "and whoever comes later is hung up on as well");
}

#[tokio::test]
async fn a_peer_that_falls_silent_fails_the_call() {
    let server = serve(credentials(2)).await;
    let proxy = Proxy::to(&server.address).await;
    let channel = dialler(credentials(1)).channel(&proxy.address.to_string(), None);
    ask(&channel).await.unwrap();
    proxy.go_deaf();
    // No deadline of the call's own: the connection's pings must end it.
    let status = ask(&channel).await.unwrap_err();
    assert!(DialError::behind(&status).is_none(), "the connection was made; it broke later: {status:?}");
}
