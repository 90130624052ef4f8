//! What a node must not forget: who it is, whom it voted for, the log, the last snapshot, and a few named cells in which
//! other rooms keep a promise. One redb file and one snapshot file in the data directory; or all of it in memory, for
//! `dev` and for tests, where there is nothing to wait for and so no thread either.

mod snapshots;
mod tables;
#[cfg_attr(feature = "simulated", allow(dead_code, reason = "a simulation has no threads: it writes inline"))]
mod writer;

use std::fs::{File, OpenOptions};
use std::io;
use std::ops::RangeBounds;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use openraft::LogState;
use parking_lot::Mutex;
use ring::NodeId;

use self::snapshots::Snapshots;
use self::tables::{Change, Tables};
use self::writer::Writer;
use super::types::{Entry, LogId, SnapshotMeta, Types, Vote};
use crate::aside;

/// The journal's file in the data directory.
pub const JOURNAL_FILE: &str = "raft.redb";
/// The snapshot's file beside it.
pub const SNAPSHOT_FILE: &str = "raft.snapshot";
/// The most one cell can hold, in bytes; more is refused.
pub const CELL_BYTES_MAX: usize = 64 * 1024;

/// A node's durable memory. Clones share it; the file is free again after [`Journal::close`], or soon after the last
/// clone is gone.
#[derive(Clone)]
pub struct Journal {
    inner: Arc<Inner>,
}

struct Inner {
    identity: NodeId,
    tables: Arc<Tables>,
    writer: Writer,
    snapshots: Arc<Snapshots>,
    /// The newest committed log id that we were told of, which the file may not hold yet.
    committed: Mutex<Option<LogId>>,
}

/// The data directory does not open. Ours to report, the operator's to mend; nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Another process works with this directory. Stop it, or use another directory.
    #[error("{}: another process has it open", path.display())]
    InUse {
        /// The file.
        path: PathBuf,
    },
    /// The file is something else. Move it away, or name another directory.
    #[error("{}: not a ringfence journal: {detail}", path.display())]
    Foreign {
        /// The file.
        path: PathBuf,
        /// What it looks like instead.
        detail: String,
    },
    /// Written by a build that this one does not understand.
    #[error("{}: written in format {found}; this build reads {}", path.display(), super::codec::FORMAT)]
    Format {
        /// The file.
        path: PathBuf,
        /// The format it says it is in.
        found: u8,
    },
    /// The bytes are not the ones that were written. An empty directory makes the node a new one; the others have the
    /// state.
    #[error("{}: damaged: {detail}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        detail: String,
    },
    /// The file system refused.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// A read or a write failed. After a failed write nothing more is written: what was asked may or may not be on disk, so
/// stop the node.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JournalError {
    /// It was closed.
    #[error("the journal is closed")]
    Closed,
    /// 1,024 writes are waiting already; nothing was written.
    #[error("too many writes are waiting")]
    Busy,
    /// A cell holds at most [`CELL_BYTES_MAX`]; nothing was written.
    #[error("{len} bytes are too many for a cell")]
    TooLarge {
        /// How many it would have been.
        len: usize,
    },
    /// The file system, the database or a record refused.
    #[error("{0}")]
    Failed(String),
}

impl Journal {
    /// Opens the journal in `dir`, or makes one there, with a new identity. Reads and checks the whole file, so it
    /// blocks: at a node's start, before there is anything to wait for it.
    pub fn open(dir: &Path) -> Result<Journal, OpenError> {
        let path = dir.join(JOURNAL_FILE);
        let refused = |path: &Path, source| OpenError::Io { path: path.to_owned(), source };
        std::fs::create_dir_all(dir).map_err(|source| refused(dir, source))?;
        drop(private_file(&path).map_err(|source| refused(&path, source))?);
        let (tables, identity) = Tables::open(&path)?;
        snapshots::sync_directory(dir).map_err(|source| refused(dir, source))?;
        let tables = Arc::new(tables);
        let writer = Writer::of_a_disk(Arc::clone(&tables)).map_err(|source| refused(&path, source))?;
        Ok(Journal::assemble(identity, tables, writer, Snapshots::on_disk(dir.join(SNAPSHOT_FILE))))
    }

    /// A journal that is gone with the process, with a new identity.
    pub fn in_memory() -> Journal {
        let (tables, identity) = Tables::in_memory();
        Journal::assemble(identity, Arc::new(tables), Writer::Inline, Snapshots::in_memory())
    }

    /// Who this node is: made once, when the journal was.
    pub fn identity(&self) -> NodeId {
        self.inner.identity
    }

    /// Whether this node was never part of a group: no vote, no log, no snapshot.
    pub async fn is_blank(&self) -> Result<bool, JournalError> {
        Ok(self.read(Tables::is_blank).await? && self.snapshot().await?.is_none())
    }

    /// What the cell `name` holds, if it was ever written.
    pub async fn cell(&self, name: &str) -> Result<Option<Bytes>, JournalError> {
        let name = name.to_owned();
        self.read(move |tables| tables.cell(&name)).await
    }

    /// Writes the cell `name`. Returns once it would survive a power failure.
    pub async fn put_cell(&self, name: &str, value: &[u8]) -> Result<(), JournalError> {
        if value.len() > CELL_BYTES_MAX {
            return Err(JournalError::TooLarge { len: value.len() });
        }
        self.write(Change::Cell(name.to_owned(), Bytes::copy_from_slice(value))).await
    }

    /// Writes what still waits, stops the thread and lets the file go; every later call says [`JournalError::Closed`].
    pub async fn close(&self) {
        let inner = Arc::clone(&self.inner);
        let close = move || {
            inner.writer.stop();
            inner.snapshots.close();
            inner.tables.close();
        };
        match self.inner.writer {
            Writer::Inline => close(),
            // A runtime that is shutting down refuses such work; then the last clone's end closes the file.
            Writer::Thread(_) => drop(aside::run(close).await),
        }
    }

    fn assemble(identity: NodeId, tables: Arc<Tables>, writer: Writer, snapshots: Snapshots) -> Journal {
        let snapshots = Arc::new(snapshots);
        Journal { inner: Arc::new(Inner { identity, tables, writer, snapshots, committed: Mutex::new(None) }) }
    }
}

/// What consensus keeps here.
impl Journal {
    pub(crate) async fn vote(&self) -> Result<Option<Vote>, JournalError> {
        self.read(Tables::vote).await
    }

    pub(crate) async fn put_vote(&self, vote: &Vote) -> Result<(), JournalError> {
        self.write(Change::Vote(*vote)).await
    }

    pub(crate) async fn log_state(&self) -> Result<LogState<Types>, JournalError> {
        self.read(Tables::log_state).await
    }

    /// The entries of `range` that exist, in order; stops early after `bytes_max` of them, but never before the first.
    pub(crate) async fn entries(
        &self,
        range: impl RangeBounds<u64>,
        bytes_max: usize,
    ) -> Result<Vec<Entry>, JournalError> {
        let range = (range.start_bound().cloned(), range.end_bound().cloned());
        self.read(move |tables| tables.entries(range, bytes_max)).await
    }

    pub(crate) async fn append(&self, entries: Vec<Entry>) -> Result<(), JournalError> {
        self.write(Change::Append(entries)).await
    }

    pub(crate) async fn truncate(&self, from: u64) -> Result<(), JournalError> {
        self.write(Change::Truncate(from)).await
    }

    pub(crate) async fn purge(&self, up_to: &LogId) -> Result<(), JournalError> {
        self.write(Change::Purge(*up_to)).await
    }

    /// Remembers how far the log is committed. It costs no fsync of its own on the path of an entry: it goes to disk
    /// with the next write, or after [`writer::COMMITTED_LINGER`] of calm. Losing it is safe, for it is found again once
    /// a leader speaks; keeping it lets a node that restarts without a quorum begin where it was.
    pub(crate) fn put_committed(&self, committed: LogId) -> Result<(), JournalError> {
        *self.inner.committed.lock() = Some(committed);
        self.inner.writer.note_committed(committed)
    }

    /// How far the log is known to be committed. A mark beyond the log's end is no mark: openraft would read entries
    /// that are not there.
    pub(crate) async fn committed(&self) -> Result<Option<LogId>, JournalError> {
        let told = *self.inner.committed.lock();
        let stored = self.read(Tables::committed).await?;
        let last = self.log_state().await?.last_log_id;
        Ok(told.max(stored).filter(|committed| Some(committed.index) <= last.map(|last| last.index)))
    }

    /// The last snapshot, checked, if there ever was one.
    pub(crate) async fn snapshot(&self) -> Result<Option<(SnapshotMeta, Bytes)>, JournalError> {
        let snapshots = Arc::clone(&self.inner.snapshots);
        self.blocking(move || snapshots.load()).await
    }

    /// Replaces the last snapshot. Off the thread that writes the log: a large snapshot must not hold up an entry.
    pub(crate) async fn put_snapshot(&self, meta: SnapshotMeta, state: Bytes) -> Result<(), JournalError> {
        let snapshots = Arc::clone(&self.inner.snapshots);
        self.blocking(move || snapshots.save(meta, state)).await
    }

    /// The path that an error about the snapshot should name.
    pub(crate) fn snapshot_path(&self) -> PathBuf {
        self.inner.snapshots.path()
    }

    async fn write(&self, change: Change) -> Result<(), JournalError> {
        match &self.inner.writer {
            Writer::Inline => {
                #[cfg(feature = "simulated")]
                crate::simulated::disk().await;
                let committed = *self.inner.committed.lock();
                self.inner.tables.commit(&[change], committed.as_ref())
            }
            Writer::Thread(thread) => thread.write(change).await,
        }
    }

    async fn read<T: Send + 'static>(
        &self,
        read: impl FnOnce(&Tables) -> Result<T, JournalError> + Send + 'static,
    ) -> Result<T, JournalError> {
        let tables = Arc::clone(&self.inner.tables);
        self.blocking(move || read(&tables)).await
    }

    /// Runs what may touch the disk where it holds up nobody.
    async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T, JournalError> + Send + 'static,
    ) -> Result<T, JournalError> {
        match self.inner.writer {
            Writer::Inline => work(),
            Writer::Thread(_) => aside::run(work).await.unwrap_or(Err(JournalError::Closed)),
        }
    }
}

/// The file at `path`, made if it is missing. Only its owner can read one that is made here: the log and the snapshots
/// hold the cluster's keys.
fn private_file(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(path)
}

impl std::fmt::Debug for Journal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Journal").field("identity", &self.inner.identity).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
