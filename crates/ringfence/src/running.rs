//! A running node with the runtime that it lives in and its front doors: `serve` runs one, `dev` several.

use std::io;
use std::sync::Arc;

use anyhow::Context as _;
use node::config::Config;
use node::{Node, StartError};
use server::{Settings, Sockets};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// A node; shutting its runtime down is as abrupt a death as one process can give it.
#[derive(Debug)]
pub struct Running {
    /// Where everything of it runs.
    pub runtime: Runtime,
    /// The node.
    pub node: Arc<Node>,
    /// Its front doors; they end when one of them cannot be opened, and when they are closed.
    pub doors: JoinHandle<io::Result<()>>,
    /// Closes them: what is in flight is answered first. Dropping it closes nothing.
    pub close: oneshot::Sender<()>,
}

impl Running {
    /// Starts a node on a runtime of its own, with `workers` threads or as many as there are cores.
    ///
    /// # Errors
    ///
    /// [`StartError`], or what the system says of threads. Nothing runs then.
    pub fn start(
        config: Config,
        doors: Sockets,
        settings: Settings,
        workers: Option<usize>,
    ) -> anyhow::Result<Running> {
        let mut builder = Builder::new_multi_thread();
        if let Some(workers) = workers {
            builder.worker_threads(workers);
        }
        let runtime = builder.thread_name(&config.name).enable_all().build().context("no threads to run on")?;
        let (close, closing) = oneshot::channel();
        let (node, doors) = runtime.block_on(async {
            let node = Node::start(config).await?;
            let doors = tokio::spawn(serve(Arc::clone(&node), doors, settings, closing));
            Ok::<_, StartError>((node, doors))
        })?;
        Ok(Running { runtime, node, doors, close })
    }
}

async fn serve(node: Arc<Node>, doors: Sockets, settings: Settings, closing: oneshot::Receiver<()>) -> io::Result<()> {
    let close = async {
        if closing.await.is_err() {
            std::future::pending::<()>().await;
        }
    };
    let ended = server::serve_until(node, doors, settings, close).await;
    if let Err(error) = &ended {
        tracing::error!(%error, "a front door is closed");
    }
    ended
}
