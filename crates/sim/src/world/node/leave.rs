//! A planned exit, as `node::leave` makes it: the process first gives up for good all that it owns, then says so in the log,
//! with who takes it over. Where the log cannot be reached nothing is lost but time.

use std::collections::BTreeSet;

use control::{Applied, Command, Ending, Refusal};
use limits::{Moment, Span};
use ownership::SessionId;

use super::calls::Purpose;
use super::session::{Life, Step};
use super::{Effect, Exit, Node};
use crate::world::packet::NotProposed;

/// How long leaving may take; then the process goes without a word.
pub(crate) const LEAVE_WITHIN: Span = Span::from_secs(4);

/// How long a refused or failed attempt to release the session rests.
const AGAIN_AFTER: Span = Span::from_millis(50);

/// How long the others get to hear who took over.
const SUCCESSORS_WITHIN: Span = Span::from_millis(200);

/// Where a planned exit stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Leave {
    #[default]
    No,
    /// All is sealed; the end of the session is to be proposed as soon as it is known whether there is one.
    Begun,
    /// The end of the session is to be proposed, not before that moment.
    Rests(Moment),
    /// Proposed.
    Asked,
    /// The log has ended the session; this node's own replica has yet to see it.
    Taken,
    /// All is said; the process goes at that moment.
    Goes(Moment),
    Gone,
}

impl Leave {
    pub(super) fn poll_timeout(self) -> Option<Moment> {
        match self {
            Leave::Rests(at) | Leave::Goes(at) => Some(at),
            Leave::No | Leave::Begun | Leave::Asked | Leave::Taken | Leave::Gone => None,
        }
    }
}

impl Node {
    /// From now on this process decides nothing and takes nothing over.
    pub(super) fn begin_to_leave(&mut self) {
        if self.exit == Exit::None {
            self.exit = Exit::Leaving;
            self.leave = Leave::Begun;
            // Before anything is said that lets another decide (S8).
            self.seal();
            // And before it is said that another may lend in this one's place.
            self.ingress.give_up_lending();
            self.announced = true;
        }
    }

    pub(super) fn go_on_leaving(&mut self) -> bool {
        let now = self.at.boot;
        match self.leave {
            Leave::No | Leave::Asked | Leave::Gone => false,
            Leave::Goes(at) if at <= now => {
                (self.leave, self.exit) = (Leave::Gone, Exit::Left);
                self.effect(Effect::Left);
                true
            }
            Leave::Goes(_) => false,
            Leave::Begun | Leave::Rests(_) | Leave::Taken => self.release(),
        }
    }

    fn release(&mut self) -> bool {
        let now = self.at.boot;
        let session = match &self.life {
            // What was proposed before the exit was asked for is seen to its end: a session may yet open.
            Life::Opening { step: Step::Asked | Step::Taken, .. } => return false,
            Life::Opening { .. } | Life::Unborn | Life::Over => {
                self.leave = Leave::Goes(now.saturating_add(SUCCESSORS_WITHIN));
                return true;
            }
            Life::Living(holder) => holder.session(),
        };
        if let Some(ending) = self.ended(session) {
            let more = match ending {
                Ending::Released => SUCCESSORS_WITHIN,
                Ending::Expired => Span::ZERO,
            };
            self.leave = Leave::Goes(now.saturating_add(more));
            return true;
        }
        match self.leave {
            Leave::Begun => {}
            Leave::Rests(at) if at <= now => {}
            Leave::Rests(_) | Leave::No | Leave::Asked | Leave::Taken | Leave::Goes(_) | Leave::Gone => return false,
        }
        let Some(cluster) = self.cluster() else { return false };
        let takeovers = cluster.plan_takeovers(&[session], &BTreeSet::new());
        self.leave = Leave::Asked;
        self.propose(Purpose::Release, Command::Release { session, takeovers });
        true
    }

    fn ended(&self, session: SessionId) -> Option<Ending> {
        let cluster = self.cluster()?;
        cluster.sessions.ended.iter().find(|ended| ended.session == session).map(|ended| ended.ending)
    }

    /// What came of the proposal to end the session.
    pub(super) fn released(&mut self, result: &Result<Applied, NotProposed>) {
        if self.leave != Leave::Asked {
            return;
        }
        let own = match &self.life {
            Life::Living(holder) => Some(holder.session()),
            Life::Opening { .. } | Life::Unborn | Life::Over => None,
        };
        self.leave = match result {
            Ok(_) => Leave::Taken,
            Err(NotProposed::Refused(Refusal::NotLive { session })) if Some(*session) == own => Leave::Taken,
            Err(NotProposed::Refused(_) | NotProposed::NoLeader | NotProposed::Undecided) => {
                Leave::Rests(self.at.boot.saturating_add(AGAIN_AFTER))
            }
        };
    }

    /// Whether a planned exit is under way: sealed, and not released.
    pub(crate) fn is_leaving(&self) -> bool {
        match self.leave {
            Leave::No | Leave::Goes(_) | Leave::Gone => false,
            Leave::Begun | Leave::Rests(_) | Leave::Asked | Leave::Taken => true,
        }
    }
}
