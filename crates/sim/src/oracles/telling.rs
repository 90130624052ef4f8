//! Made-up runs for the judges' own tests: a trace is told line by line, and nothing in it needs to be possible.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::num::NonZeroU64;

use control::Ending;
use limits::{Algorithm, Basis, DomainId, FailMode, Fingerprint, LimitId, Moment, Now, Rate, Shape, Span, WallTime};
use ownership::lease::Terms;
use ownership::{Asker, CheckId, Epoch, SessionId};
use ring::{NodeId, PartitionId};

use super::{Failure, Findings, Judge, Story};
use crate::history::{Reason, Source};
use crate::world::trace::{Decided, Decision, Entry, Event, LegSeen, LegTold, Told};
use crate::world::{Ask, ClockSpec, Course, FROZEN_PPM, Fault, Planned, Scenario, Weather, When, Who};

pub(super) const KEY: Fingerprint = Fingerprint([7, 1 << 63]);
pub(super) const P: PartitionId = PartitionId(3);

pub(super) fn shape(amount: u64, algorithm: Algorithm) -> Shape {
    let rate = Some(Rate::new(amount, Span::from_secs(1)).unwrap());
    Shape { limit: LimitId(1), domain: DomainId(0), rate, algorithm, basis: Basis::Hi }
}

pub(super) const LOG: Algorithm = Algorithm::SlidingLog { max_entries: 64 };

pub(super) fn ms(millis: u64) -> Moment {
    Moment::from_nanos(millis * 1_000_000)
}

pub(super) fn session(node: u8, nonce: u64) -> SessionId {
    SessionId { node: NodeId(NonZeroU64::new(u64::from(node) + 1).unwrap()), nonce, counter: 1 }
}

/// A story that is being made up. Clocks show real time, unless told otherwise.
pub(super) struct Telling {
    pub(super) scenario: Scenario,
    pub(super) trace: Vec<Entry>,
    pub(super) courses: Vec<Course>,
    pub(super) shape: Shape,
    pub(super) fail: FailMode,
    now: Moment,
    ids: u128,
}

impl Telling {
    /// Three nodes that started at 0 with the nonces 100, 101 and 102, and a log limit of 3 a second.
    pub(super) fn new() -> Telling {
        let weather = Weather {
            delay_min: Span::from_micros(100),
            delay_max: Span::from_millis(1),
            lost_per_mille: 0,
            doubled_per_mille: 0,
        };
        let scenario = Scenario {
            seed: 1,
            nodes: 3,
            partitions: 8,
            store: false,
            terms: Terms::DEFAULT,
            clocks: vec![ClockSpec { boot: Moment::ZERO, ppm: 0, wall_ms: 0 }; 3],
            weather,
            policies: Vec::new(),
            asks: Vec::new(),
            faults: Vec::new(),
            heal_at: ms(9_000),
            end_at: ms(20_000),
        };
        let courses = vec![Course::new(Moment::ZERO, 0); 3];
        let mut telling = Telling {
            scenario,
            trace: Vec::new(),
            courses,
            shape: shape(3, LOG),
            fail: FailMode::Closed,
            now: Moment::ZERO,
            ids: 0,
        };
        (0..3).for_each(|node| telling.tell(Event::Started { node, nonce: 100 + u64::from(node) }));
        telling
    }

    pub(super) fn at(&mut self, millis: u64) -> &mut Telling {
        self.now = ms(millis);
        self
    }

    pub(super) fn tell(&mut self, event: Event) {
        self.trace.push(Entry { at: self.now, event });
    }

    /// A machine stands still with its clock.
    pub(super) fn freeze(&mut self, node: u8, from: u64, until: u64) {
        let course = &mut self.courses[usize::from(node)];
        course.change(ms(from), FROZEN_PPM);
        course.change(ms(until), 0);
        let number = self.scenario.faults.len();
        let fault = Fault::Freeze { who: Who::Node(node), lasts: ms(until).since(ms(from)) };
        self.scenario.faults.push(Planned { when: When::At(ms(from)), fault });
        self.at(from).tell(Event::Broke { fault: number, nodes: 1 << node });
        self.at(until).tell(Event::Mended { fault: number });
    }

    /// What a node's clock shows now.
    pub(super) fn clock(&self, node: u8) -> Moment {
        self.courses[usize::from(node)].reads(self.now)
    }

    pub(super) fn wall(&self) -> Option<WallTime> {
        Some(WallTime::from_unix_nanos(1_000_000_000_000 + self.now.as_nanos()))
    }

    pub(super) fn appoint(&mut self, epoch: u64, session: SessionId) {
        self.tell(Event::Appointed { partition: P, epoch: Epoch(epoch), session, index: epoch, before: None });
    }

    pub(super) fn extend(&mut self, node: u8, millis: u64) {
        let session = session(node, 100 + u64::from(node));
        let (sent, end) = (self.clock(node), self.clock(node).saturating_add(Span::from_millis(millis)));
        let until = self.courses[usize::from(node)].first(end);
        self.tell(Event::Extended { node, session, sent, end, until });
    }

    /// A node is appointed, holds a lease of 2,970 ms, and begins to reign.
    pub(super) fn reign(&mut self, node: u8, epoch: u64) {
        let session = session(node, 100 + u64::from(node));
        self.appoint(epoch, session);
        self.extend(node, 2_970);
        let full_as_of = (epoch > 1).then(|| Now { moment: self.clock(node), wall: self.wall() });
        self.tell(Event::Reigns { node, partition: P, epoch: Epoch(epoch), session, full_as_of });
    }

    /// A session's end by the log.
    pub(super) fn expire(&mut self, node: u8) {
        let session = session(node, 100 + u64::from(node));
        self.tell(Event::Ended { session, ending: Ending::Expired, index: 9 });
    }

    pub(super) fn leg(&self, cost: u64, allowed: bool) -> LegSeen {
        LegSeen { limit: LimitId(1), key: KEY, cost, allowed, shadow: false, shape: self.shape }
    }

    /// An owner decides, at once and by its clock.
    pub(super) fn decide(&mut self, node: u8, epoch: u64, cost: u64, allowed: bool) -> Decided {
        self.ids += 1;
        let decided = Decided {
            node,
            partition: P,
            epoch: Epoch(epoch),
            session: session(node, 100 + u64::from(node)),
            clock: self.clock(node),
            wall: self.wall(),
            id: CheckId(self.ids),
            asker: Asker(self.ids as u64),
            attempt: 1,
            revision: 1,
            replayed: false,
            allowed,
            recovering: false,
            legs: vec![self.leg(cost, allowed)],
        };
        self.tell(Event::Decided(decided.clone()));
        decided
    }

    /// A caller is told what an owner decided, having asked so long ago.
    pub(super) fn told(&mut self, decided: &Decided, asked_ago: u64) {
        let source = Source::Owner;
        let reason = if decided.allowed { Reason::Ok } else { Reason::Limit };
        let (epoch, session) = (Some(decided.epoch), Some(decided.session));
        let legs = decided.legs.iter();
        let legs = legs.map(|leg| LegTold { leg: *leg, source, reason, fail: self.fail, epoch, session }).collect();
        let (node, partition, known) = (decided.node, decided.partition, decided.epoch);
        let age = Span::from_millis(asked_ago);
        let (asker, id) = (decided.asker, decided.id);
        self.tell(Event::Acted { node, asker, id, partition, epoch: known, known, age });
        self.tell_caller(decided, asked_ago, Some(Decision { allowed: decided.allowed, legs }));
    }

    /// A caller is told this.
    pub(super) fn tell_caller(&mut self, decided: &Decided, asked_ago: u64, decision: Option<Decision>) {
        let invoked = self.now.saturating_sub(Span::from_millis(asked_ago));
        let (node, id, ask) = (decided.node, decided.id, self.scenario.asks.len());
        self.scenario.asks.push(Ask {
            at: invoked,
            node,
            attributes: Vec::new(),
            cost: decided.legs.iter().map(|leg| leg.cost).max().unwrap_or(0),
            budget: Span::from_millis(100),
            own_id: false,
            again: Vec::new(),
        });
        self.tell(Event::Told(Told { ask, id, node, invoked, put: invoked, returned: self.now, decision }));
    }

    /// Decides and tells at once.
    pub(super) fn ask(&mut self, node: u8, epoch: u64, cost: u64, allowed: bool) -> Decided {
        let decided = self.decide(node, epoch, cost, allowed);
        self.told(&decided, 1);
        decided
    }

    pub(super) fn judged(&self, judge: Judge) -> Result<Findings, Failure> {
        let story = Story::read(&self.scenario, &self.trace, &self.courses);
        let mut findings = Findings::default();
        judge(&story, &mut findings).map(|()| findings)
    }
}
