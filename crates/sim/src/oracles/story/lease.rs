//! The life of a session: how long its holders believed in it, how long leaders waited for it, and when the log ended it.

use control::Ending;
use limits::{Moment, Span};
use ownership::SessionId;

use super::{Spell, Story};
use crate::world::Fault;

/// What happened to one session.
#[derive(Default)]
pub(in crate::oracles) struct Life {
    /// Whoever lives it: its node, and copies of that.
    pub(in crate::oracles) nodes: Vec<u8>,
    pub(in crate::oracles) extended: Vec<Extension>,
    /// By whom, when, and until which reading of that one's clock.
    pub(in crate::oracles) granted: Vec<(u8, Moment, Moment)>,
    pub(in crate::oracles) ended: Option<(Moment, Ending)>,
}

/// A lease lasts longer.
#[derive(Clone, Copy)]
pub(in crate::oracles) struct Extension {
    pub(in crate::oracles) node: u8,
    pub(in crate::oracles) at: Moment,
    /// On the holder's own clock.
    pub(in crate::oracles) sent: Moment,
    /// On the holder's own clock.
    pub(in crate::oracles) end: Moment,
}

impl Life {
    pub(super) fn extend(&mut self, extension: Extension) {
        self.note_node(extension.node);
        self.extended.push(extension);
    }

    fn note_node(&mut self, node: u8) {
        if !self.nodes.contains(&node) {
            self.nodes.push(node);
        }
    }

    /// A copy of a node believes what the node believes.
    pub(super) fn copy(&mut self, node: u8, copy: u8, at: Moment) {
        if self.nodes.contains(&node) {
            let last = self.last(node).copied();
            self.note_node(copy);
            self.extended.extend(last.map(|extension| Extension { node: copy, at, ..extension }));
        }
    }

    /// The reading of the holder's own clock at which the lease ends, as known there at a real moment.
    pub(in crate::oracles) fn lease_end(&self, node: u8, at: Moment) -> Option<Moment> {
        let known = self.extended.partition_point(|extension| extension.at <= at);
        let of_node = self.extended[..known].iter().rev().find(|extension| extension.node == node);
        of_node.map(|extension| extension.end)
    }

    /// The last extension at a node.
    pub(in crate::oracles) fn last(&self, node: u8) -> Option<&Extension> {
        self.extended.iter().rev().find(|extension| extension.node == node)
    }
}

impl Story<'_> {
    /// The longest ttl that may have been in force by then.
    pub(in crate::oracles) fn longest_ttl_by(&self, at: Moment) -> Span {
        let begun = self.spells.iter().filter(|spell| spell.began <= at);
        let ttl = |spell| if let Some(Fault::Ttl { ttl }) = self.fault(spell) { Some(*ttl) } else { None };
        begun.filter_map(ttl).fold(self.scenario.terms.ttl(), Span::max)
    }

    /// Whether a node's clock ran within `rho` of real time between two moments, taken together: what leases assume (A3).
    /// Only a machine that was frozen, or whose clock was made to run otherwise, has an excuse.
    pub(in crate::oracles) fn is_steady(&self, node: u8, from: Moment, until: Moment) -> bool {
        let original = self.original(node);
        let excuses = |spell: &Spell| {
            let odd = matches!(self.fault(spell), Some(Fault::Freeze { .. } | Fault::Rate { .. }));
            odd && spell.befell(original) && spell.overlaps(from, until)
        };
        if !self.spells.iter().any(excuses) {
            return true;
        }
        let course = self.course(node);
        let (real, shown) = (until.since(from), course.reads(until).since(course.reads(from)));
        let off = real.saturating_sub(shown).max(shown.saturating_sub(real));
        // Readings are whole nanoseconds.
        off.as_nanos() <= real.scaled(u64::from(self.scenario.terms.rho_per_mille()), 1_000).as_nanos() + 2
    }

    /// Whether what leases assume did not hold for this session at a moment, so that it may have been believed in until
    /// another: its machine was copied, or the clock of its holder or of a leader that waited for it did not keep time.
    pub(in crate::oracles) fn is_beyond(&self, session: SessionId, at: Moment, until: Moment) -> bool {
        let Some(life) = self.lives.get(&session) else { return false };
        let copied = life.nodes.len() > 1;
        let held_by_an_odd_clock = life.extended.iter().any(|extension| {
            let course = self.course(extension.node);
            let ends = course.first(extension.end);
            ends >= at && !self.is_steady(extension.node, course.first(extension.sent), ends)
        });
        let granted_by_an_odd_clock = life.granted.iter().any(|(leader, granted, deadline)| {
            let ends = self.course(*leader).first(*deadline);
            let matters = *granted <= until && ends.saturating_add(self.scenario.longest().waited()) >= at;
            matters && !self.is_steady(*leader, *granted, ends)
        });
        copied || held_by_an_odd_clock || granted_by_an_odd_clock
    }
}
