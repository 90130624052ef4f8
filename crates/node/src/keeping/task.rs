//! The one task that talks to the store: it carries out what the machine of [`Dealings`] says, and brings back what came of it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use control::event::ActivatedState;
use control::{Cluster, Command, Event, KeptIn};
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use ownership::SessionId;
use ownership::Write;
use ownership::kept::{
    Claim, Claimed, ClaimedAs, Dealings, Errand, Incarnation, LOOK_EVERY, News, Store as Seen, Unanswered, WriteAnswer,
};
use ring::PartitionId;
use store::{Standing, Store, StoreConfig, StoreError};
use tokio::sync::watch;

use crate::clock;
use crate::events::Events;
use crate::keeping::{Keeping, View};
use crate::owner::{Owner, state_of};
use crate::propose::{NotProposed, Proposer};
use crate::replica::Replica;
use crate::views::Views;

/// Everything the task needs of its node.
pub(crate) struct Task {
    pub(crate) config: StoreConfig,
    pub(crate) keeping: Arc<Keeping>,
    pub(crate) owner: Arc<Owner>,
    pub(crate) replica: Arc<Replica>,
    pub(crate) proposer: Arc<Proposer>,
    pub(crate) views: Arc<Views>,
    pub(crate) events: Arc<Events>,
    /// The store, for whoever prints its counters.
    pub(crate) opened: watch::Sender<Option<Store>>,
}

/// What came back from the store.
enum Back {
    Claim(Claim, Result<Claimed, StoreError>),
    Write(PartitionId, Write, Result<WriteAnswer, StoreError>),
}

type Under = std::pin::Pin<Box<dyn Future<Output = Back> + Send>>;

/// The task while it runs.
struct Running {
    task: Task,
    store: Store,
    standing: watch::Receiver<Standing>,
    dealings: Dealings,
    under_way: FuturesUnordered<Under>,
    digest: Digest,
}

/// Partitions of which the same is to be told, since that was last done.
#[derive(Default)]
struct Digest {
    recovered: BTreeMap<ActivatedState, u16>,
    voids: BTreeMap<&'static str, u16>,
    lost: u16,
}

impl Task {
    /// Runs for as long as the node does.
    pub(crate) async fn run(self) {
        let mut genesis = self.replica.genesis();
        let Ok(Some(genesis)) = genesis.wait_for(Option::is_some).await.map(|genesis| genesis.clone()) else { return };
        let store = match Store::open(&self.config, genesis.cluster.0) {
            Ok(store) => store,
            Err(error) => {
                // The binary has read the same settings and certificates before; they changed since.
                self.keeping.view.lock().down = Some(error.to_string());
                return self.events.tell(Event::StoreDown { why: error.to_string() });
            }
        };
        self.opened.send_replace(Some(store.clone()));
        let standing = store.standing();
        let running = Running {
            task: self,
            store,
            standing,
            dealings: Dealings::new(clock::now()),
            under_way: FuturesUnordered::new(),
            digest: Digest::default(),
        };
        running.run().await;
    }
}

impl Running {
    async fn run(mut self) {
        let mut changes = self.task.views.changes();
        let mut look = tokio::time::interval(LOOK_EVERY.into());
        look.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        self.handle_standing();
        self.handle_log();
        loop {
            self.go_on().await;
            let keeping = Arc::clone(&self.task.keeping);
            tokio::select! {
                biased;
                // First, so that it comes about however much comes back.
                _ = look.tick() => self.look(),
                changed = self.standing.changed() => {
                    if changed.is_err() {
                        return;
                    }
                    self.handle_standing();
                }
                changed = changes.changed() => {
                    if changed.is_err() {
                        return;
                    }
                    self.handle_log();
                }
                Some(back) = self.under_way.next() => self.handle_back(back),
                () = keeping.rung() => {}
            }
        }
    }

    /// Carries out what is to be done now, and starts what there is room for.
    async fn go_on(&mut self) {
        self.task.keeping.hand_on(&mut self.dealings);
        while let Some(errand) = self.dealings.poll_errand(&mut &*self.task.owner, clock::now()) {
            self.carry(errand);
        }
        self.heed_news();
        self.show();
        // Whatever is ready is handled before the next look at the queues, but the runtime's other tasks come in between.
        tokio::task::yield_now().await;
    }

    fn carry(&self, errand: Errand) {
        let store = self.store.clone();
        match errand {
            Errand::Propose { session, number, store } => self.propose(session, number, store),
            Errand::Claim { claim, number } => self.under_way.push(Box::pin(async move {
                Back::Claim(claim, store.claim(claim.partition, claim.keeper, number).await)
            })),
            Errand::Write { partition, write, life } => self.under_way.push(Box::pin(async move {
                let written = store.write(partition, &write, Some(life)).await;
                Back::Write(partition, write, written)
            })),
        }
    }

    fn handle_standing(&mut self) {
        let standing = self.standing.borrow_and_update().clone();
        let seen = match &standing {
            Standing::Up { incarnation, .. } => Seen::Up(*incarnation),
            Standing::Connecting | Standing::Down { .. } | Standing::Refused { .. } => Seen::Away,
        };
        self.dealings.handle_store(seen, clock::now());
        let mut view = self.task.keeping.view.lock();
        let (was_up, was_down) = (view.up, view.down.clone());
        *view = match standing {
            Standing::Connecting => return,
            Standing::Up { incarnation, version, warnings } => {
                View { up: Some(incarnation), version: Some(version), warnings, down: None, ..view.clone() }
            }
            Standing::Down { why, .. } | Standing::Refused { why } => {
                View { up: None, version: None, warnings: Vec::new(), down: Some(why), ..view.clone() }
            }
        };
        let (up, down) = (view.up, view.down.clone());
        drop(view);
        if let Some(incarnation) = up.filter(|_| up != was_up) {
            self.task.events.tell(Event::StoreUp { incarnation });
        } else if let Some(why) = down.filter(|_| was_down.is_none()) {
            self.task.events.tell(Event::StoreDown { why });
        }
    }

    /// The log has moved: another session of this process, another word on where its records count, an operator's word.
    fn handle_log(&mut self) {
        let own = self.task.owner.lease().session;
        let live = |cluster: &Cluster| {
            let KeptIn { number, store } = cluster.sessions.live.get(&own)?.kept;
            Some((own, number, store))
        };
        let Some((mine, trust)) = self.task.replica.read_cluster(|cluster| (live(cluster), cluster.trust)) else {
            return;
        };
        self.dealings.handle_log(mine, trust, clock::now());
    }

    fn propose(&self, session: SessionId, number: u64, store: Option<Incarnation>) {
        let proposer = Arc::clone(&self.task.proposer);
        tokio::spawn(async move {
            match proposer.propose(&Command::Keep { session, number, store }).await {
                Ok(_) => {}
                // What came of it is seen in the log; where nothing is, it is proposed anew.
                Err(NotProposed::Refused(why)) => tracing::debug!(%why, "the log refused where records count"),
                Err(why) => tracing::debug!(%why, "where records count was not proposed"),
            }
        });
    }

    fn handle_back(&mut self, back: Back) {
        let (mut gates, now) = (&*self.task.owner, clock::now());
        match back {
            Back::Claim(claim, claimed) => {
                if let Err(why @ (StoreError::Refused(_) | StoreError::TooLarge(_))) = &claimed {
                    tracing::warn!(%why, partition = claim.partition.0, "a partition could not be claimed in the store");
                }
                self.dealings.handle_claimed(&claim, claimed.as_ref().ok(), &mut gates, now);
            }
            Back::Write(partition, write, written) => {
                let answer = written.map_err(|why| unanswered(partition, &why));
                self.dealings.handle_written(partition, &write, answer, &mut gates, now);
            }
        }
    }

    fn heed_news(&mut self) {
        while let Some(news) = self.dealings.poll_news() {
            self.heed(news);
        }
    }

    /// Counts what happened and tells it: what happens to many partitions at once, at the next look.
    fn heed(&mut self, news: News) {
        let (tally, events) = (&self.task.keeping.tally, &self.task.events);
        match news {
            News::Claimed(ClaimedAs::Nobody) => drop(tally.nobody.fetch_add(1, Ordering::Relaxed)),
            News::Claimed(ClaimedAs::Record) => drop(tally.counted.fetch_add(1, Ordering::Relaxed)),
            News::Claimed(ClaimedAs::Void(void)) => {
                tally.count_void(&void);
                self.digest.void(void.as_str());
            }
            News::Recovered { recovered, .. } => self.digest.recovered(state_of(recovered)),
            News::WaitedInVain { .. } => self.digest.recovered(ActivatedState::WorstCase),
            News::ClaimLost { partition, epoch, by: Some(by) } => {
                tally.claims_lost.fetch_add(1, Ordering::Relaxed);
                events.tell(Event::ClaimLost { partition, epoch, by });
            }
            News::ClaimLost { by: None, .. } => self.digest.void("format"),
            News::WriteFenced { partition, epoch, by } => {
                tally.fenced.fetch_add(1, Ordering::Relaxed);
                events.tell(Event::WriteFenced { partition, epoch, by });
            }
            News::RecordLost { .. } => {
                tally.fenced.fetch_add(1, Ordering::Relaxed);
                self.digest.lost += 1;
            }
        }
    }

    /// Time has passed.
    fn look(&mut self) {
        self.dealings.handle_timeout(&mut &*self.task.owner, clock::now());
        self.heed_news();
        self.tell_digest();
    }

    fn tell_digest(&mut self) {
        let Digest { recovered, voids, lost } = std::mem::take(&mut self.digest);
        if lost > 0 {
            self.task.events.tell(Event::RecordsLost { partitions: lost });
        }
        for (state, partitions) in recovered {
            self.task.events.tell(Event::PartitionActivated { partitions, state });
        }
        for (why, partitions) in voids {
            self.task.events.tell(Event::RecordsVoid { partitions, why });
        }
    }

    fn show(&self) {
        let mut view = self.task.keeping.view.lock();
        (view.durable, view.bound) = (self.dealings.held(), self.dealings.is_bound());
    }
}

/// What an error says of a write.
fn unanswered(partition: PartitionId, why: &StoreError) -> Unanswered {
    match why {
        StoreError::Away | StoreError::Full => Unanswered::NotSent,
        StoreError::Unknown => Unanswered::Unknown,
        StoreError::Refused(_) => {
            tracing::warn!(%why, partition = partition.0, "the store refused a write");
            Unanswered::Refused
        }
        StoreError::TooLarge(_) => {
            tracing::warn!(%why, partition = partition.0, "a partition has too much to be kept: it is not");
            Unanswered::TooLarge
        }
    }
}

impl Digest {
    fn recovered(&mut self, state: ActivatedState) {
        *self.recovered.entry(state).or_default() += 1;
    }

    fn void(&mut self, why: &'static str) {
        *self.voids.entry(why).or_default() += 1;
    }
}
