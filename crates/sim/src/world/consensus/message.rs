//! What nodes say to each other about the log. Any of it may be lost, doubled, late or overtaken.

use super::disk::{Entry, Position};

/// A message of one node to another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message<P> {
    /// Who says it.
    pub from: u8,
    /// To whom.
    pub to: u8,
    /// The newest term that the sender has seen.
    pub term: u64,
    /// What.
    pub body: Body<P>,
}

/// What is said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body<P> {
    /// A candidate asks for a vote.
    AskVote {
        /// Where its log ends.
        end: Position,
    },
    /// The answer.
    Vote {
        /// Whether it has it.
        granted: bool,
    },
    /// The answer to a candidate whose log is shorter: it cannot win here, and had better let others try.
    Behind,
    /// A leader shows that it lives, and sends what may be missing.
    Append {
        /// The entry before those sent.
        after: Position,
        /// What follows it, oldest first; often nothing.
        entries: Vec<Entry<P>>,
        /// Up to where the leader's log is committed.
        committed: u64,
        /// The newest round of confirmation that had begun when it was sent.
        round: u64,
    },
    /// The answer of who follows.
    Appended {
        /// Up to where its log is the leader's. `Err` where it is not yet known to be: where it may be.
        matched: Result<u64, u64>,
        /// The round that came with the question.
        round: u64,
    },
}
