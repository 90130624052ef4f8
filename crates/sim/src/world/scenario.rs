//! What is played: a cluster, its weather, who asks what, and what breaks. A scenario is made from a seed alone and says
//! everything that chance decides beforehand; while it is played, further chance comes from the seed too. All times are
//! real time, which no node can read.

use limits::{Moment, Span};
use ownership::lease::Terms;

/// Nodes of a scenario at least; all of them are founders and vote.
pub const NODES_MIN: u8 = 3;

/// Nodes of a scenario at most.
pub const NODES_MAX: u8 = 5;

/// One story to be played.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// Where it comes from, and what decides everything that is not written down here.
    pub seed: u64,
    /// How many nodes, [`NODES_MIN`] to [`NODES_MAX`]; they are called n1, n2 and so on, and numbered from 0 here.
    pub nodes: u8,
    /// How many partitions.
    pub partitions: u16,
    /// Whether there is a store that keeps what was used.
    pub store: bool,
    /// The lengths of time that leases obey; the first of them changes with each [`Fault::Ttl`].
    pub terms: Terms,
    /// Each node's clock, by its number.
    pub clocks: Vec<ClockSpec>,
    /// The network where nothing else is said.
    pub weather: Weather,
    /// Policy documents of one domain, in the order in which they are applied: the first at founding, each further one by
    /// its [`Fault::Policy`].
    pub policies: Vec<String>,
    /// What is asked, in the order of time.
    pub asks: Vec<Ask>,
    /// What breaks, in no order.
    pub faults: Vec<Planned>,
    /// When everything is mended: cuts end, what is down starts, clocks run within the terms, the weather is fine.
    pub heal_at: Moment,
    /// When the story ends. Asks after the healing belong to the liveness phase.
    pub end_at: Moment,
}

impl Scenario {
    /// The terms by which whoever judges the story waits: those it begins with, and what leaders wait at most, by the longest
    /// that leases ever last in it.
    pub fn longest(&self) -> Terms {
        longest(self.terms, &self.faults)
    }

    /// The least that leases ever last in it.
    pub fn ttl_least(&self) -> Span {
        ttls(&self.faults).fold(self.terms.ttl(), Span::min)
    }
}

/// See [`Scenario::longest`].
pub(super) fn longest(terms: Terms, faults: &[Planned]) -> Terms {
    terms.waiting(ttls(faults).fold(terms.ttl(), Span::max))
}

fn ttls(faults: &[Planned]) -> impl Iterator<Item = Span> {
    let ttl = |planned: &Planned| if let Fault::Ttl { ttl } = planned.fault { Some(ttl) } else { None };
    faults.iter().filter_map(ttl)
}

/// How a node's clock runs, seen from real time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockSpec {
    /// What its boot-time clock shows when the story begins.
    pub boot: Moment,
    /// How much faster than real time it runs, in millionths; negative for slower.
    pub ppm: i32,
    /// How far its wall clock is from the others', in milliseconds.
    pub wall_ms: i64,
}

/// What the network does to every message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Weather {
    /// The least time that a message is under way.
    pub delay_min: Span,
    /// The most; messages overtake each other within these bounds, where they do not travel on one stream.
    pub delay_max: Span,
    /// Of a thousand messages, so many are lost.
    pub lost_per_mille: u16,
    /// Of a thousand messages, so many arrive twice.
    pub doubled_per_mille: u16,
}

/// One question of one caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ask {
    /// When it is put.
    pub at: Moment,
    /// The node it is put to.
    pub node: u8,
    /// The attributes it comes with.
    pub attributes: Vec<(String, String)>,
    /// Units.
    pub cost: u64,
    /// How long its caller waits.
    pub budget: Span,
    /// Whether the caller names the question itself, so that it can be put again anywhere at any time.
    pub own_id: bool,
    /// What the caller does when it hears nothing: asks these nodes, each after so long, under the same id.
    pub again: Vec<(Span, u8)>,
}

/// Something that breaks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Planned {
    /// When.
    pub when: When,
    /// What.
    pub fault: Fault,
}

/// When a fault begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// At that moment.
    At(Moment),
    /// The first time that the phase holds at or after that moment; never, if it does not hold before the healing.
    In(super::Phase, Moment),
}

/// Whom a fault befalls, found out when it begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Who {
    /// That node.
    Node(u8),
    /// Whoever leads the log.
    Leader,
    /// The owner of the partition that the next ask is about.
    Owner,
    /// The node that took over last, or whoever is appointed and has not begun to decide.
    Successor,
    /// The node that the next ask is put to.
    Ingress,
}

/// What can break. A fault that lasts is over after its time, or at the healing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The process dies. It starts anew after `down`, in place: same node, same disk, nothing in memory.
    Crash {
        /// Whose.
        who: Who,
        /// How long it is down.
        down: Span,
    },
    /// The process stands still, and its clock runs on: SIGSTOP.
    Stop {
        /// Whose.
        who: Who,
        /// How long.
        lasts: Span,
    },
    /// The machine stands still, and its clocks with it. Beyond what leases assume; the bound is printed.
    Freeze {
        /// Whose.
        who: Who,
        /// How long.
        lasts: Span,
    },
    /// The machine is copied as it runs, and both copies go on under one address. Beyond what leases assume.
    Clone {
        /// Whose.
        who: Who,
    },
    /// A clock runs at another rate.
    Rate {
        /// Whose.
        who: Who,
        /// Millionths above real time; negative for below. Beyond `rho` it is beyond what leases assume.
        ppm: i32,
        /// How long.
        lasts: Span,
    },
    /// A wall clock is set.
    WallStep {
        /// Whose.
        who: Who,
        /// By how much.
        millis: i64,
    },
    /// Nothing gets from one side to the other; the way back is open.
    OneWay {
        /// Who is not heard.
        from: Who,
        /// By whom; everybody, if absent.
        to: Option<Who>,
        /// How long.
        lasts: Span,
    },
    /// One node and everybody else hear nothing of each other.
    Isolate {
        /// Who.
        who: Who,
        /// How long.
        lasts: Span,
    },
    /// Two sides hear nothing of each other; with a bridge, one node hears both.
    Split {
        /// One side, a bit per node.
        side: u8,
        /// A node that both sides hear and that hears both.
        bridge: Option<u8>,
        /// How long.
        lasts: Span,
    },
    /// Other weather for everybody: loss, delay, doubled and overtaken messages.
    Storm {
        /// What kind.
        weather: Weather,
        /// How long.
        lasts: Span,
    },
    /// A node's disk is stuck: it acknowledges no log entry and confirms nothing, and is otherwise well.
    SlowDisk {
        /// Whose.
        who: Who,
        /// How long.
        lasts: Span,
    },
    /// A node takes so long for each thing it does that messages pile up.
    Overload {
        /// Which.
        who: Who,
        /// How long each thing takes.
        each: Span,
        /// How long.
        lasts: Span,
    },
    /// Gossip says that a node is dead, and it is not.
    Suspect {
        /// Who.
        who: Who,
    },
    /// An operator applies the next policy, through this node.
    Policy {
        /// Which of the scenario's documents.
        number: u8,
    },
    /// An operator changes how long leases last, through some node.
    Ttl {
        /// How long; with the scenario's other terms it holds.
        ttl: Span,
    },
    /// A planned exit: the node seals, releases its session, and starts anew after `down`.
    Leave {
        /// Who.
        who: Who,
        /// How long it is away.
        down: Span,
    },
    /// Something befalls the store.
    Store(StoreFault),
}

/// What can befall the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreFault {
    /// It dies, and starts anew after `down` in another life.
    Down {
        /// How long it is down.
        down: Span,
        /// What it has then.
        has: Has,
    },
    /// Everything that it does takes longer.
    Slow {
        /// By how much.
        each: Span,
        /// How long.
        lasts: Span,
    },
    /// A replica takes its place.
    Failover {
        /// How far it was behind.
        lost: Span,
        /// Whether those that are connected go on talking to the old one, until this is over.
        lingers: bool,
        /// How long until this is over.
        lasts: Span,
        /// Whether the old one has its place back then, as far behind.
        back: bool,
    },
    /// Somebody deletes everything in it.
    Flushed,
    /// It and one node hear nothing of each other, and nobody is told.
    Cut {
        /// Which.
        who: Who,
        /// How long.
        lasts: Span,
    },
}

/// What a store has when it starts anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Has {
    /// Nothing.
    Nothing,
    /// What it had so long before it died.
    AllBut(Span),
    /// Everything that it had acknowledged. An operator who knows that vouches for it, unless something was rolled back before.
    All,
}
