//! Callers: streams of batches to all nodes, as an SDK holds them. A closed loop: each stream has one batch under way, so what
//! is measured is how many decisions the whole machine makes, callers included.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use tokio::runtime::Runtime;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Channel;
use wire::v1::check_result::Result as Outcome;
use wire::v1::rate_limiter_client::RateLimiterClient;
use wire::v1::{CheckBatchRequest, CheckRequest, CheckResult};

/// Checks in one batch.
pub const BATCH: usize = 64;

/// Streams to each node: enough that the machine is busy while some of them wait.
const STREAMS: usize = 4;

/// How long a caller waits.
const DEADLINE: Duration = Duration::from_millis(1_000);

/// What callers ask, again and again, of one key after another.
#[derive(Clone, Copy, Debug)]
pub struct Question {
    /// Under which limit.
    pub kind: &'static str,
    pub key: usize,
    pub cost: u64,
}

/// What came of checks.
#[derive(Clone, Debug, Default)]
pub struct Answers {
    pub allowed: u64,
    pub denied: u64,
    /// Denied since it was not known what had been used.
    pub recovering: u64,
    /// Answered by a failure mode: no owner could.
    pub failed: u64,
    /// When the first decision came, and the longest that a batch took.
    pub first: Option<Instant>,
    pub longest: Duration,
    /// Units admitted, by key.
    pub spent: std::collections::BTreeMap<usize, u64>,
}

impl Answers {
    pub fn all(&self) -> u64 {
        self.allowed + self.denied + self.recovering + self.failed
    }

    /// Those that the limit, known and counted, did not answer.
    pub fn vain(&self) -> u64 {
        self.recovering + self.failed
    }

    pub fn add(&mut self, other: Answers) {
        self.allowed += other.allowed;
        self.denied += other.denied;
        self.recovering += other.recovering;
        self.failed += other.failed;
        self.first = [self.first, other.first].into_iter().flatten().min();
        self.longest = self.longest.max(other.longest);
        for (key, units) in other.spent {
            *self.spent.entry(key).or_default() += units;
        }
    }

    fn note(&mut self, question: Question, result: CheckResult) {
        match result.result {
            Some(Outcome::Decision(decision)) if decision.allowed => {
                self.allowed += 1;
                *self.spent.entry(question.key).or_default() += question.cost;
            }
            Some(Outcome::Decision(decision)) if decision.reason == "limit" => self.denied += 1,
            Some(Outcome::Decision(decision)) if decision.reason == "recovering" => return self.recovering += 1,
            Some(Outcome::Decision(_)) | None => return self.failed += 1,
            Some(Outcome::Error(error)) => panic!("the bench asks what cannot be asked: {error:?}"),
        }
        self.first.get_or_insert_with(Instant::now);
    }
}

/// Open streams to some nodes.
pub struct Callers {
    runtime: Runtime,
    streams: Vec<Stream>,
}

struct Stream {
    batches: mpsc::Sender<CheckBatchRequest>,
    answers: tonic::Streaming<wire::v1::CheckBatchResponse>,
}

impl Callers {
    /// Streams to nodes at these addresses.
    pub fn new(addresses: &[String]) -> Callers {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let open = addresses.iter().flat_map(|address| std::iter::repeat_n(address, STREAMS));
        let streams = open.map(|address| runtime.block_on(Stream::open(address))).collect();
        Callers { runtime, streams }
    }

    /// Asks all of these, each once, in about this order; returns when all are answered.
    pub fn ask(&mut self, questions: &Arc<Vec<Question>>, pace: Option<Pace>) -> Answers {
        let (next, sum) = (Arc::new(AtomicUsize::new(0)), Arc::new(Mutex::new(Answers::default())));
        let asking = self.streams.drain(..).map(|stream| {
            let (questions, next, sum) = (Arc::clone(questions), Arc::clone(&next), Arc::clone(&sum));
            self.runtime.spawn(async move {
                let (stream, answers) = stream.ask_in_turn(&questions, &next, pace).await;
                sum.lock().unwrap().add(answers);
                stream
            })
        });
        let asking: Vec<_> = asking.collect();
        self.streams = asking.into_iter().map(|asking| self.runtime.block_on(asking).unwrap()).collect();
        let sum = sum.lock().unwrap().clone();
        assert_eq!(sum.all(), questions.len() as u64);
        sum
    }
}

/// How fast questions come, whatever becomes of those before.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    pub began: Instant,
    pub per_second: f64,
}

impl Pace {
    fn at(self, number: usize) -> tokio::time::Instant {
        (self.began + Duration::from_secs_f64(number as f64 / self.per_second)).into()
    }
}

impl Stream {
    async fn open(address: &str) -> Stream {
        let channel = Channel::from_shared(format!("http://{address}")).unwrap().tcp_nodelay(true);
        let (batches, requests) = mpsc::channel(1);
        let mut client = RateLimiterClient::new(channel.connect().await.expect("the node listens"));
        let answers = client.check_stream(ReceiverStream::new(requests)).await.expect("the node answers").into_inner();
        Stream { batches, answers }
    }

    /// Asks one batch after the other of those that nobody has asked yet.
    async fn ask_in_turn(
        mut self,
        questions: &[Question],
        next: &AtomicUsize,
        pace: Option<Pace>,
    ) -> (Stream, Answers) {
        let mut sum = Answers::default();
        loop {
            let from = next.fetch_add(BATCH, Ordering::Relaxed);
            let Some(batch) = questions.get(from..questions.len().min(from + BATCH)).filter(|batch| !batch.is_empty())
            else {
                return (self, sum);
            };
            if let Some(pace) = pace {
                tokio::time::sleep_until(pace.at(from)).await;
            }
            let asked = Instant::now();
            let checks = batch.iter().map(|question| check(*question)).collect();
            self.batches.send(CheckBatchRequest { number: 1, checks }).await.expect("the stream is open");
            let answer = self.answers.message().await.expect("the stream is open").expect("an answer");
            sum.longest = sum.longest.max(asked.elapsed());
            batch.iter().zip(answer.results).for_each(|(question, result)| sum.note(*question, result));
        }
    }
}

fn check(Question { kind, key, cost }: Question) -> CheckRequest {
    let attributes = [("kind".to_owned(), kind.to_owned()), ("client".to_owned(), format!("client-{key}"))];
    let deadline_ms = Some(DEADLINE.as_millis() as u64);
    CheckRequest { attributes: attributes.into(), cost: Some(cost), deadline_ms, ..CheckRequest::default() }
}

/// Keys drawn by Zipf's law: the n-th as often as the first, divided by n to the power of `exponent`.
pub struct Zipf {
    /// The sum of weights up to each key.
    sums: Vec<f64>,
    chance: StdRng,
}

impl Zipf {
    pub fn new(keys: usize, exponent: f64, seed: u64) -> Zipf {
        let mut sum = 0.0;
        let weights = (1..=keys).map(|rank| {
            sum += (rank as f64).powf(-exponent);
            sum
        });
        Zipf { sums: weights.collect(), chance: StdRng::seed_from_u64(seed) }
    }

    /// The next so many questions of one unit each.
    pub fn questions(&mut self, kind: &'static str, count: usize) -> Arc<Vec<Question>> {
        let total = self.sums.last().copied().unwrap_or_default();
        let draw = |_| {
            let at = self.chance.random::<f64>() * total;
            let key = self.sums.partition_point(|sum| *sum < at).min(self.sums.len() - 1);
            Question { kind, key, cost: 1 }
        };
        Arc::new((0..count).map(draw).collect())
    }
}
