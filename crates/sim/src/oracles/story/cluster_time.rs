//! How far cluster time may jump at an owner, by the course of the story and no node's word.

use limits::Span;

use super::Story;
use crate::oracles::fullest::PUT_FORWARD;
use crate::world::Fault;

/// How far apart wall clocks may be (A6).
const APART: Span = Span::from_millis(100);

impl Story<'_> {
    /// By how much cluster time may have been put forward at an owner at once: by a new leader that had heard of none and goes
    /// by a wall clock that is off, and after its machine stood still.
    pub(in crate::oracles) fn put_forward(&self) -> Span {
        let span = |millis: i64| Span::from_millis(millis.unsigned_abs());
        let (mut apart, mut stood) = (self.walls_apart().saturating_sub(APART), Span::ZERO);
        for spell in &self.spells {
            match self.fault(spell) {
                Some(Fault::WallStep { millis, .. }) => apart = apart.saturating_add(span(*millis)),
                Some(Fault::Freeze { .. }) => {
                    stood = stood.saturating_add(spell.ended.unwrap_or(self.end()).since(spell.began));
                }
                Some(_) | None => {}
            }
        }
        let by_leaders = if self.leads.len() > 1 { apart } else { Span::ZERO };
        PUT_FORWARD.saturating_add(by_leaders).saturating_add(stood)
    }

    fn walls_apart(&self) -> Span {
        let walls = || self.scenario.clocks.iter().map(|clock| clock.wall_ms);
        let most = walls().max().unwrap_or(0).saturating_sub(walls().min().unwrap_or(0));
        Span::from_millis(most.unsigned_abs())
    }
}
