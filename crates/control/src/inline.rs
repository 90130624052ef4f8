//! Limits that checks bring along, where the policy of their domain allows it. The first check that names one has it
//! defined here, once for the whole cluster: from then on its numbers are pinned until the domain's next revision, so that
//! two callers who disagree about a rate are told so, and every owner counts the same. What a limit is called here is in a
//! name space of its own, apart from the limits of the document.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::command::InlineProposal;
use crate::genesis::NAME_MAX;
use crate::policies::{LimitEntry, TEXT_MAX};
use crate::refusal::Refusal;

/// How many inline limits of one domain keep their number, those of earlier revisions among them; of these the one that
/// was allotted first goes first.
pub const INLINE_KEPT: usize = 1_024;

/// The inline limits of one domain.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InlineLimits {
    /// By name.
    pub limits: BTreeMap<String, InlineLimit>,
}

/// One of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InlineLimit {
    /// Its number.
    pub entry: LimitEntry,
    /// Its key and its rate, as text.
    pub definition: Arc<str>,
    /// The revision of the domain under which it was defined last; in a later one it is not in force.
    pub revision: u64,
}

/// What a proposal comes to.
pub(crate) enum Wanted {
    /// It is in force already.
    Stands,
    /// It is to be defined, under the number it had.
    Again(LimitEntry),
    /// It is to be defined, under a new number.
    New,
}

impl InlineLimits {
    /// Those in force at a revision.
    pub fn in_force(&self, revision: u64) -> impl Iterator<Item = (&str, &InlineLimit)> {
        let named = self.limits.iter().map(|(name, limit)| (name.as_str(), limit));
        named.filter(move |(_, limit)| limit.revision == revision)
    }

    /// What is to be done about a proposal for the current revision.
    pub(crate) fn wanted(&self, proposal: &InlineProposal) -> Result<Wanted, Refusal> {
        let names = (1..=NAME_MAX).contains(&proposal.name.len());
        if !names || proposal.definition.len() > TEXT_MAX {
            return Err(Refusal::BadText);
        }
        let known = self.limits.get(&proposal.name);
        if let Some(pinned) = known.filter(|limit| limit.revision == proposal.revision) {
            let agrees = pinned.definition == proposal.definition && pinned.entry.digest == proposal.digest;
            let definition = || Refusal::InlineConflict { definition: pinned.definition.to_string() };
            return if agrees { Ok(Wanted::Stands) } else { Err(definition()) };
        }
        let most = proposal.most.min(INLINE_KEPT as u32);
        if self.in_force(proposal.revision).count() >= most as usize {
            return Err(Refusal::InlineFull { most });
        }
        let same = known.map(|limit| limit.entry).filter(|entry| entry.digest == proposal.digest);
        Ok(same.map_or(Wanted::New, Wanted::Again))
    }

    /// Defines a limit, in whose place an earlier one of that name goes.
    pub(crate) fn define(&mut self, proposal: &InlineProposal, entry: LimitEntry) {
        let InlineProposal { name, definition, revision, .. } = proposal.clone();
        self.limits.insert(name, InlineLimit { entry, definition, revision });
        if self.limits.len() > INLINE_KEPT {
            let earlier = self.limits.iter().filter(|(_, limit)| limit.revision != revision);
            let oldest = earlier.min_by_key(|(_, limit)| limit.entry.allotted_at).map(|(name, _)| name.clone());
            oldest.and_then(|name| self.limits.remove(&name));
        }
    }
}

#[cfg(test)]
mod tests;
