//! Operators who change the ttl while everything else goes wrong: what the log says of it, when the leader applies it, and
//! when the others learn of it.

use limits::Span;
use ringfence_ownership::lease::Terms;

use crate::node::Bug;
use crate::world::{Later, NODES, World};

/// The ttl as the log has it: how long leases last, how long leaders wait, and which change it was.
#[derive(Clone, Copy)]
pub struct Agreed {
    pub ttl: Span,
    pub waited: Span,
    pub change: u64,
}

impl Agreed {
    pub const FIRST: Agreed = Agreed { ttl: Span::from_secs(3), waited: Span::from_secs(3), change: 0 };

    pub fn terms(self, rho: u16) -> Terms {
        let terms = Terms::new(self.ttl, Span::from_millis(500), Span::from_millis(250), rho);
        terms.expect("the least here is 2 s").waiting(self.waited)
    }
}

impl World {
    /// An operator's command is committed, if there is a leader to take it: the log waits by the longer of the two.
    pub fn set_ttl(&mut self) {
        self.after(1_000, 6_000, Later::SetTtl);
        if self.nodes[self.leader].cut_off {
            return;
        }
        let ttl = Span::from_secs([2, 3, 6][self.chance.between(0, 2) as usize]);
        let first = self.bug == Bug::LeadersFallFirst;
        let waited = if first { ttl } else { self.agreed.waited.max(ttl) };
        if ttl != self.agreed.ttl {
            self.agreed = Agreed { ttl, waited, change: self.agreed.change + 1 };
            self.ttl_changes += 1;
            self.apply_terms();
        }
    }

    /// A leader that has waited long enough says so, and is believed if nothing changed meanwhile.
    pub fn propose_to_settle(&mut self) {
        let leader = &self.nodes[self.leader];
        let reading = leader.reading();
        let waits = self.agreed.waited > self.agreed.ttl;
        let Some(leading) = leader.leads.as_ref().filter(|_| waits && leader.stalled_until <= self.now) else { return };
        if leading.grantor.is_settled(reading) || self.bug == Bug::SettlesAtOnce {
            let (term, change) = (leading.term, self.agreed.change);
            self.after(0, 100, Later::Settle { term, change });
        }
    }

    pub fn settle(&mut self, term: u64, change: u64) {
        if term == self.term && change == self.agreed.change && !self.nodes[self.leader].cut_off {
            self.settled += u64::from(self.agreed.waited > self.agreed.ttl);
            self.agreed.waited = self.agreed.ttl;
            self.apply_terms();
        }
    }

    /// The leader has it applied when it is committed; the others, and a leader that is one in name only, learn it later.
    fn apply_terms(&mut self) {
        let terms = self.terms();
        let late = self.bug == Bug::HoldersRiseFirst;
        for node in 0..NODES {
            if node == self.leader && !late {
                self.nodes[node].learn_terms(terms);
            } else if node != self.leader || !late {
                self.after(0, 3_000, Later::LearnTerms { node, terms });
            }
        }
    }
}
