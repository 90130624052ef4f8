//! S10, write-ahead: as long as the log says that a session's records count in some life of the store, and the store has a
//! whole record in that session's name there, no key was used further than the record allows: by no more than its
//! allowance since it was written, or, where nothing is written of it, than its implicit part. Whether anybody dies and
//! takes over does not matter: whoever did would be told too little.

use std::collections::BTreeMap;

use limits::{Algorithm, Keeping, Moment, Shape};
use ownership::kept::{Incarnation, Keeper};
use ownership::{CheckId, SessionId};
use ring::PartitionId;

use super::story::{Key, Spell, Story};
use super::{Failure, Findings};
use crate::world::Fault;
use crate::world::trace::{Decided, Event, KeyKept, LegSeen};

pub(super) fn judge(story: &Story<'_>, findings: &mut Findings) -> Result<(), Failure> {
    let mut books = Books { policies: policies(story), ..Books::default() };
    for entry in story.trace {
        if let Event::Counts { session, store } = &entry.event {
            books.counts.insert(*session, *store);
            findings.count("words on where records count", 1);
            books.all_of(*session, entry.at, findings)?;
        } else if let Event::Decided(decided) = &entry.event {
            books.spend(story, decided, entry.at, findings)?;
        } else {
            books.take_note(&entry.event);
        }
    }
    Ok(())
}

/// From when until when policies were applied.
fn policies(story: &Story<'_>) -> Vec<(Moment, Moment)> {
    let applies = |spell: &&Spell| matches!(story.fault(spell), Some(Fault::Policy { .. }));
    story.spells.iter().filter(applies).map(|spell| (spell.began, spell.ended.unwrap_or(Moment::MAX))).collect()
}

/// What the log says, what the store has, and what was used.
#[derive(Default)]
struct Books {
    policies: Vec<(Moment, Moment)>,
    counts: BTreeMap<SessionId, Option<Incarnation>>,
    records: BTreeMap<(Incarnation, PartitionId), Record>,
    used: BTreeMap<(PartitionId, Keeper), BTreeMap<Key, Used>>,
}

/// What the store has of a partition.
struct Record {
    keeper: Keeper,
    is_whole: bool,
    /// What each key may be used by, and since when.
    keys: BTreeMap<Key, (Moment, u64)>,
}

/// What one owner admitted of one key.
struct Used {
    charges: Vec<Charge>,
    /// By which numbers; `None` once they were not always the same.
    shape: Option<Shape>,
}

#[derive(Clone, Copy)]
struct Charge {
    at: Moment,
    cost: u64,
    id: CheckId,
    /// Whether it was taken back. What a record allows it counts against all the same.
    undone: bool,
}

impl Record {
    const fn claimed(keeper: Keeper) -> Record {
        Record { keeper, is_whole: false, keys: BTreeMap::new() }
    }

    fn write(&mut self, keeper: Keeper, anew: bool, made: Moment, keys: &[KeyKept]) {
        self.keeper = keeper;
        self.is_whole = true;
        if anew {
            self.keys.clear();
        }
        self.keys.extend(keys.iter().map(|kept| ((kept.limit, kept.key), (made, kept.allowance))));
    }
}

impl Books {
    fn take_note(&mut self, event: &Event) {
        if let Event::Ended { session, .. } = event {
            self.counts.remove(session);
        } else if let Event::Claimed { life, partition, keeper } = event {
            self.records.insert((*life, *partition), Record::claimed(*keeper));
        } else if let Event::Kept { life, partition, keeper, anew, made, keys } = event {
            let record = self.records.entry((*life, *partition)).or_insert_with(|| Record::claimed(*keeper));
            record.write(*keeper, *anew, *made, keys);
        } else if let Event::Undone { partition, epoch, id, .. } = event {
            let here = |of: &(PartitionId, Keeper)| of.0 == *partition && of.1.epoch == *epoch;
            let used = self.used.iter_mut().filter(|(of, _)| here(of)).flat_map(|(_, keys)| keys.values_mut());
            let charges = used.flat_map(|used| &mut used.charges).filter(|charge| charge.id == *id);
            charges.for_each(|charge| charge.undone = true);
        } else if let Event::Flushed { life } = event {
            self.records.retain(|(of, _), _| of != life);
        }
    }

    fn spend(
        &mut self,
        story: &Story<'_>,
        decided: &Decided,
        at: Moment,
        findings: &mut Findings,
    ) -> Result<(), Failure> {
        let keeper = Keeper { epoch: decided.epoch, session: decided.session };
        // A copy decides beside its original, which knows nothing of it (row 17).
        let charges = decided.allowed && !decided.replayed;
        if !charges || story.had_a_copy(story.original(decided.node), Moment::ZERO, at) {
            return Ok(());
        }
        let kept = |leg: &&LegSeen| !leg.shadow && leg.cost > 0 && leg.shape.keeping() == Keeping::Most;
        for leg in decided.legs.iter().filter(kept) {
            let key = (leg.limit, leg.key);
            let used = self.used.entry((decided.partition, keeper)).or_default();
            let used = used.entry(key).or_insert(Used { charges: Vec::new(), shape: Some(leg.shape) });
            used.charges.push(Charge { at, cost: leg.cost, id: decided.id, undone: false });
            used.shape = used.shape.filter(|shape| *shape == leg.shape);
            self.is_allowed(decided.partition, keeper, &key, at, findings)?;
        }
        Ok(())
    }

    /// All that a session has used, when it is said that its records count.
    fn all_of(&self, session: SessionId, at: Moment, findings: &mut Findings) -> Result<(), Failure> {
        let of_session = self.used.iter().filter(|((_, keeper), _)| keeper.session == session);
        for ((partition, keeper), keys) in of_session {
            keys.keys().try_for_each(|key| self.is_allowed(*partition, *keeper, key, at, findings))?;
        }
        Ok(())
    }

    /// Whether a limit's numbers, or what it does when nobody can count, may have changed since its key was first used.
    fn changed_since(&self, used: &Used, now: Moment) -> bool {
        let first = used.charges.first().map_or(Moment::ZERO, |charge| charge.at);
        self.policies.iter().any(|(began, ended)| *began <= now && *ended >= first)
    }

    fn is_allowed(
        &self,
        partition: PartitionId,
        keeper: Keeper,
        key: &Key,
        at: Moment,
        findings: &mut Findings,
    ) -> Result<(), Failure> {
        let Some(life) = self.counts.get(&keeper.session).copied().flatten() else { return Ok(()) };
        let record = self.records.get(&(life, partition));
        let Some(record) = record.filter(|record| record.is_whole && record.keeper == keeper) else { return Ok(()) };
        let used = &self.used[&(partition, keeper)][key];
        let since = |since: Moment| {
            used.charges.iter().filter(|charge| charge.at > since).map(|charge| charge.cost).sum::<u64>()
        };
        let (spent, allowed) = match (record.keys.get(key), used.shape) {
            (Some((made, allowance)), _) => (since(*made), *allowance),
            (None, Some(shape)) if !self.changed_since(used, at) => (used.at_least(&shape, at), shape.implicit()),
            // What is implicit under some numbers is not under others.
            (None, _) => return Ok(()),
        };
        findings.count("charges held against what is kept", 1);
        if spent > allowed {
            let words = format!(
                "{keeper:?} used {spent} of {key:?} in {partition:?} since it was written, and {allowed} are allowed for in {life:?}"
            );
            return Err(Failure::new("S10", at, words));
        }
        Ok(())
    }
}

impl Used {
    /// What is used for certain: all of it where nothing comes back while a story lasts, and of a bucket what cannot have
    /// drained, by a clock that runs fast.
    fn at_least(&self, shape: &Shape, now: Moment) -> u64 {
        let stands = || self.charges.iter().filter(|charge| !charge.undone);
        let spent: u64 = stands().map(|charge| charge.cost).sum();
        let (Some(first), Some(rate)) = (stands().next(), shape.rate) else { return 0 };
        match shape.algorithm {
            Algorithm::SlidingLog { .. } => spent,
            Algorithm::TokenBucket { .. } => {
                let passed = u128::from(now.since(first.at).scaled(11, 10).as_nanos());
                let drained = (passed * u128::from(rate.amount())).div_ceil(u128::from(rate.period().as_nanos()));
                spent.saturating_sub(u64::try_from(drained).unwrap_or(u64::MAX))
            }
            Algorithm::FixedWindow { .. }
            | Algorithm::SlidingCounter
            | Algorithm::Calendar { .. }
            | Algorithm::Concurrency { .. } => 0,
        }
    }
}
