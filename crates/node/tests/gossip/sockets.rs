//! The task and real UDP on loopback. Events are awaited, never slept for.

use std::net::SocketAddr;
use std::time::Duration;

use ringfence_node::cluster::NodeName;
use ringfence_node::gossip::{Config, Event, GossipHandle, Identity, Incarnation, Settings, State, View, start};
use tokio::net::UdpSocket;
use tokio::sync::broadcast;
use tokio::time::timeout;

use crate::network::{cluster, node_id, secrets, uuid};

/// Far more than anything here takes; only a failing test waits for it.
const PATIENCE: Duration = Duration::from_secs(30);

async fn node(number: u64, seeds: &[SocketAddr]) -> (GossipHandle, broadcast::Receiver<Event>, SocketAddr) {
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let peer = socket.local_addr().unwrap();
    let name = NodeName::new(&format!("n{number}")).unwrap();
    let incarnation = Incarnation::of_boot(1);
    let config = Config {
        identity: Identity { id: node_id(number), incarnation, name, peer, api: None },
        cluster: cluster("main"),
        secrets: secrets(1),
        settings: Settings::default(),
        seeds: seeds.iter().map(SocketAddr::to_string).chain(["nowhere.invalid:7601".to_owned()]).collect(),
        seed: number,
    };
    let (handle, events) = start(socket, config).unwrap();
    (handle, events, peer)
}

async fn view(handle: &GossipHandle, wanted: impl FnMut(&View) -> bool) {
    let mut members = handle.members();
    timeout(PATIENCE, members.wait_for(wanted)).await.unwrap().unwrap();
}

async fn event(events: &mut broadcast::Receiver<Event>, wanted: impl Fn(&Event) -> bool) {
    let search = async { while !wanted(&events.recv().await.unwrap()) {} };
    timeout(PATIENCE, search).await.unwrap();
}

fn state(view: &View, number: u64) -> Option<State> {
    view.members.get(&node_id(number)).map(|member| member.state)
}

#[tokio::test]
async fn three_nodes_meet_lose_one_and_say_goodbye_to_another() {
    let (n1, mut events, first) = node(1, &[]).await;
    let (n2, ..) = node(2, &[first]).await;
    let (n3, ..) = node(3, &[first]).await;
    for handle in [&n1, &n2, &n3] {
        view(handle, |view| view.active().count() == 2).await;
    }
    event(&mut events, |event| matches!(event, Event::Seen(who) if who.name.as_str() == "n3")).await;

    n1.set_uuid(uuid(7));
    n1.set_map_version(5);
    view(&n2, |view| view.uuid == Some(uuid(7)) && view.map_version == 5).await;

    drop(n3);
    view(&n1, |view| state(view, 3) == Some(State::Down)).await;
    event(&mut events, |event| matches!(event, Event::Suspected(who) if who.id == node_id(3))).await;
    event(&mut events, |event| matches!(event, Event::Gone(who) if who.id == node_id(3))).await;

    n2.leave().await;
    view(&n1, |view| state(view, 2) == Some(State::Down)).await;
    assert!(n1.counters().received() > 0 && n1.counters().faults() == 0);
}
