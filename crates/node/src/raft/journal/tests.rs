//! What a journal gives back after it was closed, killed, damaged, or handed another's files.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::fs;
use std::time::Duration;

use openraft::{EntryPayload, LeaderId};
use redb::ReadableTable as _;
use tempfile::tempdir;

use super::*;
use crate::raft::types::{Command, StoredMembership};

fn log_id(index: u64) -> LogId {
    LogId::new(LeaderId::new(1, 7), index)
}

fn entries(range: std::ops::Range<u64>) -> Vec<Entry> {
    let command = |index: u64| EntryPayload::Normal(Command(Bytes::from(format!("command {index}"))));
    range.map(|index| Entry { log_id: log_id(index), payload: command(index) }).collect()
}

fn snapshot(last: u64) -> SnapshotMeta {
    SnapshotMeta {
        last_log_id: Some(log_id(last)),
        last_membership: StoredMembership::default(),
        snapshot_id: format!("up to {last}"),
    }
}

#[tokio::test]
async fn everything_is_there_again_after_a_restart() {
    let dir = tempdir().unwrap();
    let vote = Vote { leader_id: LeaderId::new(4, 7), committed: true };
    let journal = Journal::open(dir.path()).unwrap();
    assert!(journal.is_blank().await.unwrap());
    journal.put_vote(&vote).await.unwrap();
    journal.append(entries(0..10)).await.unwrap();
    journal.put_committed(log_id(8)).unwrap();
    journal.put_cell("promise", b"n1").await.unwrap();
    journal.put_snapshot(snapshot(5), Bytes::from_static(b"state")).await.unwrap();
    journal.purge(&log_id(3)).await.unwrap();
    let identity = journal.identity();
    journal.close().await;

    let again = Journal::open(dir.path()).unwrap();
    assert_eq!(again.identity(), identity);
    assert!(!again.is_blank().await.unwrap());
    assert_eq!(again.vote().await.unwrap(), Some(vote));
    assert_eq!(again.entries(.., usize::MAX).await.unwrap(), entries(4..10));
    assert_eq!(again.committed().await.unwrap(), Some(log_id(8)));
    assert_eq!(again.cell("promise").await.unwrap().unwrap(), "n1");
    assert_eq!(again.cell("other").await.unwrap(), None);
    let state = again.log_state().await.unwrap();
    assert_eq!((state.last_purged_log_id, state.last_log_id), (Some(log_id(3)), Some(log_id(9))));
    assert_eq!(again.snapshot().await.unwrap().unwrap(), (snapshot(5), Bytes::from_static(b"state")));
}

#[tokio::test]
async fn a_closed_journal_says_so_and_a_second_close_is_harmless() {
    for journal in [Journal::in_memory(), Journal::open(tempdir().unwrap().path()).unwrap()] {
        journal.close().await;
        journal.close().await;
        assert_eq!(journal.append(entries(0..1)).await.unwrap_err(), JournalError::Closed);
        assert_eq!(journal.cell("promise").await.unwrap_err(), JournalError::Closed);
        assert_eq!(journal.put_snapshot(snapshot(1), Bytes::new()).await.unwrap_err(), JournalError::Closed);
    }
}

/// The files as they are at this moment: what a process that is killed now leaves behind.
fn killed(dir: &Path) -> tempfile::TempDir {
    let left = tempdir().unwrap();
    for file in fs::read_dir(dir).unwrap() {
        let file = file.unwrap();
        fs::copy(file.path(), left.path().join(file.file_name())).unwrap();
    }
    left
}

#[tokio::test]
async fn what_was_written_survives_a_kill() {
    let dir = tempdir().unwrap();
    let journal = Journal::open(dir.path()).unwrap();
    journal.append(entries(0..3)).await.unwrap();
    journal.put_cell("promise", b"n1").await.unwrap();

    let left = Journal::open(killed(dir.path()).path()).unwrap();
    assert_eq!(left.entries(.., usize::MAX).await.unwrap(), entries(0..3));
    assert_eq!(left.cell("promise").await.unwrap().unwrap(), "n1");
}

#[tokio::test]
async fn a_committed_mark_rides_on_the_next_write() {
    let dir = tempdir().unwrap();
    let journal = Journal::open(dir.path()).unwrap();
    journal.append(entries(0..3)).await.unwrap();
    journal.put_committed(log_id(1)).unwrap();
    journal.append(entries(3..4)).await.unwrap();

    let left = Journal::open(killed(dir.path()).path()).unwrap();
    assert_eq!(left.committed().await.unwrap(), Some(log_id(1)));
}

#[tokio::test]
async fn a_committed_mark_goes_to_disk_by_itself_when_nothing_else_does() {
    let dir = tempdir().unwrap();
    let journal = Journal::open(dir.path()).unwrap();
    journal.append(entries(0..3)).await.unwrap();
    journal.put_committed(log_id(2)).unwrap();

    let stored = async {
        while Journal::open(killed(dir.path()).path()).unwrap().committed().await.unwrap() != Some(log_id(2)) {
            tokio::time::sleep(writer::COMMITTED_LINGER).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), stored).await.unwrap();
}

#[tokio::test]
async fn a_committed_mark_beyond_the_log_is_no_mark() {
    let journal = Journal::in_memory();
    journal.append(entries(0..3)).await.unwrap();
    journal.put_committed(log_id(7)).unwrap();
    assert_eq!(journal.committed().await.unwrap(), None);
}

#[tokio::test]
async fn a_burst_of_writes_is_made_in_order() {
    let dir = tempdir().unwrap();
    let journal = Journal::open(dir.path()).unwrap();
    let mut writes = Vec::new();
    for index in 0..400 {
        let journal = journal.clone();
        writes.push(tokio::spawn(async move { journal.append(entries(index..index + 1)).await }));
    }
    for write in writes {
        write.await.unwrap().unwrap();
    }
    journal.truncate(398).await.unwrap();
    assert_eq!(journal.entries(.., usize::MAX).await.unwrap(), entries(0..398));
}

#[tokio::test]
async fn a_read_stops_after_so_many_bytes_but_never_before_the_first_entry() {
    let journal = Journal::in_memory();
    journal.append(entries(0..10)).await.unwrap();
    assert_eq!(journal.entries(2..9, 1).await.unwrap(), entries(2..3));
    let some = journal.entries(2..9, 100).await.unwrap();
    assert!((2..7).contains(&some.len()), "{} entries", some.len());
}

#[tokio::test]
async fn a_cell_has_a_largest_size() {
    let journal = Journal::in_memory();
    journal.put_cell("promise", &vec![0; CELL_BYTES_MAX]).await.unwrap();
    let refused = journal.put_cell("promise", &vec![0; CELL_BYTES_MAX + 1]).await.unwrap_err();
    assert_eq!(refused, JournalError::TooLarge { len: CELL_BYTES_MAX + 1 });
}

#[tokio::test]
async fn the_older_of_two_snapshots_never_comes_last() {
    for journal in [Journal::in_memory(), Journal::open(&tempdir().unwrap().keep()).unwrap()] {
        journal.put_snapshot(snapshot(9), Bytes::from_static(b"newer")).await.unwrap();
        journal.put_snapshot(snapshot(5), Bytes::from_static(b"older")).await.unwrap();
        assert_eq!(journal.snapshot().await.unwrap().unwrap().1, "newer");
    }
}

#[tokio::test]
async fn a_directory_opens_once_at_a_time() {
    let dir = tempdir().unwrap();
    let journal = Journal::open(dir.path()).unwrap();
    let refused = Journal::open(dir.path()).unwrap_err();
    assert!(matches!(refused, OpenError::InUse { .. }), "{refused}");
    assert!(refused.to_string().contains(dir.path().to_str().unwrap()), "{refused}");
    journal.close().await;
    Journal::open(dir.path()).unwrap();
}

#[test]
fn a_file_that_is_something_else_is_refused_by_name_and_left_alone() {
    let dir = tempdir().unwrap();
    let path = dir.path().join(JOURNAL_FILE);
    let text = "n1 = 10.0.0.1\n".repeat(1_000);
    fs::write(&path, &text).unwrap();
    let refused = Journal::open(dir.path()).unwrap_err();
    assert!(matches!(refused, OpenError::Foreign { .. }), "{refused:?}");
    assert!(refused.to_string().contains(path.to_str().unwrap()), "{refused}");
    assert_eq!(fs::read_to_string(&path).unwrap(), text);
}

#[tokio::test]
async fn only_the_owner_reads_the_files() {
    use std::os::unix::fs::PermissionsExt as _;
    let dir = tempdir().unwrap();
    let journal = Journal::open(dir.path()).unwrap();
    journal.put_snapshot(snapshot(1), Bytes::from_static(b"keys")).await.unwrap();
    for file in [JOURNAL_FILE, SNAPSHOT_FILE] {
        let mode = fs::metadata(dir.path().join(file)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{file}");
    }
}

#[test]
fn another_programs_database_is_refused() {
    let dir = tempdir().unwrap();
    let path = dir.path().join(JOURNAL_FILE);
    let database = redb::Database::create(&path).unwrap();
    let transaction = database.begin_write().unwrap();
    transaction.open_table(redb::TableDefinition::<&str, u64>::new("prices")).unwrap();
    transaction.commit().unwrap();
    drop(database);
    let refused = Journal::open(dir.path()).unwrap_err();
    assert!(matches!(&refused, OpenError::Foreign { detail, .. } if detail.contains("prices")), "{refused:?}");
}

#[tokio::test]
async fn a_journal_in_another_format_is_refused_by_number() {
    let dir = tempdir().unwrap();
    Journal::open(dir.path()).unwrap().close().await;
    rewrite(dir.path(), |identity| identity[0] = 9);
    let refused = Journal::open(dir.path()).unwrap_err();
    assert!(matches!(refused, OpenError::Format { found: 9, .. }), "{refused:?}");
}

/// Changes the stored identity the way another build would have written it.
fn rewrite(dir: &Path, change: impl FnOnce(&mut Vec<u8>)) {
    let database = redb::Database::open(dir.join(JOURNAL_FILE)).unwrap();
    let transaction = database.begin_write().unwrap();
    {
        let mut meta = transaction.open_table(redb::TableDefinition::<&str, &[u8]>::new("meta")).unwrap();
        let mut identity = meta.get("identity").unwrap().unwrap().value().to_vec();
        change(&mut identity);
        meta.insert("identity", identity.as_slice()).unwrap();
    }
    transaction.commit().unwrap();
}

#[tokio::test]
async fn a_damaged_journal_is_never_opened_as_if_it_were_whole() {
    let dir = tempdir().unwrap();
    let journal = Journal::open(dir.path()).unwrap();
    journal.append(entries(0..2_000)).await.unwrap();
    journal.close().await;
    let whole = fs::read(dir.path().join(JOURNAL_FILE)).unwrap();

    let mut refused = 0;
    for place in (0..whole.len()).step_by(whole.len() / 61) {
        let damaged = tempdir().unwrap();
        let mut bytes = whole.clone();
        bytes[place..].iter_mut().take(64).for_each(|byte| *byte ^= 0xa5);
        fs::write(damaged.path().join(JOURNAL_FILE), bytes).unwrap();
        match Journal::open(damaged.path()) {
            // The damage was in a page that holds nothing.
            Ok(journal) => assert_eq!(journal.entries(.., usize::MAX).await.unwrap(), entries(0..2_000)),
            Err(error) => {
                assert!(error.to_string().contains(damaged.path().to_str().unwrap()), "{error}");
                refused += 1;
            }
        }
    }
    assert!(refused >= 5, "only {refused} damaged files were noticed");

    for len in [1, 100, 4_096, whole.len() / 2, whole.len() - 1] {
        let damaged = tempdir().unwrap();
        fs::write(damaged.path().join(JOURNAL_FILE), &whole[..len]).unwrap();
        let error = Journal::open(damaged.path()).unwrap_err();
        assert!(error.to_string().contains(damaged.path().to_str().unwrap()), "{error}");
    }
}

#[tokio::test]
async fn a_damaged_snapshot_is_refused_by_name() {
    let dir = tempdir().unwrap();
    let path = dir.path().join(SNAPSHOT_FILE);
    let journal = Journal::open(dir.path()).unwrap();
    journal.put_snapshot(snapshot(9), Bytes::from_static(b"the whole state")).await.unwrap();
    let whole = fs::read(&path).unwrap();

    for place in 0..whole.len() {
        let mut bytes = whole.clone();
        bytes[place] ^= 1;
        fs::write(&path, &bytes).unwrap();
        let refused = journal.snapshot().await.unwrap_err().to_string();
        assert!(refused.contains(path.to_str().unwrap()), "{refused}");
    }
    for len in 0..whole.len() {
        fs::write(&path, &whole[..len]).unwrap();
        journal.snapshot().await.unwrap_err();
    }
    fs::write(&path, &whole).unwrap();
    journal.snapshot().await.unwrap().unwrap();
}
