//! Where each attribute that a domain names stands among those of one check, and so the parts of keys and routes.

use std::cmp::Ordering;

use limits::{Part, PartKind};

use crate::address::{Address, IpPrefixes};
use crate::attributes::Attributes;
use crate::bounds::{ATTRIBUTES_NAMED_MAX, IP_PREFIXES_MAX, KEY_PARTS_MAX};
use crate::index::Seated;

/// An attribute that a check does not have, or that a domain does not name.
pub(super) const ABSENT: u8 = u8::MAX;

/// The slots of a key or of a route, in order.
#[derive(Debug)]
pub(super) struct Slots {
    len: u8,
    slots: [u8; KEY_PARTS_MAX],
}

impl Slots {
    pub(super) fn of(names: &[String], slot: &dyn Fn(&str) -> u8) -> Slots {
        let mut slots = [0; KEY_PARTS_MAX];
        slots.iter_mut().zip(names).for_each(|(place, name)| *place = slot(name));
        debug_assert!(names.len() <= KEY_PARTS_MAX, "a document's key has so many parts at most");
        Slots { len: names.len() as u8, slots }
    }

    pub(super) fn iter(&self) -> std::slice::Iter<'_, u8> {
        self.slots[..usize::from(self.len)].iter()
    }
}

/// The attributes that limits and rules of a domain name. Their places here are the slots of everything else.
#[derive(Debug)]
pub(super) struct Named {
    /// Sorted.
    pub(super) names: Box<[Box<str>]>,
    /// The slot of `ip`.
    pub(super) ip: u8,
    /// The pairs of prefixes that limits count addresses by.
    pub(super) prefixes: Box<[IpPrefixes]>,
}

impl Named {
    pub(super) fn slot(&self, name: &str) -> Option<u8> {
        let place = self.names.binary_search_by(|other| (**other).cmp(name)).ok()?;
        Some(u8::try_from(place).expect("a document names at most ATTRIBUTES_NAMED_MAX attributes"))
    }
}

/// Where each attribute that the domain names stands among those of the check.
#[derive(Debug)]
pub(super) struct Seats<'m> {
    attributes: &'m Attributes<'m>,
    places: [u8; ATTRIBUTES_NAMED_MAX],
    /// The slot of `ip`, and the check's address by each pair of prefixes.
    ip: u8,
    groups: [Address; IP_PREFIXES_MAX],
}

impl<'m> Seats<'m> {
    /// Both lists are sorted by name, so one walk finds all. Attributes that the domain does not name are ignored.
    pub(super) fn of(attributes: &'m Attributes<'m>, named: &Named) -> Seats<'m> {
        let mut seats = Seats {
            attributes,
            places: [ABSENT; ATTRIBUTES_NAMED_MAX],
            ip: named.ip,
            groups: [Address::NONE; IP_PREFIXES_MAX],
        };
        let mut slot = 0;
        for (place, (name, _)) in (0..).zip(attributes.iter()) {
            while let Some(order) = named.names.get(slot).map(|wanted| (**wanted).cmp(name))
                && order != Ordering::Greater
            {
                if order == Ordering::Equal {
                    seats.places[slot] = place;
                }
                slot += 1;
            }
        }
        if let Some(address) = attributes.address() {
            let groups = named.prefixes.iter().map(|prefixes| address.group(*prefixes));
            seats.groups.iter_mut().zip(groups).for_each(|(seat, group)| *seat = group);
        }
        seats
    }

    pub(super) fn has(&self, slot: u8) -> bool {
        self.places[usize::from(slot)] != ABSENT
    }

    fn part(&self, slot: u8, prefixes: u8) -> Part<'_> {
        match self.places[usize::from(slot)] {
            ABSENT => Part { kind: PartKind::Text, bytes: &[] },
            _ if slot == self.ip => Part { kind: PartKind::Ip, bytes: self.groups[usize::from(prefixes)].bytes() },
            place => self.attributes.text_at(usize::from(place)),
        }
    }
}

impl Seated for Seats<'_> {
    fn bytes(&self, slot: u8) -> Option<&[u8]> {
        let place = self.places[usize::from(slot)];
        (place != ABSENT).then(|| self.attributes.matched_at(usize::from(place)))
    }
}

/// The parts of a key or of a route.
#[derive(Clone, Debug)]
pub struct Parts<'x> {
    pub(super) slots: std::slice::Iter<'x, u8>,
    /// Which of the domain's pairs of prefixes the limit counts addresses by.
    pub(super) prefixes: u8,
    pub(super) seats: &'x Seats<'x>,
}

impl<'x> Iterator for Parts<'x> {
    type Item = Part<'x>;

    fn next(&mut self) -> Option<Part<'x>> {
        self.slots.next().map(|slot| self.seats.part(*slot, self.prefixes))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.slots.size_hint()
    }
}

impl ExactSizeIterator for Parts<'_> {}
