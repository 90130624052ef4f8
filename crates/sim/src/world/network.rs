//! What becomes of a message between two machines: the weather delays, loses and doubles it, a cut holds it up or swallows
//! it, and what travels on one stream keeps its order. Messages of the log are like datagrams. Calls and checks travel on
//! connections, as they do in the program: a packet that is lost comes later, since it is sent again, or the connection
//! breaks; and behind a cut they wait until it ends or the connection is given up.

use limits::{Moment, Span};

use super::Weather;
use super::layers::Layers;
use super::making::Chance;

/// How long a lost packet of a connection takes longer, at least.
const AGAIN_MILLIS: (u64, u64) = (200, 400);

/// Of so many lost packets of a connection, one breaks it.
const BREAKS_ONE_IN: u64 = 4;

/// After so long without a word a connection is given up: a ping every second, and a second for its answer.
pub(crate) const KEEPALIVE: Span = Span::from_secs(2);

/// The network between all machines, which go by their node's numbers.
#[derive(Debug)]
pub(crate) struct Network {
    chance: Chance,
    fine: Weather,
    storms: Layers<Weather>,
    cuts: Vec<Cut>,
    /// When the last packet on the stream from one node to another arrives.
    streams: Vec<Moment>,
}

/// Nothing gets from these to those.
#[derive(Clone, Copy, Debug)]
struct Cut {
    fault: usize,
    from: u8,
    to: u8,
}

/// What becomes of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It arrives then, and again at the other moment.
    Arrives(Moment, Option<Moment>),
    /// It is held up by a cut.
    Held,
    /// It is lost, and nobody notices.
    Lost,
    /// The connection breaks.
    Breaks,
}

/// How a message travels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// By itself.
    Datagram,
    /// On a connection, in no order with others.
    Call {
        /// Whether it may come twice: not where a connection sees to it that it does not, and that matters.
        may_double: bool,
    },
    /// On a connection, behind what went before it.
    Stream {
        /// As above.
        may_double: bool,
    },
}

impl Network {
    pub(crate) fn new(fine: Weather, chance: Chance) -> Network {
        let streams = vec![Moment::ZERO; usize::from(u8::MAX) + 1];
        Network { chance, fine, storms: Layers::default(), cuts: Vec::new(), streams }
    }

    pub(crate) fn weather(&self) -> Weather {
        self.storms.top().unwrap_or(self.fine)
    }

    /// From now on nothing is lost or doubled.
    pub(crate) fn be_fine(&mut self) {
        self.storms.clear();
        (self.fine.lost_per_mille, self.fine.doubled_per_mille) = (0, 0);
    }

    pub(crate) fn begin_storm(&mut self, fault: usize, weather: Weather) {
        self.storms.lay(fault, weather);
    }

    /// From now on nothing gets from these nodes (a bit each) to those.
    pub(crate) fn cut(&mut self, fault: usize, from: u8, to: u8) {
        self.cuts.push(Cut { fault, from, to });
    }

    /// From now on these nodes and those hear nothing of each other.
    pub(crate) fn cut_apart(&mut self, fault: usize, one: u8, other: u8) {
        self.cut(fault, one, other);
        self.cut(fault, other, one);
    }

    /// What this fault did is over.
    pub(crate) fn mend(&mut self, fault: usize) {
        self.storms.lift(fault);
        self.cuts.retain(|cut| cut.fault != fault);
    }

    /// Whether nothing gets from one node to the other.
    pub(crate) fn is_cut(&self, from: u8, to: u8) -> bool {
        from != to && self.cuts.iter().any(|cut| cut.from >> from & 1 == 1 && cut.to >> to & 1 == 1)
    }

    pub(crate) fn delay(&mut self) -> Span {
        let Weather { delay_min, delay_max, .. } = self.weather();
        Span::from_nanos(self.chance.between(delay_min.as_nanos(), delay_max.as_nanos().max(delay_min.as_nanos())))
    }

    /// What becomes of a message that is sent now.
    pub(crate) fn send(&mut self, way: Way, from: u8, to: u8, now: Moment) -> Fate {
        let weather = self.weather();
        if self.is_cut(from, to) {
            return if way == Way::Datagram { Fate::Lost } else { Fate::Held };
        }
        let mut delay = self.delay();
        if self.chance.per_mille(weather.lost_per_mille) {
            if way == Way::Datagram {
                return Fate::Lost;
            }
            if self.chance.one_in(BREAKS_ONE_IN) {
                return Fate::Breaks;
            }
            delay = delay.saturating_add(self.chance.millis(AGAIN_MILLIS.0, AGAIN_MILLIS.1));
        }
        let mut arrives = now.saturating_add(delay);
        let may_double = match way {
            Way::Datagram => true,
            Way::Call { may_double } => may_double,
            Way::Stream { may_double } => {
                let last = &mut self.streams[usize::from(from) << 4 | usize::from(to)];
                arrives = arrives.max(last.saturating_add(Span::from_nanos(1)));
                *last = arrives;
                may_double
            }
        };
        let doubled = may_double && self.chance.per_mille(weather.doubled_per_mille);
        let again = doubled.then(|| now.saturating_add(self.delay()).max(arrives));
        Fate::Arrives(arrives, again)
    }
}
