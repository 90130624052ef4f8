//! Gossip without a socket and without a clock. Datagrams, time and one seed go in; datagrams, a view and events come out;
//! the same inputs give the same outputs, so a test can hold a whole cluster in its hand.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::num::{NonZeroU8, NonZeroUsize};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use foca::{AccumulatingRuntime, Foca, NoCustomBroadcast, OwnedNotification, PeriodicParams, Timer};
use limits::{Moment, Span};
use rand::SeedableRng as _;
use rand::rngs::StdRng;

use super::codec::Codec;
use super::counters::Counters;
use super::frame::{self, BODY_MAX, Dropped, Envelope};
use super::identity::{AddressError, Identity, Party};
use super::timers::Timers;
use super::view::{self, Event, State, View};
use crate::cluster::{ClusterId, ClusterUuid};
use crate::quiet::Quiet;
use crate::secret::Secrets;

/// How long a member that is down is remembered. Then it disappears from the view.
pub const FORGET_DOWN_AFTER: Span = Span::from_secs(3_600);

/// The most addresses that the seeds may resolve to; the rest are not greeted.
pub const SEED_ADDRESSES_MAX: usize = 64;

/// How often a leaving node says so. One datagram may be lost; the others pass the news on.
const FAREWELLS: usize = 3;

/// How fast gossip is. The defaults are measured in virtual time, over 500 seeds each: with three nodes everyone learns
/// of a death within 1.9 s (p99), with ten within 2.6 s, and 5 % of loss gave no living node up in 20 s. The test
/// `figures` of this crate prints them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// One member is probed in every such period. Default 300 ms. The period's end without an answer is a suspicion.
    pub probe_period: Span,
    /// How long a direct probe may take before others are asked to probe too. Less than the period. Default 100 ms.
    pub probe_round_trip: Span,
    /// How long a suspected member has to object before it is down. Default 1.2 s.
    pub suspicion: Span,
    /// How often news is passed on to three members, while there is any. Default 100 ms.
    pub gossip_period: Span,
    /// How often one piece of news is passed on. Default 15: sized by the cluster, as foca's presets do, it would be 2
    /// for three nodes, and objections would be lost with the datagrams.
    pub transmissions: u8,
    /// How often a random member is asked whom it knows. Default 3 s.
    pub announce_period: Span,
    /// How often the seeds are asked while nobody is known. Default 500 ms.
    pub seed_retry: Span,
    /// How often those seeds are asked that are not among the members. Default 10 s.
    pub seed_check: Span,
    /// How often two members that are down are asked to come back: how a healed network heals. Default 1 s.
    pub reconcile_period: Span,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            probe_period: Span::from_millis(300),
            probe_round_trip: Span::from_millis(100),
            suspicion: Span::from_millis(1_200),
            gossip_period: Span::from_millis(100),
            transmissions: 15,
            announce_period: Span::from_secs(3),
            seed_retry: Span::from_millis(500),
            seed_check: Span::from_secs(10),
            reconcile_period: Span::from_secs(1),
        }
    }
}

impl Settings {
    fn for_foca(&self) -> foca::Config {
        foca::Config {
            probe_period: self.probe_period.into(),
            probe_rtt: self.probe_round_trip.into(),
            num_indirect_probes: ASKED,
            max_transmissions: NonZeroU8::new(self.transmissions).unwrap_or(NonZeroU8::MIN),
            suspect_to_down_after: self.suspicion.into(),
            remove_down_after: Some(FORGET_DOWN_AFTER.into()),
            max_packet_size: NonZeroUsize::new(BODY_MAX).expect("a datagram has room for a body"),
            notify_down_members: true,
            periodic_announce: Some(periodic(self.announce_period, NonZeroUsize::MIN)),
            periodic_announce_to_down_members: Some(periodic(self.reconcile_period, DOWN_ASKED)),
            periodic_gossip: Some(periodic(self.gossip_period, ASKED)),
        }
    }
}

/// How many members are asked to probe for another, and told the news in each round.
const ASKED: NonZeroUsize = NonZeroUsize::new(3).expect("three is not zero");
/// How many members that are down are asked to come back in each round.
const DOWN_ASKED: NonZeroUsize = NonZeroUsize::new(2).expect("two is not zero");

fn periodic(frequency: Span, num_members: NonZeroUsize) -> PeriodicParams {
    PeriodicParams { frequency: Duration::from(frequency), num_members }
}

/// A datagram to send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transmit {
    /// Where to.
    pub to: SocketAddr,
    /// The whole payload, at most [`DATAGRAM_MAX`](super::DATAGRAM_MAX) bytes.
    pub bytes: Bytes,
}

/// One node's gossip as a value.
///
/// Hand in one thing ([`handle_datagram`](Core::handle_datagram), [`handle_timeout`](Core::handle_timeout),
/// [`handle_seeds`](Core::handle_seeds), [`handle_leave`](Core::handle_leave)), then drain every outlet: `poll_transmit`,
/// `poll_event`, `poll_view` and `poll_resolve`, in any order; then wait until `poll_timeout`. Time never goes back.
pub struct Core {
    cluster: ClusterId,
    secrets: Secrets,
    map_version: u64,
    settings: Settings,
    foca: Foca<Party, Codec, StdRng, NoCustomBroadcast>,
    effects: AccumulatingRuntime<Party>,
    timers: Timers,
    /// How long this process has stood still so far; subtracted from every reading.
    stalled: Span,
    /// The last reading on the core's own clock.
    last: Moment,
    seeds_due: Moment,
    wants_seeds: bool,
    left: bool,
    outbox: VecDeque<Transmit>,
    events: VecDeque<Event>,
    view: View,
    view_changed: bool,
    refusals: Quiet<Dropped>,
    counters: Arc<Counters>,
}

impl Core {
    /// A node that knows nobody; it asks for its seeds at once. `seed` feeds every random choice.
    ///
    /// # Errors
    ///
    /// [`AddressError`] if `identity` advertises what nobody could answer to.
    pub fn new(
        identity: Identity,
        cluster: ClusterId,
        secrets: Secrets,
        settings: Settings,
        seed: u64,
        now: Moment,
    ) -> Result<Core, AddressError> {
        identity.check()?;
        let chance = StdRng::seed_from_u64(seed);
        Ok(Core {
            view: View { uuid: cluster.uuid, ..View::default() },
            cluster,
            secrets,
            map_version: 0,
            settings,
            foca: Foca::new(Party::Known(identity), settings.for_foca(), chance, Codec::default()),
            effects: AccumulatingRuntime::new(),
            timers: Timers::default(),
            stalled: Span::ZERO,
            last: now,
            seeds_due: now,
            wants_seeds: false,
            left: false,
            outbox: VecDeque::new(),
            events: VecDeque::new(),
            view_changed: true,
            refusals: Quiet::new(),
            counters: Arc::default(),
        })
    }

    /// This node as the others know it now.
    pub fn identity(&self) -> &Identity {
        self.foca.identity().known().expect("a core is made of a known identity, and a renewed one stays known")
    }

    /// What this node believes of the others.
    pub fn view(&self) -> &View {
        &self.view
    }

    /// The totals.
    pub fn counters(&self) -> &Arc<Counters> {
        &self.counters
    }

    /// From now on this node belongs to `uuid` and says so; nodes of another uuid are refused.
    pub fn set_uuid(&mut self, uuid: ClusterUuid) {
        self.cluster.uuid = Some(uuid);
        self.view_changed |= self.view.uuid.replace(uuid) != Some(uuid);
    }

    /// From now on this node says that it has applied this map.
    pub fn set_map_version(&mut self, version: u64) {
        self.map_version = version;
    }

    /// From now on these secrets are in force.
    pub fn set_secrets(&mut self, secrets: Secrets) {
        self.secrets = secrets;
    }

    /// A datagram arrived.
    pub fn handle_datagram(&mut self, bytes: &[u8], from: SocketAddr, now: Moment) {
        if self.left {
            return;
        }
        let now = self.own_time(now);
        let result = frame::open(bytes, &self.cluster, &self.secrets).and_then(|(envelope, body)| {
            if envelope.sender == self.identity().id { Err(Dropped::OwnId) } else { Ok((envelope, body)) }
        });
        match result {
            Ok((envelope, body)) => self.take_in(&envelope, body, from, now),
            Err(reason) => self.drop_datagram(reason, from, now),
        }
    }

    /// Time passed. Call it at [`poll_timeout`](Core::poll_timeout), or whenever.
    pub fn handle_timeout(&mut self, now: Moment) {
        if self.left {
            return;
        }
        let now = self.own_time(now);
        while let Some(timer) = self.timers.pop_due(now) {
            if self.is_moot(&timer) {
                continue;
            }
            let result = self.foca.handle_timer(timer, &mut self.effects);
            self.settle(result, now);
        }
        if self.seeds_due <= now {
            self.wants_seeds = true;
            let pause = if self.foca.num_members() == 0 { self.settings.seed_retry } else { self.settings.seed_check };
            self.seeds_due = now.saturating_add(pause);
        }
    }

    /// The seeds, or some of them, are at these addresses (at most [`SEED_ADDRESSES_MAX`] are read). Whoever is not a
    /// member yet is greeted. Nothing to call while no name resolves: the next retry asks again.
    pub fn handle_seeds(&mut self, addresses: impl IntoIterator<Item = SocketAddr>, now: Moment) {
        if self.left {
            return;
        }
        let now = self.own_time(now);
        for address in addresses.into_iter().take(SEED_ADDRESSES_MAX) {
            if self.knows(address) {
                continue;
            }
            let result = self.foca.announce(Party::Whoever(address), &mut self.effects);
            self.settle(result, now);
        }
    }

    /// Says goodbye: the others take this node to be down at once. Send what is polled; after that the core is silent.
    pub fn handle_leave(&mut self, now: Moment) {
        if self.left {
            return;
        }
        let now = self.own_time(now);
        let result = self.foca.leave_cluster(&mut self.effects);
        self.settle(result, now);
        for _ in 1..FAREWELLS {
            let result = self.foca.gossip(&mut self.effects);
            self.settle(result, now);
        }
        self.left = true;
        self.wants_seeds = false;
        self.timers.clear();
    }

    /// The next datagram to send.
    pub fn poll_transmit(&mut self) -> Option<Transmit> {
        self.outbox.pop_front()
    }

    /// The next change of what is believed.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// The view, if it changed since it was last polled; at first, always.
    pub fn poll_view(&mut self) -> Option<View> {
        std::mem::take(&mut self.view_changed).then(|| self.view.clone())
    }

    /// Whether the seeds should be resolved now, and handed to [`handle_seeds`](Core::handle_seeds).
    pub fn poll_resolve(&mut self) -> bool {
        std::mem::take(&mut self.wants_seeds)
    }

    /// When [`handle_timeout`](Core::handle_timeout) wants to be called; `None` after a farewell.
    pub fn poll_timeout(&self) -> Option<Moment> {
        (!self.left).then(|| self.next_due().saturating_add(self.stalled))
    }

    fn next_due(&self) -> Moment {
        self.timers.next_due().map_or(self.seeds_due, |due| due.min(self.seeds_due))
    }

    /// `now` on the core's own clock, which stands still while the process does. Were it not so, a process that wakes up
    /// after a stall would find every deadline past and give up everyone, before it had read a single answer.
    fn own_time(&mut self, now: Moment) -> Moment {
        let late = now.saturating_sub(self.stalled).since(self.next_due().max(self.last));
        if late > self.settings.probe_period {
            self.stalled = self.stalled.saturating_add(late);
        }
        self.last = now.saturating_sub(self.stalled).max(self.last);
        self.last
    }

    /// Whether a verdict comes due on a suspicion that was refuted meanwhile. Foca 2.0.0 leaves such a member alive, and
    /// yet tells it that it is down; it would come back as a new incarnation, and until everyone has heard of that, be
    /// suspected in earnest. So foca never sees the verdict.
    fn is_moot(&self, timer: &Timer<Party>) -> bool {
        let Timer::ChangeSuspectToDown { member_id, incarnation, token: _ } = timer else { return false };
        let stands = |member: &foca::Member<Party>| {
            let suspect = member.state() == foca::State::Suspect && member.incarnation() == *incarnation;
            suspect && member.id() == member_id
        };
        !self.foca.iter_membership_state().any(stands)
    }

    fn knows(&self, address: SocketAddr) -> bool {
        let active = |member: &foca::Member<Party>| member.id().address() == address;
        self.identity().peer == address || self.foca.iter_members().any(active)
    }

    fn take_in(&mut self, envelope: &Envelope, body: &[u8], from: SocketAddr, now: Moment) {
        self.counters.count_received();
        let result = self.foca.handle_data(body, &mut self.effects);
        let malformed = result.as_ref().is_err_and(is_senders_doing);
        self.settle(if malformed { Ok(()) } else { result }, now);
        if malformed {
            return self.drop_datagram(Dropped::Malformed, from, now);
        }
        self.note(envelope);
    }

    /// What a member says of itself counts only for the life it said it in.
    fn note(&mut self, envelope: &Envelope) {
        let Some(member) = self.view.members.get_mut(&envelope.sender) else { return };
        if member.incarnation != envelope.incarnation || !member.state.is_active() {
            return;
        }
        let said = (envelope.uuid, envelope.map_version);
        self.view_changed |= said != (member.uuid, member.map_version);
        (member.uuid, member.map_version) = said;
        self.view.uuid = self.view.uuid.or(envelope.uuid);
        self.view.map_version = self.view.map_version.max(envelope.map_version);
    }

    fn drop_datagram(&mut self, reason: Dropped, from: SocketAddr, now: Moment) {
        self.counters.count_dropped(reason);
        if self.refusals.lets(reason, now) {
            self.events.push_back(Event::Refused { from, reason });
        }
    }

    /// Carries out what foca wants done, and reads its members anew: its notifications say nothing of suspicion, and under
    /// loss a death may show in the list only.
    fn settle(&mut self, result: Result<(), foca::Error>, now: Moment) {
        if result.is_err() {
            self.counters.count_fault();
        }
        while let Some((to, body)) = self.effects.to_send() {
            self.transmit(to.address(), &body);
        }
        while let Some((after, timer)) = self.effects.to_schedule() {
            self.timers.submit(now.saturating_add(after.into()), timer);
        }
        while let Some(notification) = self.effects.to_notify() {
            if let OwnedNotification::Rejoin(Party::Known(me)) = notification {
                self.counters.count_returned();
                self.events.push_back(Event::Returned(me.incarnation));
            }
        }
        self.refresh();
        if self.foca.num_members() == 0 {
            self.seeds_due = self.seeds_due.min(now.saturating_add(self.settings.seed_retry));
        }
    }

    fn transmit(&mut self, to: SocketAddr, body: &[u8]) {
        let me = self.identity();
        let envelope = Envelope {
            sender: me.id,
            incarnation: me.incarnation,
            uuid: self.cluster.uuid,
            map_version: self.map_version,
        };
        let bytes = frame::seal(&envelope, &self.cluster, &self.secrets, body).into();
        self.counters.count_sent();
        self.outbox.push_back(Transmit { to, bytes });
    }

    fn refresh(&mut self) {
        let entry = |member| {
            let member: &foca::Member<Party> = member;
            member.id().known().map(|identity| (identity, state_of(member)))
        };
        let known: Vec<_> = self.foca.iter_membership_state().filter_map(entry).collect();
        self.view_changed |= view::refresh(&mut self.view.members, &known, &mut self.events);
    }
}

fn state_of(member: &foca::Member<Party>) -> State {
    match member.state() {
        foca::State::Alive => State::Alive,
        foca::State::Suspect => State::Suspect,
        foca::State::Down => State::Down,
    }
}

/// Whether an error of foca's means that the datagram was at fault, rather than whoever drives foca.
fn is_senders_doing(error: &foca::Error) -> bool {
    match error {
        foca::Error::DataTooBig
        | foca::Error::DataFromOurselves
        | foca::Error::IndirectForOurselves
        | foca::Error::MalformedPacket
        | foca::Error::Decode(_)
        | foca::Error::CustomBroadcast(_) => true,
        foca::Error::NotUndead
        | foca::Error::SameIdentity
        | foca::Error::NotConnected
        | foca::Error::IncompleteProbeCycle
        | foca::Error::Encode(_)
        | foca::Error::InvalidConfig => false,
    }
}
