//! What one process has in the store and finds there: which claims and writes are due, what their answers mean, and how long
//! anybody waits for them. Whether what is kept counts, and in what order that comes about, is [`Durability`]'s.

use std::collections::{BTreeMap, VecDeque};

use limits::{Moment, Span};
use ring::PartitionId;

use crate::kept::claims::Claims;
use crate::kept::{
    Claim, Claimed, ClaimedAs, Durability, Errand, Gates, Incarnation, Keeper, News, SILENT_AFTER, Says, Step, Store,
    Trust, Unanswered, WriteAnswer, Written,
};
use crate::partition::{Found, Write};
use crate::session::SessionId;

/// Claims under way at most.
pub const CLAIMS_AT_ONCE: usize = 16;

/// Writes under way at most, each of one partition.
pub const WRITES_AT_ONCE: usize = 32;

/// How long checks wait at most for what the store has of a partition; then the worst case stands until that is known.
pub const FOUND_WITHIN: Span = Span::from_secs(1);

/// How long they wait where the store answers nobody.
pub const AWAY_FOR: Span = Span::from_millis(100);

/// How long writing a whole partition may take, beside others.
pub const REWRITTEN_WITHIN: Span = Span::from_secs(1);

/// How often it is looked at what waits for too long, while anything does.
pub const LOOK_EVERY: Span = Span::from_millis(50);

/// A write on its way.
#[derive(Clone, Copy, Debug)]
struct UnderWay {
    since: Moment,
    anew: bool,
}

impl UnderWay {
    fn is_slow(self, now: Moment) -> bool {
        now.since(self.since) >= if self.anew { REWRITTEN_WITHIN } else { SILENT_AFTER }
    }
}

/// The machine of one process. Its sessions follow one another; each says only of its own records whether they count.
///
/// After each inlet, carry out what [`poll_errand`](Dealings::poll_errand) says until it has nothing more, tell what
/// [`poll_news`](Dealings::poll_news) has, and call [`handle_timeout`](Dealings::handle_timeout) when
/// [`poll_timeout`](Dealings::poll_timeout) has come.
#[derive(Clone, Debug)]
pub struct Dealings {
    store: Store,
    session: Option<SessionId>,
    durability: Durability,
    claims: Claims,
    /// Claims under way.
    claiming: BTreeMap<PartitionId, Claim>,
    /// Claims that came to nothing, to be made again at the next look.
    later: Vec<Claim>,
    writing: BTreeMap<PartitionId, UnderWay>,
    /// Partitions whose claim found what an operator may vouch for.
    in_doubt: BTreeMap<PartitionId, Claim>,
    trust: Option<Trust>,
    /// When the store answered a claim last.
    answered: Option<Moment>,
    look_at: Moment,
    news: VecDeque<News>,
}

impl Dealings {
    /// A process that has heard of neither the store nor its own session.
    pub fn new(now: Moment) -> Dealings {
        Dealings {
            store: Store::Away,
            session: None,
            durability: Durability::new(now),
            claims: Claims::default(),
            claiming: BTreeMap::new(),
            later: Vec::new(),
            writing: BTreeMap::new(),
            in_doubt: BTreeMap::new(),
            trust: None,
            answered: None,
            look_at: now,
            news: VecDeque::new(),
        }
    }

    /// In which life of the store this session's records count, as the log says.
    pub const fn held(&self) -> Option<Incarnation> {
        self.durability.held()
    }

    /// Whether records are obeyed: they count, or may come to.
    pub const fn is_bound(&self) -> bool {
        self.durability.is_bound()
    }

    /// The last word of an operator on what the store has.
    pub const fn trust(&self) -> Option<&Trust> {
        self.trust.as_ref()
    }

    /// Whether a claim is under way.
    pub fn is_claiming(&self) -> bool {
        !self.claiming.is_empty()
    }

    /// Whether a write is under way.
    pub fn is_writing(&self) -> bool {
        !self.writing.is_empty()
    }

    // What is seen of the store and the log.

    /// What is seen of the store now.
    pub fn handle_store(&mut self, store: Store, now: Moment) {
        self.store = store;
        self.durability.handle_store(store, now);
    }

    /// The log has moved. It says of this process's live session, if it has one, by which of its proposals its records count
    /// in which life of the store; and `trust` is the last word of an operator.
    ///
    /// The session of the process before may live on for a while after a restart. What that one kept is nothing that this one
    /// could say anything of: it knows neither what was used nor whether all of it was written.
    pub fn handle_log(
        &mut self,
        mine: Option<(SessionId, u64, Option<Incarnation>)>,
        trust: Option<Trust>,
        now: Moment,
    ) {
        if let Some((session, number, kept)) = mine {
            if self.session != Some(session) {
                self.begin(session, now);
            }
            self.durability.handle_log(number, kept, now);
        }
        if trust != self.trust {
            self.trust = trust;
            std::mem::take(&mut self.in_doubt).into_values().for_each(|claim| self.claims.add(claim));
        }
    }

    fn begin(&mut self, session: SessionId, now: Moment) {
        self.session = Some(session);
        self.durability = Durability::new(now);
        self.durability.handle_store(self.store, now);
        self.in_doubt.clear();
        self.claims.retain(|claim| claim.keeper.session == session);
        self.later.retain(|claim| claim.keeper.session == session);
    }

    /// A partition was taken over: it is claimed as soon as the store answers.
    pub fn handle_claim(&mut self, claim: Claim) {
        self.claims.add(claim);
    }

    /// Checks wait for this partition's claim: it is made before others.
    pub fn handle_hurry(&mut self, partition: PartitionId) {
        self.claims.hurry(partition);
    }

    // What comes back from the store.

    /// What a claim came to; `None`: nobody knows, and asked again, it says the same.
    pub fn handle_claimed(&mut self, claim: &Claim, claimed: Option<&Claimed>, gates: &mut impl Gates, now: Moment) {
        if self.claiming.get(&claim.partition).is_some_and(|under_way| under_way.keeper == claim.keeper) {
            self.claiming.remove(&claim.partition);
        }
        let Some(claimed) = claimed else { return self.later.push(*claim) };
        self.answered = Some(now);
        match claim.read(claimed, self.trust.as_ref()) {
            Says::Found(found) => self.found(claim, found, gates),
            Says::Void(void) => {
                self.news.push_back(News::Claimed(ClaimedAs::Void(void)));
                self.found(claim, void.found(), gates);
            }
            Says::Fenced(by) => {
                let (partition, epoch) = (claim.partition, claim.keeper.epoch);
                gates.fenced(partition, epoch);
                self.news.push_back(News::ClaimLost { partition, epoch, by });
            }
        }
    }

    /// A partition is in this reign's name, and this was kept of it before.
    fn found(&mut self, claim: &Claim, found: Found<'_>, gates: &mut impl Gates) {
        match found {
            Found::Nobody => self.news.push_back(News::Claimed(ClaimedAs::Nobody)),
            Found::Record(_) => self.news.push_back(News::Claimed(ClaimedAs::Record)),
            Found::InDoubt => drop(self.in_doubt.insert(claim.partition, *claim)),
            Found::Nothing => {}
        }
        let (partition, epoch) = (claim.partition, claim.keeper.epoch);
        // Records of an earlier session of this process are another's.
        let bound = self.durability.is_bound() && self.session == Some(claim.keeper.session);
        if let Some(recovered) = gates.found(partition, epoch, found, bound) {
            self.news.push_back(News::Recovered { partition, epoch, recovered });
        }
    }

    /// What a write came to.
    pub fn handle_written(
        &mut self,
        partition: PartitionId,
        write: &Write,
        answer: Result<WriteAnswer, Unanswered>,
        gates: &mut impl Gates,
        now: Moment,
    ) {
        let was_slow = self.writing.remove(&partition).is_some_and(|under_way| under_way.is_slow(now));
        if was_slow || answer == Err(Unanswered::Refused) {
            self.durability.handle_slow(now);
        }
        let epoch = write.keeper.epoch;
        let came = match answer {
            Ok(WriteAnswer::Ok) => Written::Done,
            Ok(WriteAnswer::Lost { keeper: Some(by) }) if is_later(&by, &write.keeper) => {
                self.news.push_back(News::WriteFenced { partition, epoch, by });
                return gates.fenced(partition, epoch);
            }
            Ok(WriteAnswer::Lost { .. }) => {
                self.news.push_back(News::RecordLost { partition });
                Written::Lost
            }
            Err(Unanswered::TooLarge) => return gates.fenced(partition, epoch),
            Err(Unanswered::NotSent) => Written::NotSent,
            // One write of a partition is under way at a time, so a later one is heard of by one that arrived twice.
            Ok(WriteAnswer::Stale) | Err(Unanswered::Unknown | Unanswered::Refused) => Written::Unknown,
        };
        if gates.written(partition, write, came) {
            let (keeper, since) = (write.keeper, now);
            self.claims.add(Claim { partition, keeper, before: None, since, again: true });
        }
    }

    // Time.

    /// When [`handle_timeout`](Dealings::handle_timeout) is next worth calling.
    pub fn poll_timeout(&self) -> Option<Moment> {
        let look = self.waits().then_some(self.look_at);
        look.into_iter().chain(self.durability.poll_timeout()).min()
    }

    /// Whether anything has to be looked at from time to time.
    fn waits(&self) -> bool {
        let nothing = self.claims.is_empty()
            && self.later.is_empty()
            && self.claiming.is_empty()
            && self.writing.is_empty()
            && !self.settles();
        !nothing
    }

    /// Whether everything is being written, so that the log can say that it counts.
    const fn settles(&self) -> bool {
        self.durability.is_bound() && self.durability.held().is_none()
    }

    /// Time has passed: claims that nobody answers, writes that take too long, and whether everything is written.
    pub fn handle_timeout(&mut self, gates: &mut impl Gates, now: Moment) {
        if self.waits() && self.look_at <= now {
            self.look_at = now.saturating_add(LOOK_EVERY);
            self.look(gates, now);
        }
        self.durability.handle_timeout(now);
    }

    fn look(&mut self, gates: &mut impl Gates, now: Moment) {
        for Claim { partition, keeper, .. } in self.overdue(now) {
            if gates.not_found(partition, keeper.epoch) {
                self.news.push_back(News::WaitedInVain { partition });
            }
        }
        std::mem::take(&mut self.later).into_iter().for_each(|claim| self.claims.add(claim));
        if self.writing.values().any(|under_way| under_way.is_slow(now)) {
            self.durability.handle_slow(now);
        }
        if self.settles() {
            self.durability.handle_settled(gates.is_kept_whole(), now);
        }
    }

    /// Claims that checks have waited for long enough.
    fn overdue(&self, now: Moment) -> Vec<Claim> {
        let answers = self.answered.is_some_and(|at| now.since(at) < SILENT_AFTER);
        let patience = if answers { FOUND_WITHIN } else { AWAY_FOR };
        let all = self.claims.iter().chain(&self.later).chain(self.claiming.values());
        all.filter(|claim| now.since(claim.since) >= patience).copied().collect()
    }

    // What is to be done.

    /// What is to be carried out next, until there is nothing.
    pub fn poll_errand(&mut self, gates: &mut impl Gates, now: Moment) -> Option<Errand> {
        self.poll_proposal(gates).or_else(|| match self.store {
            Store::Away => None,
            Store::Up(life) => self.poll_claim(gates).or_else(|| self.poll_write(life, gates, now)),
        })
    }

    /// Something worth telling, until there is nothing.
    pub fn poll_news(&mut self) -> Option<News> {
        self.news.pop_front()
    }

    fn poll_proposal(&mut self, gates: &mut impl Gates) -> Option<Errand> {
        loop {
            match self.durability.poll_step()? {
                Step::Bind => gates.bind_all(),
                Step::Free => gates.free_all(),
                Step::Propose { number, store } => {
                    return self.session.map(|session| Errand::Propose { session, number, store });
                }
            }
        }
    }

    fn poll_claim(&mut self, gates: &mut impl Gates) -> Option<Errand> {
        if !gates.knows_time() {
            return None;
        }
        while self.claiming.len() < CLAIMS_AT_ONCE {
            let claim = self.claims.next()?;
            if let Some(number) = gates.claim_number(claim.partition, claim.keeper) {
                self.claiming.insert(claim.partition, claim);
                return Some(Errand::Claim { claim, number });
            }
        }
        None
    }

    fn poll_write(&mut self, life: Incarnation, gates: &mut impl Gates, now: Moment) -> Option<Errand> {
        if self.durability.bound() != Some(life) || self.writing.len() >= WRITES_AT_ONCE {
            return None;
        }
        let (partition, write) = gates.poll_write()?;
        self.writing.insert(partition, UnderWay { since: now, anew: write.anew });
        Some(Errand::Write { partition, write, life })
    }
}

/// Whether that record is of a later reign, or of another session at the same epoch. An earlier one may lie there after the store
/// lost something, and is claimed again.
fn is_later(by: &Keeper, than: &Keeper) -> bool {
    by.epoch > than.epoch || (by.epoch == than.epoch && by.session != than.session)
}
