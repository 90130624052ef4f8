//! The client: one link per node, and the drive of each check from its question to its decision.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::task::Poll;
use std::time::Instant;

use futures_util::future::{join_all, poll_fn};
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;
use tonic::metadata::{Ascii, MetadataValue};
use wire::v1 as proto;
use wire::v1::check_result::Result as ResultKind;

use crate::asking::{Asking, Attempt, Step, Why};
use crate::batch::{Fault, Outcome, Outgoing};
use crate::builder::{Bounds, Builder, Target, time};
use crate::check::Check;
use crate::decision::Decision;
use crate::error::{CheckError, Trouble, TroubleKind};
use crate::link::{Link, NotQueued, link};
use crate::standing::{NodeStanding, Shared};

/// The largest check, in bytes about as on the wire: 32 attributes with the longest names and values take less. A larger
/// one is rejected here, so that it cannot make a node refuse a batch with the checks of others in it.
pub const CHECK_BYTES_MAX: usize = 16 * 1024;

/// Asks a cluster for decisions. Cloning is cheap, and all clones share one connection to each node; when the last is
/// dropped, the connections close.
#[derive(Clone, Debug)]
pub struct Client {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    nodes: Vec<Node>,
    bounds: Bounds,
    /// The first half of every id that this client makes.
    nonce: u64,
    /// The second half of the next one.
    sequence: AtomicU64,
    under_way: AtomicUsize,
    is_shut: AtomicBool,
    changes: watch::Sender<()>,
    carriers: Mutex<Vec<JoinHandle<()>>>,
}

#[derive(Debug)]
struct Node {
    shared: Arc<Shared>,
    link: Link,
}

/// A check's place among those under way; given back when it is dropped.
struct Place<'c>(&'c AtomicUsize);

/// What one attempt came to.
type Returned = (Attempt, Result<Outcome, oneshot::error::RecvError>);

impl Client {
    /// Begins to make a client.
    pub fn builder() -> Builder {
        Builder::default()
    }

    pub(crate) fn start(
        targets: Vec<Target>,
        token: Option<MetadataValue<Ascii>>,
        bounds: Bounds,
        runtime: &Handle,
    ) -> Client {
        let (epoch, changes) = (Instant::now(), watch::Sender::new(()));
        let mut carriers = Vec::with_capacity(targets.len());
        let start = |target: Target| {
            let shared = Arc::new(Shared::new(Arc::clone(&target.address), epoch, changes.clone()));
            let (link, carrier) = link(Arc::clone(&shared), target, token.clone(), bounds);
            carriers.push(runtime.spawn(carrier.run()));
            Node { shared, link }
        };
        let nodes = targets.into_iter().map(start).collect();
        let inner = Inner {
            nodes,
            bounds,
            nonce: rand::random(),
            sequence: AtomicU64::new(1),
            under_way: AtomicUsize::new(0),
            is_shut: AtomicBool::new(false),
            changes,
            carriers: Mutex::new(carriers),
        };
        Client { inner: Arc::new(inner) }
    }

    /// Asks for a decision, and has it or an error by the deadline. Dropping the future abandons the question: whether
    /// it was charged is then not known.
    ///
    /// # Errors
    ///
    /// Why there is no decision; a denial is a decision.
    pub async fn check(&self, check: Check) -> Result<Decision, CheckError> {
        let inner = &*self.inner;
        let now = Instant::now();
        let deadline = check.own_deadline().unwrap_or(inner.bounds.deadline);
        let request = inner.request(check)?;
        let _place = inner.place()?;
        inner.drive(request, Asking::new(now + deadline, now)).await
    }

    /// Asks for several decisions at once, each for itself, and returns them in the order of the checks when the last is
    /// there. They share batches with each other, and with whatever else is asked.
    pub async fn check_all(&self, checks: impl IntoIterator<Item = Check>) -> Vec<Result<Decision, CheckError>> {
        join_all(checks.into_iter().map(|check| self.check(check))).await
    }

    /// How the nodes stand, in the order in which they were given.
    pub fn nodes(&self) -> Vec<NodeStanding> {
        self.inner.nodes.iter().map(|node| node.shared.told()).collect()
    }

    /// Waits until something changes in what [`nodes`](Client::nodes) says: `until` is asked now and after each change.
    pub async fn wait_for(&self, until: impl Fn(&[NodeStanding]) -> bool) {
        let mut changes = self.inner.changes.subscribe();
        while !until(&self.nodes()) && changes.changed().await.is_ok() {}
    }

    /// Closes all connections, for every clone, and returns when they are closed. Checks under way and later ones fail
    /// with [`CheckError::ShutDown`]; wait for those that you want answered first.
    pub async fn shutdown(&self) {
        self.inner.is_shut.store(true, Ordering::Release);
        let carriers = std::mem::take(&mut *self.inner.carriers.lock());
        carriers.iter().for_each(JoinHandle::abort);
        self.inner.changes.send_replace(());
        for carrier in carriers {
            // Its end is the only thing that is wanted of it.
            let _ = carrier.await;
        }
    }
}

impl Inner {
    /// The check on the wire, with a name.
    fn request(&self, check: Check) -> Result<proto::CheckRequest, CheckError> {
        if let Some(Err(error)) = check.own_deadline().map(|deadline| time("deadline", deadline)) {
            return Err(rejected("out-of-range", "deadline", error.to_string()));
        }
        let size = check.size();
        if size > CHECK_BYTES_MAX {
            let detail = format!("expected at most {CHECK_BYTES_MAX} bytes, found {size}");
            return Err(rejected("body-too-large", "", detail));
        }
        Ok(check.into_request(|| self.make_id()))
    }

    fn make_id(&self) -> [u8; 16] {
        let sequence = self.sequence.fetch_add(1, Ordering::Relaxed);
        (u128::from(self.nonce) << 64 | u128::from(sequence)).to_be_bytes()
    }

    fn place(&self) -> Result<Place<'_>, CheckError> {
        let place = Place(&self.under_way);
        let max = self.bounds.queue_max;
        if self.under_way.fetch_add(1, Ordering::Relaxed) >= max {
            drop(place);
            return Err(CheckError::QueueFull { max });
        }
        Ok(place)
    }

    /// Carries out what the check's rules say until there is a decision or an error.
    async fn drive(&self, request: proto::CheckRequest, mut asking: Asking) -> Result<Decision, CheckError> {
        let mut out = Vec::with_capacity(1);
        let mut changes = None;
        loop {
            let standing = |node: usize| self.nodes[node].shared.standing();
            let (until, or_change) = match asking.poll_step(Instant::now(), self.nodes.len(), standing) {
                Step::Ask(attempt) => {
                    match self.ask(&request, attempt) {
                        Ok(outcome) => out.push((attempt, outcome)),
                        Err(NotQueued::Full) => asking.handle_not_queued(attempt.node),
                        Err(NotQueued::ShutDown) => {
                            asking.handle_not_queued(attempt.node);
                            return Err(self.shut(&asking));
                        }
                    }
                    continue;
                }
                Step::Fail(why) => return Err(self.failed(asking, why)),
                Step::Wait { until, or_change } => (until, or_change),
            };
            if self.is_shut.load(Ordering::Acquire) {
                return Err(self.shut(&asking));
            }
            // What changes between the look at the nodes and the wait must not be missed: look again once subscribed.
            if or_change && changes.is_none() {
                changes = Some(self.changes.subscribe());
                continue;
            }
            tokio::select! {
                biased;
                returned = next_of(&mut out), if !out.is_empty() => {
                    if let Some(result) = self.conclude(returned, &mut asking) {
                        return result;
                    }
                }
                () = change_of(&mut changes), if or_change => {}
                () = tokio::time::sleep_until(until.into()) => {}
            }
        }
    }

    fn ask(&self, request: &proto::CheckRequest, attempt: Attempt) -> Result<oneshot::Receiver<Outcome>, NotQueued> {
        let (reply, outcome) = oneshot::channel();
        let request = proto::CheckRequest { attempt: attempt.number, ..request.clone() };
        let Attempt { answer_by, silent_at, .. } = attempt;
        self.nodes[attempt.node].link.send(Outgoing { request, answer_by, silent_at, reply })?;
        Ok(outcome)
    }

    /// What the caller is told, unless the rules know better.
    fn conclude(&self, (attempt, outcome): Returned, asking: &mut Asking) -> Option<Result<Decision, CheckError>> {
        let node = &self.nodes[attempt.node].shared;
        let broken = |detail: &str| Trouble {
            node: Arc::clone(&node.address),
            what: TroubleKind::StreamBroken,
            detail: detail.into(),
        };
        match outcome {
            Ok(Ok(proto::CheckResult { result: Some(ResultKind::Decision(decision)) })) => {
                Some(Ok(Decision::from_proto(decision, Arc::clone(&node.address), attempt.number)))
            }
            Ok(Ok(proto::CheckResult { result: Some(ResultKind::Error(error)) })) => {
                let proto::CheckError { code, field, detail } = error;
                Some(Err(CheckError::Rejected { code, field: own_field(field), detail }))
            }
            Ok(Err(Fault::Refused { code, detail })) => Some(Err(rejected(code, "", detail.to_string()))),
            Ok(Err(Fault::Trouble(trouble))) => {
                asking.handle_trouble(attempt.node, trouble);
                None
            }
            Ok(Ok(proto::CheckResult { result: None })) => {
                asking.handle_trouble(attempt.node, broken("it answers with neither decision nor error"));
                None
            }
            Err(_) => {
                asking.handle_trouble(attempt.node, broken("the link ended"));
                None
            }
        }
    }

    fn failed(&self, asking: Asking, why: Why) -> CheckError {
        if self.is_shut.load(Ordering::Acquire) {
            return self.shut(&asking);
        }
        let may_have_spent = asking.may_have_spent();
        let trouble_of_any = || self.nodes.iter().find_map(|node| node.shared.trouble());
        match (why, asking.into_last()) {
            (Why::Full, _) => CheckError::QueueFull { max: self.bounds.queue_max },
            (Why::Unreachable, last) => match last.or_else(trouble_of_any) {
                Some(last) => CheckError::Unreachable { last, may_have_spent },
                // All nodes came up just now, with too little time left to ask any.
                None => CheckError::DeadlineExceeded { may_have_spent },
            },
            (Why::Deadline, _) => CheckError::DeadlineExceeded { may_have_spent },
        }
    }

    fn shut(&self, asking: &Asking) -> CheckError {
        CheckError::ShutDown { may_have_spent: asking.may_have_spent() }
    }
}

/// The first of these to come in. They are few, and nearly always one.
async fn next_of(out: &mut Vec<(Attempt, oneshot::Receiver<Outcome>)>) -> Returned {
    poll_fn(|cx| {
        let poll = |(_, outcome): &mut (Attempt, oneshot::Receiver<Outcome>)| match Pin::new(outcome).poll(cx) {
            Poll::Ready(outcome) => Some(outcome),
            Poll::Pending => None,
        };
        let came = out.iter_mut().map(poll).enumerate().find_map(|(index, outcome)| Some((index, outcome?)));
        came.map_or(Poll::Pending, |(index, outcome)| Poll::Ready((out.swap_remove(index).0, outcome)))
    })
    .await
}

async fn change_of(changes: &mut Option<watch::Receiver<()>>) {
    match changes {
        // The sender lives as long as the client that is being asked.
        Some(changes) => drop(changes.changed().await),
        None => std::future::pending().await,
    }
}

/// A node names a field with its place in the batch, `checks[7].cost`, which is the client's own doing: callers know of
/// one check.
fn own_field(field: String) -> String {
    let bare = field.strip_prefix("checks[").and_then(|rest| rest.split_once("]."));
    bare.filter(|(place, _)| place.bytes().all(|byte| byte.is_ascii_digit()))
        .map_or(field.clone(), |(_, bare)| bare.to_owned())
}

fn rejected(code: &str, field: &str, detail: String) -> CheckError {
    CheckError::Rejected { code: code.to_owned(), field: field.to_owned(), detail }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.carriers.get_mut().iter().for_each(JoinHandle::abort);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rejected_field_is_named_as_the_caller_knows_it() {
        for (wire, own) in [
            ("checks[7].cost", "cost"),
            ("checks[999].attributes.client", "attributes.client"),
            ("cost", "cost"),
            ("", ""),
            ("checks[x].cost", "checks[x].cost"),
        ] {
            assert_eq!(own_field(wire.to_owned()), own);
        }
    }
}
