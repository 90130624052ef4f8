//! What a process has carried to the store and the log, what comes back, and what of it is worth telling.

use ring::PartitionId;

use crate::kept::{Claim, Incarnation, Keeper, Void};
use crate::partition::{Recovered, Write};
use crate::session::{Epoch, SessionId};

/// What is to be carried out of the process next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Errand {
    /// To the log: where the records of this session count, by its proposal with this number.
    Propose {
        /// The session.
        session: SessionId,
        /// The number.
        number: u64,
        /// The life of the store; `None`: they do not count.
        store: Option<Incarnation>,
    },
    /// To the store; answered by [`Dealings::handle_claimed`](crate::kept::Dealings::handle_claimed).
    Claim {
        /// What is claimed.
        claim: Claim,
        /// No write with this number or a lower one counts afterwards.
        number: u64,
    },
    /// To the store in this life, and to no other; answered by [`Dealings::handle_written`](crate::kept::Dealings::handle_written).
    Write {
        /// What is written of.
        partition: PartitionId,
        /// What is written.
        write: Write,
        /// The life.
        life: Incarnation,
    },
}

/// The store's answer to a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteAnswer {
    /// It is kept.
    Ok,
    /// The record is not the writer's. Nothing changed.
    Lost {
        /// Whose it is; `None` if there is none, or none that can be read.
        keeper: Option<Keeper>,
    },
    /// This write or a later one is kept already, or it was claimed under its number or a higher one. Nothing changed.
    Stale,
}

/// Why a write has no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unanswered {
    /// It was not sent.
    NotSent,
    /// It was sent, and nobody knows what came of it.
    Unknown,
    /// The store said no, and may say so to the next.
    Refused,
    /// It will never fit.
    TooLarge,
}

/// Something worth telling operators.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum News {
    /// A claim was answered with this.
    Claimed(ClaimedAs),
    /// It is known how a reign began.
    Recovered {
        /// Of which partition.
        partition: PartitionId,
        /// The reign's epoch.
        epoch: Epoch,
        /// How it reads what was used before.
        recovered: Recovered,
    },
    /// Checks of a partition waited in vain for what the store has, and go on by the worst case.
    WaitedInVain {
        /// The partition.
        partition: PartitionId,
    },
    /// A later reign, or another session of the same epoch, had the partition when this one came to claim it.
    ClaimLost {
        /// The partition.
        partition: PartitionId,
        /// The epoch of the reign that came too late.
        epoch: Epoch,
        /// Who has it; `None`: it is written in a format of another build.
        by: Option<Keeper>,
    },
    /// The same, when this one came to write.
    WriteFenced {
        /// The partition.
        partition: PartitionId,
        /// The epoch of the reign that may not write any more.
        epoch: Epoch,
        /// Who has it.
        by: Keeper,
    },
    /// The store has lost a partition's record, and it is claimed and written anew.
    RecordLost {
        /// The partition.
        partition: PartitionId,
    },
}

/// What was kept before a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClaimedAs {
    /// Nothing: nobody ever decided for this partition.
    Nobody,
    /// A record that counts.
    Record,
    /// Nothing that counts.
    Void(Void),
}
