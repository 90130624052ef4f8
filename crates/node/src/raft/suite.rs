//! openraft's own tests for storage, run on the journal and the machine's adapter, on disk and in memory.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::sync::Arc;

use bytes::Bytes;
use openraft::testing::{StoreBuilder, Suite};
use tempfile::TempDir;
use tokio::sync::Notify;

use super::journal::Journal;
use super::log::Log;
use super::machine::{Applier, Machine, RestoreError};
use super::types::{StorageError, Types};

/// Counts what it is given.
struct Counter(u64);

impl Machine for Counter {
    fn apply(&mut self, _index: u64, _payload: &[u8]) -> Bytes {
        self.0 += 1;
        Bytes::new()
    }

    fn snapshot(&self) -> Bytes {
        Bytes::copy_from_slice(&self.0.to_be_bytes())
    }

    fn restore(&mut self, snapshot: &[u8]) -> Result<(), RestoreError> {
        self.0 = u64::from_be_bytes(snapshot.try_into().map_err(|_| RestoreError("not a count".to_owned()))?);
        Ok(())
    }
}

struct OnDisk;

impl StoreBuilder<Types, Log, Applier, TempDir> for OnDisk {
    async fn build(&self) -> Result<(TempDir, Log, Applier), StorageError> {
        let dir = tempfile::tempdir().unwrap();
        let journal = Journal::open(dir.path()).unwrap();
        Ok((dir, Log::new(journal.clone()), applier(journal).await))
    }
}

struct InMemory;

impl StoreBuilder<Types, Log, Applier> for InMemory {
    async fn build(&self) -> Result<((), Log, Applier), StorageError> {
        let journal = Journal::in_memory();
        Ok(((), Log::new(journal.clone()), applier(journal).await))
    }
}

async fn applier(journal: Journal) -> Applier {
    Applier::load(Box::new(Counter(0)), journal, u64::MAX, Arc::new(Notify::new())).await.unwrap()
}

#[test]
fn openrafts_storage_suite_passes_on_disk() {
    Suite::test_all(OnDisk).unwrap();
}

#[test]
fn openrafts_storage_suite_passes_in_memory() {
    Suite::test_all(InMemory).unwrap();
}
