//! Which of a limit's numbers a check goes by: those of an override of its key, of its plan, or the limit's own. Only the
//! owner resolves the numbers, so what is chosen here is a name; but the numbers are at hand too, for whoever answers
//! when no owner can.

use std::hash::{BuildHasher as _, Hasher as _};

use foldhash::fast::FixedState;
use hashbrown::HashTable;
use limits::{LimitId, Part, PartKind, Shape, ShapeId, Variant, WallTime};

use crate::index::Seated as _;

use super::seats::{ABSENT, Parts, Seats};

/// The numbers of a limit, compiled.
#[derive(Clone, Copy, Debug)]
pub(super) struct Measure {
    /// The id of the owner's shape in the catalogue.
    pub(super) shape_id: ShapeId,
    /// What the owner decides with.
    pub(super) owners: Shape,
    /// As the document has it, reserve included.
    pub(super) whole: Shape,
}

/// Numbers that a plan or an override gives to a limit.
#[derive(Clone, Copy, Debug)]
pub(super) struct Variation {
    pub(super) limit: LimitId,
    pub(super) allotted_at: u64,
    pub(super) variant: Variant,
    pub(super) measure: Measure,
}

/// The plans of a domain.
#[derive(Debug)]
pub(super) struct Plans {
    /// The slot of the attribute `plan`, if some limit asks for it.
    pub(super) slot: u8,
    /// Sorted by name.
    pub(super) names: Box<[(Box<str>, Variant)]>,
}

impl Plans {
    /// The variant of the plan that a check names; none for a plan that there is not.
    pub(super) fn of(&self, seats: &Seats<'_>) -> Option<Variant> {
        let wanted = if self.slot == ABSENT { None } else { seats.bytes(self.slot) }?;
        let place = self.names.binary_search_by(|(name, _)| name.as_bytes().cmp(wanted)).ok()?;
        Some(self.names[place].1)
    }
}

/// The overrides of a domain, by limit and key. The keys are the operator's and the table is only read afterwards, so a
/// fixed hash is no way in for whoever chooses the values of a check.
#[derive(Debug, Default)]
pub(super) struct Overrides {
    table: HashTable<Override>,
}

#[derive(Debug)]
struct Override {
    /// The limit's place in the domain.
    limit: u32,
    key: Box<[(PartKind, Box<[u8]>)]>,
    until: Option<WallTime>,
    variation: u32,
}

impl Overrides {
    pub(super) fn add(&mut self, limit: u32, key: &[(PartKind, Vec<u8>)], until: Option<WallTime>, variation: u32) {
        let hash = |it: &Override| hash(it.limit, it.key.iter().map(|(kind, bytes)| Part { kind: *kind, bytes }));
        let key = key.iter().map(|(kind, bytes)| (*kind, bytes.as_slice().into())).collect();
        let new = Override { limit, key, until, variation };
        self.table.insert_unique(hash(&new), new, hash);
    }

    /// The variation of a limit's key. Without cluster time an override holds still: it is in the document, and nobody
    /// knows yet that its time is up.
    pub(super) fn find(&self, limit: u32, key: &Parts<'_>, wall: Option<WallTime>) -> Option<u32> {
        let is_it = |it: &Override| {
            let parts = it.key.iter().map(|(kind, bytes)| Part { kind: *kind, bytes });
            it.limit == limit && parts.eq(key.clone())
        };
        let found = self.table.find(hash(limit, key.clone()), is_it)?;
        let over = found.until.zip(wall).is_some_and(|(until, now)| now >= until);
        (!over).then_some(found.variation)
    }
}

fn hash<'p>(limit: u32, key: impl Iterator<Item = Part<'p>>) -> u64 {
    let mut hasher = FixedState::with_seed(0).build_hasher();
    hasher.write_u32(limit);
    for part in key {
        hasher.write_u32(part.bytes.len() as u32);
        hasher.write(part.bytes);
    }
    hasher.finish()
}
