//! What is asked of a history once all is quiet: was any limit over in any window, does every admission stand on every
//! limit, is every charge there for a reason, and do the owners' tables say what the ledger says?

use std::ops::{AddAssign, RangeInclusive};

use limits::{Now, Usage, Used};
use ringfence_ownership::ingress::{Outcome, Said};

use crate::asking::{Errand, Group, Told};
use crate::ledger::{Entry, Fate, Reign, Violation};
use crate::scene::Limit;
use crate::used::{excess, windows};
use crate::world::World;

/// How long a cancel finds the decision that it speaks of.
const HORIZON_MS: u64 = 2_000;

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

/// Why a charge stands.
enum Reason {
    Admitted,
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

/// Told decisions, with the question that they answer.
fn told<'a>(world: &'a World<'_>) -> impl Iterator<Item = (usize, &'a Errand, &'a Told)> {
    let errands = world.errands.iter().enumerate();
    errands
        .filter_map(|(caller, errand)| errand.as_ref().map(|errand| (caller, errand)))
        .filter_map(|(caller, errand)| errand.told.as_ref().map(|told| (caller, errand, told)))
}

/// An admitted check is admitted by every limit that enforces: by an owner whose charge stands, unseen only by an open
/// limit, and by a share only where the limit has one. A refused one is refused by some limit.
fn every_admission_stands(world: &World<'_>) -> Result<(), Violation> {
    if told(world).count() != world.scene.callers.len() {
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
            match said {
                Said::Owner(_)
                    if told.allowed && admits && !stands(world, group, leg.key, group.check.legs[leg.place].cost) =>
                {
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

/// Whether the decision that a group was told of is charged to this key; a peek charges nothing.
fn stands(world: &World<'_>, group: &Group, key: usize, cost: u64) -> bool {
    let Some(entry) = group.entry else { return group.check.is_peek() };
    let mut charges = world.ledger.charges.iter().filter(|charge| charge.entry == entry && charge.key == key);
    cost == 0 || charges.any(|charge| charge.cost == cost && !charge.undone)
}

/// No window of a limit that is not open holds more than it says, counting what callers were let pass with.
fn never_over(world: &World<'_>, key: usize) -> Result<(), Violation> {
    let limit = world.scene.limit_of(key);
    if limit.is_open() {
        return Ok(());
    }
    let (mut entries, mut by_share) = (Vec::new(), Vec::new());
    for (_, errand, told) in told(world).filter(|(_, _, told)| told.allowed) {
        for (leg, said) in errand.legs.iter().zip(&told.said).filter(|(leg, _)| leg.key == key) {
            let group = &errand.groups[leg.group];
            let cost = group.check.legs[leg.place].cost;
            match (said, group.entry) {
                (Said::Owner(decision), Some(entry)) if decision.allowed => entries.push((entry, cost)),
                (Said::Emergency(decision), _) if decision.allowed => by_share.push((told.at, cost)),
                (Said::Owner(_) | Said::Emergency(_) | Said::Open | Said::Closed, _) => {}
            }
        }
    }
    entries.sort_unstable();
    entries.dedup();
    let mut by_owner: Vec<(u64, u64)> =
        entries.iter().map(|(entry, cost)| (world.ledger.entries[*entry].when, *cost)).collect();
    by_owner.sort_unstable();
    by_share.sort_unstable();
    let fingerprint = &world.scene.keys[key].fingerprint;
    let over =
        excess(limit, fingerprint, 100, &by_owner).or_else(|| excess(limit, fingerprint, share(limit), &by_share));
    over.map_or(Ok(()), |over| Err(format!("over: key {key} of {limit:?}: {over}")))
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
    let unknown = reign.taken_over.is_some() && !world.scene.limit_of(key).is_open();
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
        let account = match reason(world, charge.entry, entry) {
            Some(Reason::Admitted) => &mut balance.admitted,
            Some(Reason::Lost) => &mut balance.lost,
            Some(Reason::ToldOthers) => &mut balance.told_others,
            Some(Reason::Late) => &mut balance.late,
            None => return Err(format!("charged for nobody and for no reason: {charge:?} of {entry:?}")),
        };
        *account += charge.cost;
    }
    Ok(balance)
}

fn reason(world: &World<'_>, number: usize, entry: &Entry) -> Option<Reason> {
    let mut askers = told(world).filter_map(|(caller, errand, told)| {
        let same = world.scene.questions[world.scene.callers[caller].question].id == entry.id;
        let mut groups = errand.groups.iter().enumerate();
        let group = groups.find(|(_, group)| same && group.partition == entry.reign.partition)?;
        Some((errand, told, group))
    });
    if askers.any(|(errand, told, (number, _))| told.allowed && is_earned(errand, told, number)) {
        return Some(Reason::Admitted);
    }
    let group = told(world).flat_map(|(_, errand, _)| &errand.groups).find(|group| {
        Some(group.check.asker) == entry.asker && group.check.id == entry.id && group.partition == entry.reign.partition
    })?;
    let earlier = world.ledger.entries[..number].iter().any(|other| other.id == entry.id && other.reign == entry.reign);
    let in_time = |at: &u64| (entry.when..entry.when + HORIZON_MS).contains(at);
    match &group.cancel {
        _ if entry.fate != Fate::Stands => None,
        cancel if cancel.arrived.iter().any(in_time) => entry.others.then_some(Reason::ToldOthers),
        _ if earlier => Some(Reason::Late),
        cancel if !cancel.sent => None,
        cancel if !cancel.arrived.is_empty() => Some(Reason::Late),
        _ => Some(Reason::Lost),
    }
}

/// Whether a caller that was let pass went by this group's owner, or passed it unseen by an open limit.
fn is_earned(errand: &Errand, told: &Told, group: usize) -> bool {
    let of_group = errand.legs.iter().zip(&told.said).filter(|(leg, _)| leg.group == group);
    let (mut enforced, mut earned) = (false, false);
    for (leg, said) in of_group {
        enforced |= !leg.shadow;
        earned |= match said {
            Said::Owner(_) | Said::Open => true,
            Said::Closed | Said::Emergency(_) => false,
        };
    }
    earned || !enforced
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
