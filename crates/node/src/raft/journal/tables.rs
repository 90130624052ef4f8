//! The redb file: what is in which table, the changes that can be made to it, and what a file must look like to be ours.
//! Every value begins with a format byte.

use std::io;
use std::ops::Bound;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use openraft::LogState;
use parking_lot::RwLock;
use redb::{
    Builder, Database, DatabaseError, ReadableDatabase, ReadableTable, Table, TableDefinition, TableHandle,
    WriteTransaction,
};
use ring::NodeId;

use super::{JournalError, OpenError};
use crate::chance;
use crate::raft::codec::{self, FORMAT};
use crate::raft::types::{Entry, LogId, Types, Vote, node_id};

const META: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("meta");
const LOG: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("log");
const CELLS: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("cells");

const IDENTITY: &str = "identity";
const VOTE: &str = "vote";
const COMMITTED: &str = "committed";
const PURGED: &str = "purged";

/// Pages that redb keeps in memory, in bytes: a few times what the log holds between two snapshots.
const CACHE_BYTES: usize = 32 * 1024 * 1024;

/// Something to be written. Changes of one commit are made in order and become durable together.
pub(super) enum Change {
    Append(Vec<Entry>),
    Vote(Vote),
    Truncate(u64),
    Purge(LogId),
    Cell(String, Bytes),
}

/// The open file, until it is closed.
pub(super) struct Tables {
    database: RwLock<Option<Database>>,
}

impl Tables {
    /// Opens or makes the file at `path`; its checksums are verified, page by page.
    pub(super) fn open(path: &Path) -> Result<(Tables, NodeId), OpenError> {
        let database = Builder::new()
            .set_cache_size(CACHE_BYTES)
            .set_check_integrity_on_open(true)
            .create(path)
            .map_err(|error| refusal(path, error))?;
        let identity = claim(&database, path)?;
        Ok((Tables { database: RwLock::new(Some(database)) }, identity))
    }

    pub(super) fn in_memory() -> (Tables, NodeId) {
        let backend = redb::backends::InMemoryBackend::new();
        let database =
            Builder::new().set_cache_size(CACHE_BYTES).create_with_backend(backend).expect("memory refuses nothing");
        let identity = claim(&database, Path::new("memory")).expect("a new database is nobody's");
        (Tables { database: RwLock::new(Some(database)) }, identity)
    }

    /// Lets the file go.
    pub(super) fn close(&self) {
        drop(self.database.write().take());
    }

    /// Makes `changes` and writes `committed`, all of it or nothing; durable on return.
    pub(super) fn commit(&self, changes: &[Change], committed: Option<&LogId>) -> Result<(), JournalError> {
        self.with(|database| {
            let transaction = database.begin_write().map_err(failed)?;
            make(&transaction, changes, committed)?;
            transaction.commit().map_err(failed)
        })
    }

    pub(super) fn vote(&self) -> Result<Option<Vote>, JournalError> {
        let vote: Option<wire::peer::RaftVote> = self.meta(VOTE)?;
        vote.map(|vote| codec::vote_in(Some(vote)).map_err(malformed)).transpose()
    }

    pub(super) fn committed(&self) -> Result<Option<LogId>, JournalError> {
        Ok(self.meta(COMMITTED)?.map(codec::log_id_in))
    }

    pub(super) fn log_state(&self) -> Result<LogState<Types>, JournalError> {
        let last_purged_log_id = self.meta(PURGED)?.map(codec::log_id_in);
        let last = self.with(|database| {
            let log = database.begin_read().map_err(failed)?.open_table(LOG).map_err(failed)?;
            let last = log.last().map_err(failed)?;
            last.map(|(_, record)| entry(record.value())).transpose()
        })?;
        let last_log_id = last.map(|entry| entry.log_id).or(last_purged_log_id);
        Ok(LogState { last_purged_log_id, last_log_id })
    }

    pub(super) fn entries(
        &self,
        range: (Bound<u64>, Bound<u64>),
        bytes_max: usize,
    ) -> Result<Vec<Entry>, JournalError> {
        self.with(|database| {
            let log = database.begin_read().map_err(failed)?.open_table(LOG).map_err(failed)?;
            let mut entries = Vec::new();
            let mut bytes = 0;
            for found in log.range(range).map_err(failed)? {
                let (_, record) = found.map_err(failed)?;
                bytes += record.value().len();
                if bytes > bytes_max && !entries.is_empty() {
                    break;
                }
                entries.push(entry(record.value())?);
            }
            Ok(entries)
        })
    }

    pub(super) fn cell(&self, name: &str) -> Result<Option<Bytes>, JournalError> {
        self.with(|database| {
            let cells = database.begin_read().map_err(failed)?.open_table(CELLS).map_err(failed)?;
            let stored = cells.get(name).map_err(failed)?;
            stored.map(|stored| cell_value(stored.value())).transpose()
        })
    }

    pub(super) fn is_blank(&self) -> Result<bool, JournalError> {
        let log = self.log_state()?;
        Ok(self.vote()?.is_none() && log.last_log_id.is_none())
    }

    fn meta<M: prost::Message + Default>(&self, name: &str) -> Result<Option<M>, JournalError> {
        self.with(|database| {
            let meta = database.begin_read().map_err(failed)?.open_table(META).map_err(failed)?;
            let stored = meta.get(name).map_err(failed)?;
            stored.map(|stored| codec::from_record(stored.value()).map_err(malformed)).transpose()
        })
    }

    fn with<T>(&self, work: impl FnOnce(&Database) -> Result<T, JournalError>) -> Result<T, JournalError> {
        let database = self.database.read();
        work(database.as_ref().ok_or(JournalError::Closed)?)
    }
}

pub(super) fn failed(error: impl Into<redb::Error>) -> JournalError {
    JournalError::Failed(error.into().to_string())
}

fn malformed(error: codec::Malformed) -> JournalError {
    JournalError::Failed(format!("record in the journal: {error}"))
}

fn make(txn: &WriteTransaction, changes: &[Change], committed: Option<&LogId>) -> Result<(), JournalError> {
    let mut meta = txn.open_table(META).map_err(failed)?;
    let mut log = txn.open_table(LOG).map_err(failed)?;
    let mut cells = txn.open_table(CELLS).map_err(failed)?;
    for change in changes {
        match change {
            Change::Append(entries) => append(&mut log, entries)?,
            Change::Vote(vote) => put(&mut meta, VOTE, &codec::vote_out(vote))?,
            Change::Truncate(from) => log.retain_in(*from.., |_, _| false).map_err(failed)?,
            Change::Purge(up_to) => {
                log.retain_in(..=up_to.index, |_, _| false).map_err(failed)?;
                put(&mut meta, PURGED, &codec::log_id_out(up_to))?;
            }
            Change::Cell(name, value) => put_cell(&mut cells, name, value)?,
        }
    }
    match committed {
        Some(committed) => put(&mut meta, COMMITTED, &codec::log_id_out(committed)),
        None => Ok(()),
    }
}

fn append(log: &mut Table<'_, u64, &[u8]>, entries: &[Entry]) -> Result<(), JournalError> {
    for entry in entries {
        let record = codec::record(&codec::entry_out(entry));
        log.insert(entry.log_id.index, record.as_slice()).map_err(failed)?;
    }
    Ok(())
}

fn put(meta: &mut Table<'_, &str, &[u8]>, name: &str, message: &impl prost::Message) -> Result<(), JournalError> {
    meta.insert(name, codec::record(message).as_slice()).map_err(failed)?;
    Ok(())
}

fn put_cell(cells: &mut Table<'_, &str, &[u8]>, name: &str, value: &[u8]) -> Result<(), JournalError> {
    let mut stored = Vec::with_capacity(1 + value.len());
    stored.push(FORMAT);
    stored.extend_from_slice(value);
    cells.insert(name, stored.as_slice()).map_err(failed)?;
    Ok(())
}

fn cell_value(stored: &[u8]) -> Result<Bytes, JournalError> {
    match stored.split_first() {
        Some((&FORMAT, value)) => Ok(Bytes::copy_from_slice(value)),
        Some((format, _)) => Err(JournalError::Failed(format!("cell in format {format}; this build reads {FORMAT}"))),
        None => Err(JournalError::Failed("empty cell".to_owned())),
    }
}

fn entry(record: &[u8]) -> Result<Entry, JournalError> {
    codec::from_record(record).and_then(codec::entry_in).map_err(malformed)
}

/// Makes sure that the file is ours and in a format we read; gives a new file its identity. One transaction: there is
/// never a file with tables and without an identity.
fn claim(database: &Database, path: &Path) -> Result<NodeId, OpenError> {
    let damaged = |error: redb::Error| OpenError::Damaged { path: path.to_owned(), detail: error.to_string() };
    let transaction = database.begin_write().map_err(|error| damaged(error.into()))?;
    let names: Vec<String> = transaction
        .list_tables()
        .map_err(|error| damaged(error.into()))?
        .map(|table| table.name().to_owned())
        .collect();
    let identity = if names.is_empty() { christen(&transaction) } else { recognise(&transaction, path, &names)? };
    let identity = identity.map_err(|error| OpenError::Damaged { path: path.to_owned(), detail: error.to_string() })?;
    transaction.commit().map_err(|error| damaged(error.into()))?;
    Ok(identity)
}

type Identified = Result<NodeId, JournalError>;

fn christen(transaction: &WriteTransaction) -> Identified {
    let identity = std::iter::repeat_with(chance::random).find_map(node_id).expect("not every random number is zero");
    make(transaction, &[], None)?;
    let mut meta = transaction.open_table(META).map_err(failed)?;
    let mut stored = vec![FORMAT];
    stored.extend_from_slice(&identity.0.get().to_be_bytes());
    meta.insert(IDENTITY, stored.as_slice()).map_err(failed)?;
    Ok(identity)
}

fn recognise(transaction: &WriteTransaction, path: &Path, names: &[String]) -> Result<Identified, OpenError> {
    let foreign = |detail: String| OpenError::Foreign { path: path.to_owned(), detail };
    if !names.iter().any(|name| name == META.name()) {
        return Err(foreign(format!("a database with the tables {}", names.join(", "))));
    }
    let meta = transaction.open_table(META).map_err(|error| foreign(error.to_string()))?;
    let stored = match meta.get(IDENTITY) {
        Ok(Some(stored)) => stored,
        Ok(None) => return Err(foreign("a database without an identity".to_owned())),
        Err(error) => return Ok(Err(failed(error))),
    };
    match stored.value().split_first() {
        Some((&FORMAT, id)) => Ok(<[u8; 8]>::try_from(id)
            .ok()
            .and_then(|id| node_id(u64::from_be_bytes(id)))
            .ok_or_else(|| JournalError::Failed("the identity is not a node's".to_owned()))),
        Some((&found, _)) => Err(OpenError::Format { path: path.to_owned(), found }),
        None => Err(foreign("a database without an identity".to_owned())),
    }
}

fn refusal(path: &Path, error: DatabaseError) -> OpenError {
    let path: PathBuf = path.to_owned();
    if matches!(error, DatabaseError::DatabaseAlreadyOpen | DatabaseError::LockProtocolMismatch) {
        return OpenError::InUse { path };
    }
    let detail = error.to_string();
    if matches!(error, DatabaseError::UpgradeRequired(_)) {
        return OpenError::Foreign { path, detail };
    }
    if let DatabaseError::Storage(redb::StorageError::Io(source)) = error {
        // redb's way of saying that the bytes at the file's beginning are not its own.
        if matches!(source.kind(), io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof) {
            return OpenError::Foreign { path, detail };
        }
        return OpenError::Io { path, source };
    }
    OpenError::Damaged { path, detail }
}
