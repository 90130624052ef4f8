//! What is asked of a history once all is quiet: was any limit over in any window, does every admission stand on every
//! limit, is every charge there for a reason, and do the owners' tables say what the ledger says?

use std::collections::{BTreeMap, BTreeSet};
use std::ops::{AddAssign, RangeInclusive};

use limits::{Now, Usage, Used};
use ringfence_ownership::ingress::{Outcome, Said};
use ringfence_ownership::{Act, CheckId};

use crate::asking::{Errand, Group, Told};
use crate::ledger::{Charge, Entry, Fate, HORIZON_MS, Lease, Reign, Violation};
use crate::scene::Limit;
use crate::used::{excess, windows};
use crate::world::World;

/// Units on the accounts of all owners that decide at the end, by what they are there for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Balance {
    pub charged: u64,
    /// Charged for checks that were admitted.
    pub admitted: u64,
    /// The cancel was lost.
    pub lost: u64,
    /// Others were told of the charge, and refused too.
    pub told_others: u64,
    /// A message came after the question was forgotten.
    pub late: u64,
}

/// Why a charge stands that nobody was admitted with.
enum Reason {
    Lost,
    ToldOthers,
    Late,
}

pub fn judge(world: &World<'_>) -> Result<Balance, Violation> {
    every_admission_stands(world)?;
    for key in 0..world.scene.keys.len() {
        never_over(world, key)?;
        the_tables_agree(world, key)?;
    }
    balance(world)
}

/// Told decisions.
fn told<'a>(world: &'a World<'_>) -> impl Iterator<Item = (usize, &'a Errand, &'a Told)> {
    let begun = world.errands.iter().enumerate().filter_map(|(caller, errand)| Some((caller, errand.as_ref()?)));
    let anew = begun.filter(|(_, errand)| !errand.is_about_earlier);
    anew.filter_map(|(caller, errand)| Some((caller, errand, errand.told.as_ref()?)))
}

/// An admitted check is admitted by every limit that enforces: by an owner whose charge stands, unseen only by an open
/// limit, and by a share only where the limit has one. A refused one is refused by some limit.
fn every_admission_stands(world: &World<'_>) -> Result<(), Violation> {
    let asked = world.errands[..world.scene.callers.len()].iter();
    if asked.into_iter().any(Option::is_none) || world.errands.iter().flatten().any(|errand| errand.told.is_none()) {
        return Err("somebody was never told anything".to_owned());
    }
    for (caller, errand, told) in told(world) {
        let wrong = |what: &str| Err(format!("caller {caller} {what}: {:?}", told.said));
        let mut refused = errand.groups.iter().any(|group| group.outcome == Some(Outcome::IdReused));
        for (leg, said) in errand.legs.iter().zip(&told.said) {
            let (limit, group) = (world.scene.limit_of(leg.key), &errand.groups[leg.group]);
            let admits = match said {
                Said::Owner(decision) => decision.allowed,
                Said::Emergency(decision) => decision.allowed,
                Said::Open => true,
                Said::Closed => false,
            };
            refused |= !admits && !leg.shadow;
            let due = group.check.legs[leg.place].cost * told.times;
            match said {
                Said::Owner(_) if told.allowed && admits && !stands(world, group, leg.key, due) => {
                    return wrong("was let pass on a charge that does not stand");
                }
                Said::Open if !limit.is_open() => return wrong("was let pass by a limit that is not open"),
                Said::Closed if limit.is_open() => return wrong("was refused by an open limit that nobody asked"),
                Said::Owner(_) | Said::Open | Said::Closed | Said::Emergency(_) => {}
            }
        }
        if told.allowed == refused {
            return wrong(if refused { "was let pass though refused" } else { "was refused by nobody" });
        }
    }
    Ok(())
}

/// Whether the decision that a group was told of is charged to this key: all that is due, unless its caller took it back
/// or settled it. A peek charges nothing.
fn stands(world: &World<'_>, group: &Group, key: usize, due: u64) -> bool {
    let Some(number) = group.entry else { return group.check.is_peek() };
    let entry = &world.ledger.entries[number];
    match entry.fate {
        Fate::Refunded | Fate::Cancelled | Fate::Settled => entry.refunded || due == 0,
        Fate::Stands => {
            let settled = entry.reserve.is_some_and(|reserve| reserve.closed);
            let reserved_before = entry.reserve.is_none() && matches!(group.check.act, Act::Reserve { .. });
            // Slots are given back, or come back by themselves.
            settled || reserved_before || world.scene.limit_of(key).counts_slots() || kept(world, number, key) >= due
        }
    }
}

/// What stands of a decision's charge to a key, debts left out.
fn kept(world: &World<'_>, entry: usize, key: usize) -> u64 {
    let charges = world.ledger.charges.iter();
    let stand = charges.filter(|charge| charge.entry == entry && charge.key == key && !charge.undone && !charge.debt);
    stand.map(|charge| charge.cost).sum()
}

/// No window of a limit that is not open holds more than it says, counting what callers were let pass with.
fn never_over(world: &World<'_>, key: usize) -> Result<(), Violation> {
    let limit = world.scene.limit_of(key);
    if limit.is_open() {
        return Ok(());
    }
    let (mut by_owner, mut by_share) = (BTreeMap::new(), Vec::new());
    for (_, errand, told) in told(world).filter(|(_, errand, told)| told.allowed && !errand.groups[0].check.is_peek()) {
        for (leg, said) in errand.legs.iter().zip(&told.said).filter(|(leg, _)| leg.key == key) {
            let group = &errand.groups[leg.group];
            let due = group.check.legs[leg.place].cost * told.times;
            match (said, group.entry) {
                (Said::Owner(decision), Some(entry)) if decision.allowed => {
                    let taken = by_owner.entry(entry).or_insert(0);
                    *taken = kept(world, entry, key).min(due).max(*taken);
                }
                (Said::Emergency(decision), _) if decision.allowed => by_share.push((told.at, due)),
                (Said::Owner(_) | Said::Emergency(_) | Said::Open | Said::Closed, _) => {}
            }
        }
    }
    if limit.counts_slots() {
        let held = by_owner.keys().copied().collect();
        return most_at_once(world, key, &held);
    }
    let mut by_owner: Vec<(u64, u64)> =
        by_owner.iter().map(|(entry, cost)| (world.ledger.entries[*entry].when, *cost)).collect();
    by_owner.sort_unstable();
    by_share.sort_unstable();
    let fingerprint = &world.scene.keys[key].fingerprint;
    let over =
        excess(limit, fingerprint, 100, &by_owner).or_else(|| excess(limit, fingerprint, share(limit), &by_share));
    over.map_or(Ok(()), |over| Err(format!("over: key {key} of {limit:?}: {over}")))
}

/// At no time are more slots held than there are, by callers that were let pass, for as long as they were told.
fn most_at_once(world: &World<'_>, key: usize, entries: &BTreeSet<usize>) -> Result<(), Violation> {
    let charges = world.ledger.charges.iter().filter(|charge| charge.key == key && entries.contains(&charge.entry));
    let held = charges.filter(|charge| !charge.debt).filter_map(|charge| {
        let Lease { until, .. } = charge.lease?;
        Some((world.ledger.entries[charge.entry].id, charge.at, until.min(charge.ended), charge.cost))
    });
    let adopted = world.ledger.adopted.iter().filter(|adopted| adopted.key == key);
    let adopted = adopted.map(|adopted| (adopted.id, adopted.from, adopted.until, adopted.slots));
    let held: Vec<_> = held.chain(adopted).collect();
    for (_, at, _, _) in &held {
        // Whoever holds holds once, also where a new owner was told of it.
        let live = held.iter().filter(|(_, from, until, _)| from <= at && at < until);
        let by_holder: BTreeMap<CheckId, u64> = live.map(|(id, _, _, slots)| (*id, *slots)).collect();
        let slots: u64 = by_holder.values().sum();
        if slots > world.scene.limit_of(key).capacity() {
            return Err(format!("over: {slots} slots of key {key} are held at {at} ms: {held:?}"));
        }
    }
    Ok(())
}

fn share(limit: &Limit) -> u64 {
    match limit.fail {
        limits::FailMode::Emergency { percent, .. } => u64::from(percent),
        limits::FailMode::Closed | limits::FailMode::Open => 0,
    }
}

/// What an owner's table says of a key is what the ledger says.
fn the_tables_agree(world: &World<'_>, key: usize) -> Result<(), Violation> {
    let (node, reign) = world.reigns[world.scene.keys[key].partition];
    let (least, most) = world.ledger.bounds(world.scene, reign, key, world.now);
    let limit = world.scene.limit_of(key);
    let unknown = reign.taken_over.is_some() && (!limit.is_open() || limit.counts_slots());
    if least != most || unknown || world.ledger.is_beyond(reign, key) {
        return Ok(());
    }
    let now = world.nodes[node].clock(world.now);
    let used = used_in_table(world, reign, key, now);
    match used == most {
        true => Ok(()),
        false => Err(format!(
            "key {key} of {:?}: the table says {used}, the ledger {most}: {:?}",
            world.scene.limit_of(key),
            world.ledger.standing(reign, key).collect::<Vec<_>>()
        )),
    }
}

fn used_in_table(world: &World<'_>, reign: Reign, key: usize, now: Now) -> u64 {
    let fingerprint = world.scene.keys[key].fingerprint;
    let mut usages = world.partition(reign.partition).export(world.book(), now);
    let current = windows(world.scene.limit_of(key), &fingerprint, world.now);
    let units = |usage: Usage| units(&usage, world.scene.limit_of(key), now, current);
    usages.find(|usage| usage.key == fingerprint).map_or(0, units)
}

fn units(usage: &Usage, limit: &Limit, now: Now, current: RangeInclusive<u64>) -> u64 {
    match &usage.hi {
        Used::Bucket { level } => {
            let (mut a, mut b) = (limit.rate().amount(), limit.rate().period().as_nanos());
            while b > 0 {
                (a, b) = (b, a % b);
            }
            level.div_ceil(u128::from(limit.rate().period().as_nanos() / a)) as u64
        }
        Used::Log { groups } => groups.iter().map(|(_, units)| units).sum(),
        Used::Window { units, .. } => *units,
        Used::AlignedWindow { end, units } => {
            if Some(*end) > now.wall {
                *units
            } else {
                0
            }
        }
        Used::Counter { earlier, later, .. } => earlier + later,
        Used::Calendar { index, earlier, later } => {
            let in_window = |window: u64| match index - window {
                0 => *later,
                1 => *earlier,
                _ => 0,
            };
            current.filter(|window| window <= index).map(in_window).max().unwrap_or(0)
        }
        Used::Leases { held, .. } => held.iter().map(|lease| lease.slots).sum(),
    }
}

/// What is charged at the end, less what was admitted, is what could not be taken back, each charge for a known reason.
fn balance(world: &World<'_>) -> Result<Balance, Violation> {
    let mut balance = Balance::default();
    for charge in world.ledger.charges.iter().filter(|charge| !charge.undone) {
        let entry = &world.ledger.entries[charge.entry];
        if world.reigns[entry.reign.partition].1 != entry.reign {
            continue;
        }
        balance.charged += charge.cost;
        let earned = if charge.debt { charge.cost } else { earned(world, charge).min(charge.cost) };
        balance.admitted += earned;
        if earned == charge.cost {
            continue;
        }
        let account = match reason(world, charge.entry, entry) {
            Some(Reason::Lost) => &mut balance.lost,
            Some(Reason::ToldOthers) => &mut balance.told_others,
            Some(Reason::Late) => &mut balance.late,
            None => return Err(format!("charged for nobody and for no reason: {charge:?} of {entry:?}")),
        };
        *account += charge.cost - earned;
    }
    Ok(balance)
}

/// What callers that were let pass owe for a charge: they went by its owner, or passed it unseen by an open limit, or it
/// only watches.
fn earned(world: &World<'_>, charge: &Charge) -> u64 {
    let entry = &world.ledger.entries[charge.entry];
    let owed = told(world).filter(|(_, _, told)| told.allowed).filter_map(|(caller, errand, told)| {
        let same = world.scene.questions[world.callers[caller].question].id == entry.id;
        let leg = errand.legs.iter().find(|leg| same && leg.key == charge.key)?;
        let of_group = || errand.legs.iter().zip(&told.said).filter(|(other, _)| other.group == leg.group);
        let went_by = of_group().any(|(_, said)| matches!(said, Said::Owner(_) | Said::Open));
        let watched = of_group().all(|(leg, _)| leg.shadow);
        let cost = errand.groups[leg.group].check.legs[leg.place].cost * told.times;
        (went_by || watched).then_some(if watched { charge.cost } else { cost })
    });
    owed.max().unwrap_or(0)
}

/// Why what nobody owes stands: what should have taken it back was lost, or came where others had been told, or when the
/// question or the reserve was over.
fn reason(world: &World<'_>, number: usize, entry: &Entry) -> Option<Reason> {
    let maker = told(world).flat_map(|(_, errand, _)| &errand.groups).find(|group| {
        Some(group.check.asker) == entry.asker && group.check.id == entry.id && group.partition == entry.reign.partition
    })?;
    let over = |at: u64| entry.reserve.is_some_and(|reserve| reserve.settled || reserve.until <= at);
    let came_again =
        world.ledger.entries[..number].iter().any(|other| other.id == entry.id && other.reign == entry.reign);
    if entry.gave_way || entry.refunded && over(world.now) {
        return Some(Reason::Late);
    }
    let Some(sent) = [&maker.debt, &maker.trim, &maker.cancel].into_iter().find(|sent| sent.sent) else {
        return came_again.then_some(Reason::Late);
    };
    let in_time = |at: &&u64| (entry.when..entry.when + HORIZON_MS).contains(*at);
    match sent.arrived.iter().find(in_time) {
        Some(_) if entry.others => Some(Reason::ToldOthers),
        Some(at) => (entry.fate != Fate::Stands && over(*at)).then_some(Reason::Late),
        None if came_again || !sent.arrived.is_empty() => Some(Reason::Late),
        None => Some(Reason::Lost),
    }
}

impl AddAssign for Balance {
    fn add_assign(&mut self, other: Balance) {
        self.charged += other.charged;
        self.admitted += other.admitted;
        self.lost += other.lost;
        self.told_others += other.told_others;
        self.late += other.late;
    }
}
