//! The journal as openraft wants it: votes, the log, and readers of the log for replication.

use std::fmt::Debug;
use std::ops::RangeBounds;

use openraft::storage::{LogFlushed, RaftLogStorage};
use openraft::{LogState, OptionalSend, RaftLogReader, StorageIOError};

use super::journal::{Journal, JournalError};
use super::types::{Entry, LogId, StorageError, Types, Vote};

/// Bytes of entries in one append, unless a single entry is larger. openraft gives an append one heartbeat interval
/// (50 ms) and sends the same range again when that was too short, so a range must fit with room to spare: 1 MiB takes
/// 8 ms on a gigabit link, and about as long to sync.
pub(crate) const APPEND_BYTES: usize = 1024 * 1024;

/// The log over a journal. Clones read the same log.
#[derive(Clone)]
pub(crate) struct Log {
    journal: Journal,
}

impl Log {
    pub(crate) fn new(journal: Journal) -> Log {
        Log { journal }
    }
}

impl RaftLogReader<Types> for Log {
    async fn try_get_log_entries<RB: RangeBounds<u64> + Clone + Debug + OptionalSend>(
        &mut self,
        range: RB,
    ) -> Result<Vec<Entry>, StorageError> {
        self.journal.entries(range, usize::MAX).await.map_err(reading)
    }

    async fn limited_get_log_entries(&mut self, start: u64, end: u64) -> Result<Vec<Entry>, StorageError> {
        self.journal.entries(start..end, APPEND_BYTES).await.map_err(reading)
    }
}

impl RaftLogStorage<Types> for Log {
    type LogReader = Log;

    async fn get_log_state(&mut self) -> Result<LogState<Types>, StorageError> {
        self.journal.log_state().await.map_err(reading)
    }

    async fn get_log_reader(&mut self) -> Log {
        self.clone()
    }

    async fn save_vote(&mut self, vote: &Vote) -> Result<(), StorageError> {
        self.journal.put_vote(vote).await.map_err(|error| StorageIOError::write_vote(&error).into())
    }

    async fn read_vote(&mut self) -> Result<Option<Vote>, StorageError> {
        self.journal.vote().await.map_err(|error| StorageIOError::read_vote(&error).into())
    }

    async fn save_committed(&mut self, committed: Option<LogId>) -> Result<(), StorageError> {
        match committed {
            Some(committed) => self.journal.put_committed(committed).map_err(writing),
            None => Ok(()),
        }
    }

    async fn read_committed(&mut self) -> Result<Option<LogId>, StorageError> {
        self.journal.committed().await.map_err(reading)
    }

    /// Waits until the entries are durable: openraft 0.9 waits for that in any case, and what is on disk is what a
    /// reader may see.
    async fn append<I>(&mut self, entries: I, callback: LogFlushed<Types>) -> Result<(), StorageError>
    where
        I: IntoIterator<Item = Entry> + OptionalSend,
        I::IntoIter: OptionalSend,
    {
        let entries = entries.into_iter().collect();
        self.journal.append(entries).await.map_err(writing)?;
        callback.log_io_completed(Ok(()));
        Ok(())
    }

    async fn truncate(&mut self, log_id: LogId) -> Result<(), StorageError> {
        self.journal.truncate(log_id.index).await.map_err(writing)
    }

    async fn purge(&mut self, log_id: LogId) -> Result<(), StorageError> {
        self.journal.purge(&log_id).await.map_err(writing)
    }
}

fn reading(error: JournalError) -> StorageError {
    StorageIOError::read_logs(&error).into()
}

fn writing(error: JournalError) -> StorageError {
    StorageIOError::write_logs(&error).into()
}
