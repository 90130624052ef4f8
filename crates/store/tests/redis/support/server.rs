//! A real `redis-server` with a folder and a port of its own, gone when it is dropped.

use std::collections::BTreeMap;
use std::io;
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{FromRedisValue, RedisResult};
use tempfile::TempDir;

use super::PATIENCE;

/// Other tests take ports too: one may be gone between asking for it and taking it.
const PORTS_TRIED: usize = 5;

pub struct Redis {
    pub port: u16,
    process: Child,
    folder: TempDir,
}

/// A port that nobody uses now.
pub fn free_port() -> u16 {
    TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap().port()
}

/// That program, or a failure that says what to install.
pub fn program(name: &str, package: &str) -> Command {
    let mut asking = Command::new(name);
    asking.arg("--version").stdout(Stdio::null()).stderr(Stdio::null());
    if let Err(error) = asking.status() {
        assert!(error.kind() != io::ErrorKind::NotFound, "{name} is missing: apt-get install -y {package}");
    }
    Command::new(name)
}

impl Redis {
    /// A server that keeps nothing on disk.
    pub async fn start() -> Redis {
        Redis::start_with(&[]).await
    }

    /// The same, with these settings besides.
    pub async fn start_with(settings: &[&str]) -> Redis {
        for _ in 0..PORTS_TRIED {
            if let Some(redis) = Redis::try_start(free_port(), settings).await {
                return redis;
            }
        }
        panic!("redis-server does not start with {settings:?}");
    }

    /// The same, at that port.
    pub async fn start_at(port: u16) -> Redis {
        Redis::try_start(port, &[]).await.unwrap_or_else(|| panic!("redis-server does not start at {port}"))
    }

    /// A sentinel that watches nobody.
    pub async fn start_sentinel() -> Redis {
        let folder = tempfile::tempdir().unwrap();
        let port = free_port();
        let file = folder.path().join("sentinel.conf");
        std::fs::write(&file, format!("port {port}\nbind 127.0.0.1\ndir {}\n", folder.path().display())).unwrap();
        let mut command = program("redis-server", "redis-server");
        let process = command.arg(&file).arg("--sentinel").stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let mut redis = Redis { port, process, folder };
        assert!(redis.is_ready().await, "no sentinel at {port}");
        redis
    }

    async fn try_start(port: u16, settings: &[&str]) -> Option<Redis> {
        let folder = tempfile::tempdir().unwrap();
        let process = Redis::command(port, folder.path()).args(settings).spawn().unwrap();
        let mut redis = Redis { port, process, folder };
        redis.is_ready().await.then_some(redis)
    }

    fn command(port: u16, folder: &Path) -> Command {
        let mut command = program("redis-server", "redis-server");
        command.args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]);
        command.args(["--repl-diskless-sync-delay", "0", "--enable-debug-command", "yes"]);
        command.arg("--dir").arg(folder).stdout(Stdio::null()).stderr(Stdio::null());
        command
    }

    /// Waits until this very process answers; `false` if it ended instead.
    async fn is_ready(&mut self) -> bool {
        let ours = format!("process_id:{}\r", self.process.id());
        let waiting = async {
            loop {
                if self.process.try_wait().unwrap().is_some() {
                    return false;
                }
                if self.try_ask::<String>("INFO server").await.is_ok_and(|info| info.contains(&ours)) {
                    return true;
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(PATIENCE, waiting).await.expect("redis-server neither answers nor ends")
    }

    /// Ends the process and starts another at the same port, with the same folder.
    pub async fn restart(&mut self) {
        self.stop();
        self.process = Redis::command(self.port, self.folder.path()).spawn().unwrap();
        assert!(self.is_ready().await);
    }

    pub fn stop(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }

    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    pub async fn connect(&self) -> RedisResult<MultiplexedConnection> {
        redis::Client::open(self.url())?.get_multiplexed_async_connection().await
    }

    /// What the server answers to a command of words without spaces.
    pub async fn try_ask<T: FromRedisValue>(&self, words: &str) -> RedisResult<T> {
        let mut words = words.split(' ');
        let mut command = redis::cmd(words.next().unwrap_or_default());
        for word in words {
            command.arg(word);
        }
        command.query_async(&mut self.connect().await?).await
    }

    pub async fn ask<T: FromRedisValue>(&self, words: &str) -> T {
        self.try_ask(words).await.unwrap()
    }

    pub async fn tell(&self, words: &str) {
        self.ask::<redis::Value>(words).await;
    }

    /// The fields of a hash that are text.
    pub async fn header(&self, key: &str) -> BTreeMap<String, String> {
        let fields: BTreeMap<Vec<u8>, Vec<u8>> = self.ask(&format!("HGETALL {key}")).await;
        let text =
            |(name, value): (Vec<u8>, Vec<u8>)| Some((String::from_utf8(name).ok()?, String::from_utf8(value).ok()?));
        fields.into_iter().filter(|(name, _)| name.len() < 9).filter_map(text).collect()
    }

    /// How many fields of a hash hold keys.
    pub async fn keys_in(&self, key: &str) -> usize {
        let names: Vec<Vec<u8>> = self.ask(&format!("HKEYS {key}")).await;
        names.iter().filter(|name| name.first() == Some(&b'k')).count()
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
