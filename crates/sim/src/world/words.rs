//! What happened, in words: for transcripts, and for whoever reads why a seed failed. A node is called by its name, a session
//! by its node and the number of its life, and times are milliseconds of real time.

use std::fmt::{self, Display, Formatter};

use control::{Command, Run as Takeover};
use ownership::kept::Incarnation;
use ownership::{CheckId, Recovered, SessionId};

use super::script::{name_of, number_of};
use super::trace::{Correction, Decided, Decision, Entry, Event, LegSeen, Told};

/// What an entry of the log says.
pub(super) fn words_of(command: &Command) -> String {
    match command {
        Command::Found(genesis) => format!("found `{}`, {} partitions", genesis.name, genesis.partitions.get()),
        Command::OpenSession { session, .. } => format!("open session {}", Session(*session)),
        Command::Release { session, takeovers } => {
            format!("release session {}{}", Session(*session), Takeovers(takeovers))
        }
        Command::Expire { sessions, takeovers } => {
            let sessions: Vec<String> = sessions.iter().map(|session| Session(*session).to_string()).collect();
            format!("expire {}{}", sessions.join(", "), Takeovers(takeovers))
        }
        Command::Appoint { runs, .. } => format!("appoint{}", Takeovers(runs)),
        Command::ApplyPolicy(proposal) => format!("apply a policy to domain `{}`", proposal.domain),
        Command::DefineInline(proposal) => format!("define the limit `{}` that a check brought along", proposal.name),
        Command::SetTtl { ttl } => format!("leases last {ttl} from now on"),
        Command::SettleTtl { .. } => "every longer lease is over".to_owned(),
        Command::Keep { session, store: None, .. } => format!("what {} keeps counts nowhere", Session(*session)),
        Command::Keep { session, store: Some(_), .. } => format!("what {} keeps counts", Session(*session)),
        Command::Trust { .. } => "the store is vouched for".to_owned(),
        Command::LowerNMax { to } => format!("lower n_max to {to}"),
    }
}

struct Session(SessionId);

impl Display for Session {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let SessionId { node, nonce, counter } = self.0;
        write!(f, "{}.{:04x}/{counter}", name_of(number_of(node)), nonce & 0xffff)
    }
}

struct Takeovers<'a>(&'a [Takeover]);

impl Display for Takeovers<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for run in self.0 {
            write!(f, "; p{}", run.first.0)?;
            if run.len > 1 {
                write!(f, "-{}", u32::from(run.first.0) + u32::from(run.len) - 1)?;
            }
            write!(f, " to {}", Session(run.to))?;
        }
        Ok(())
    }
}

/// A life of the store.
struct Life(Incarnation);

impl Display for Life {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Incarnation { run, history } = self.0;
        write!(f, "store {:02x}{:02x}.{:02x}{:02x}", run[0], run[1], history[0], history[1])
    }
}

struct Node(u8);

impl Display for Node {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(&name_of(self.0))
    }
}

struct Nodes(u8);

impl Display for Nodes {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if self.0 == 0 {
            return f.write_str("the store");
        }
        let names: Vec<String> = (0..8).filter(|node| self.0 >> node & 1 == 1).map(name_of).collect();
        f.write_str(&names.join(", "))
    }
}

struct Id(CheckId);

impl Display for Id {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "#{:06x}", self.0.0 & 0x00ff_ffff)
    }
}

struct Millis(u64);

impl Display for Millis {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:03}", self.0 / 1_000_000, self.0 / 1_000 % 1_000)
    }
}

struct Legs<'a>(&'a [LegSeen]);

impl Display for Legs<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for (place, leg) in self.0.iter().enumerate() {
            let (sign, comma) = (if leg.allowed { '+' } else { '-' }, if place > 0 { ", " } else { "" });
            write!(f, "{comma}{sign}{} l{}/{:04x}", leg.cost, leg.limit.0, leg.key.0[0] & 0xffff)?;
        }
        Ok(())
    }
}

impl Display for Entry {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let millis = self.at.as_nanos() / 1_000_000;
        let micros = self.at.as_nanos() / 1_000 % 1_000;
        write!(f, "{millis:>6}.{micros:03} ms  {}", self.event)
    }
}

impl Display for Event {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Event::Broke { fault, nodes } => write!(f, "fault {fault} befalls {}", Nodes(*nodes)),
            Event::Mended { fault } => write!(f, "fault {fault} is over"),
            Event::Healed => f.write_str("everything is mended"),
            Event::Started { node, nonce } => write!(f, "{} starts, nonce {:04x}", Node(*node), nonce & 0xffff),
            Event::Died { node } => write!(f, "{} dies", Node(*node)),
            Event::Cloned { node, copy } => write!(f, "{} is copied: {} goes on beside it", Node(*node), Node(*copy)),
            Event::Leads { node, term } => write!(f, "{} leads in term {term}", Node(*node)),
            Event::Committed { index, words } => write!(f, "log {index}: {words}"),
            Event::Appointed { partition, epoch, session, .. } => {
                write!(f, "p{} epoch {} is given to {}", partition.0, epoch.0, Session(*session))
            }
            Event::Granted { node, session, deadline, .. } => {
                write!(
                    f,
                    "{} waits for {} until {} on its clock",
                    Node(*node),
                    Session(*session),
                    Millis(deadline.as_nanos())
                )
            }
            Event::Extended { session, until, .. } => {
                write!(f, "{} may decide until {} ms", Session(*session), Millis(until.as_nanos()))
            }
            Event::Lapsed { session } => write!(f, "the lease of {} runs out", Session(*session)),
            Event::Ended { session, ending, .. } => write!(f, "{} is over: {ending:?}", Session(*session)),
            Event::Reigns { node, partition, epoch, full_as_of, .. } => {
                let floor = if full_as_of.is_some() { "knowing nothing" } else { "fresh" };
                write!(f, "{} reigns over p{} at epoch {}, {floor}", Node(*node), partition.0, epoch.0)
            }
            Event::Reigned { node, partition, epoch } => {
                write!(f, "{} reigns no more over p{} at epoch {}", Node(*node), partition.0, epoch.0)
            }
            Event::Decided(decided) => decided.fmt(f),
            Event::Undone { node, partition, id, .. } => {
                write!(f, "{} takes back {} in p{}", Node(*node), Id(*id), partition.0)
            }
            Event::Buried { node, partition, id, .. } => {
                write!(f, "{} will not decide {} in p{}", Node(*node), Id(*id), partition.0)
            }
            Event::Booked { node, partition, id, legs, .. } => {
                write!(f, "{} books {} in p{}: {}", Node(*node), Id(*id), partition.0, Legs(legs))
            }
            Event::Corrected { node, partition, id, what, .. } => {
                let what = match what {
                    Correction::Cancel => "takes back",
                    Correction::Trim(_) => "cuts down",
                    Correction::Debt => "owes",
                };
                write!(f, "{} says that it {what} {} in p{}", Node(*node), Id(*id), partition.0)
            }
            Event::Acted { node, id, partition, epoch, known, age, .. } => {
                let (partition, epoch, known) = (partition.0, epoch.0, known.0);
                write!(f, "{} acts on the answer to {} from p{partition} epoch {epoch}", Node(*node), Id(*id))?;
                write!(f, " (it knows {known}), {} ms old", Millis(age.as_nanos()))
            }
            Event::Lent { node, id, leg, .. } => write!(f, "{} lends {}: {}", Node(*node), Id(*id), Legs(&[*leg])),
            Event::Told(told) => told.fmt(f),
            Event::Counts { .. }
            | Event::Claimed { .. }
            | Event::Kept { .. }
            | Event::Flushed { .. }
            | Event::Vouched { .. }
            | Event::TookIn { .. }
            | Event::Recovered { .. } => OfStore(self).fmt(f),
            Event::Note(words) => f.write_str(words),
        }
    }
}

/// What happened to what is kept.
struct OfStore<'a>(&'a Event);

impl Display for OfStore<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if let Event::Counts { session, store } = self.0 {
            let whose = Session(*session);
            return match store {
                None => write!(f, "what {whose} keeps counts nowhere"),
                Some(life) => write!(f, "what {whose} keeps counts in {}", Life(*life)),
            };
        }
        if let Event::Claimed { life, partition, keeper } = self.0 {
            return write!(f, "p{} is {}'s in {}", partition.0, Session(keeper.session), Life(*life));
        }
        if let Event::Kept { life, partition, keeper, anew, keys, .. } = self.0 {
            let (whole, session) = (if *anew { "all of " } else { "" }, Session(keeper.session));
            return write!(f, "{} keeps {whole}p{} for {session}: {} keys", Life(*life), partition.0, keys.len());
        }
        if let Event::Flushed { life } = self.0 {
            return write!(f, "{} is emptied", Life(*life));
        }
        if let Event::Vouched { life, index } = self.0 {
            return write!(f, "an operator vouches for {} in entry {index}", Life(*life));
        }
        if let Event::TookIn { partition, keeper, of, by, .. } = self.0 {
            let (by, heir, dead) = (Life(*by), Session(keeper.session), Session(of.session));
            return write!(f, "{heir} takes in what {dead} kept of p{} in {by}", partition.0);
        }
        let Event::Recovered { node, partition, epoch, recovered } = self.0 else { return Ok(()) };
        write!(f, "{} over p{} at epoch {}: ", Node(*node), partition.0, epoch.0)?;
        match recovered {
            Recovered::Fresh => f.write_str("nobody used anything"),
            Recovered::Allowance { keys } => write!(f, "what was kept is known, of {keys} keys"),
            Recovered::WorstCase => f.write_str("the worst has to be assumed"),
        }
    }
}

impl Display for Decided {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let word = match (self.allowed, self.recovering) {
            (true, _) => "allows",
            (false, false) => "refuses",
            (false, true) => "refuses (recovering)",
        };
        let again = if self.replayed { " again" } else { "" };
        let (id, partition, epoch) = (Id(self.id), self.partition.0, self.epoch.0);
        write!(f, "{} {word}{again} {id} in p{partition} epoch {epoch}: {}", Node(self.node), Legs(&self.legs))
    }
}

impl Display for Told {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let took = Millis(self.returned.since(self.invoked).as_nanos());
        match &self.decision {
            None => {
                write!(f, "caller {} hears nothing of {} from {}, {took} ms", self.ask, Id(self.id), Node(self.node))
            }
            Some(Decision { allowed, legs }) => {
                let word = if *allowed { "may go ahead" } else { "may not" };
                write!(f, "caller {} {word} with {}, says {}, {took} ms:", self.ask, Id(self.id), Node(self.node))?;
                legs.iter().try_for_each(|told| {
                    write!(f, " {} ({}, {})", Legs(&[told.leg]), told.source.as_str(), told.reason.as_str())
                })
            }
        }
    }
}
