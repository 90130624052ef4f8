//! What openraft runs on: tokio. In builds with the feature `simulated` the one thing that it draws by lot, how long it
//! waits before it stands for election, comes from the simulated host.

#[cfg(not(feature = "simulated"))]
pub(crate) use openraft::TokioRuntime as Runtime;

#[cfg(feature = "simulated")]
pub(crate) use self::simulated::Runtime;

#[cfg(feature = "simulated")]
mod simulated {
    use std::future::Future;
    use std::time::Duration;

    use openraft::{AsyncRuntime, OptionalSend, TokioRuntime};

    /// tokio, with the host's chance.
    #[derive(Debug, Default, PartialEq, Eq)]
    pub(crate) struct Runtime;

    /// The chance of the current host, in the form that openraft asks for.
    pub(crate) struct OfHost;

    impl rand_core::RngCore for OfHost {
        fn next_u32(&mut self) -> u32 {
            crate::simulated::random()
        }

        fn next_u64(&mut self) -> u64 {
            crate::simulated::random()
        }

        fn fill_bytes(&mut self, dest: &mut [u8]) {
            dest.fill_with(crate::simulated::random);
        }

        fn try_fill_bytes(&mut self, dest: &mut [u8]) -> Result<(), rand_core::Error> {
            self.fill_bytes(dest);
            Ok(())
        }
    }

    impl AsyncRuntime for Runtime {
        type JoinError = <TokioRuntime as AsyncRuntime>::JoinError;
        type JoinHandle<T: OptionalSend + 'static> = <TokioRuntime as AsyncRuntime>::JoinHandle<T>;
        type Sleep = <TokioRuntime as AsyncRuntime>::Sleep;
        type Instant = <TokioRuntime as AsyncRuntime>::Instant;
        type TimeoutError = <TokioRuntime as AsyncRuntime>::TimeoutError;
        type Timeout<R, T: Future<Output = R> + OptionalSend> = <TokioRuntime as AsyncRuntime>::Timeout<R, T>;
        type ThreadLocalRng = OfHost;
        type OneshotSender<T: OptionalSend> = <TokioRuntime as AsyncRuntime>::OneshotSender<T>;
        type OneshotReceiverError = <TokioRuntime as AsyncRuntime>::OneshotReceiverError;
        type OneshotReceiver<T: OptionalSend> = <TokioRuntime as AsyncRuntime>::OneshotReceiver<T>;

        fn spawn<T>(future: T) -> Self::JoinHandle<T::Output>
        where
            T: Future + OptionalSend + 'static,
            T::Output: OptionalSend + 'static,
        {
            TokioRuntime::spawn(future)
        }

        fn sleep(duration: Duration) -> Self::Sleep {
            TokioRuntime::sleep(duration)
        }

        fn sleep_until(deadline: Self::Instant) -> Self::Sleep {
            TokioRuntime::sleep_until(deadline)
        }

        fn timeout<R, F: Future<Output = R> + OptionalSend>(duration: Duration, future: F) -> Self::Timeout<R, F> {
            TokioRuntime::timeout(duration, future)
        }

        fn timeout_at<R, F: Future<Output = R> + OptionalSend>(
            deadline: Self::Instant,
            future: F,
        ) -> Self::Timeout<R, F> {
            TokioRuntime::timeout_at(deadline, future)
        }

        fn is_panic(join_error: &Self::JoinError) -> bool {
            TokioRuntime::is_panic(join_error)
        }

        fn thread_rng() -> OfHost {
            OfHost
        }

        fn oneshot<T: OptionalSend>() -> (Self::OneshotSender<T>, Self::OneshotReceiver<T>) {
            TokioRuntime::oneshot()
        }
    }
}
