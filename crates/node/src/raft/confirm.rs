//! Leadership confirmations, one at a time. A confirmation counts for a caller only if it began after he asked; so who
//! asks while one is under way waits for the next, and all who wait share it. However many ask, the cluster sees one
//! round of messages at a time.

use std::future::Future;

use tokio::sync::{mpsc, oneshot};

/// Callers that may wait for the next round; one more is turned away.
pub(crate) const WAITING_MAX: usize = 4_096;

/// The callers' side.
pub(crate) struct Confirmer<T> {
    asks: mpsc::Sender<oneshot::Sender<T>>,
}

/// Why there was no round for a caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoRound {
    /// [`WAITING_MAX`] others wait already.
    Busy,
    /// The rounds have ended.
    Ended,
}

impl<T: Clone> Confirmer<T> {
    /// The callers' side, and the task that runs `round` again and again, for as long as anyone can ask.
    pub(crate) fn new<F>(round: impl Fn() -> F) -> (Confirmer<T>, impl Future<Output = ()>)
    where
        F: Future<Output = T>,
    {
        let (asks, asked) = mpsc::channel(WAITING_MAX);
        (Confirmer { asks }, rounds(asked, round))
    }

    /// The outcome of a round that began after this call.
    pub(crate) async fn confirm(&self) -> Result<T, NoRound> {
        let (answer, outcome) = oneshot::channel();
        self.asks.try_send(answer).map_err(|refused| match refused {
            mpsc::error::TrySendError::Full(_) => NoRound::Busy,
            mpsc::error::TrySendError::Closed(_) => NoRound::Ended,
        })?;
        outcome.await.map_err(|_| NoRound::Ended)
    }
}

async fn rounds<T: Clone, F: Future<Output = T>>(mut asked: mpsc::Receiver<oneshot::Sender<T>>, round: impl Fn() -> F) {
    while let Some(first) = asked.recv().await {
        let mut waiting = vec![first];
        while let Ok(another) = asked.try_recv() {
            waiting.push(another);
        }
        let outcome = round().await;
        for caller in waiting {
            // A caller that stopped waiting is no failure.
            let _ = caller.send(outcome.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use std::cell::RefCell;
    use std::pin::pin;
    use std::rc::Rc;
    use std::task::{Context, Poll, Waker};

    use super::*;

    /// Rounds that end when the test says so, each with its number.
    #[derive(Clone, Default)]
    struct Rounds(Rc<RefCell<Vec<oneshot::Sender<()>>>>);

    impl Rounds {
        fn begin(&self) -> impl Future<Output = usize> + use<> {
            let (end, ended) = oneshot::channel();
            self.0.borrow_mut().push(end);
            let number = self.0.borrow().len();
            async move {
                ended.await.unwrap();
                number
            }
        }

        fn begun(&self) -> usize {
            self.0.borrow().len()
        }

        fn end_last(&self) {
            self.0
                .borrow_mut()
                .last_mut()
                .map(|end| std::mem::replace(end, oneshot::channel().0).send(()))
                .unwrap()
                .unwrap();
        }
    }

    fn poll<F: Future>(future: std::pin::Pin<&mut F>) -> Poll<F::Output> {
        future.poll(&mut Context::from_waker(Waker::noop()))
    }

    #[test]
    fn who_asks_during_a_round_waits_for_the_next_and_shares_it() {
        let rounds = Rounds::default();
        let begin = rounds.clone();
        let (confirmer, task) = Confirmer::new(move || begin.begin());
        let mut task = pin!(task);
        let (mut a, mut b, mut c) = (pin!(confirmer.confirm()), pin!(confirmer.confirm()), pin!(confirmer.confirm()));

        assert!(poll(a.as_mut()).is_pending());
        assert!(poll(task.as_mut()).is_pending());
        assert_eq!(rounds.begun(), 1);

        assert!(poll(b.as_mut()).is_pending());
        assert!(poll(c.as_mut()).is_pending());
        assert!(poll(task.as_mut()).is_pending());
        assert_eq!(rounds.begun(), 1, "one confirmation in flight");

        rounds.end_last();
        assert!(poll(task.as_mut()).is_pending());
        assert_eq!(rounds.begun(), 2, "the next began when the first had ended");
        assert_eq!(poll(a.as_mut()), Poll::Ready(Ok(1)));
        assert!(poll(b.as_mut()).is_pending(), "the first began before it asked");

        rounds.end_last();
        assert!(poll(task.as_mut()).is_pending());
        assert_eq!(poll(b.as_mut()), Poll::Ready(Ok(2)));
        assert_eq!(poll(c.as_mut()), Poll::Ready(Ok(2)));
        assert_eq!(rounds.begun(), 2, "nobody asks, nothing is sent");
    }

    #[test]
    fn callers_beyond_the_bound_are_turned_away_at_once() {
        let (confirmer, task) = Confirmer::new(|| async { 0 });
        let mut waiting: Vec<_> = (0..WAITING_MAX).map(|_| Box::pin(confirmer.confirm())).collect();
        for caller in &mut waiting {
            assert!(poll(caller.as_mut()).is_pending());
        }
        assert_eq!(poll(pin!(confirmer.confirm())), Poll::Ready(Err(NoRound::Busy)));
        drop(task);
        assert_eq!(poll(waiting[0].as_mut()), Poll::Ready(Err(NoRound::Ended)));
        assert_eq!(poll(pin!(confirmer.confirm())), Poll::Ready(Err(NoRound::Ended)));
    }
}
