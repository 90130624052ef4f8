//! One check as its caller pays for it: over gRPC on loopback to a node that owns the key, alone and in batches of 64 on a
//! stream. Both sides, client and server, run in this process; what is compared is the same in both.
#![allow(missing_docs, clippy::expect_used, reason = "a benchmark")]

use std::net::{Ipv4Addr, TcpListener, UdpSocket};
use std::sync::Arc;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use node::Node;
use node::config::{Advertise, Bounds, Config, Founding, Given, PeerSockets, Place};
use node::secret::{ClusterSecret, Secrets};
use ownership::lease::Terms;
use ring::PartitionCount;
use server::{Access, Door, Proxies, Settings, Sockets};
use tokio::runtime::Runtime;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Channel;
use wire::v1::rate_limiter_client::RateLimiterClient;
use wire::v1::{CheckBatchRequest, CheckRequest};

const POLICY: &str = "
ringfence: 1
domain: default
limits: { per-client: { rate: 1000000000/s, key: [client] } }
";

/// Checks in one batch of the stream.
const BATCH: usize = 64;

/// Different keys that are asked in turn.
const KEYS: usize = 4_096;

fn door() -> Door {
    Door::bind((Ipv4Addr::LOCALHOST, 0).into()).expect("loopback has a free port")
}

fn address(door: &Door) -> String {
    door.local_addr().expect("bound").to_string()
}

/// A cluster of one node; returns where its API answers.
async fn start() -> String {
    let (api, admin) = (door(), door());
    let tcp = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("loopback has a free port");
    let peer = tcp.local_addr().expect("bound");
    let udp = UdpSocket::bind(peer).expect("the port is free for UDP too");
    let advertise = Advertise { peer: peer.to_string(), api: address(&api), admin: address(&admin) };
    let answers = advertise.api.clone();
    let node: Arc<Node> = Node::start(Config {
        name: "n1".to_owned(),
        data: Place::Memory,
        peer: PeerSockets { tcp, udp },
        advertise,
        seeds: Vec::new(),
        secrets: Secrets::new(ClusterSecret::new(&[7; 32]).expect("long enough")),
        founding: Founding {
            name: "bench".to_owned(),
            founders: vec!["n1".to_owned()],
            terms: Terms::DEFAULT,
            partitions: PartitionCount::MAX,
            given: Given::NOTHING,
            policies: vec![POLICY.to_owned()],
        },
        bounds: Bounds::default(),
        store: None,
    })
    .await
    .expect("nothing is in the way");
    tokio::spawn(server::serve(
        Arc::clone(&node),
        Sockets { api, admin },
        Settings { access: Access::open(), open_metrics: true, proxies: Proxies::default() },
    ));
    node.settled().await;
    answers
}

fn check(number: usize) -> CheckRequest {
    let attributes = [("client".to_owned(), format!("client-{}", number % KEYS))];
    CheckRequest { attributes: attributes.into(), ..CheckRequest::default() }
}

/// A stream that answers one batch at a time.
struct Stream {
    batches: mpsc::Sender<CheckBatchRequest>,
    answers: tonic::Streaming<wire::v1::CheckBatchResponse>,
    asked: usize,
}

impl Stream {
    async fn open(channel: Channel) -> Stream {
        let (batches, requests) = mpsc::channel(1);
        let mut client = RateLimiterClient::new(channel);
        let answers = client.check_stream(ReceiverStream::new(requests)).await.expect("the node answers").into_inner();
        Stream { batches, answers, asked: 0 }
    }

    async fn ask_batch(&mut self) {
        let checks = (self.asked..self.asked + BATCH).map(check).collect();
        self.asked += BATCH;
        self.batches.send(CheckBatchRequest { number: 1, checks }).await.expect("the stream is open");
        let answer = self.answers.message().await.expect("the stream is open").expect("an answer");
        assert_eq!(answer.results.len(), BATCH);
    }
}

fn checks(criterion: &mut Criterion) {
    let runtime = Runtime::new().expect("a runtime");
    let address = runtime.block_on(start());
    let channel = runtime
        .block_on(Channel::from_shared(format!("http://{address}")).expect("an address").tcp_nodelay(true).connect())
        .expect("the node listens");
    let mut group = criterion.benchmark_group("check");
    group.throughput(Throughput::Elements(1));
    let (mut client, mut asked) = (RateLimiterClient::new(channel.clone()), 0);
    group.bench_function("unary", |bench| {
        bench.iter(|| {
            asked += 1;
            runtime.block_on(client.check(check(asked))).expect("the node answers")
        });
    });
    group.throughput(Throughput::Elements(BATCH as u64));
    let mut stream = runtime.block_on(Stream::open(channel));
    group.bench_function("stream-64", |bench| bench.iter(|| runtime.block_on(stream.ask_batch())));
    group.finish();
}

criterion_group!(benches, checks);
criterion_main!(benches);
