//! What this process has in the store and finds there, as `node::keeping` does it: claims of what was taken over, writes that
//! partitions want, and the log's word on whether any of it counts. The order of these is [`Durability`]'s.

use std::collections::{BTreeMap, BTreeSet};

use control::Command;
use limits::{Moment, Span};
use ownership::kept::{
    Claim, Claimed, Durability, Incarnation, Keeper, SILENT_AFTER, Says, Step, Store, Void, Written,
};
use ownership::{Bug, Found, Recovered, SessionId, Write};
use ring::PartitionId;

use super::calls::Purpose;
use super::{Effect, Node};
use crate::world::store::{self, Asking, Heard};
use crate::world::trace::Event;

/// Claims and writes under way at most.
const CLAIMS_AT_ONCE: usize = 16;
const WRITES_AT_ONCE: usize = 32;

/// How long checks wait at most for what the store has; how long where it cannot be asked.
pub(super) const FOUND_WITHIN: Span = Span::from_secs(1);
const AWAY_FOR: Span = Span::from_millis(100);

/// How often a process looks at what waits for too long, while anything waits.
const LOOK_EVERY: Span = Span::from_millis(50);

/// How often the store is asked who it is.
const BEAT_EVERY: Span = Span::from_millis(500);

/// After so many answers in a row that did not come a connection is given up.
const TIMEOUTS_MAX: u32 = 2;

/// Where a process stands with the store.
#[derive(Clone, Debug)]
pub(super) struct Keep {
    /// In which life it is connected with, if it is.
    seen: Option<Incarnation>,
    session: Option<SessionId>,
    durability: Durability,
    /// What is to be claimed, and what was claimed in vain until the next look.
    claims: BTreeMap<PartitionId, Claim>,
    later: Vec<Claim>,
    /// Partitions that have something to write.
    writes: BTreeSet<PartitionId>,
    /// What was asked and not answered.
    asked: BTreeMap<u64, Asked>,
    asked_so_far: u64,
    /// Answers in a row that did not come, and when the last of them was counted.
    timeouts: (u32, Moment),
    answered: Option<Moment>,
    look_at: Moment,
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
            seen: None,
            session: None,
            durability: Durability::new(now),
            claims: BTreeMap::new(),
            later: Vec::new(),
            writes: BTreeSet::new(),
            asked: BTreeMap::new(),
            asked_so_far: 0,
            timeouts: (0, Moment::ZERO),
            answered: None,
            look_at: now,
            beat_at: now,
        }
    }

    /// A copied machine has no connection, and hears no answer.
    pub(super) fn copied(&self) -> Keep {
        Keep { seen: None, asked: BTreeMap::new(), ..self.clone() }
    }

    pub(super) fn poll_timeout(&self) -> Option<Moment> {
        let over = self.asked.values().map(|asked| asked.until).min();
        let look = self.waits().then_some(self.look_at);
        let beat = self.seen.map(|_| self.beat_at);
        [over, look, beat, self.durability.poll_timeout()].into_iter().flatten().min()
    }

    /// Whether anything has to be looked at from time to time.
    fn waits(&self) -> bool {
        let waits = |asked: &Asked| !matches!(asked.what, What::Who);
        self.settles() || !self.claims.is_empty() || !self.later.is_empty() || self.asked.values().any(waits)
    }

    /// Whether everything is being written, so that the log can say that it counts.
    fn settles(&self) -> bool {
        self.durability.is_bound() && self.durability.held().is_none()
    }

    fn under_way(&self, of: impl Fn(&What) -> bool) -> usize {
        self.asked.values().filter(|asked| of(&asked.what)).count()
    }

    fn is_claiming(&self) -> bool {
        self.under_way(|what| matches!(what, What::Claim(_))) > 0
    }

    fn is_writing(&self) -> bool {
        self.under_way(|what| matches!(what, What::Write(..))) > 0
    }
}

impl Node {
    /// A partition was taken over: it is claimed as soon as the store answers.
    pub(super) fn want_claim(&mut self, claim: Claim) {
        let Some(keep) = &mut self.keep else { return };
        let known = keep.claims.get(&claim.partition);
        if known.is_none_or(|known| known.keeper.epoch <= claim.keeper.epoch) {
            keep.claims.insert(claim.partition, claim);
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
        keep.durability.handle_store(seen(life), now);
        if life.is_none() {
            self.give_up_asked(|_| true);
        }
    }

    /// The log has moved: another session of this process, another word on where its records count.
    pub(super) fn keep_by_the_log(&mut self) {
        let (own, now) = (self.mine, self.at.boot);
        let live = |session| self.cluster()?.sessions.live.get(&session).map(|live| (session, live.kept));
        let mine = own.and_then(live);
        let (Some(keep), Some((session, kept))) = (&mut self.keep, mine) else { return };
        if keep.session != Some(session) {
            keep.session = Some(session);
            keep.durability = Durability::new(now);
            keep.claims.retain(|_, claim| claim.keeper.session == session);
            keep.durability.handle_store(seen(keep.seen), now);
        }
        keep.durability.handle_log(kept.number, kept.store, now);
    }

    /// Carries out what is due. Says whether there was anything.
    pub(super) fn go_on_keeping(&mut self) -> bool {
        if self.keep.is_none() {
            return false;
        }
        self.give_up_late()
            | self.look_after_what_waits()
            | self.take_steps()
            | self.ask_for_claims()
            | self.send_writes()
    }

    fn take_steps(&mut self) -> bool {
        let mut busy = false;
        while let Some(step) = self.keep.as_mut().and_then(|keep| keep.durability.poll_step()) {
            busy = true;
            match step {
                Step::Bind => self.for_all_gates(|node, partition| {
                    node.owner.gate_mut(partition).bind();
                    node.note_wants(partition);
                }),
                Step::Free => self.for_all_gates(|node, partition| node.owner.gate_mut(partition).free()),
                Step::Propose { number, store } => {
                    let Some(session) = self.keep.as_ref().and_then(|keep| keep.session) else { continue };
                    self.propose(Purpose::Keep(store.is_none()), Command::Keep { session, number, store });
                }
            }
        }
        busy
    }

    fn for_all_gates(&mut self, act: impl Fn(&mut Node, PartitionId)) {
        (0..self.owner.gates()).for_each(|number| act(self, PartitionId(number as u16)));
    }

    /// Nothing is claimed before cluster time is known: windows that go by it could not be taken in.
    fn ask_for_claims(&mut self) -> bool {
        let mut busy = false;
        while let Some(claim) = self.next_claim() {
            let gate = self.owner.gate(claim.partition);
            let reigns = gate.epoch() == claim.keeper.epoch && gate.session() == Some(claim.keeper.session);
            if reigns {
                let number = gate.claim_number();
                self.ask_store(What::Claim(claim), Asking::Claim(claim.partition, claim.keeper, number));
                busy = true;
            }
        }
        busy
    }

    fn next_claim(&mut self) -> Option<Claim> {
        let knows_time = self.now().wall.is_some();
        let keep = self.keep.as_mut().filter(|keep| knows_time && keep.seen.is_some())?;
        if keep.under_way(|what| matches!(what, What::Claim(_))) >= CLAIMS_AT_ONCE {
            return None;
        }
        keep.claims.pop_first().map(|(_, claim)| claim)
    }

    fn send_writes(&mut self) -> bool {
        let mut busy = false;
        while let Some(partition) = self.next_write() {
            let now = self.now();
            if let Some(write) = self.owner.gate_mut(partition).poll_write(&*self.catalogue, now) {
                let write = Box::new(write);
                self.ask_store(What::Write(partition, write.clone()), Asking::Write(partition, write));
                busy = true;
            }
        }
        busy
    }

    fn next_write(&mut self) -> Option<PartitionId> {
        let keep = self.keep.as_mut()?;
        let relies = keep.seen.is_some() && keep.durability.bound() == keep.seen;
        if !relies || keep.under_way(|what| matches!(what, What::Write(..))) >= WRITES_AT_ONCE {
            return None;
        }
        keep.writes.pop_first()
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
        let Some(asked) = keep.asked.remove(&number) else { return };
        if !matches!(heard, Heard::Away) {
            keep.timeouts = (0, now);
        }
        match (asked.what, heard) {
            (What::Who, Heard::Who(life)) if keep.seen != Some(life) => {
                keep.seen = Some(life);
                keep.durability.handle_store(Store::Up(life), now);
            }
            (What::Claim(claim), Heard::Claimed(claimed)) => {
                keep.answered = Some(now);
                self.hear_claimed(&claim, &claimed);
            }
            (What::Write(partition, write), Heard::Written(written)) => {
                if is_slow(asked.since, &write, now) {
                    keep.durability.handle_slow(now);
                }
                self.hear_written(partition, &write, written);
            }
            (What::Claim(claim), _) => keep.later.push(claim),
            (What::Write(partition, write), _) => self.heard_of_write(partition, &write, Written::NotSent),
            (What::Who, _) => {}
        }
    }

    fn hear_claimed(&mut self, claim: &Claim, claimed: &Claimed) {
        let says = claim.read(claimed, None);
        if let (Says::Found(Found::Record(record)), Claimed::Taken { by, .. }) = (says, claimed) {
            let whole = record.complete && record.keys.len() as u64 == record.count && record.unreadable == 0;
            let Claim { partition, keeper, .. } = *claim;
            self.trace(Event::TookIn { partition, keeper, by: *by, of: record.keeper, whole });
        }
        match says {
            Says::Found(found) => self.take_in(claim, found),
            Says::Void(void) => {
                self.effect(Effect::Count(word(&void)));
                self.take_in(claim, void.found());
            }
            Says::Fenced(_) => {
                self.effect(Effect::Count("claims that came too late"));
                self.owner.gate_mut(claim.partition).handle_fenced(claim.keeper.epoch);
            }
        }
    }

    fn take_in(&mut self, claim: &Claim, found: Found<'_>) {
        let (partition, now) = (claim.partition, self.now());
        let keep = self.keep.as_ref();
        let bound = keep.is_some_and(|keep| keep.durability.is_bound() && keep.session == Some(claim.keeper.session));
        let gate = self.owner.gate_mut(partition);
        let recovered = gate.handle_found(claim.keeper.epoch, found, bound, &*self.catalogue, now);
        let (node, epoch) = (self.machine, self.owner.gate(partition).epoch());
        if let Some(recovered) = recovered {
            self.effect(Effect::Count(counted(recovered)));
            self.trace(Event::Recovered { node, partition, epoch, recovered });
        }
        self.note_wants(partition);
    }

    fn hear_written(&mut self, partition: PartitionId, write: &Write, written: store::Written) {
        let came = match written {
            store::Written::Ok => Written::Done,
            store::Written::Lost(by) => {
                if by.is_some_and(|by| is_later(&by, &write.keeper)) {
                    self.effect(Effect::Count("writes that were fenced"));
                    return self.owner.gate_mut(partition).handle_fenced(write.keeper.epoch);
                }
                self.effect(Effect::Count("records lost by the store"));
                Written::Lost
            }
            store::Written::Stale => Written::Unknown,
        };
        self.heard_of_write(partition, write, came);
    }

    fn heard_of_write(&mut self, partition: PartitionId, write: &Write, came: Written) {
        let keeper = write.keeper;
        let gate = self.owner.gate_mut(partition);
        gate.handle_written(keeper.epoch, write.seq, came);
        let reigns = gate.epoch() == keeper.epoch && gate.session() == Some(keeper.session);
        if reigns && gate.wants_claim() {
            let since = self.at.boot;
            self.want_claim(Claim { partition, keeper, before: None, since, again: true });
        }
        self.note_wants(partition);
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
        let numbers: Vec<u64> =
            keep.asked.iter().filter(|(_, asked)| which(asked)).map(|(number, _)| *number).collect();
        for number in numbers {
            let asked = self.keep.as_mut().and_then(|keep| keep.asked.remove(&number));
            match asked.map(|asked| asked.what) {
                Some(What::Claim(claim)) => {
                    self.keep.as_mut().into_iter().for_each(|keep| keep.later.push(claim));
                }
                Some(What::Write(partition, write)) => self.never_heard_of(partition, &write),
                Some(What::Who) | None => {}
            }
        }
    }

    fn never_heard_of(&mut self, partition: PartitionId, write: &Write) {
        let now = self.at.boot;
        if let Some(keep) = &mut self.keep {
            keep.durability.handle_slow(now);
        }
        self.heard_of_write(partition, write, Written::Unknown);
    }

    /// Time has passed: claims that nobody answers, writes that take too long, and whether everything is written.
    fn look_after_what_waits(&mut self) -> bool {
        let now = self.at.boot;
        let settles = self.keep.as_ref().is_some_and(|keep| keep.settles() && keep.look_at <= now);
        let settled = settles.then(|| self.is_kept_whole());
        let Some(keep) = &mut self.keep else { return false };
        let beats = keep.seen.is_some() && keep.beat_at <= now;
        let looks = keep.waits() && keep.look_at <= now;
        if beats {
            keep.beat_at = now.saturating_add(BEAT_EVERY);
        }
        if looks {
            keep.look_at = now.saturating_add(LOOK_EVERY);
            for claim in std::mem::take(&mut keep.later) {
                keep.claims.entry(claim.partition).or_insert(claim);
            }
            let slow = |asked: &Asked| matches!(&asked.what, What::Write(_, write) if is_slow(asked.since, write, now));
            if keep.asked.values().any(slow) {
                keep.durability.handle_slow(now);
            }
            settled.into_iter().for_each(|settled| keep.durability.handle_settled(settled, now));
        }
        if keep.durability.poll_timeout().is_some_and(|at| at <= now) {
            keep.durability.handle_timeout(now);
        }
        if beats {
            self.ask_store(What::Who, Asking::Who);
        }
        if looks {
            self.tell_who_waits_in_vain();
        }
        beats || looks
    }

    fn is_kept_whole(&self) -> bool {
        let all = (0..self.owner.gates()).map(|number| self.owner.gate(PartitionId(number as u16)));
        match Bug::PartitionSpeaksForAll.is_here() {
            true => all.filter(|gate| gate.is_active()).any(ownership::Partition::is_kept_whole),
            // Whoever has given up what it owned has nothing to write, and knows nothing of what is written.
            false => !self.owner.is_sealed() && all.into_iter().all(ownership::Partition::is_kept_whole),
        }
    }

    /// Checks of a partition wait no longer for what the store has of it.
    fn tell_who_waits_in_vain(&mut self) {
        let now = self.at.boot;
        let Some(keep) = &self.keep else { return };
        let answers = keep.answered.is_some_and(|at| now.since(at) < SILENT_AFTER);
        let patience = if answers { FOUND_WITHIN } else { AWAY_FOR };
        let under_way = keep.asked.values().filter_map(|asked| match &asked.what {
            What::Claim(claim) => Some(claim),
            What::Who | What::Write(..) => None,
        });
        let all = keep.claims.values().chain(&keep.later).chain(under_way);
        let late: Vec<Claim> = all.filter(|claim| now.since(claim.since) >= patience).copied().collect();
        for claim in late {
            if self.owner.gate_mut(claim.partition).handle_not_found(claim.keeper.epoch) {
                self.effect(Effect::Count("takeovers that went on without the store"));
            }
        }
    }

    /// Whether a claim of this process is under way.
    pub(crate) fn is_claiming(&self) -> bool {
        self.keep.as_ref().is_some_and(Keep::is_claiming)
    }

    /// Whether a write of this process is under way.
    pub(crate) fn is_writing(&self) -> bool {
        self.keep.as_ref().is_some_and(Keep::is_writing)
    }
}

const fn seen(life: Option<Incarnation>) -> Store {
    match life {
        Some(life) => Store::Up(life),
        None => Store::Away,
    }
}

/// How long an answer may take.
fn patience(what: &What) -> Span {
    match what {
        What::Who => BEAT_EVERY,
        What::Claim(_) => Span::from_secs(1),
        What::Write(_, write) if write.anew => Span::from_secs(1),
        What::Write(..) => SILENT_AFTER,
    }
}

fn is_slow(since: Moment, write: &Write, now: Moment) -> bool {
    let patience = if write.anew { Span::from_secs(1) } else { SILENT_AFTER };
    now.since(since) >= patience
}

fn is_later(by: &Keeper, than: &Keeper) -> bool {
    by.epoch > than.epoch || (by.epoch == than.epoch && by.session != than.session)
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
