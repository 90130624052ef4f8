//! What is going on at a moment: each phase is a fact about the world, found out by looking at it from outside.

use limits::Span;

use super::machine::Machine;
use super::node::Node;
use super::play::World;
use super::{Phase, Who};

impl World<'_> {
    /// All phases that hold now.
    pub(super) fn phases(&self) -> Vec<Phase> {
        let others = Phase::ALL.iter().copied().filter(|phase| *phase != Phase::Stable && self.holds(*phase));
        let mut phases: Vec<Phase> = others.collect();
        if phases.is_empty() && self.is_owned() {
            phases.push(Phase::Stable);
        }
        phases
    }

    /// Whether a phase holds now.
    pub(super) fn holds(&self, phase: Phase) -> bool {
        match phase {
            Phase::Stable => self.phases() == [Phase::Stable],
            Phase::LeaseLow => self.machines.iter().any(|machine| self.is_low(machine)),
            Phase::Renewing => self.nodes().any(Node::is_renewing),
            Phase::Confirming => self.nodes().any(Node::is_confirming),
            Phase::Electing => !self.is_led(),
            Phase::Expiring => self.is_expiring(),
            Phase::Publishing => {
                let applied = self.takeover.map_or(0, |(index, _)| index);
                self.nodes().any(|node| node.standing().0 < applied)
            }
            Phase::Recovering => self.now < self.recovering,
            Phase::Retrying => self.nodes().any(Node::is_retrying),
            Phase::Correcting => self.corrections > 0,
            Phase::Opening => self.nodes().any(Node::is_opening),
            Phase::PolicyChanging => self.is_applying_a_policy() || self.policies_differ(),
            Phase::Leaving => self.nodes().any(Node::is_leaving),
            Phase::TtlChanging => self.is_ttl_changing(),
            Phase::Claiming => self.nodes().any(Node::is_claiming),
            Phase::Writing => self.nodes().any(Node::is_writing),
            Phase::VolatilePending => self.nodes().any(Node::is_giving_records_up),
        }
    }

    /// The processes that there are, standing still or not.
    pub(super) fn nodes(&self) -> impl Iterator<Item = &Node> {
        self.machines.iter().filter_map(|machine| machine.node.as_deref())
    }

    fn is_low(&self, machine: &Machine) -> bool {
        let Some(node) = &machine.node else { return false };
        let (now, end) = (machine.course.reads(self.now), node.lease().end);
        let d_max = self.scenario.terms.d_max();
        now < end && end.since(now) < d_max.saturating_add(d_max) && node.reigns().next().is_some()
    }

    /// Whether somebody leads in the newest term and has begun.
    fn is_led(&self) -> bool {
        let newest = self.nodes().filter_map(Node::leads).max();
        let leads = |machine: &&Machine| {
            machine.runs() && machine.node.as_ref().is_some_and(|node| node.leads() == newest && node.has_begun())
        };
        newest.is_some() && self.machines.iter().any(|machine| leads(&machine))
    }

    fn is_expiring(&self) -> bool {
        let Some(cluster) = self.truth.cluster() else { return false };
        cluster.sessions.live.keys().any(|session| self.leases.get(session).is_some_and(|until| *until <= self.now))
    }

    fn policies_differ(&self) -> bool {
        let mut revisions = self.nodes().map(|node| node.standing().1);
        let first = revisions.next();
        revisions.any(|revision| Some(revision) != first)
    }

    /// Whether leaders wait longer than leases last, or somebody does not know yet how long they do.
    fn is_ttl_changing(&self) -> bool {
        let Some(cluster) = self.truth.cluster() else { return false };
        let terms = cluster.terms();
        terms.waited() != terms.ttl()
            || (cluster.lease.changed_at > 0 && self.nodes().any(|node| node.ttl() != terms.ttl()))
    }

    /// Whether every partition has an owner that decides and has a lease.
    fn is_owned(&self) -> bool {
        let mut owned: Vec<u16> = Vec::new();
        for machine in self.machines.iter().filter(|machine| machine.runs()) {
            let Some(node) = &machine.node else { continue };
            let lease = node.lease();
            if machine.course.reads(self.now) < lease.end {
                let reigns = node.reigns().filter(|(_, _, session)| *session == lease.session);
                owned.extend(reigns.map(|(partition, ..)| partition.0));
            }
        }
        owned.sort_unstable();
        owned.dedup();
        owned.len() == usize::from(self.scenario.partitions)
    }

    /// Which node is meant, if there is such a one and a process runs there.
    pub(super) fn who(&self, who: Who) -> Option<u8> {
        let found = match who {
            Who::Node(node) => Some(node),
            Who::Leader => self.leader(),
            Who::Owner => self.owner_of_next(),
            Who::Successor => self.takeover.map(|(_, session)| super::script::number_of(session.node)),
            Who::Ingress => self.scenario.asks.get(self.next_ask).map(|ask| ask.node),
        };
        found.filter(|node| *node < self.scenario.nodes && self.machines[usize::from(*node)].node.is_some())
    }

    fn leader(&self) -> Option<u8> {
        let leads = |node: &Node| node.leads().map(|term| (term, node.me));
        self.nodes().filter_map(leads).max().map(|(_, node)| node)
    }

    /// The owner of the partition that the next ask is about.
    fn owner_of_next(&self) -> Option<u8> {
        let ask = self.next_ask.min(self.scenario.asks.len().checked_sub(1)?);
        let partition = self.nodes().find_map(|node| node.partition_of(ask))?;
        let owner = self.truth.cluster()?.map.get(partition)?.owner?;
        Some(super::script::number_of(owner.node))
    }
}

impl Node {
    /// How long a floor that begins now matters: as long as the longest of the limits whose windows are short.
    pub(crate) fn floor_matters(&self) -> Span {
        self.short_periods().max().unwrap_or(Span::ZERO)
    }
}

/// Windows up to this long count as short.
pub(crate) const SHORT: Span = Span::from_secs(5);
