//! From a document to a domain: attributes become slots, names become places, numbers become shapes.

use limits::{Algorithm, DomainId, LimitId, Rate, Shape, ShapeId, Span};

use crate::attributes::{IP, PLAN};
use crate::document::{Document, LimitSpec, Mode, Numbers, OverrideSpec, PLAN_DEFAULT, PlanSpec, RuleSpec};
use crate::index::Index;
use crate::share;
use crate::variant;

use super::seats::{ABSENT, Named, Slots};
use super::variations::{Measure, Overrides, Plans, Variation};
use super::{Application, Domain, Limit, LimitNumbers, Rule, Rules};

/// What a limit of the document is in the catalogue.
pub(crate) struct Listed {
    pub(crate) id: LimitId,
    pub(crate) allotted_at: u64,
}

/// Compiling.
impl Domain {
    /// `listed` gives the identity of each limit, `intern` the id of a shape.
    pub(crate) fn compile<E>(
        document: &Document,
        id: DomainId,
        revision: u64,
        mut listed: impl FnMut(&str) -> Result<Listed, E>,
        mut intern: impl FnMut(Shape) -> ShapeId,
    ) -> Result<Domain, E> {
        let listed = document.limits.iter().map(|spec| listed(&spec.name)).collect::<Result<Vec<Listed>, E>>()?;
        let mut measure = |limit: u32, numbers: &Numbers| {
            let (spec, limit) = (&document.limits[limit as usize], listed[limit as usize].id);
            let Numbers { rate, algorithm } = *numbers;
            let whole = Shape { limit, domain: id, rate, algorithm, basis: spec.fail.basis() };
            let owners = share::owners_part(whole, spec.fail);
            Measure { shape_id: intern(owners), owners, whole }
        };
        let named = named(document);
        let mut limits: Vec<Limit> = Vec::with_capacity(document.limits.len());
        for ((number, spec), listed) in (0..).zip(&document.limits).zip(&listed) {
            let own = own_numbers(document, number, spec);
            let own_measure = measure(number, &own.unwrap_or(NO_NUMBERS));
            limits.push(limit(spec, listed, own.is_some(), own_measure, &named));
        }
        let (variations, overrides) = vary(document, &mut limits, &mut measure);
        let slot = |name: &str| named.slot(name).expect("every attribute that is named has a slot");
        let rules = match &document.rules {
            None => Rules::None(applications(document, 0..document.own_limits() as u32, Mode::Enforce).collect()),
            Some(rules) => compile_rules(document, rules, &slot),
        };
        Ok(Domain {
            name: document.domain.as_str().into(),
            id,
            revision,
            headers: document.headers.as_slice().into(),
            inline: document.inline,
            limits: limits.into(),
            brought: (document.own_limits() as u32..).zip(document.brought.iter().cloned()).collect(),
            left_out: document.left_out.as_slice().into(),
            rules,
            plans: plans(document, &named),
            overrides,
            variations,
            named,
        })
    }
}

/// Of a limit that takes its numbers from the plan and has no default: no check goes by these, and if one did, they
/// would refuse it.
const NO_NUMBERS: Numbers = match Rate::new(0, Span::from_secs(1)) {
    Ok(rate) => Numbers { rate: Some(rate), algorithm: Algorithm::TokenBucket { burst: 0 } },
    Err(_) => panic!("nothing in a second is a rate"),
};

fn named(document: &Document) -> Named {
    let names: Box<[Box<str>]> = document.attributes().into_iter().map(Box::from).collect();
    let named = Named { names, ip: ABSENT, prefixes: document.prefixes().into() };
    Named { ip: named.slot(IP).unwrap_or(ABSENT), ..named }
}

/// A limit's own numbers, or those of the default plan.
fn own_numbers(document: &Document, number: u32, spec: &LimitSpec) -> Option<Numbers> {
    let default = || document.plans.iter().find(|plan| plan.name == PLAN_DEFAULT);
    let row = |plan: &PlanSpec| plan.rows.iter().find(|(limit, _)| *limit == number).map(|(_, numbers)| *numbers);
    spec.numbers.or_else(|| default().and_then(row))
}

fn limit(spec: &LimitSpec, listed: &Listed, has_own: bool, own: Measure, named: &Named) -> Limit {
    let slot = |name: &str| named.slot(name).expect("every attribute that is named has a slot");
    let prefixes = named.prefixes.iter().position(|prefixes| *prefixes == spec.prefixes).unwrap_or(0);
    Limit {
        id: listed.id,
        missing: spec.missing,
        fail: spec.fail,
        when_full: spec.when_full,
        key: Slots::of(&spec.key, &slot),
        route: spec.route.as_ref().map(|route| Slots::of(route, &slot)),
        prefixes: u8::try_from(prefixes).expect("a document has at most IP_PREFIXES_MAX pairs"),
        has_own,
        is_by_plan: spec.numbers.is_none(),
        is_overridden: false,
        name: spec.name.as_str().into(),
        numbers: Box::new(LimitNumbers { own, rows: Box::default(), allotted_at: listed.allotted_at }),
    }
}

/// The numbers of plans and overrides, told to the limits that they belong to.
fn vary(
    document: &Document,
    limits: &mut [Limit],
    measure: &mut impl FnMut(u32, &Numbers) -> Measure,
) -> (Box<[Variation]>, Overrides) {
    let mut variations: Vec<Variation> = Vec::new();
    let mut add = |limit: &Limit, variant, measure| {
        let (limit, allotted_at) = (limit.id, limit.numbers.allotted_at);
        variations.push(Variation { limit, allotted_at, variant, measure });
        variations.len() as u32 - 1
    };
    let mut rows: Vec<Vec<_>> = limits.iter().map(|_| Vec::new()).collect();
    for plan in document.plans.iter().filter(|plan| plan.name != PLAN_DEFAULT) {
        let variant = variant::of_plan(&plan.name);
        for (number, numbers) in &plan.rows {
            let place = add(&limits[*number as usize], variant, measure(*number, numbers));
            rows[*number as usize].push((variant, place));
        }
    }
    let mut overrides = Overrides::default();
    for OverrideSpec { limit: number, key, numbers, until, .. } in &document.overrides {
        let variant = variant::of_override(key.iter().map(|(kind, bytes)| (*kind, &bytes[..])));
        let place = add(&limits[*number as usize], variant, measure(*number, numbers));
        overrides.add(*number, key, *until, place);
        limits[*number as usize].is_overridden = true;
    }
    for (limit, mut rows) in limits.iter_mut().zip(rows) {
        rows.sort_unstable_by_key(|(variant, _)| *variant);
        limit.numbers.rows = rows.into();
    }
    (variations.into(), overrides)
}

fn plans(document: &Document, named: &Named) -> Plans {
    let plan = |plan: &PlanSpec| (Box::from(&*plan.name), variant::of_plan(&plan.name));
    let mut names: Vec<_> = document.plans.iter().map(plan).collect();
    names.sort_unstable();
    Plans { slot: named.slot(PLAN).unwrap_or(ABSENT), names: names.into() }
}

fn compile_rules(document: &Document, specs: &[RuleSpec], slot: &dyn Fn(&str) -> u8) -> Rules {
    let rule = |spec: &RuleSpec| Rule {
        name: spec.name.as_str().into(),
        cost: spec.cost,
        applications: applications(document, spec.limits.iter().copied(), spec.mode).collect(),
    };
    Rules::First { index: Index::build(specs, slot), rules: specs.iter().map(rule).collect() }
}

/// Limits with the weaker of their own mode and `mode`, without those that are off.
fn applications(
    document: &Document,
    limits: impl Iterator<Item = u32>,
    mode: Mode,
) -> impl Iterator<Item = Application> {
    limits.filter_map(move |limit| match document.limits[limit as usize].mode.max(mode) {
        Mode::Enforce => Some(Application { limit, shadow: false }),
        Mode::Shadow => Some(Application { limit, shadow: true }),
        Mode::Off => None,
    })
}
