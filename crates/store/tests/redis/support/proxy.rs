//! A network that misbehaves: a proxy in front of a server that can slow answers down, cut connections, and go on holding
//! them open while nothing passes.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// How the network is. Connections are numbered as they come, from 1.
#[derive(Clone, Copy, Default)]
struct Weather {
    /// Connections up to this one pass nothing on.
    frozen: u64,
    /// Connections up to this one are closed.
    cut: u64,
    /// How long each piece of an answer is under way.
    delay: Duration,
}

pub struct Proxy {
    pub port: u16,
    made: Arc<AtomicU64>,
    weather: watch::Sender<Weather>,
    task: JoinHandle<()>,
}

impl Proxy {
    /// A proxy to that port of this machine.
    pub async fn to(server: u16) -> Proxy {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let made: Arc<AtomicU64> = Arc::default();
        let weather = watch::Sender::new(Weather::default());
        let task = tokio::spawn(accept(listener, server, Arc::clone(&made), weather.clone()));
        Proxy { port, made, weather, task }
    }

    /// Connections that there are pass nothing on any more, and stay open. New ones do.
    pub fn freeze(&self) {
        let made = self.made();
        self.weather.send_modify(|weather| weather.frozen = made);
    }

    /// Nothing passes on any connection, new ones included.
    pub fn freeze_all(&self) {
        self.weather.send_modify(|weather| weather.frozen = u64::MAX);
    }

    /// New connections pass everything on.
    pub fn thaw(&self) {
        self.freeze();
    }

    /// Connections that there are are closed.
    pub fn cut(&self) {
        let made = self.made();
        self.weather.send_modify(|weather| weather.cut = made);
    }

    /// Each piece of an answer takes so long from now on.
    pub fn delay(&self, delay: Duration) {
        self.weather.send_modify(|weather| weather.delay = delay);
    }

    /// How many connections came so far.
    pub fn made(&self) -> u64 {
        self.made.load(Relaxed)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn accept(listener: TcpListener, server: u16, made: Arc<AtomicU64>, weather: watch::Sender<Weather>) {
    while let Ok((client, _)) = listener.accept().await {
        let number = made.fetch_add(1, Relaxed) + 1;
        let Ok(server) = TcpStream::connect(("127.0.0.1", server)).await else { continue };
        let weather = weather.subscribe();
        tokio::spawn(async move {
            let (from_client, to_client) = client.into_split();
            let (from_server, to_server) = server.into_split();
            let mut until_cut = weather.clone();
            tokio::select! {
                () = pass(from_client, to_server, number, weather.clone(), false) => {}
                () = pass(from_server, to_client, number, weather.clone(), true) => {}
                _ = until_cut.wait_for(|weather| weather.cut >= number) => {}
            }
        });
    }
}

/// Passes bytes on until one side has no more.
async fn pass(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    number: u64,
    weather: watch::Receiver<Weather>,
    delayed: bool,
) {
    let mut piece = vec![0; 64 * 1024];
    loop {
        let Ok(length) = from.read(&mut piece).await else { return };
        let delay = weather.borrow().delay;
        if delayed {
            tokio::time::sleep(delay).await;
        }
        // What is frozen never thaws: a connection that lost bytes is of no use.
        if weather.borrow().frozen >= number {
            std::future::pending::<()>().await;
        }
        if length == 0 || to.write_all(&piece[..length]).await.is_err() {
            return;
        }
    }
}
