//! Which keys are asked about: a few for each limit, chosen so that every node owns some of each, and asked about often
//! enough that every limit is reached.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, bail};

use crate::load::{Callers, Stream};
use crate::stage::NODES;
use crate::terms::LEDGER;

/// Keys of each limit whose owner is one node.
const KEYS_PER_NODE: usize = 2;

/// Keys that are looked at for each limit before the search is given up.
const CANDIDATES_MAX: usize = 200;

/// From one question about a key to the next.
const EVERY: Duration = Duration::from_millis(62);

/// A limit that is meant never to be reached, and its pace.
const CALM: (&str, Duration) = ("open-calm", Duration::from_millis(125));

/// A stream, and who owned its key when it was chosen.
#[derive(Clone, Debug)]
pub struct Chosen {
    /// The stream.
    pub stream: Stream,
    /// The owner's name.
    pub owner: String,
}

/// Chooses keys for these limits, but for the one that the load leaves alone.
///
/// # Errors
/// When the search finds too few.
pub fn choose(callers: &Callers, limits: &[Arc<str>]) -> Result<Vec<Chosen>> {
    let mut chosen = Vec::new();
    for limit in limits.iter().filter(|limit| &***limit != LEDGER) {
        let of_limit = search(|key| callers.owner_of(limit, key));
        if of_limit.len() < KEYS_PER_NODE * NODES {
            bail!("of {CANDIDATES_MAX} keys of {limit}, every node ought to own {KEYS_PER_NODE}: found {of_limit:?}");
        }
        chosen.extend(of_limit.into_iter().map(|(key, owner)| {
            let every = if &**limit == CALM.0 { CALM.1 } else { EVERY };
            Chosen { stream: Stream { limit: Arc::clone(limit), key: key.into(), every }, owner }
        }));
    }
    Ok(chosen)
}

/// Keys with their owners, no more than [`KEYS_PER_NODE`] of each.
fn search(owner_of: impl Fn(&str) -> Option<String>) -> Vec<(String, String)> {
    let mut of_node: BTreeMap<String, usize> = BTreeMap::new();
    let mut found = Vec::new();
    for number in 0..CANDIDATES_MAX {
        if found.len() == KEYS_PER_NODE * NODES {
            break;
        }
        let key = format!("key-{number}");
        let Some(owner) = owner_of(&key) else { continue };
        let count = of_node.entry(owner.clone()).or_default();
        if *count < KEYS_PER_NODE {
            *count += 1;
            found.push((key, owner));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_node_gets_as_many_keys() {
        let owner = |key: &str| key[4..].parse::<usize>().ok().map(|number| format!("n{}", number / 5 % 3));
        let found = search(owner);
        assert_eq!(found.len(), 6);
        assert_eq!(found.iter().filter(|(_, owner)| owner == "n2").count(), 2);
        assert!(search(|_| None).is_empty());
    }
}
