//! The load: an open loop. Each stream asks about one key at its own pace, whatever becomes of the questions before, so
//! that a cluster which is slow is not asked less. Every question has an id of its own and becomes one row.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use client::{Check, Client, Decision};
use limits::Span;
use sim::ledger::Attempt;
use sim::{Answer, Outcome, Reason, Row, Source};
use tokio::runtime::Runtime;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

use crate::terms::DOMAIN;
use crate::watch::Watch;

/// How long a caller waits.
pub const DEADLINE: Duration = Duration::from_millis(250);

/// How often the loop looks which questions are due.
const TICK: Duration = Duration::from_millis(4);

/// Rows of one scenario at most; a load that gets there ends.
const ROWS_MAX: usize = 1_000_000;

/// How long the last questions may take after the load was stopped.
const LAST_WITHIN: Duration = Duration::from_secs(2);

/// One key that is asked about.
#[derive(Clone, Debug)]
pub struct Stream {
    /// The limit.
    pub limit: Arc<str>,
    /// The key.
    pub key: Arc<str>,
    /// From one question to the next.
    pub every: Duration,
}

/// Who asks, and whom.
pub struct Callers {
    runtime: Runtime,
    clients: Vec<Client>,
    /// Names of nodes by the address of their API.
    names: Arc<Vec<(String, Arc<str>)>>,
}

impl Callers {
    /// One client for each node, which asks that one first and goes on to the others in turn.
    ///
    /// # Errors
    /// When a client cannot be made.
    pub fn new(nodes: &[(String, Arc<str>)], token: &str) -> Result<Callers> {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
        let entered = runtime.enter();
        let client = |first: usize| {
            let order = (0..nodes.len()).map(|step| nodes[(first + step) % nodes.len()].0.clone());
            Client::builder()
                .nodes(order)
                .token(token)
                .deadline(DEADLINE)
                .backoff(Duration::from_millis(50), Duration::from_millis(500))
                .build()
                .context("the load's client")
        };
        let clients = (0..nodes.len()).map(client).collect::<Result<_>>()?;
        drop(entered);
        Ok(Callers { runtime, clients, names: Arc::new(nodes.to_vec()) })
    }

    /// The name of the node that owns this key of this limit; asking costs nothing.
    pub fn owner_of(&self, limit: &str, key: &str) -> Option<String> {
        let check = Check::new(DOMAIN).attribute("kind", limit).attribute("client", key).cost(0);
        let decision = self.runtime.block_on(self.clients[0].check(check));
        decision.ok().and_then(|decision| decision.owner)
    }

    /// What remains of this key under this limit; asking costs nothing.
    pub fn remaining(&self, limit: &str, key: &str) -> Option<u64> {
        let check = Check::new(DOMAIN).attribute("kind", limit).attribute("client", key).cost(0);
        let decision = self.runtime.block_on(self.clients[0].check(check)).ok()?;
        decision.remaining.filter(|_| !decision.degraded)
    }

    /// Puts so many questions, one a millisecond, each at every node in turn under one id of the caller's own. Of every
    /// third the first caller hangs up after a millisecond.
    pub fn ask_again_and_again(&self, limit: &str, key: &str, questions: usize) -> Vec<Attempt> {
        let nonce: u32 = rand::random();
        self.runtime.block_on(async {
            let mut asking = JoinSet::new();
            let mut pace = tokio::time::interval(Duration::from_millis(1));
            for question in 0..questions {
                pace.tick().await;
                let id = format!("{nonce:08x}-{question}");
                let check = Check::new(DOMAIN).attribute("kind", limit).attribute("client", key).id(id);
                asking.spawn(one_question(self.clients.clone(), check, question));
            }
            asking.join_all().await.into_iter().flatten().collect()
        })
    }

    /// Puts so many questions about one key, at this pace, each at this node first.
    pub fn ask_steadily(
        &self,
        limit: &str,
        key: &str,
        first: usize,
        questions: usize,
        every: Duration,
    ) -> Vec<Attempt> {
        let nonce: u64 = rand::random();
        let check = Check::new(DOMAIN).attribute("kind", limit).attribute("client", key);
        self.runtime.block_on(async {
            let mut asking = JoinSet::new();
            let mut pace = tokio::time::interval(every);
            for question in 0..questions {
                pace.tick().await;
                let id = u128::from(nonce) << 64 | question as u128;
                let (client, check) = (self.clients[first].clone(), check.clone().binary_id(id.to_be_bytes()));
                asking.spawn(async move { Attempt { id, cost: 1, admitted: told(client.check(check).await.ok()) } });
            }
            asking.join_all().await
        })
    }

    /// Begins to ask.
    pub fn ask(&self, streams: Vec<Stream>, watch: Watch) -> Load {
        let (stop, stopped) = watch::channel(false);
        let (rows, asked) = mpsc::unbounded_channel();
        let asking = Asking { clients: self.clients.clone(), names: Arc::clone(&self.names), watch, rows };
        self.runtime.spawn(asking.run(streams, stopped));
        Load { stop, asked }
    }

    /// Waits for the last answers and returns all rows by the time of their questions.
    pub fn finish(&self, mut load: Load) -> Vec<Row> {
        // Whoever asked may have come to its own end already.
        let _ = load.stop.send(true);
        let mut rows = self.runtime.block_on(async {
            let mut rows = Vec::new();
            while let Some(row) = load.asked.recv().await {
                rows.push(row);
            }
            rows
        });
        rows.sort_by_key(|row| (row.invoked, row.id));
        rows
    }
}

/// The same question at every node, one after the other.
async fn one_question(clients: Vec<Client>, check: Check, question: usize) -> Vec<Attempt> {
    let mut attempts = Vec::new();
    for (turn, client) in clients.iter().enumerate() {
        let patience = if turn == 0 && question.is_multiple_of(3) { Duration::from_millis(1) } else { DEADLINE * 2 };
        let answer = tokio::time::timeout(patience, client.check(check.clone())).await;
        let admitted = told(answer.ok().and_then(Result::ok));
        attempts.push(Attempt { id: question as u128, cost: 1, admitted });
    }
    attempts
}

/// What an owner said; what a failure mode says is no answer to whether it was charged.
fn told(decision: Option<Decision>) -> Option<bool> {
    decision.filter(|decision| !decision.degraded).map(|decision| decision.allowed)
}

/// A load under way.
#[derive(Debug)]
pub struct Load {
    stop: watch::Sender<bool>,
    asked: mpsc::UnboundedReceiver<Row>,
}

#[derive(Clone)]
struct Asking {
    clients: Vec<Client>,
    names: Arc<Vec<(String, Arc<str>)>>,
    watch: Watch,
    rows: mpsc::UnboundedSender<Row>,
}

impl Asking {
    async fn run(self, streams: Vec<Stream>, mut stopped: watch::Receiver<bool>) {
        let nonce: u64 = rand::random();
        let begin = tokio::time::Instant::now();
        // Streams begin apart from each other, so that the load has no pulse.
        let offset = |place: usize, every: Duration| every * u32::try_from(place % 64).unwrap_or(0) / 64;
        let mut due: Vec<_> =
            streams.iter().enumerate().map(|(place, stream)| begin + offset(place, stream.every)).collect();
        let (mut sequence, mut under_way) = (0_u64, JoinSet::new());
        let mut ticks = tokio::time::interval(TICK);
        while usize::try_from(sequence).unwrap_or(ROWS_MAX) < ROWS_MAX {
            tokio::select! {
                biased;
                _ = stopped.changed() => break,
                _ = ticks.tick() => {}
            }
            let now = tokio::time::Instant::now();
            for (place, stream) in streams.iter().enumerate() {
                while due[place] <= now {
                    due[place] += stream.every;
                    sequence += 1;
                    let id = u128::from(nonce) << 64 | u128::from(sequence);
                    let first = (usize::try_from(sequence).unwrap_or(0) + place) % self.clients.len();
                    under_way.spawn(self.clone().one(stream.clone(), id, first));
                }
            }
            while under_way.try_join_next().is_some() {}
        }
        // A question has its deadline, so this is for a client that forgets it; what is cut off here leaves no row.
        let rest = async { while under_way.join_next().await.is_some() {} };
        let _ = tokio::time::timeout(LAST_WITHIN, rest).await;
    }

    async fn one(self, stream: Stream, id: u128, first: usize) {
        let check = Check::new(DOMAIN)
            .attribute("kind", &stream.limit)
            .attribute("client", &stream.key)
            .binary_id(id.to_be_bytes());
        let invoked = self.watch.now();
        let result = self.clients[first].check(check).await;
        let returned = self.watch.now();
        let (ingress, attempts, outcome) = match result {
            Ok(decision) => (self.name_of(&decision.answered_by), decision.attempts, outcome_of(decision)),
            Err(error) => (Arc::clone(&self.names[first].1), 0, Outcome::Silent(error.to_string())),
        };
        let deadline = Span::from(DEADLINE);
        let Stream { limit, key, .. } = stream;
        // The receiver is gone only when the whole run is being given up.
        let _ =
            self.rows.send(Row { id, limit, key, cost: 1, ingress, attempts, invoked, returned, deadline, outcome });
    }

    fn name_of(&self, address: &str) -> Arc<str> {
        let found = self.names.iter().find(|(known, _)| known == address);
        found.map_or_else(|| address.into(), |(_, name)| Arc::clone(name))
    }
}

/// A word that the judges do not know is no decision: whoever adds one to the API must teach them.
fn outcome_of(decision: Decision) -> Outcome {
    let words = (decision.reason.as_str().parse::<Reason>(), decision.source.as_str().parse::<Source>());
    let (reason, source) = match words {
        (Ok(reason), Ok(source)) => (reason, source),
        (Err(unknown), _) | (_, Err(unknown)) => return Outcome::Silent(unknown.to_string()),
    };
    Outcome::Answered(Answer {
        allowed: decision.allowed,
        reason,
        source,
        degraded: decision.degraded,
        replayed: decision.replayed,
        remaining: decision.remaining,
        owner: decision.owner.map(Arc::from),
        epoch: decision.epoch,
        revision: decision.revision,
    })
}
