//! The one thread that commits. Whatever waits when a commit ends goes into the next one, so a burst of writes costs a
//! few fsyncs and no async thread ever waits for the disk.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TryRecvError, TrySendError, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::oneshot;

use super::JournalError;
use super::tables::{Change, Tables};
use crate::raft::types::LogId;

/// Writes that may wait; one more is refused with [`JournalError::Busy`]. openraft waits for each of its own, so only a
/// flood of cells could fill it.
pub(super) const QUEUE_MAX: usize = 1_024;
/// The most changes in one commit.
const BATCH_MAX: usize = 256;
/// How long a new committed mark waits for a write to ride on before it is committed by itself.
pub(super) const COMMITTED_LINGER: Duration = Duration::from_millis(100);

/// How changes become durable.
pub(super) enum Writer {
    /// In memory: at once, by whoever asks.
    Inline,
    /// On disk: by the writer's thread.
    Thread(Thread),
}

pub(super) struct Thread {
    queue: Mutex<Option<SyncSender<Job>>>,
    join: Mutex<Option<JoinHandle<()>>>,
}

enum Job {
    Write(Change, oneshot::Sender<Result<(), JournalError>>),
    Committed(LogId),
}

impl Writer {
    /// The writer of a disk: a thread; none in a simulation, which must do the same again in the same order.
    pub(super) fn of_a_disk(tables: Arc<Tables>) -> io::Result<Writer> {
        #[cfg(feature = "simulated")]
        {
            drop(tables);
            Ok(Writer::Inline)
        }
        #[cfg(not(feature = "simulated"))]
        {
            Writer::thread(tables)
        }
    }

    /// Starts the thread. It ends when the writer is stopped or dropped, after what still waited is written.
    pub(super) fn thread(tables: Arc<Tables>) -> io::Result<Writer> {
        let (queue, jobs) = sync_channel(QUEUE_MAX);
        let run = move || Committer { tables, jobs, committed: None, broken: None }.run();
        let join = std::thread::Builder::new().name("raft-journal".to_owned()).spawn(run)?;
        Ok(Writer::Thread(Thread { queue: Mutex::new(Some(queue)), join: Mutex::new(Some(join)) }))
    }

    /// Tells it how far the log is committed, without waiting for the disk.
    pub(super) fn note_committed(&self, committed: LogId) -> Result<(), JournalError> {
        match self {
            Writer::Inline => Ok(()),
            Writer::Thread(thread) => thread.send(Job::Committed(committed)),
        }
    }

    /// Waits until all is written and the thread is gone. Blocks.
    pub(super) fn stop(&self) {
        match self {
            Writer::Inline => {}
            Writer::Thread(thread) => {
                drop(thread.queue.lock().take());
                if let Some(join) = thread.join.lock().take()
                    && join.join().is_err()
                {
                    tracing::error!("the journal's thread panicked");
                }
            }
        }
    }
}

impl Thread {
    /// Returns once `change` is durable.
    pub(super) async fn write(&self, change: Change) -> Result<(), JournalError> {
        let (done, written) = oneshot::channel();
        self.send(Job::Write(change, done))?;
        written.await.unwrap_or(Err(JournalError::Closed))
    }

    fn send(&self, job: Job) -> Result<(), JournalError> {
        let queue = self.queue.lock();
        queue.as_ref().ok_or(JournalError::Closed)?.try_send(job).map_err(|refused| match refused {
            TrySendError::Full(_) => JournalError::Busy,
            TrySendError::Disconnected(_) => JournalError::Closed,
        })
    }
}

/// The thread's own side.
struct Committer {
    tables: Arc<Tables>,
    jobs: Receiver<Job>,
    /// A mark that is not on disk yet.
    committed: Option<LogId>,
    /// Why nothing more is written. After a failed commit nobody knows what the file holds, so no later write may
    /// pretend to follow it.
    broken: Option<JournalError>,
}

impl Committer {
    fn run(mut self) {
        while let Some(first) = self.next() {
            let mut batch = Vec::new();
            let mut open = self.take(first, &mut batch);
            while open && batch.len() < BATCH_MAX {
                match self.jobs.try_recv() {
                    Ok(job) => open = self.take(Some(job), &mut batch),
                    Err(TryRecvError::Empty | TryRecvError::Disconnected) => open = false,
                }
            }
            self.commit(batch);
        }
        self.flush_committed();
    }

    /// The next job; `Some(None)` when a mark has waited long enough; `None` when nobody can ask any more.
    fn next(&mut self) -> Option<Option<Job>> {
        if self.committed.is_none() {
            return self.jobs.recv().ok().map(Some);
        }
        match self.jobs.recv_timeout(COMMITTED_LINGER) {
            Ok(job) => Some(Some(job)),
            Err(RecvTimeoutError::Timeout) => {
                self.flush_committed();
                Some(None)
            }
            Err(RecvTimeoutError::Disconnected) => None,
        }
    }

    /// Puts a job where it belongs; whether more may be taken.
    fn take(&mut self, job: Option<Job>, batch: &mut Vec<(Change, oneshot::Sender<Result<(), JournalError>>)>) -> bool {
        match job {
            Some(Job::Write(change, done)) => batch.push((change, done)),
            Some(Job::Committed(committed)) => self.committed = Some(committed),
            None => return false,
        }
        true
    }

    fn commit(&mut self, batch: Vec<(Change, oneshot::Sender<Result<(), JournalError>>)>) {
        if batch.is_empty() {
            return;
        }
        let (changes, waiting): (Vec<_>, Vec<_>) = batch.into_iter().unzip();
        let outcome = self.attempt(&changes);
        for done in waiting {
            // Whoever asked may be gone; what he asked for is done all the same.
            let _ = done.send(outcome.clone());
        }
    }

    fn flush_committed(&mut self) {
        if self.committed.is_some()
            && let Err(error) = self.attempt(&[])
        {
            tracing::error!(%error, "the committed mark was not written");
        }
    }

    fn attempt(&mut self, changes: &[Change]) -> Result<(), JournalError> {
        if let Some(broken) = &self.broken {
            return Err(broken.clone());
        }
        let committed = self.committed.take();
        let outcome = self.tables.commit(changes, committed.as_ref());
        if let Err(error) = &outcome {
            self.broken = Some(error.clone());
        }
        outcome
    }
}
