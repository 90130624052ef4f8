//! Clients that hang up a millisecond after they asked. Nothing of them stays: no connection, no thread, no memory that
//! grows with their number; the nodes stay healthy, and whoever asks again with the same id is charged once for both.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use serde_json::json;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use tokio::sync::Barrier;
use wire::v1::rate_limiter_client::RateLimiterClient;
use wire::v1::{CheckBatchRequest, CheckRequest, Decision};

use crate::dev::Dev;
use crate::grpc::{channel, decision};
use crate::http;
use crate::patience::PATIENCE;

/// Clients in one storm.
const CLIENTS: usize = 1_000;

/// How long a client waits before it hangs up.
const HANGS_UP_AFTER: Duration = Duration::from_millis(1);

/// How long an answer is remembered for whoever asks again.
const HORIZON: Duration = Duration::from_secs(2);

/// Connections of one storm that gRPC clients share.
const CHANNELS: usize = 30;

/// What a process may hold after a storm beyond what it held before: runtimes keep a few things for later.
const SLACK: usize = 16;

/// What memory may still grow by, from the second storm on, once allocators have what they want. A thousand clients of
/// whom a connection's buffers stayed would be more in a single storm.
const GROWTH_MAX_KIB: usize = 32 * 1024;

/// Large windows that begin with their first charge: what is spent stays spent while the test runs.
const POLICY: &str = "
ringfence: 1
domain: test
limits:
  all: { rate: 1_000_000/d, algorithm: fixed-window, align: first, key: [storm], fail: closed }
  each: { rate: 1000/d, algorithm: fixed-window, align: first, key: [client], fail: closed }
rules:
  - { name: named, match: { kind: named }, limits: [all, each] }
  - { name: nameless, match: { kind: nameless }, limits: [each] }
";

/// One client of a storm.
#[derive(Clone, Debug)]
struct Client {
    storm: String,
    name: String,
    /// Whether it brings an id of its own.
    named: bool,
}

impl Client {
    /// A thousand, of which three quarters bring ids.
    fn storm(number: usize) -> Vec<Client> {
        let storm = format!("storm-{number}");
        let client =
            |client| Client { storm: storm.clone(), name: format!("{storm}-{client}"), named: client % 4 != 3 };
        (0..CLIENTS).map(client).collect()
    }

    fn request(&self) -> CheckRequest {
        let kind = if self.named { "named" } else { "nameless" };
        let attributes = [("kind", kind), ("client", &self.name), ("storm", &self.storm)];
        CheckRequest {
            domain: "test".to_owned(),
            attributes: attributes.map(|(name, value)| (name.to_owned(), value.to_owned())).into(),
            id: if self.named { self.name.clone() } else { String::new() },
            ..CheckRequest::default()
        }
    }

    /// The same question by somebody who waits for its answer.
    fn patient(&self) -> CheckRequest {
        CheckRequest { deadline_ms: Some(1_000), ..self.request() }
    }

    /// A look at what it used.
    fn look(&self) -> CheckRequest {
        CheckRequest { cost: Some(0), id: String::new(), ..self.patient() }
    }

    /// Sends the question in a connection of its own and closes it. Returns whether an answer had come by then.
    async fn hang_up_http(self, address: String, together: Arc<Barrier>) -> bool {
        let mut connection = TcpStream::connect(&address).await.unwrap();
        let CheckRequest { domain, attributes, id, .. } = self.request();
        let mut body = json!({ "domain": domain, "attributes": attributes });
        if self.named {
            body["id"] = id.into();
        }
        let body = body.to_string();
        let head = format!("host: {address}\r\ncontent-type: application/json\r\ncontent-length: {}", body.len());
        together.wait().await;
        connection.write_all(format!("POST /v1/check HTTP/1.1\r\n{head}\r\n\r\n{body}").as_bytes()).await.unwrap();
        tokio::time::sleep(HANGS_UP_AFTER).await;
        connection.try_read(&mut [0; 16]).is_ok()
    }

    /// Sends the question on a stream and drops the stream. Returns whether an answer had come by then.
    async fn hang_up_grpc(
        self,
        mut asks: RateLimiterClient<tonic::transport::Channel>,
        together: Arc<Barrier>,
    ) -> bool {
        together.wait().await;
        let batch = CheckBatchRequest { number: 1, checks: vec![self.request()] };
        let answered = async {
            // The stream stays open from here: it is dropped, not finished.
            let (_open, batches) = {
                let (send, receive) = tokio::sync::mpsc::channel(1);
                send.send(batch).await.unwrap();
                (send, tokio_stream::wrappers::ReceiverStream::new(receive))
            };
            asks.check_stream(batches).await.unwrap().into_inner().message().await.unwrap();
        };
        tokio::time::timeout(HANGS_UP_AFTER, answered).await.is_ok()
    }
}

/// All clients connect, ask at the same moment and hang up. Returns how many were gone before their answer.
async fn storm(dev: &Dev, clients: &[Client]) -> usize {
    let together = Arc::new(Barrier::new(clients.len()));
    let address = |number: usize| dev.api(number % 3 + 1).to_owned();
    let channels: Vec<_> = (0..CHANNELS).map(|number| RateLimiterClient::new(channel(&address(number)))).collect();
    // A connection that is still being made would be all that a millisecond sees.
    let warm = channels.iter().map(|asks| async { asks.clone().check_batch(CheckBatchRequest::default()).await });
    join_all(warm).await.into_iter().for_each(|answer| assert!(answer.is_ok(), "{answer:?}"));
    let tasks = clients.iter().cloned().enumerate().map(|(number, client)| {
        let together = Arc::clone(&together);
        if number % 2 == 0 {
            tokio::spawn(client.hang_up_http(address(number), together))
        } else {
            tokio::spawn(client.hang_up_grpc(channels[number % CHANNELS].clone(), together))
        }
    });
    let tasks: Vec<_> = tasks.collect();
    let answered = join_all(tasks).await;
    answered.into_iter().filter(|answered| !*answered.as_ref().unwrap()).count()
}

/// Asks all of these in one batch, of another node than anybody asked before them.
async fn ask(dev: &Dev, checks: Vec<CheckRequest>) -> Vec<Decision> {
    let mut asks = RateLimiterClient::new(channel(dev.api(1)));
    let batch = CheckBatchRequest { number: 1, checks };
    asks.check_batch(batch).await.unwrap().into_inner().results.into_iter().map(decision).collect()
}

/// What is used of a limit, by a decision that looked; a limit that nobody could look at shows nothing.
fn used(decision: &Decision, limit: &str) -> u64 {
    let leg = decision.limits.iter().find(|leg| leg.limit == limit).unwrap();
    leg.capacity.unwrap() - leg.remaining.unwrap_or_else(|| panic!("{decision:?}"))
}

/// Looks until every leg was answered by its owner.
async fn look(dev: &Dev, clients: &[Client]) -> Vec<Decision> {
    let until = Instant::now() + PATIENCE;
    loop {
        let seen = ask(dev, clients.iter().map(Client::look).collect()).await;
        if seen.iter().all(|decision| !decision.degraded) {
            return seen;
        }
        assert!(Instant::now() < until, "owners do not answer");
    }
}

/// A storm, and then all who brought an id ask again. Returns whether it all fell within the horizon, and how many had
/// hung up before their answer.
async fn storm_and_ask_again(dev: &Dev, number: usize) -> (bool, usize) {
    let clients = Client::storm(number);
    let started = Instant::now();
    let unanswered = storm(dev, &clients).await;
    let seen = look(dev, &clients).await;
    for (client, seen) in clients.iter().zip(&seen) {
        assert!(used(seen, "each") <= 1, "{client:?} asked once: {seen:?}");
    }
    let (named, nameless): (Vec<_>, Vec<_>) = clients.into_iter().partition(|client| client.named);
    let again = ask(dev, named.iter().map(Client::patient).collect()).await;
    let in_time = started.elapsed() < HORIZON && again.iter().all(|decision| !decision.degraded);
    assert!(again.iter().any(|decision| decision.replayed) || !in_time, "some of the storm was decided");

    let seen = look(dev, &named).await;
    // Beyond the horizon an id is a new one, and charges again; an answer that did not come in time charges nothing.
    if in_time {
        let sum = used(&seen[0], "all");
        assert_eq!(sum, named.len() as u64, "one charge for each of the ids");
        for (client, seen) in named.iter().zip(&seen) {
            assert_eq!(used(seen, "each"), 1, "{client:?}: {seen:?}");
        }
    }
    for (client, seen) in nameless.iter().zip(look(dev, &nameless).await) {
        assert!(used(&seen, "each") <= 1, "{client:?} asked once: {seen:?}");
    }
    (in_time, unanswered)
}

/// What a process holds, as the kernel counts it.
#[derive(Clone, Copy, Debug)]
struct Held {
    files: usize,
    threads: usize,
    memory_kib: usize,
}

impl Held {
    fn by(dev: &Dev) -> Held {
        let entries = |what: &str| std::fs::read_dir(format!("/proc/{}/{what}", dev.pid())).unwrap().count();
        let status = std::fs::read_to_string(format!("/proc/{}/status", dev.pid())).unwrap();
        let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        let memory_kib = resident.trim().trim_end_matches(" kB").parse().unwrap();
        Held { files: entries("fd"), threads: entries("task"), memory_kib }
    }

    /// Waits until files and threads are as they were.
    async fn returns(before: Held, dev: &Dev) -> Held {
        let until = Instant::now() + PATIENCE;
        loop {
            let held = Held::by(dev);
            if held.files <= before.files + SLACK && held.threads <= before.threads + SLACK {
                return held;
            }
            assert!(Instant::now() < until, "{held:?}, where it was {before:?}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

/// Asks every node whether it is ready until told to stop; each must say so each time.
fn watch_health(dev: &Dev) -> (std::thread::JoinHandle<usize>, Arc<std::sync::atomic::AtomicBool>) {
    let stop = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let (stopped, nodes) = (Arc::clone(&stop), [1, 2, 3].map(|node| dev.admin(node).to_owned()));
    let watch = move || {
        let mut looks = 0;
        while !stopped.load(std::sync::atomic::Ordering::Relaxed) {
            for node in &nodes {
                let answer = http::get(node, "/readyz");
                assert_eq!(answer.status, 200, "{}", answer.body);
            }
            looks += 1;
        }
        looks
    };
    (std::thread::spawn(watch), stop)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_clients_hang_up_and_each_id_is_charged_once() {
    let dev = Dev::start_with_policy(POLICY);
    let sessions = |cluster: &serde_json::Value| {
        let nodes = cluster["nodes"].as_array().unwrap().iter();
        nodes.map(|node| node["session"].clone()).collect::<Vec<_>>()
    };
    let (before, held) = (sessions(&dev.cluster(1)), Held::by(&dev));
    let (health, stop) = watch_health(&dev);

    let (mut storms, mut after_first) = (0, None);
    let until = Instant::now() + PATIENCE;
    // One storm whose second questions all came in time is the proof; three show what stays behind of them.
    for number in 0.. {
        let (in_time, unanswered) = storm_and_ask_again(&dev, number).await;
        assert!(unanswered > 0, "nobody hung up before the answer, so this test shows nothing");
        let now = Held::returns(held, &dev).await;
        after_first.get_or_insert(now);
        storms += usize::from(in_time);
        if storms >= 1 && number >= 2 {
            let first = after_first.unwrap().memory_kib;
            assert!(now.memory_kib <= first + GROWTH_MAX_KIB, "{now:?} after {number} storms more than {first} KiB");
            break;
        }
        assert!(Instant::now() < until, "no storm fell within {HORIZON:?}");
    }
    stop.store(true, std::sync::atomic::Ordering::Relaxed);
    let looks = tokio::task::spawn_blocking(|| health.join().unwrap()).await.unwrap();
    assert!(looks > 0);
    assert_eq!(sessions(&dev.cluster(1)), before, "nobody lost a lease over it");
}

/// The clients of a storm whose keys this node does not own, each under one limit.
async fn of_others_than(dev: &Dev, owner: &str, number: usize) -> Vec<Client> {
    let clients: Vec<_> = Client::storm(number).into_iter().map(|client| Client { named: false, ..client }).collect();
    let seen = look(dev, &clients).await;
    clients.into_iter().zip(seen).filter(|(_, seen)| seen.owner != owner).map(|(client, _)| client).collect()
}

/// The same, of a node that waits for a dead owner: every one of these questions is still open when its client leaves.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_that_wait_for_a_dead_owner_and_hang_up_leave_nothing_behind() {
    let mut dev = Dev::start_with_policy(POLICY);
    let mut storms = Vec::new();
    for number in 0..2 {
        storms.push(of_others_than(&dev, "n1", number).await);
    }
    // Two of three dead: nobody takes over, and what they owned is waited for until the deadline.
    dev.kill("n2");
    dev.kill("n3");
    let held = Held::by(&dev);
    for clients in storms.clone() {
        let asked = clients.len();
        let together = Arc::new(Barrier::new(asked));
        let address = dev.api(1).to_owned();
        let tasks: Vec<_> = clients
            .into_iter()
            .map(|client| tokio::spawn(client.hang_up_http(address.clone(), Arc::clone(&together))))
            .collect();
        let answered = join_all(tasks).await.into_iter().filter(|answered| *answered.as_ref().unwrap()).count();
        assert!(answered < asked, "nobody hung up before the answer, so this test shows nothing");
        Held::returns(held, &dev).await;
    }
    let mut asks = RateLimiterClient::new(channel(dev.api(1)));
    let answer = asks.check(storms[0][0].patient()).await.unwrap().into_inner();
    assert!(!answer.allowed && answer.degraded, "it still answers, by failure mode: {answer:?}");
}

/// Behind a gateway many callers share a connection. What some of them give up costs the others nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_that_are_given_up_cost_the_other_callers_of_their_connection_nothing() {
    let dev = Dev::start_with_policy(POLICY);
    let asks = RateLimiterClient::new(channel(dev.api(2)));
    let (send, batches) = tokio::sync::mpsc::channel(1);
    let batches = tokio_stream::wrappers::ReceiverStream::new(batches);
    let batch = |number: u64| CheckBatchRequest { number, checks: vec![Client::storm(99)[0].patient()] };
    send.send(batch(0)).await.unwrap();
    let mut answers = asks.clone().check_stream(batches).await.unwrap().into_inner();
    assert_eq!(answers.message().await.unwrap().unwrap().number, 0);
    for storm in 1..=3 {
        let clients = Client::storm(storm);
        let together = Arc::new(Barrier::new(clients.len()));
        let tasks = clients.into_iter().map(|client| client.hang_up_grpc(asks.clone(), Arc::clone(&together)));
        let answered = join_all(tasks.map(tokio::spawn)).await;
        assert!(answered.into_iter().any(|answered| !answered.unwrap()), "somebody hung up before the answer");
        send.send(batch(storm as u64)).await.unwrap();
        let answer = answers.message().await.expect("the connection stands").expect("and so does the stream");
        assert_eq!(answer.number, storm as u64);
    }
}
