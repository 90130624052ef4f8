//! Work that takes long, off the threads that decide checks. A simulation has one thread, and time stands still meanwhile.

use tokio::task::JoinHandle;

/// Does `work` on a thread of its own.
pub(crate) fn run<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
    #[cfg(feature = "simulated")]
    {
        tokio::spawn(async move { work() })
    }
    #[cfg(not(feature = "simulated"))]
    {
        tokio::task::spawn_blocking(work)
    }
}
