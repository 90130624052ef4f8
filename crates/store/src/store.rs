//! The handle: two questions, put to whatever connection there is. It holds no keys and keeps no promise of its own.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use ownership::Write;
use ownership::kept::{Claimed, Incarnation, Keeper, KeptKey, WriteAnswer};
use redis::ScriptInvocation;
use ring::PartitionId;
use tokio::sync::watch;
use tokio::task::AbortHandle;
use wire::store::{FIELD_LEN, field_of, session_to_text, value_of};

use crate::answer::{self, Understood};
use crate::config::{BadConfig, CLUSTER_NAME_MAX, StoreConfig};
use crate::dial::Dialler;
use crate::error::StoreError;
use crate::names::Names;
use crate::scripts::FORMAT;
use crate::shared::Shared;
use crate::standing::Standing;
use crate::tally::{Op, Outcome, Tally};
use crate::upkeep;

/// The most keys that one call may write.
pub const KEYS_MAX: usize = 65_536;

/// The most bytes that the fields of one call may have together.
pub const CALL_BYTES_MAX: usize = 32 * 1024 * 1024;

/// The largest epoch and number of a write: what a script still compares exactly.
pub const NUMBER_MAX: u64 = (1 << 53) - 1;

/// What the number of a write is called in refusals.
const NUMBER: &str = "sequence number";

/// The store of one cluster. Cheap to clone; the connection ends with the last clone.
#[derive(Clone)]
pub struct Store(Arc<Opened>);

struct Opened {
    shared: Arc<Shared>,
    upkeep: AbortHandle,
    uuid: String,
    claim_timeout: Duration,
    write_timeout: Duration,
}

impl Store {
    /// The store of the cluster with this uuid. Returns at once, whether or not Redis is there, and begins to connect.
    /// Called within a tokio runtime.
    ///
    /// # Errors
    ///
    /// [`BadConfig`]; a file of certificates is read here.
    pub fn open(config: &StoreConfig, uuid: [u8; 16]) -> Result<Store, BadConfig> {
        if !(1..=CLUSTER_NAME_MAX).contains(&config.cluster.len()) {
            return Err(BadConfig::Name);
        }
        let dialler = Dialler::new(config)?;
        let uuid = format!("{:032x}", u128::from_be_bytes(uuid));
        let shared = Arc::new(Shared::new(Names::new(&config.cluster, &uuid)));
        let upkeep = tokio::spawn(upkeep::run(Arc::clone(&shared), dialler)).abort_handle();
        let (claim_timeout, write_timeout) = (config.claim_timeout, config.write_timeout);
        Ok(Store(Arc::new(Opened { shared, upkeep, uuid, claim_timeout, write_timeout })))
    }

    /// Puts a partition into `keeper`'s name and tells what was kept before. `number` is that of the keeper's last write,
    /// arrived or not, and 0 before the first: no write under it or a lower one counts after the claim. May be asked again as
    /// long as nothing was written, answers the same, and raises the number if it is higher now.
    ///
    /// # Errors
    ///
    /// [`StoreError`]. After [`StoreError::Unknown`] the partition may be in the keeper's name.
    pub async fn claim(&self, partition: PartitionId, keeper: Keeper, number: u64) -> Result<Claimed, StoreError> {
        let Opened { shared, uuid, claim_timeout, .. } = &*self.0;
        let claimed = async {
            let mut call = shared.scripts.claim.prepare_invoke();
            call.key(shared.names.partition(partition)).key(&shared.names.cluster);
            call.arg(FORMAT).arg(bounded("epoch", keeper.epoch.0)?).arg(session_to_text(keeper.session)).arg(uuid);
            call.arg(bounded(NUMBER, number)?);
            let answer = shared.ask(Op::Claim, &call, *claim_timeout, None).await?;
            match answer::claimed(partition, answer)? {
                Understood::Answer(claimed) => Ok(claimed),
                Understood::Replica => {
                    shared.suspect();
                    Err(StoreError::Refused("this Redis is a replica".to_owned()))
                }
            }
        };
        let claimed = claimed.await;
        shared.tally.count(
            Op::Claim,
            outcome(claimed.as_ref().map(|claimed| match claimed {
                Claimed::New { .. } | Claimed::Taken { .. } => Outcome::Done,
                Claimed::Held { .. } | Claimed::Fenced { .. } | Claimed::UnknownFormat => Outcome::Lost,
            })),
        );
        claimed
    }

    /// Writes keys of a partition that is in the keeper's name, all in one piece. One that is `anew` replaces all keys
    /// that are there; any other replaces those that it names, and leaves the rest. `seq` is at least 1, rises with every
    /// write of a keeper, and is higher than the number that the keeper claimed under. It is sent to that `life` of the store and
    /// to no other, if one is named: else [`StoreError::Away`]. The first write after a claim is `anew`, or it is lost.
    ///
    /// # Errors
    ///
    /// [`StoreError`]. After [`StoreError::Unknown`] it may be written, or may be yet, until a higher `seq` is written or the
    /// keeper claims under it.
    pub async fn write(
        &self,
        partition: PartitionId,
        write: &Write,
        life: Option<Incarnation>,
    ) -> Result<WriteAnswer, StoreError> {
        let Opened { shared, claim_timeout, write_timeout, .. } = &*self.0;
        let (op, script, patience) = if write.anew {
            (Op::Rewrite, &shared.scripts.rewrite, *claim_timeout)
        } else {
            (Op::Write, &shared.scripts.write, *write_timeout)
        };
        let written = async {
            within("number of keys", write.keys.len(), KEYS_MAX)?;
            let mut call = script.prepare_invoke();
            call.key(shared.names.partition(partition));
            add_head(&mut call, write)?;
            add_fields(&mut call, partition, &write.keys)?;
            answer::written(shared.ask(op, &call, patience, life).await?)
        };
        let written = written.await;
        if matches!(written, Ok(WriteAnswer::Ok)) {
            shared.tally.count_keys_written(write.keys.len());
        }
        shared.tally.count(
            op,
            outcome(written.as_ref().map(|written| match written {
                WriteAnswer::Ok => Outcome::Done,
                WriteAnswer::Lost { .. } => Outcome::Lost,
                WriteAnswer::Stale => Outcome::Stale,
            })),
        );
        written
    }

    /// How the store stands, now and whenever that changes.
    pub fn standing(&self) -> watch::Receiver<Standing> {
        self.0.shared.standing.subscribe()
    }

    /// The totals of this store and its clones.
    pub fn tally(&self) -> &Tally {
        &self.0.shared.tally
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        self.upkeep.abort();
        self.shared.handle_closed();
    }
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store").field("names", &self.0.shared.names).finish_non_exhaustive()
    }
}

/// What a write says before its fields: in whose name, under which number, and what had been assumed.
fn add_head(call: &mut ScriptInvocation<'_>, write: &Write) -> Result<(), StoreError> {
    if write.seq == 0 {
        return Err(StoreError::TooLarge(NUMBER));
    }
    call.arg(FORMAT).arg(bounded("epoch", write.keeper.epoch.0)?).arg(session_to_text(write.keeper.session));
    call.arg(bounded(NUMBER, write.seq)?);
    call.arg(write.assumed_full.map_or_else(String::new, |span| span.as_nanos().to_string()));
    Ok(())
}

fn add_fields(call: &mut ScriptInvocation<'_>, partition: PartitionId, keys: &[KeptKey]) -> Result<(), StoreError> {
    let mut bytes = 0_usize;
    for kept in keys {
        let value = value_of(partition, kept);
        bytes = bytes.saturating_add(FIELD_LEN + value.len());
        within("size", bytes, CALL_BYTES_MAX)?;
        call.arg(&field_of(kept.limit, kept.key)).arg(value);
    }
    Ok(())
}

fn bounded(what: &'static str, number: u64) -> Result<u64, StoreError> {
    if number > NUMBER_MAX { Err(StoreError::TooLarge(what)) } else { Ok(number) }
}

fn within(what: &'static str, size: usize, most: usize) -> Result<(), StoreError> {
    if size > most { Err(StoreError::TooLarge(what)) } else { Ok(()) }
}

fn outcome(ending: Result<Outcome, &StoreError>) -> Outcome {
    match ending {
        Ok(outcome) => outcome,
        Err(StoreError::Away) => Outcome::Away,
        Err(StoreError::Full) => Outcome::Full,
        Err(StoreError::TooLarge(_)) => Outcome::TooLarge,
        Err(StoreError::Unknown) => Outcome::Unknown,
        Err(StoreError::Refused(_)) => Outcome::Refused,
    }
}
