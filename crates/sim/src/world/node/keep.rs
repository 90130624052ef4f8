//! This process's connection with the store, as the crate `store` has it, and what goes over it, which is for the machine of
//! [`Dealings`] to say.

use std::collections::{BTreeMap, BTreeSet};

use control::Command;
use limits::{Moment, Now, Span};
use ownership::kept::{
    Claim, Claimed, ClaimedAs, Dealings, Errand, Incarnation, Keeper, News, REWRITTEN_WITHIN, SILENT_AFTER, Says,
    Store, Unanswered, Void, WriteAnswer, Written,
};
use ownership::{Bug, Epoch, Found, Partition, Recovered, Write};
use policy::Catalogue;
use ring::PartitionId;

use super::calls::Purpose;
use super::owner::Owner;
use super::{Effect, Node};
use crate::world::store::{Asking, Heard};
use crate::world::trace::Event;

/// How often the store is asked who it is.
const BEAT_EVERY: Span = Span::from_millis(500);

/// How long a claim may take.
const CLAIMED_WITHIN: Span = Span::from_secs(1);

/// After so many answers in a row that did not come a connection is given up.
const TIMEOUTS_MAX: u32 = 2;

/// Where a process stands with the store.
#[derive(Clone, Debug)]
pub(super) struct Keep {
    dealings: Dealings,
    /// In which life it is connected with, if it is.
    seen: Option<Incarnation>,
    /// Partitions that have something to write.
    writes: BTreeSet<PartitionId>,
    /// What was asked and not answered.
    asked: BTreeMap<u64, Asked>,
    asked_so_far: u64,
    /// Answers in a row that did not come, and when the last of them was counted.
    timeouts: (u32, Moment),
    beat_at: Moment,
}

#[derive(Clone, Debug)]
struct Asked {
    what: What,
    since: Moment,
    until: Moment,
}

#[derive(Clone, Debug)]
enum What {
    Who,
    Claim(Claim),
    Write(PartitionId, Box<Write>),
}

impl Keep {
    pub(super) fn new(now: Moment) -> Keep {
        Keep {
            dealings: Dealings::new(now),
            seen: None,
            writes: BTreeSet::new(),
            asked: BTreeMap::new(),
            asked_so_far: 0,
            timeouts: (0, Moment::ZERO),
            beat_at: now,
        }
    }

    pub(super) fn poll_timeout(&self) -> Option<Moment> {
        let over = self.asked.values().map(|asked| asked.until).min();
        let beat = self.seen.map(|_| self.beat_at);
        [over, beat, self.dealings.poll_timeout()].into_iter().flatten().min()
    }
}

impl Node {
    /// A partition was taken over: it is claimed as soon as the store answers.
    pub(super) fn want_claim(&mut self, claim: Claim) {
        if let Some(keep) = &mut self.keep {
            keep.dealings.handle_claim(claim);
        }
    }

    /// A partition may have something to write.
    pub(super) fn note_wants(&mut self, partition: PartitionId) {
        if let Some(keep) = &mut self.keep
            && self.owner.gate(partition).wants_write()
        {
            keep.writes.insert(partition);
        }
    }

    /// The connection stands, or is gone.
    pub(super) fn store_seen(&mut self, life: Option<Incarnation>) {
        let now = self.at.boot;
        let Some(keep) = &mut self.keep else { return };
        (keep.seen, keep.timeouts) = (life, (0, now));
        keep.beat_at = now.saturating_add(BEAT_EVERY);
        keep.dealings.handle_store(life.map_or(Store::Away, Store::Up), now);
        if life.is_none() {
            self.give_up_asked(|_| true);
        }
    }

    /// The log has moved: another session of this process, another word on where its records count, an operator's word.
    pub(super) fn keep_by_the_log(&mut self) {
        let (own, now) = (self.mine, self.at.boot);
        let Some(cluster) = self.cluster() else { return };
        let live =
            |session| cluster.sessions.live.get(&session).map(|live| (session, live.kept.number, live.kept.store));
        let (mine, trust) = (own.and_then(live), cluster.trust);
        if let Some(keep) = &mut self.keep {
            keep.dealings.handle_log(mine, trust, now);
        }
    }

    /// Carries out what is due. Says whether there was anything.
    pub(super) fn go_on_keeping(&mut self) -> bool {
        self.keep.is_some() && (self.give_up_late() | self.beat() | self.look() | self.run_errands())
    }

    /// What the machine makes of something, and what it has to tell.
    fn deal<T>(&mut self, act: impl FnOnce(&mut Dealings, &mut Gates<'_>, Moment) -> T) -> Option<T> {
        let now = self.now();
        let Keep { dealings, writes, .. } = self.keep.as_mut()?;
        let mut gates = Gates { owner: &mut self.owner, writes, catalogue: &self.catalogue, now };
        let made = act(dealings, &mut gates, now.moment);
        while let Some(news) = self.keep.as_mut().and_then(|keep| keep.dealings.poll_news()) {
            self.heed(news);
        }
        Some(made)
    }

    fn heed(&mut self, news: News) {
        let counted = match news {
            News::Claimed(ClaimedAs::Nobody | ClaimedAs::Record) => return,
            News::Claimed(ClaimedAs::Void(void)) => word(&void),
            News::Recovered { partition, epoch, recovered } => {
                self.trace(Event::Recovered { node: self.machine, partition, epoch, recovered });
                counted(recovered)
            }
            News::WaitedInVain { .. } => "takeovers that went on without the store",
            News::ClaimLost { .. } => "claims that came too late",
            News::WriteFenced { .. } => "writes that were fenced",
            News::RecordLost { .. } => "records lost by the store",
        };
        self.effect(Effect::Count(counted));
    }

    fn run_errands(&mut self) -> bool {
        let mut busy = false;
        while let Some(errand) = self.deal(|dealings, gates, now| dealings.poll_errand(gates, now)).flatten() {
            busy = true;
            match errand {
                Errand::Propose { session, number, store } => {
                    self.propose(Purpose::Keep(store.is_none()), Command::Keep { session, number, store });
                }
                Errand::Claim { claim, number } => {
                    self.ask_store(What::Claim(claim), Asking::Claim(claim.partition, claim.keeper, number));
                }
                Errand::Write { partition, write, .. } => {
                    let write = Box::new(write);
                    self.ask_store(What::Write(partition, write.clone()), Asking::Write(partition, write));
                }
            }
        }
        busy
    }

    /// Time has passed for what waits.
    fn look(&mut self) -> bool {
        let now = self.at.boot;
        let is_due = |keep: &Keep| keep.dealings.poll_timeout().is_some_and(|at| at <= now);
        if !self.keep.as_ref().is_some_and(is_due) {
            return false;
        }
        self.deal(|dealings, gates, now| dealings.handle_timeout(gates, now));
        true
    }

    fn beat(&mut self) -> bool {
        let now = self.at.boot;
        let Some(keep) = self.keep.as_mut().filter(|keep| keep.seen.is_some() && keep.beat_at <= now) else {
            return false;
        };
        keep.beat_at = now.saturating_add(BEAT_EVERY);
        self.ask_store(What::Who, Asking::Who);
        true
    }

    fn ask_store(&mut self, what: What, asking: Asking) {
        let now = self.at.boot;
        let Some(keep) = &mut self.keep else { return };
        keep.asked_so_far += 1;
        let until = now.saturating_add(patience(&what));
        keep.asked.insert(keep.asked_so_far, Asked { what, since: now, until });
        let number = keep.asked_so_far;
        self.effect(Effect::AskStore(number, asking));
    }

    /// The store answers.
    pub(super) fn store_says(&mut self, number: u64, heard: Heard) {
        let now = self.at.boot;
        let Some(keep) = &mut self.keep else { return };
        let Some(Asked { what, .. }) = keep.asked.remove(&number) else { return };
        if !matches!(heard, Heard::Away) {
            keep.timeouts = (0, now);
        }
        match (what, heard) {
            (What::Who, Heard::Who(life)) if keep.seen != Some(life) => {
                keep.seen = Some(life);
                keep.dealings.handle_store(Store::Up(life), now);
            }
            (What::Who, _) => {}
            (What::Claim(claim), Heard::Claimed(claimed)) => self.claimed(&claim, Some(&claimed)),
            (What::Claim(claim), _) => self.claimed(&claim, None),
            (What::Write(partition, write), Heard::Written(answer)) => self.written(partition, &write, Ok(answer)),
            (What::Write(partition, write), _) => self.written(partition, &write, Err(Unanswered::NotSent)),
        }
    }

    fn claimed(&mut self, claim: &Claim, claimed: Option<&Claimed>) {
        if let Some(claimed @ Claimed::Taken { by, .. }) = claimed {
            let trust = self.keep.as_ref().and_then(|keep| keep.dealings.trust());
            if let Says::Found(Found::Record(record)) = claim.read(claimed, trust) {
                let whole = record.complete && record.keys.len() as u64 == record.count && record.unreadable == 0;
                let Claim { partition, keeper, .. } = *claim;
                self.trace(Event::TookIn { partition, keeper, by: *by, of: record.keeper, whole });
            }
        }
        self.deal(|dealings, gates, now| dealings.handle_claimed(claim, claimed, gates, now));
    }

    fn written(&mut self, partition: PartitionId, write: &Write, answer: Result<WriteAnswer, Unanswered>) {
        self.deal(|dealings, gates, now| dealings.handle_written(partition, write, answer, gates, now));
    }

    /// What was asked and is not answered in time. A connection on which that happens again and again is given up.
    fn give_up_late(&mut self) -> bool {
        let now = self.at.boot;
        let Some(keep) = &mut self.keep else { return false };
        let over = |asked: &Asked| asked.until <= now;
        let counted_until = keep.timeouts.1;
        // Those that waited at the same time are one silence.
        let silent = keep.asked.values().filter(|asked| over(asked)).any(|asked| asked.since >= counted_until);
        if !keep.asked.values().any(over) {
            return false;
        }
        if silent {
            keep.timeouts = (keep.timeouts.0 + 1, now);
        }
        let hangs_up = keep.timeouts.0 >= TIMEOUTS_MAX;
        self.give_up_asked(over);
        if hangs_up {
            self.effect(Effect::HangUp);
            self.store_seen(None);
        }
        true
    }

    /// Nobody knows what became of these.
    fn give_up_asked(&mut self, which: impl Fn(&Asked) -> bool) {
        let Some(keep) = &mut self.keep else { return };
        let given_up: Vec<Asked> = keep.asked.extract_if(.., |_, asked| which(asked)).map(|(_, asked)| asked).collect();
        for Asked { what, .. } in given_up {
            match what {
                What::Who => {}
                What::Claim(claim) => self.claimed(&claim, None),
                What::Write(partition, write) => self.written(partition, &write, Err(Unanswered::Unknown)),
            }
        }
    }

    /// Whether a claim of this process is under way.
    pub(crate) fn is_claiming(&self) -> bool {
        self.keep.as_ref().is_some_and(|keep| keep.dealings.is_claiming())
    }

    /// Whether a write of this process is under way.
    pub(crate) fn is_writing(&self) -> bool {
        self.keep.as_ref().is_some_and(|keep| keep.dealings.is_writing())
    }
}

/// This process's partitions, and which of them have something to write.
struct Gates<'a> {
    owner: &'a mut Owner,
    writes: &'a mut BTreeSet<PartitionId>,
    catalogue: &'a Catalogue,
    now: Now,
}

impl Gates<'_> {
    fn note_wants(&mut self, partition: PartitionId) {
        if self.owner.gate(partition).wants_write() {
            self.writes.insert(partition);
        }
    }

    fn all(&self) -> impl Iterator<Item = PartitionId> + use<> {
        (0..self.owner.gates()).map(|number| PartitionId(number as u16))
    }
}

impl ownership::kept::Gates for Gates<'_> {
    fn knows_time(&self) -> bool {
        self.now.wall.is_some()
    }

    fn bind_all(&mut self) {
        for partition in self.all() {
            self.owner.gate_mut(partition).bind();
            self.note_wants(partition);
        }
    }

    fn free_all(&mut self) {
        self.all().for_each(|partition| self.owner.gate_mut(partition).free());
    }

    fn is_kept_whole(&mut self) -> bool {
        let mut all = self.all().map(|partition| self.owner.gate(partition));
        match Bug::PartitionSpeaksForAll.is_here() {
            true => all.any(|gate| gate.is_active() && gate.is_kept_whole()),
            false => !self.owner.is_sealed() && all.all(Partition::is_kept_whole),
        }
    }

    fn claim_number(&mut self, partition: PartitionId, keeper: Keeper) -> Option<u64> {
        let gate = self.owner.gate(partition);
        let reigns = gate.epoch() == keeper.epoch && gate.session() == Some(keeper.session);
        reigns.then(|| gate.claim_number())
    }

    fn found(&mut self, partition: PartitionId, epoch: Epoch, found: Found<'_>, bound: bool) -> Option<Recovered> {
        let gate = self.owner.gate_mut(partition);
        let recovered = gate.handle_found(epoch, found, bound, self.catalogue, self.now);
        self.note_wants(partition);
        recovered
    }

    fn not_found(&mut self, partition: PartitionId, epoch: Epoch) -> bool {
        self.owner.gate_mut(partition).handle_not_found(epoch)
    }

    fn fenced(&mut self, partition: PartitionId, epoch: Epoch) {
        self.owner.gate_mut(partition).handle_fenced(epoch);
    }

    fn poll_write(&mut self) -> Option<(PartitionId, Write)> {
        while let Some(partition) = self.writes.pop_first() {
            if let Some(write) = self.owner.gate_mut(partition).poll_write(self.catalogue, self.now) {
                return Some((partition, write));
            }
        }
        None
    }

    fn written(&mut self, partition: PartitionId, write: &Write, written: Written) -> bool {
        let keeper = write.keeper;
        let gate = self.owner.gate_mut(partition);
        gate.handle_written(keeper.epoch, write.seq, written);
        let reigns = gate.epoch() == keeper.epoch && gate.session() == Some(keeper.session);
        let wants_claim = reigns && gate.wants_claim();
        self.note_wants(partition);
        wants_claim
    }
}

/// How long an answer may take.
const fn patience(what: &What) -> Span {
    match what {
        What::Who => BEAT_EVERY,
        What::Claim(_) => CLAIMED_WITHIN,
        What::Write(_, write) if write.anew => REWRITTEN_WITHIN,
        What::Write(..) => SILENT_AFTER,
    }
}

const fn word(void: &Void) -> &'static str {
    match void {
        Void::Nothing => "records void: nothing",
        Void::OfAnother => "records void: of another",
        Void::Volatile => "records void: volatile",
        Void::OtherLife { .. } => "records void: another life",
        Void::Incomplete => "records void: incomplete",
        Void::Damaged => "records void: damaged",
    }
}

const fn counted(recovered: Recovered) -> &'static str {
    match recovered {
        Recovered::Fresh => "takeovers from nobody",
        Recovered::Allowance { .. } => "takeovers by what was kept",
        Recovered::WorstCase => "takeovers by the worst case, with a store",
    }
}
