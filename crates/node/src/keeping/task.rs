//! The one task that talks to the store. It claims what was taken over, writes what partitions want written, and has the log
//! say whether what is kept counts; the order of these is [`Durability`]'s.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use control::event::ActivatedState;
use control::{Cluster, Command, Event, KeptIn};
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use limits::{Moment, Span};
use ownership::kept::{
    Claim, Claimed, Durability, Incarnation, Keeper, SILENT_AFTER, Says, Step, Store as Seen, Trust, Written,
};
use ownership::{Found, Recovered, SessionId, Write};
use ring::PartitionId;
use store::{Standing, Store, StoreConfig, StoreError};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::clock;
use crate::events::Events;
use crate::keeping::{Keeping, View};
use crate::owner::{FOUND_WITHIN, Owner};
use crate::propose::{NotProposed, Proposer};
use crate::replica::Replica;
use crate::views::Views;

/// Claims under way at most.
const CLAIMS_AT_ONCE: usize = 16;

/// Writes under way at most, each of one partition.
const WRITES_AT_ONCE: usize = 32;

/// How long writing a whole partition may take, beside others.
const REWRITTEN_WITHIN: Duration = Duration::from_secs(1);

/// How long checks wait for a store that cannot be asked.
const AWAY_FOR: Span = Span::from_millis(100);

/// How often the task looks at what waits for too long.
const LOOK_EVERY: Duration = Duration::from_millis(50);

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
    Write(PartitionId, Write, Instant, Result<store::Written, StoreError>),
}

type Under = std::pin::Pin<Box<dyn Future<Output = Back> + Send>>;

/// The task while it runs.
struct Running {
    task: Task,
    store: Store,
    standing: watch::Receiver<Standing>,
    session: Option<SessionId>,
    durability: Durability,
    under_way: FuturesUnordered<Under>,
    /// Claims under way.
    claiming: BTreeMap<PartitionId, Claim>,
    writes: BTreeMap<PartitionId, (Instant, bool)>,
    /// Claims that came to nothing, to be made again at the next look.
    later: Vec<Claim>,
    /// Partitions whose claim found what an operator may vouch for.
    in_doubt: BTreeMap<PartitionId, Claim>,
    trust: Option<Trust>,
    /// When the store answered a claim last.
    answered: Option<Instant>,
    /// What was recovered since it was last told.
    news: News,
}

/// Partitions by what was found of them, since that was last told.
#[derive(Default)]
struct News {
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
            session: None,
            durability: Durability::new(clock::now()),
            under_way: FuturesUnordered::new(),
            claiming: BTreeMap::new(),
            writes: BTreeMap::new(),
            later: Vec::new(),
            in_doubt: BTreeMap::new(),
            trust: None,
            answered: None,
            news: News::default(),
        };
        running.run().await;
    }
}

impl Running {
    async fn run(mut self) {
        let mut changes = self.task.views.changes();
        let mut look = tokio::time::interval(LOOK_EVERY);
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
        while let Some(step) = self.durability.poll_step() {
            match step {
                Step::Bind => self.task.owner.bind_all(),
                Step::Free => self.task.owner.free_all(),
                Step::Propose { number, store } => self.propose(number, store),
            }
        }
        let up = match &*self.standing.borrow() {
            Standing::Up { incarnation, .. } => Some(*incarnation),
            Standing::Connecting | Standing::Down { .. } | Standing::Refused { .. } => None,
        };
        if let Some(life) = up {
            self.start_claims();
            if self.durability.bound() == Some(life) {
                self.start_writes(life);
            }
        }
        self.show();
        // Whatever is ready is handled before the next look at the queues, but the runtime's other tasks come in between.
        tokio::task::yield_now().await;
    }

    fn handle_standing(&mut self) {
        let standing = self.standing.borrow_and_update().clone();
        let seen = match &standing {
            Standing::Up { incarnation, .. } => Seen::Up(*incarnation),
            Standing::Connecting | Standing::Down { .. } | Standing::Refused { .. } => Seen::Away,
        };
        self.durability.handle_store(seen, clock::now());
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

    /// The log has moved: another session of this process, another word on where its records count, an operator's word. The
    /// session of the process before may live on for a while after a restart. What that one kept is nothing that this one could
    /// say anything of: it knows neither what was used nor whether all of it was written.
    fn handle_log(&mut self) {
        let own = self.task.owner.lease().session;
        let read = |cluster: &Cluster| (cluster.sessions.live.get(&own).map(|live| (own, live.kept)), cluster.trust);
        let Some((mine, trust)) = self.task.replica.read_cluster(read) else { return };
        let now = clock::now();
        if let Some((session, KeptIn { number, store })) = mine {
            if self.session != Some(session) {
                self.session = Some(session);
                self.durability = Durability::new(now);
                self.in_doubt.clear();
                self.task.keeping.forget_claims_but_of(session);
                self.handle_standing();
            }
            self.durability.handle_log(number, store, now);
        }
        if trust != self.trust {
            self.trust = trust;
            std::mem::take(&mut self.in_doubt).into_values().for_each(|claim| self.task.keeping.claim(claim));
        }
    }

    fn propose(&self, number: u64, store: Option<Incarnation>) {
        let Some(session) = self.session else { return };
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

    /// Nothing is claimed before cluster time is known: windows that go by it could not be taken in, and nothing is decided
    /// before it comes, with the first acknowledgement of the lease.
    fn start_claims(&mut self) {
        if self.task.owner.wall().is_none() {
            return;
        }
        while self.claiming.len() < CLAIMS_AT_ONCE
            && let Some(claim) = self.task.keeping.next_claim()
        {
            let Some(number) = self.task.owner.claim_number(claim.partition, claim.keeper) else { continue };
            let store = self.store.clone();
            self.claiming.insert(claim.partition, claim);
            let claimed = async move { Back::Claim(claim, store.claim(claim.partition, claim.keeper, number).await) };
            self.under_way.push(Box::pin(claimed));
        }
    }

    fn start_writes(&mut self, life: Incarnation) {
        while self.writes.len() < WRITES_AT_ONCE
            && let Some(partition) = self.task.keeping.next_write()
        {
            let Some(write) = self.task.owner.poll_write(partition) else { continue };
            let (store, since) = (self.store.clone(), Instant::now());
            self.writes.insert(partition, (since, write.anew));
            let written = async move {
                let written = store.write(partition, &write, Some(life)).await;
                Back::Write(partition, write, since, written)
            };
            self.under_way.push(Box::pin(written));
        }
    }

    fn handle_back(&mut self, back: Back) {
        match back {
            Back::Claim(claim, claimed) => {
                self.handle_claimed(claim, claimed);
            }
            Back::Write(partition, write, since, written) => {
                self.writes.remove(&partition);
                if is_slow(since, write.anew) {
                    self.durability.handle_slow(clock::now());
                }
                self.handle_written(partition, &write, written);
            }
        }
    }

    fn handle_claimed(&mut self, claim: Claim, claimed: Result<Claimed, StoreError>) {
        if self.claiming.get(&claim.partition).is_some_and(|under_way| under_way.keeper == claim.keeper) {
            self.claiming.remove(&claim.partition);
        }
        let claimed = match claimed {
            Ok(claimed) => claimed,
            // It may be in this reign's name or not: asked again, it says the same.
            Err(StoreError::Away | StoreError::Full | StoreError::Unknown) => return self.later.push(claim),
            Err(why @ (StoreError::Refused(_) | StoreError::TooLarge(_))) => {
                tracing::warn!(%why, partition = claim.partition.0, "a partition could not be claimed in the store");
                return self.later.push(claim);
            }
        };
        self.answered = Some(Instant::now());
        match claim.read(&claimed, self.trust.as_ref()) {
            Says::Found(found) => self.found(&claim, found),
            Says::Void(void) => {
                self.task.keeping.tally.count_void(&void);
                self.news.void(void.as_str());
                self.found(&claim, void.found());
            }
            Says::Fenced(by) => self.handle_fenced(&claim, by),
        }
    }

    /// A partition is in this reign's name, and this was kept of it before.
    fn found(&mut self, claim: &Claim, found: Found<'_>) {
        let tally = &self.task.keeping.tally;
        match found {
            Found::Nobody => drop(tally.nobody.fetch_add(1, Ordering::Relaxed)),
            Found::Record(_) => drop(tally.counted.fetch_add(1, Ordering::Relaxed)),
            Found::InDoubt => drop(self.in_doubt.insert(claim.partition, *claim)),
            Found::Nothing => {}
        }
        let bound = self.is_bound_for(claim);
        if let Some(recovered) = self.task.owner.found(claim.partition, claim.keeper.epoch, found, bound) {
            self.news.recovered(recovered);
        }
    }

    fn handle_fenced(&mut self, claim: &Claim, by: Option<Keeper>) {
        let (partition, epoch) = (claim.partition, claim.keeper.epoch);
        self.task.owner.fenced(partition, epoch);
        match by {
            Some(by) => {
                self.task.keeping.tally.claims_lost.fetch_add(1, Ordering::Relaxed);
                self.task.events.tell(Event::ClaimLost { partition, epoch, by });
            }
            None => self.news.void("format"),
        }
    }

    /// Whether records of a claim's session count, or may come to.
    fn is_bound_for(&self, claim: &Claim) -> bool {
        self.durability.is_bound() && self.session == Some(claim.keeper.session)
    }

    fn handle_written(&mut self, partition: PartitionId, write: &Write, written: Result<store::Written, StoreError>) {
        let epoch = write.keeper.epoch;
        let came = match written {
            Ok(store::Written::Ok) => Written::Done,
            Ok(store::Written::Lost { keeper: by }) => {
                self.task.keeping.tally.fenced.fetch_add(1, Ordering::Relaxed);
                if let Some(by) = by.filter(|by| is_later(by, &write.keeper)) {
                    self.task.events.tell(Event::WriteFenced { partition, epoch, by });
                    return self.task.owner.fenced(partition, epoch);
                }
                self.news.lost += 1;
                Written::Lost
            }
            // One write of a partition is under way at a time, so this is heard of one that arrived twice.
            Ok(store::Written::Stale) | Err(StoreError::Unknown) => Written::Unknown,
            Err(StoreError::Away | StoreError::Full) => Written::NotSent,
            Err(why @ StoreError::TooLarge(_)) => {
                tracing::warn!(%why, partition = partition.0, "a partition has too much to be kept: it is not");
                return self.task.owner.fenced(partition, epoch);
            }
            Err(StoreError::Refused(why)) => {
                tracing::warn!(why, partition = partition.0, "the store refused a write");
                self.durability.handle_slow(clock::now());
                Written::Unknown
            }
        };
        if self.task.owner.written(partition, write, came) {
            let (keeper, since) = (write.keeper, clock::now());
            self.task.keeping.claim(Claim { partition, keeper, before: None, since, again: true });
        }
    }

    /// Time has passed: claims that nobody answers, writes that take too long, and whether everything is written.
    fn look(&mut self) {
        let now = clock::now();
        let answers = self.answered.is_some_and(|at| at.elapsed() < Duration::from(SILENT_AFTER));
        let patience = if answers { FOUND_WITHIN } else { AWAY_FOR };
        for claim in self.overdue(patience, now) {
            if self.task.owner.not_found(claim.partition, claim.keeper.epoch) {
                self.news.recovered(Recovered::WorstCase);
            }
        }
        self.later.drain(..).for_each(|claim| self.task.keeping.claim(claim));
        if self.writes.values().any(|(since, anew)| is_slow(*since, *anew)) {
            self.durability.handle_slow(now);
        }
        if self.durability.is_bound() && self.durability.held().is_none() {
            self.durability.handle_settled(self.task.owner.is_kept_whole(), now);
        }
        self.durability.handle_timeout(now);
        self.tell_news();
    }

    /// Claims that have waited for longer than `patience`, those under way among them.
    fn overdue(&self, patience: Span, now: Moment) -> Vec<Claim> {
        let under_way = self.claiming.values().filter(|claim| now.since(claim.since) >= patience).copied();
        under_way.chain(self.task.keeping.overdue(patience, now)).collect()
    }

    fn tell_news(&mut self) {
        let News { recovered, voids, lost } = std::mem::take(&mut self.news);
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
        (view.durable, view.bound) = (self.durability.held(), self.durability.is_bound());
    }
}

/// Whether that record is of a later reign, or of another session at the same epoch. An earlier one may lie there after the store
/// lost something, and is claimed again.
fn is_later(by: &Keeper, than: &Keeper) -> bool {
    by.epoch > than.epoch || (by.epoch == than.epoch && by.session != than.session)
}

/// Whether a write takes longer than it should: a few keys, or a whole partition.
fn is_slow(since: Instant, anew: bool) -> bool {
    let patience = if anew { REWRITTEN_WITHIN } else { Duration::from(SILENT_AFTER) };
    since.elapsed() >= patience
}

impl News {
    fn recovered(&mut self, recovered: Recovered) {
        let state = match recovered {
            Recovered::Fresh => ActivatedState::Fresh,
            Recovered::Allowance { .. } => ActivatedState::Allowance,
            Recovered::WorstCase => ActivatedState::WorstCase,
        };
        *self.recovered.entry(state).or_default() += 1;
    }

    fn void(&mut self, why: &'static str) {
        *self.voids.entry(why).or_default() += 1;
    }
}
