//! Plans: rows of numbers for the limits that take theirs from the plan of a check. Whatever plan a check names, a limit
//! has numbers for it: the plan's row, or that of the plan `default`, or else the check lacks its plan.

use std::collections::BTreeSet;

use crate::bounds::Bounds;
use crate::error::{Findings, PolicyCode, PolicyError, Position};
use crate::fields::{self, quoted};
use crate::name::{NAME_SHAPE, is_name};
use crate::tree::{Entry, Node};

use super::limit::{LimitSpec, Missing, Names};
use super::numbers::Numbers;
use super::variants::Variants;
use super::{conflict, too_many};

/// The plan whose rows hold for checks without a plan, under a plan that the document does not have, or under one that
/// has no row for the limit.
pub const PLAN_DEFAULT: &str = "default";

/// A plan as the document has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanSpec {
    /// Its name, which the attribute `plan` of a check has to equal.
    pub name: String,
    /// Limits, as places in [`super::Document::limits`], and their numbers under this plan.
    pub rows: Vec<(u32, Numbers)>,
}

/// Reads the mapping of plans; `specs` are the limits, as far as they could be read.
pub(super) fn read_all(
    node: &Node<'_>,
    names: &Names<'_>,
    specs: Option<&[LimitSpec]>,
    bounds: &Bounds,
    variants: &mut Variants,
    findings: &mut Findings,
) -> Option<Vec<PlanSpec>> {
    let entries = fields::entries(node, "names of plans", findings)?;
    if let Some(beyond) = entries.get(bounds.plans) {
        findings.push(too_many(beyond.at, format!("there are {} plans", entries.len()), bounds.plans));
        return None;
    }
    let plans: Vec<Option<PlanSpec>> =
        entries.iter().map(|entry| read_one(entry, names, specs, variants, findings)).collect();
    let plans: Vec<PlanSpec> = plans.into_iter().collect::<Option<_>>()?;
    check_complete(&plans, entries, specs?, findings);
    Some(plans)
}

fn read_one(
    entry: &Entry<'_>,
    names: &Names<'_>,
    specs: Option<&[LimitSpec]>,
    variants: &mut Variants,
    findings: &mut Findings,
) -> Option<PlanSpec> {
    let named = fields::check_name(&entry.key, entry.at, "the name of a plan", (is_name, NAME_SHAPE), findings);
    let rows = fields::entries(&entry.value, "limits and their numbers", findings)?;
    let rows: Vec<_> = rows.iter().map(|row| read_row(&entry.key, row, names, specs, variants, findings)).collect();
    let rows: Vec<(u32, Numbers)> = rows.into_iter().collect::<Option<_>>()?;
    named.then(|| PlanSpec { name: entry.key.clone().into_owned(), rows })
}

fn read_row(
    plan: &str,
    row: &Entry<'_>,
    names: &Names<'_>,
    specs: Option<&[LimitSpec]>,
    variants: &mut Variants,
    findings: &mut Findings,
) -> Option<(u32, Numbers)> {
    let number = names.find(&row.key, row.at, findings)?;
    let limit = &specs?[number as usize];
    if limit.numbers.is_some() {
        let (key, _) = limit.counting.key();
        let error = conflict(row.at, &format!("`{}` has its own `{key}`", limit.name));
        findings.push(error.expected(format!("`{key}: $plan` in the limit")));
        return None;
    }
    let numbers = limit.counting.numbers(&row.value, findings)?;
    if plan != PLAN_DEFAULT {
        variants.note_plan(number, &limit.name, plan, row.at, findings);
    }
    Some((number, numbers))
}

/// A plan that leaves a limit out would turn its customers away, so either it has a row or the default plan does.
fn check_complete(plans: &[PlanSpec], entries: &[Entry<'_>], specs: &[LimitSpec], findings: &mut Findings) {
    let of = |plan: &PlanSpec| plan.rows.iter().map(|(limit, _)| *limit).collect::<BTreeSet<u32>>();
    let default: BTreeSet<u32> = plans.iter().filter(|plan| plan.name == PLAN_DEFAULT).flat_map(of).collect();
    let wanted: Vec<u32> = by_plan(specs).filter(|limit| !default.contains(limit)).collect();
    for (plan, entry) in plans.iter().zip(entries).filter(|(plan, _)| plan.name != PLAN_DEFAULT) {
        let rows = of(plan);
        for limit in wanted.iter().filter(|limit| !rows.contains(limit)) {
            if findings.is_full() {
                return;
            }
            let name = &specs[*limit as usize].name;
            let message = format!("plan `{}` has nothing for the limit `{name}`", plan.name);
            let error = PolicyError::new(entry.at, PolicyCode::MissingKey, message);
            findings.push(error.expected(format!("a row `{name}`, here or in the plan `{PLAN_DEFAULT}`")));
        }
    }
}

/// The limits whose numbers come from the plan.
fn by_plan(specs: &[LimitSpec]) -> impl Iterator<Item = u32> + '_ {
    (0..).zip(specs).filter(|(_, limit)| limit.numbers.is_none()).map(|(number, _)| number)
}

/// What limits need of the plans: that there are some, and a default where those that lack an attribute share one key.
pub(super) fn check_limits(plans: &[PlanSpec], specs: &[LimitSpec], names: &Names<'_>, findings: &mut Findings) {
    let default = plans.iter().find(|plan| plan.name == PLAN_DEFAULT);
    let has_default = |limit| default.is_some_and(|plan| plan.rows.iter().any(|(row, _)| *row == limit));
    for limit in by_plan(specs) {
        let (spec, at): (&LimitSpec, Position) = (&specs[limit as usize], names.at(limit));
        let (key, _) = spec.counting.key();
        if plans.is_empty() {
            let message = format!("`{}` takes its `{key}` from the plan, and there is none", spec.name);
            findings.push(PolicyError::new(at, PolicyCode::MissingKey, message).expected("`plans`"));
        } else if spec.missing == Missing::Anonymous && !has_default(limit) {
            let message = format!("`{}` counts checks without a plan, and has no numbers for them", spec.name);
            findings.push(
                conflict(at, &message).expected(format!("a row {} in the plan `{PLAN_DEFAULT}`", quoted(&spec.name))),
            );
        }
    }
}
