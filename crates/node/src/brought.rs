//! Limits that checks bring along: which of them a check goes by, and seeing to it that the cluster knows them before the
//! check is matched. The first check that names one waits for an entry of the log; from then on they are limits like any
//! other.

use std::time::Duration;

use control::{Command, InlineProposal, Refusal};
use futures_util::future::join_all;
use limits::FailMode;
use policy::{Domain, InlineLimit};
use smallvec::SmallVec;

use crate::clock;
use crate::decision::{NotPut, Question};
use crate::node::Node;
use crate::propose::NotProposed;
use crate::views::Policies;

/// The most limits that one check brings along.
pub const BROUGHT_MAX: usize = 4;

/// A limit that a check brings along.
#[derive(Clone, Copy, Debug)]
pub struct Brought<'a> {
    /// Its name in the domain.
    pub name: &'a str,
    /// Its rate, as in a policy.
    pub rate: &'a str,
    /// The attributes that it counts by.
    pub key: &'a [String],
}

/// The limits that a check goes by because it brought them.
#[derive(Debug, Default)]
pub(crate) struct Places {
    /// Their places in the domain.
    pub(crate) known: SmallVec<[u32; BROUGHT_MAX]>,
    /// Whether there is one that the cluster does not know, and that is passed since it fails open.
    pub(crate) passed: bool,
}

/// The limits that a question brought along, as its domain knows them.
pub(crate) fn places(domain: &Domain, question: &Question<'_>) -> Result<Places, NotPut> {
    let mut places = Places::default();
    for brought in question.brought {
        let asked = defined(domain, brought)?;
        match domain.brought(asked.name()) {
            // Brought twice, it is one limit still.
            Some((place, stands)) if *stands == asked && places.known.contains(&place) => {}
            Some((place, stands)) if *stands == asked => places.known.push(place),
            Some((_, stands)) => {
                let (name, stands) = (asked.name().to_owned(), stands.to_string());
                return Err(NotPut::InlineConflict { name, stands });
            }
            None => match (domain.left_out(asked.name()), domain.inline().map(policy::Inline::fail)) {
                (Some(why), _) => return Err(NotPut::InlineRefused(why.clone())),
                (None, Some(FailMode::Open)) => places.passed = true,
                (None, Some(FailMode::Closed | FailMode::Emergency { .. }) | None) => {
                    return Err(NotPut::InlineUndefined);
                }
            },
        }
    }
    Ok(places)
}

fn defined(domain: &Domain, brought: &Brought<'_>) -> Result<InlineLimit, NotPut> {
    let inline = domain.inline().ok_or(NotPut::InlineNotAllowed)?;
    let key: SmallVec<[&str; 8]> = brought.key.iter().map(String::as_str).collect();
    inline.define(brought.name, brought.rate, &key).map_err(NotPut::InlineRefused)
}

impl Node {
    /// Has those limits defined that these questions bring along and their domains do not know, in half of their callers'
    /// time at most: the other half is for asking owners. For each question: why one of its limits cannot be defined, where
    /// that is known; whatever else stands in the way shows when the question is matched.
    pub(crate) async fn define_brought(&self, questions: &[Question<'_>]) -> Vec<Option<NotPut>> {
        join_all(questions.iter().map(|question| self.define_for(question))).await
    }

    async fn define_for(&self, question: &Question<'_>) -> Option<NotPut> {
        let (started, most) = (clock::now(), question.budget.scaled(1, 2));
        for brought in question.brought {
            // A revision may become another while its limit is being defined: then once more, under that one.
            for _ in 0..2 {
                let proposal = match missing(&self.policies(), question, brought) {
                    Ok(Some(proposal)) => proposal,
                    Ok(None) => break,
                    Err(full) => return Some(full),
                };
                let left = most.saturating_sub(clock::now().since(started));
                match self.define(proposal, left.into()).await {
                    Err(NotProposed::Refused(Refusal::RevisionConflict { .. })) => {}
                    Err(NotProposed::Refused(Refusal::InlineFull { most })) => {
                        return Some(NotPut::InlineFull { most });
                    }
                    Ok(()) | Err(_) => break,
                }
            }
        }
        None
    }

    /// Defines one limit, and waits until this node knows what became of it.
    async fn define(&self, proposal: InlineProposal, within: Duration) -> Result<(), NotProposed> {
        let started = clock::now();
        let mut changes = self.changes();
        let (domain, name) = (proposal.domain.clone(), proposal.name.clone());
        let command = Command::DefineInline(Box::new(proposal));
        let proposed = tokio::time::timeout(within, self.proposer().propose_within(&command, within)).await;
        match proposed.unwrap_or(Err(NotProposed::NoLeader)) {
            Ok(_) | Err(NotProposed::Refused(Refusal::InlineConflict { .. })) => {}
            Err(why) => return Err(why),
        }
        while !is_known(&self.policies(), &domain, &name) {
            let left = within.saturating_sub(Duration::from(clock::now().since(started)));
            let changed = tokio::time::timeout(left, changes.changed()).await;
            if !matches!(changed, Ok(Ok(()))) {
                break;
            }
        }
        Ok(())
    }
}

/// What is to be proposed for a limit that its domain allows and does not know. A domain that is full stays so until its
/// next revision, and the log is not asked again.
fn missing(
    policies: &Policies,
    question: &Question<'_>,
    brought: &Brought<'_>,
) -> Result<Option<InlineProposal>, NotPut> {
    let Some(domain) = policies.catalogue.domain(question.domain) else { return Ok(None) };
    let (Some(inline), Ok(limit)) = (domain.inline(), defined(domain, brought)) else { return Ok(None) };
    if domain.brought(limit.name()).is_some() || domain.left_out(limit.name()).is_some() {
        return Ok(None);
    }
    let most = inline.max_limits();
    if domain.inline_defined() >= most as usize {
        return Err(NotPut::InlineFull { most });
    }
    Ok(Some(InlineProposal {
        domain: question.domain.to_owned(),
        revision: domain.revision(),
        name: limit.name().to_owned(),
        digest: limit.digest(),
        definition: limit.to_string().into(),
        most,
    }))
}

fn is_known(policies: &Policies, domain: &str, name: &str) -> bool {
    let domain = policies.catalogue.domain(domain);
    domain.is_some_and(|domain| domain.brought(name).is_some() || domain.left_out(name).is_some())
}
