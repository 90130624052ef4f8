//! Policies, as far as the cluster must agree on them: numbered documents per domain, and a number for every limit that
//! is never given to another. The text itself means nothing here.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use limits::{LIMIT_ID_MAX, LimitId};

use crate::command::{Expected, InlineProposal, LimitDigest, PolicyProposal};
use crate::genesis::NAME_MAX;
use crate::inline::{InlineLimits, Wanted};
use crate::refusal::Refusal;

/// The largest document, in bytes. Larger ones are refused.
pub const DOCUMENT_MAX: usize = 256 * 1024;
/// The most bytes of all current documents together. A proposal that would exceed it is refused.
pub const DOCUMENTS_MAX: usize = 32 * 1024 * 1024;
/// How many revisions of a domain are kept, the current one among them; the oldest goes first.
pub const REVISIONS_KEPT: usize = 50;
/// The most bytes of all earlier documents together; the oldest of all goes first.
pub const HISTORY_MAX: usize = 32 * 1024 * 1024;
/// The most domains. A proposal for one more is refused.
pub const DOMAINS_MAX: usize = 1_024;
/// The most limits of a domain. A proposal with more is refused.
pub const LIMITS_MAX: usize = 16_384;
/// How many limits that a domain no longer has keep their number, in case they return; the longest gone goes first.
pub const RETIRED_MAX: usize = 1_024;
/// The longest author or reason, in bytes. Longer ones are refused.
pub const TEXT_MAX: usize = 1_024;

/// All policies.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Policies {
    /// By name.
    pub domains: BTreeMap<String, DomainPolicies>,
    /// The last number that was given to a limit; 0 before the first.
    pub last_limit: u32,
}

/// The policies of one domain.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DomainPolicies {
    /// The kept revisions, the oldest first and the current one last; never empty.
    pub revisions: VecDeque<PolicyRevision>,
    /// The limits of the current revision, by name.
    pub limits: BTreeMap<String, LimitEntry>,
    /// Limits that the domain had, the longest gone first.
    pub retired: VecDeque<RetiredLimit>,
    /// Limits that checks brought along.
    pub inline: InlineLimits,
}

/// A document in its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyRevision {
    /// Counts the domain's documents from 1.
    pub revision: u64,
    /// The text.
    pub document: Arc<str>,
    /// Who proposed it.
    pub author: String,
    /// Why.
    pub reason: String,
    /// When, by the proposer's clock.
    pub at_unix_ms: u64,
    /// The log index of its entry.
    pub index: u64,
}

/// A limit, as `control` knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LimitEntry {
    /// Its number.
    pub id: LimitId,
    /// Over key and route.
    pub digest: [u8; 16],
    /// The log index at which the number was allotted: an owner appointed before cannot have inherited its use.
    pub allotted_at: u64,
}

/// A limit that its domain no longer has. It keeps its number should it return with the same key and route, so that a
/// rollback finds what was used and nobody resets a limit by taking it away for a moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RetiredLimit {
    /// The name it had.
    pub name: String,
    /// What it was.
    pub entry: LimitEntry,
}

impl DomainPolicies {
    /// The revision that decides.
    pub fn current(&self) -> &PolicyRevision {
        self.revisions.back().expect("a domain exists from its first revision on")
    }

    /// A kept revision by number.
    pub fn revision(&self, number: u64) -> Option<&PolicyRevision> {
        self.revisions.iter().find(|revision| revision.revision == number)
    }

    fn earlier_bytes(&self) -> usize {
        self.revisions.iter().rev().skip(1).map(|revision| revision.document.len()).sum()
    }
}

impl Policies {
    /// The policies of a domain.
    pub fn domain(&self, name: &str) -> Option<&DomainPolicies> {
        self.domains.get(name)
    }

    /// A limit of a domain's current revision: its number, and when that was allotted.
    pub fn limit(&self, domain: &str, name: &str) -> Option<(LimitId, u64)> {
        let entry = self.domain(domain)?.limits.get(name)?;
        Some((entry.id, entry.allotted_at))
    }

    /// A limit that checks brought along to a domain's current revision: its number, and when that was allotted.
    pub fn inline(&self, domain: &str, name: &str) -> Option<(LimitId, u64)> {
        let domain = self.domain(domain)?;
        let limit = domain.inline.limits.get(name).filter(|limit| limit.revision == domain.current().revision)?;
        Some((limit.entry.id, limit.entry.allotted_at))
    }

    /// Makes the proposal its domain's current revision and gives its number.
    pub(crate) fn apply(&mut self, index: u64, proposal: &PolicyProposal) -> Result<u64, Refusal> {
        check_texts(proposal)?;
        let current = self.domains.get(&proposal.domain);
        let before = current.map_or(0, |domain| domain.current().revision);
        match proposal.expected {
            Expected::Revision(expected) if expected != before => {
                return Err(Refusal::RevisionConflict { current: before });
            }
            Expected::Any | Expected::Revision(_) => {}
        }
        if current.is_none() && self.domains.len() >= DOMAINS_MAX {
            return Err(Refusal::TooManyDomains);
        }
        self.check_room(proposal)?;
        let none = DomainPolicies::default();
        let (limits, last_limit) = self.number(index, current.unwrap_or(&none), &proposal.limits)?;
        self.last_limit = last_limit;
        let domain = self.domains.entry(proposal.domain.clone()).or_default();
        domain.replace_limits(limits);
        domain.push(before + 1, index, proposal);
        self.forget_oldest();
        Ok(before + 1)
    }

    /// Defines a limit that a check brought along, and tells whether that changed anything.
    pub(crate) fn define(&mut self, index: u64, proposal: &InlineProposal) -> Result<bool, Refusal> {
        let domain = self.domains.get_mut(&proposal.domain).ok_or(Refusal::RevisionConflict { current: 0 })?;
        let current = domain.current().revision;
        if current != proposal.revision {
            return Err(Refusal::RevisionConflict { current });
        }
        let entry = match domain.inline.wanted(proposal)? {
            Wanted::Stands => return Ok(false),
            Wanted::Again(entry) => entry,
            Wanted::New => {
                self.last_limit = next_limit(self.last_limit)?;
                LimitEntry { id: LimitId(self.last_limit), digest: proposal.digest, allotted_at: index }
            }
        };
        domain.inline.define(proposal, entry);
        Ok(true)
    }

    /// What every history keeps: each domain has a current revision, and no two limits ever had one number.
    pub(crate) fn are_consistent(&self) -> bool {
        let mut ids = BTreeSet::new();
        self.domains.values().all(|domain| {
            let gone = domain.retired.iter().map(|gone| gone.entry.id);
            let inline = domain.inline.limits.values().map(|limit| limit.entry.id);
            let mut all = domain.limits.values().map(|entry| entry.id).chain(gone).chain(inline);
            !domain.revisions.is_empty() && all.all(|id| (1..=self.last_limit).contains(&id.0) && ids.insert(id))
        })
    }

    fn check_room(&self, proposal: &PolicyProposal) -> Result<(), Refusal> {
        let others = self.domains.iter().filter(|(name, _)| **name != proposal.domain);
        let bytes: usize = others.map(|(_, domain)| domain.current().document.len()).sum();
        if bytes + proposal.document.len() > DOCUMENTS_MAX { Err(Refusal::DocumentsFull) } else { Ok(()) }
    }

    /// The limits of a proposal with their numbers, and the last number given. A limit with the key and route it had
    /// keeps its number under its name, under a new name that says which the old one was, and when it returns after it
    /// was gone.
    fn number(
        &self,
        index: u64,
        domain: &DomainPolicies,
        proposed: &[LimitDigest],
    ) -> Result<(BTreeMap<String, LimitEntry>, u32), Refusal> {
        let mut last = self.last_limit;
        let mut limits = BTreeMap::new();
        let mut ids = BTreeSet::new();
        for limit in proposed {
            let entry = match domain.same_as_before(limit) {
                Some(entry) => entry,
                None => {
                    last = next_limit(last)?;
                    LimitEntry { id: LimitId(last), digest: limit.digest, allotted_at: index }
                }
            };
            if limits.insert(limit.name.clone(), entry).is_some() {
                return Err(Refusal::LimitTwice { name: limit.name.clone() });
            }
            if !ids.insert(entry.id) {
                return Err(Refusal::RenameTaken { name: domain.name_of(entry.id) });
            }
        }
        Ok((limits, last))
    }

    /// Forgets earlier documents, the oldest of all domains first, until they fit.
    fn forget_oldest(&mut self) {
        while self.domains.values().map(DomainPolicies::earlier_bytes).sum::<usize>() > HISTORY_MAX {
            let oldest = self
                .domains
                .values_mut()
                .filter(|domain| domain.revisions.len() > 1)
                .min_by_key(|domain| domain.revisions[0].index)
                .expect("what takes room is an earlier revision of some domain");
            oldest.revisions.pop_front();
        }
    }
}

impl DomainPolicies {
    fn same_as_before(&self, limit: &LimitDigest) -> Option<LimitEntry> {
        let under = |name: &String| self.limits.get(name).copied().filter(|entry| entry.digest == limit.digest);
        let returning = || {
            let gone = self.retired.iter().find(|gone| gone.name == limit.name && gone.entry.digest == limit.digest);
            gone.map(|gone| gone.entry)
        };
        under(&limit.name).or_else(|| limit.renamed_from.as_ref().and_then(under)).or_else(returning)
    }

    fn name_of(&self, id: LimitId) -> String {
        let entry = self.limits.iter().find(|(_, entry)| entry.id == id);
        entry.map(|(name, _)| name.clone()).unwrap_or_default()
    }

    fn replace_limits(&mut self, limits: BTreeMap<String, LimitEntry>) {
        let ids: BTreeSet<LimitId> = limits.values().map(|entry| entry.id).collect();
        self.retired.retain(|gone| !ids.contains(&gone.entry.id));
        for (name, entry) in std::mem::replace(&mut self.limits, limits) {
            if !ids.contains(&entry.id) {
                self.retired.push_back(RetiredLimit { name, entry });
            }
        }
        let excess = self.retired.len().saturating_sub(RETIRED_MAX);
        self.retired.drain(..excess);
    }

    fn push(&mut self, revision: u64, index: u64, proposal: &PolicyProposal) {
        let PolicyProposal { document, author, reason, at_unix_ms, .. } = proposal.clone();
        if self.revisions.len() >= REVISIONS_KEPT {
            self.revisions.pop_front();
        }
        self.revisions.push_back(PolicyRevision { revision, document, author, reason, at_unix_ms, index });
    }
}

fn next_limit(last: u32) -> Result<u32, Refusal> {
    last.checked_add(1).filter(|id| *id <= LIMIT_ID_MAX).ok_or(Refusal::LimitIdsExhausted)
}

fn check_texts(proposal: &PolicyProposal) -> Result<(), Refusal> {
    if proposal.document.len() > DOCUMENT_MAX {
        return Err(Refusal::DocumentTooLarge);
    }
    if proposal.limits.len() > LIMITS_MAX {
        return Err(Refusal::TooManyLimits);
    }
    let old_names = proposal.limits.iter().filter_map(|limit| limit.renamed_from.as_ref());
    let names = proposal.limits.iter().map(|limit| &limit.name).chain(old_names).chain([&proposal.domain]);
    let names_fit = names.into_iter().all(|name| (1..=NAME_MAX).contains(&name.len()));
    let words_fit = [&proposal.author, &proposal.reason].iter().all(|text| text.len() <= TEXT_MAX);
    if names_fit && words_fit { Ok(()) } else { Err(Refusal::BadText) }
}

#[cfg(test)]
mod tests;
