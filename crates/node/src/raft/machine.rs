//! What the log drives. The machine is deterministic and knows nothing of consensus; the adapter here feeds it in log
//! order, remembers how far it got and who the members are, and turns its state into snapshots.
#![expect(clippy::result_large_err, reason = "the error is openraft's, and its traits want it as it is")]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use bytes::Bytes;
use openraft::storage::{RaftStateMachine, Snapshot};
use openraft::{AnyError, EntryPayload, OptionalSend, RaftSnapshotBuilder, StorageIOError};
use tokio::sync::Notify;

use super::journal::Journal;
use super::node::StartError;
use super::types::{Command, Entry, LogId, Reply, SnapshotMeta, StorageError, StoredMembership, Types};

/// What the log drives. Deterministic: the same commands in the same order give the same state and the same replies on
/// every node. Called in log order, by one task at a time.
pub trait Machine: Send + Sync + 'static {
    /// Applies the committed command at `index` and returns the reply for its proposer. A command that it does not
    /// understand must not be skipped: a panic here stops consensus on this node and nothing else.
    fn apply(&mut self, index: u64, payload: &[u8]) -> Bytes;
    /// The whole state. The log waits meanwhile, so this is a cheap copy or a quick encoding.
    fn snapshot(&self) -> Bytes;
    /// Replaces the whole state with that of a snapshot.
    fn restore(&mut self, snapshot: &[u8]) -> Result<(), RestoreError>;
}

/// The machine does not understand a snapshot. Its state is undefined afterwards; the node must not go on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the snapshot cannot be restored: {0}")]
pub struct RestoreError(pub String);

/// The machine, as openraft wants it.
pub(crate) struct Applier {
    machine: Box<dyn Machine>,
    journal: Journal,
    applied: Option<LogId>,
    membership: StoredMembership,
    growth: Growth,
    /// Snapshots captured by this process: part of their ids, so that no two share one.
    captured: u64,
}

/// Asks for a snapshot when the log has grown by so many bytes since the last one.
struct Growth {
    bytes: u64,
    bytes_max: u64,
    due: Arc<Notify>,
}

impl Applier {
    /// The machine in the state of the journal's last snapshot. `due` is notified whenever `bytes_max` of commands were
    /// applied since a snapshot.
    pub(crate) async fn load(
        mut machine: Box<dyn Machine>,
        journal: Journal,
        bytes_max: u64,
        due: Arc<Notify>,
    ) -> Result<Applier, StartError> {
        let snapshot = journal.snapshot().await?;
        let purged = journal.log_state().await?.last_purged_log_id;
        let meta = match snapshot {
            Some((meta, state)) => {
                machine.restore(&state)?;
                meta
            }
            None => SnapshotMeta::default(),
        };
        if let Some(purged) = purged
            && meta.last_log_id < Some(purged)
        {
            let path = journal.snapshot_path().display().to_string();
            return Err(StartError::SnapshotLost { path, purged: purged.index });
        }
        let growth = Growth { bytes: 0, bytes_max, due };
        let (applied, membership) = (meta.last_log_id, meta.last_membership);
        Ok(Applier { machine, journal, applied, membership, growth, captured: 0 })
    }

    fn apply_one(&mut self, entry: Entry) -> Result<Reply, StorageError> {
        let log_id = entry.log_id;
        let reply = match entry.payload {
            EntryPayload::Blank => Bytes::new(),
            EntryPayload::Normal(Command(payload)) => {
                self.growth.add(payload.len());
                let machine = &mut self.machine;
                catch_unwind(AssertUnwindSafe(|| machine.apply(log_id.index, &payload))).map_err(|_| {
                    let broken = AnyError::error("the machine panicked");
                    StorageError::from(StorageIOError::apply(log_id, broken))
                })?
            }
            EntryPayload::Membership(members) => {
                self.membership = StoredMembership::new(Some(log_id), members);
                Bytes::new()
            }
        };
        self.applied = Some(log_id);
        Ok(Reply(reply))
    }
}

impl Growth {
    fn add(&mut self, bytes: usize) {
        self.bytes = self.bytes.saturating_add(bytes as u64);
        if self.bytes >= self.bytes_max {
            self.bytes = 0;
            self.due.notify_one();
        }
    }
}

impl RaftStateMachine<Types> for Applier {
    type SnapshotBuilder = Capture;

    async fn applied_state(&mut self) -> Result<(Option<LogId>, StoredMembership), StorageError> {
        Ok((self.applied, self.membership.clone()))
    }

    async fn apply<I>(&mut self, entries: I) -> Result<Vec<Reply>, StorageError>
    where
        I: IntoIterator<Item = Entry> + OptionalSend,
        I::IntoIter: OptionalSend,
    {
        entries.into_iter().map(|entry| self.apply_one(entry)).collect()
    }

    async fn get_snapshot_builder(&mut self) -> Capture {
        self.growth.bytes = 0;
        self.captured += 1;
        let at = self.applied.map_or("empty".to_owned(), |last| last.to_string());
        let meta = SnapshotMeta {
            last_log_id: self.applied,
            last_membership: self.membership.clone(),
            snapshot_id: format!("{at}-by-{}-{}", self.journal.identity().0, self.captured),
        };
        Capture { meta, state: self.machine.snapshot(), journal: self.journal.clone() }
    }

    async fn begin_receiving_snapshot(&mut self) -> Result<Box<Bytes>, StorageError> {
        Ok(Box::new(Bytes::new()))
    }

    async fn install_snapshot(&mut self, meta: &SnapshotMeta, snapshot: Box<Bytes>) -> Result<(), StorageError> {
        // On disk first: the log that it replaces is purged as soon as this returns.
        let refused =
            |error: AnyError| StorageError::from(StorageIOError::write_snapshot(Some(meta.signature()), error));
        self.journal
            .put_snapshot(meta.clone(), (*snapshot).clone())
            .await
            .map_err(|error| refused(AnyError::new(&error)))?;
        self.machine.restore(&snapshot).map_err(|error| refused(AnyError::new(&error)))?;
        self.applied = meta.last_log_id;
        self.membership = meta.last_membership.clone();
        self.growth.bytes = 0;
        Ok(())
    }

    async fn get_current_snapshot(&mut self) -> Result<Option<Snapshot<Types>>, StorageError> {
        let stored = self.journal.snapshot().await.map_err(|error| StorageIOError::read_snapshot(None, &error))?;
        Ok(stored.map(|(meta, state)| Snapshot { meta, snapshot: Box::new(state) }))
    }
}

/// The state at one moment, on its way to the journal.
pub(crate) struct Capture {
    meta: SnapshotMeta,
    state: Bytes,
    journal: Journal,
}

impl RaftSnapshotBuilder<Types> for Capture {
    async fn build_snapshot(&mut self) -> Result<Snapshot<Types>, StorageError> {
        let (meta, state) = (self.meta.clone(), self.state.clone());
        self.journal
            .put_snapshot(meta.clone(), state.clone())
            .await
            .map_err(|error| StorageIOError::write_snapshot(Some(meta.signature()), &error))?;
        Ok(Snapshot { meta, snapshot: Box::new(state) })
    }
}
