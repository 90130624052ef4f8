//! The plumbing: nodes that listen and dial, and a proxy between them that can listen in or go deaf.

use std::future::Future;
use std::net::SocketAddr;
use std::num::NonZeroU64;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ring::NodeId;
use ringfence_node::cluster::{ClusterId, ClusterName, ClusterUuid};
use ringfence_node::secret::{ClusterSecret, Secrets};
use ringfence_node::transport::{Connections, Counters, Credentials, Dialler, Peer, listen, server};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::Channel;
use tonic::{Request, Status};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;

/// Far more than anything here takes; only a failing test waits for it.
pub const PATIENCE: Duration = Duration::from_secs(30);

pub async fn patiently<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, future).await.unwrap()
}

pub fn node(number: u64) -> NodeId {
    NodeId(NonZeroU64::new(number).unwrap())
}

pub fn secret(byte: u8) -> ClusterSecret {
    ClusterSecret::new(&[byte; 16]).unwrap()
}

pub fn cluster(name: &str, uuid: u8) -> ClusterId {
    ClusterId { name: ClusterName::new(name).unwrap(), uuid: ClusterUuid::from_bytes([uuid; 16]) }
}

/// Node `number` of the cluster `main`, not founded yet, with secret 1.
pub fn credentials(number: u64) -> Arc<Credentials> {
    of_cluster(number, cluster("main", 0))
}

pub fn of_cluster(number: u64, cluster: ClusterId) -> Arc<Credentials> {
    Arc::new(Credentials::new(node(number), cluster, Secrets::new(secret(1))))
}

pub fn with_secrets(number: u64, secrets: Secrets) -> Arc<Credentials> {
    Arc::new(Credentials::new(node(number), cluster("main", 0), secrets))
}

/// A node that serves gRPC health to its peers. Dropping it ends it, and its connections.
pub struct Server {
    pub address: String,
    pub counters: Arc<Counters>,
    /// Who called last.
    pub caller: Arc<Mutex<Option<Peer>>>,
    pub connections: Connections,
    _running: oneshot::Sender<()>,
}

pub async fn serve(credentials: Arc<Credentials>) -> Server {
    serve_at("127.0.0.1:0", credentials).await
}

pub async fn serve_at(address: &str, credentials: Arc<Credentials>) -> Server {
    let listener = TcpListener::bind(address).await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let (incoming, counters) = listen(listener, credentials);
    let connections = incoming.connections();
    let caller = Arc::new(Mutex::new(None));
    let seen = caller.clone();
    let note = move |request: Request<()>| -> Result<Request<()>, Status> {
        *seen.lock().unwrap() = request.extensions().get::<Peer>().copied();
        Ok(request)
    };
    let health = InterceptedService::new(tonic_health::server::health_reporter().1, note);
    let (running, ended) = oneshot::channel();
    let ended = async move { drop(ended.await) };
    let serving = server().add_service(health).serve_with_incoming_shutdown(incoming, ended);
    tokio::spawn(async move { serving.await.unwrap() });
    Server { address, counters, caller, connections, _running: running }
}

pub fn dialler(credentials: Arc<Credentials>) -> Dialler {
    Dialler::new(credentials)
}

/// One gRPC call.
pub async fn ask(channel: &Channel) -> Result<(), Status> {
    let request = HealthCheckRequest { service: String::new() };
    patiently(HealthClient::new(channel.clone()).check(request)).await.map(|_| ())
}

/// Counters change after the other side has its answer: waits until `done`.
pub async fn until(done: impl Fn() -> bool) {
    patiently(async {
        while !done() {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

/// Stands between a caller and `target`, and keeps what the caller of each connection said.
pub struct Proxy {
    pub address: SocketAddr,
    pub heard: Arc<Mutex<Vec<u8>>>,
    deaf: watch::Sender<bool>,
    task: JoinHandle<()>,
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Proxy {
    pub async fn to(target: &str) -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (deaf, hears) = watch::channel(false);
        let heard = Arc::<Mutex<Vec<u8>>>::default();
        let (target, record) = (target.to_owned(), heard.clone());
        let task = tokio::spawn(async move {
            while let Ok((caller, _)) = listener.accept().await {
                let target = TcpStream::connect(&target).await.unwrap();
                let ((from, back), (answers, to)) = (caller.into_split(), target.into_split());
                tokio::spawn(pass(from, to, hears.clone(), Some(record.clone())));
                tokio::spawn(pass(answers, back, hears.clone(), None));
            }
        });
        Proxy { address, heard, deaf, task }
    }

    /// From now on nothing passes, and nothing is closed.
    pub fn go_deaf(&self) {
        self.deaf.send_replace(true);
    }
}

async fn pass(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    mut deaf: watch::Receiver<bool>,
    record: Option<Arc<Mutex<Vec<u8>>>>,
) {
    let mut buffer = vec![0; 64 * 1024];
    loop {
        tokio::select! {
            biased;
            () = went_deaf(&mut deaf) => return std::future::pending().await,
            read = from.read(&mut buffer) => match read {
                Ok(length) if length > 0 => {
                    record.iter().for_each(|record| record.lock().unwrap().extend(&buffer[..length]));
                    if to.write_all(&buffer[..length]).await.is_err() {
                        return;
                    }
                }
                Ok(_) | Err(_) => return,
            },
        }
    }
}

async fn went_deaf(deaf: &mut watch::Receiver<bool>) {
    if deaf.wait_for(|deaf| *deaf).await.is_err() {
        // The proxy is gone, and its listener with it; connections that stand go on.
        std::future::pending().await
    }
}
