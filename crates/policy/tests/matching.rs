//! The compiled rules against a slow twin that walks the rules one by one, over documents and checks made at random from
//! few names and values, so that rules overlap, shadow each other and miss by a little.
#![allow(clippy::unwrap_used, missing_docs, reason = "tests")]

use limits::LimitId;
use proptest::prelude::*;
use ringfence_policy::{Attributes, Catalogue, Document, Matched};

/// A rule as the test knows it.
#[derive(Clone, Debug)]
struct Rule {
    matches: Vec<(&'static str, Vec<String>)>,
    cost: u64,
    limits: Vec<usize>,
    mode: &'static str,
}

/// A limit as the test knows it.
#[derive(Clone, Debug)]
struct Limit {
    key: Vec<&'static str>,
    route: Option<Vec<&'static str>>,
    missing: &'static str,
    mode: &'static str,
}

#[derive(Clone, Debug)]
struct Policy {
    limits: Vec<Limit>,
    rules: Vec<Rule>,
}

type Check = Vec<(&'static str, String)>;

impl Policy {
    fn text(&self) -> String {
        let mut text = "ringfence: 1\ndomain: d\nlimits:\n".to_owned();
        for (number, limit) in self.limits.iter().enumerate() {
            let Limit { key, route, missing, mode } = limit;
            let route = route.as_ref().map(|route| format!(", route: [{}]", route.join(", "))).unwrap_or_default();
            let key = key.join(", ");
            text += &format!("  l{number}: {{ rate: 1/s, key: [{key}]{route}, missing: {missing}, mode: {mode} }}\n");
        }
        text += "rules:\n";
        for (number, rule) in self.rules.iter().enumerate() {
            let matches: Vec<String> =
                rule.matches.iter().map(|(name, values)| format!("{name}: [{}]", quoted(values))).collect();
            let limits: Vec<String> = rule.limits.iter().map(|limit| format!("l{limit}")).collect();
            let (matches, limits) = (matches.join(", "), limits.join(", "));
            let Rule { cost, mode, .. } = rule;
            text += &format!(
                "- {{ name: r{number}, match: {{ {matches} }}, cost: {cost}, limits: [{limits}], mode: {mode} }}\n"
            );
        }
        text
    }

    fn compiled(&self) -> Catalogue {
        let document = Document::parse(&self.text()).unwrap();
        let id = |name: &str| Some((LimitId(name[1..].parse::<u32>().unwrap() + 1), 0));
        Catalogue::empty().with_domain(&document, 1, &id, 1_000).unwrap()
    }

    /// What should come out, in words.
    fn answer(&self, check: &Check, cost: u64) -> String {
        let value = |name: &str| check.iter().find(|(other, _)| *other == name).map(|(_, value)| &**value);
        let matches = |(name, patterns): &(&str, Vec<String>)| {
            value(name).is_some_and(|value| patterns.iter().any(|pattern| fits(pattern, value)))
        };
        let Some(number) = self.rules.iter().position(|rule| rule.matches.iter().all(matches)) else {
            return "no rule".to_owned();
        };
        let rule = &self.rules[number];
        let mut applied = Vec::new();
        for &limit in &rule.limits {
            let Limit { key, missing, mode, .. } = &self.limits[limit];
            let off = [*mode, rule.mode].contains(&"off");
            let shadow = [*mode, rule.mode].contains(&"shadow");
            match key.iter().find(|name| value(name).is_none()) {
                _ if off => {}
                Some(lacking) if *missing == "deny" && !shadow => {
                    return format!("r{number}: l{limit} lacks {lacking}");
                }
                Some(_) if *missing != "anonymous" => {}
                Some(_) | None => {
                    let parts: Vec<&str> = key.iter().map(|name| value(name).unwrap_or("")).collect();
                    applied.push(format!("l{limit}({}){}", parts.join(","), if shadow { "?" } else { "" }));
                }
            }
        }
        match &applied[..] {
            [] => format!("r{number}: nothing"),
            _ => format!("r{number}: {} x {}", applied.join(" "), cost * rule.cost),
        }
    }
}

fn fits(pattern: &str, value: &str) -> bool {
    pattern.strip_suffix('*').map_or(pattern == value, |prefix| value.starts_with(prefix))
}

fn quoted(values: &[String]) -> String {
    values.iter().map(|value| format!("{value:?}")).collect::<Vec<_>>().join(", ")
}

/// What the catalogue says, in the twin's words.
fn answer(catalogue: &Catalogue, check: &Check, cost: u64) -> String {
    let attributes = Attributes::new(check.iter().map(|(name, value)| (*name, &**value))).unwrap();
    match catalogue.domain("d").unwrap().matching(&attributes, cost, None).unwrap() {
        Matched::NoLimit { rule: None } => "no rule".to_owned(),
        Matched::NoLimit { rule: Some(rule) } => format!("{rule}: nothing"),
        Matched::MissingAttribute { rule, limit, attribute } => {
            format!("{}: {} lacks {attribute}", rule.unwrap(), limit.name())
        }
        Matched::Limits(limits) => {
            let one = |it: ringfence_policy::Applied<'_>| {
                assert_eq!(it.id().0.to_string(), (it.limit().name()[1..].parse::<u32>().unwrap() + 1).to_string());
                let parts: Vec<&str> = it.key().map(|part| std::str::from_utf8(part.bytes).unwrap()).collect();
                format!("{}({}){}", it.limit().name(), parts.join(","), if it.shadow() { "?" } else { "" })
            };
            let applied: Vec<String> = limits.iter().map(one).collect();
            assert_eq!(applied.len(), limits.len());
            format!("{}: {} x {}", limits.rule().unwrap(), applied.join(" "), limits.cost())
        }
    }
}

const NAMES: [&str; 4] = ["client", "method", "org", "path"];

fn some_of(names: &'static [&'static str]) -> impl Strategy<Value = Vec<&'static str>> {
    proptest::sample::subsequence(names, 0..=names.len()).prop_shuffle()
}

fn value(name: &str) -> BoxedStrategy<String> {
    if name == "path" { "(/[ab]?){1,4}".boxed() } else { "[xyz]".boxed() }
}

fn pattern(name: &'static str, prefixes: bool) -> BoxedStrategy<String> {
    match prefixes {
        true => prop_oneof![value(name), "(/[ab]?){0,3}".prop_map(|prefix| format!("{prefix}/*"))].boxed(),
        false => value(name),
    }
}

fn one_match(name: &'static str) -> impl Strategy<Value = (&'static str, Vec<String>)> {
    let patterns = proptest::collection::btree_set(pattern(name, name == "path"), 1..=3);
    patterns.prop_map(move |patterns| (name, patterns.into_iter().collect()))
}

fn rule(limits: usize) -> impl Strategy<Value = Rule> {
    let matches = some_of(&NAMES).prop_flat_map(|names| names.into_iter().map(one_match).collect::<Vec<_>>());
    let numbers: Vec<usize> = (0..limits).collect();
    let applied = proptest::sample::subsequence(numbers, 0..=limits).prop_shuffle();
    (matches, 0..4u64, applied, mode()).prop_map(|(matches, cost, limits, mode)| Rule { matches, cost, limits, mode })
}

fn mode() -> impl Strategy<Value = &'static str> {
    prop_oneof![4 => Just("enforce"), 1 => Just("shadow"), 1 => Just("off")]
}

fn limit() -> impl Strategy<Value = Limit> {
    let missing = proptest::sample::select(vec!["deny", "skip", "anonymous"]);
    (some_of(&NAMES), any::<Option<u64>>(), missing, mode()).prop_map(|(key, route, missing, mode)| {
        let route =
            route.map(|bits| key.iter().enumerate().filter(|(i, _)| bits >> i & 1 == 1).map(|(_, it)| *it).collect());
        Limit { key, route, missing, mode }
    })
}

fn any_policy() -> impl Strategy<Value = Policy> {
    let limits = proptest::collection::vec(limit(), 1..=4);
    limits.prop_flat_map(|limits| {
        let rules = proptest::collection::vec(rule(limits.len()), 1..=12);
        rules.prop_map(move |rules| Policy { limits: limits.clone(), rules })
    })
}

fn check() -> impl Strategy<Value = Check> {
    some_of(&NAMES).prop_flat_map(|names| {
        names.into_iter().map(|name| value(name).prop_map(move |value| (name, value))).collect::<Vec<_>>()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn the_first_rule_that_matches_wins_and_all_its_limits_apply(
        policy in any_policy(),
        checks in proptest::collection::vec(check(), 32),
        cost in 0..100u64,
    ) {
        let catalogue = policy.compiled();
        for check in &checks {
            prop_assert_eq!(answer(&catalogue, check, cost), policy.answer(check, cost), "{:?}\n{}", check, policy.text());
        }
    }

    /// The routing key of a key under a limit depends on nothing but that key, whatever rule, mode, cost, or further
    /// attribute it was reached with. So one (limit, key) has one partition.
    #[test]
    fn one_key_of_a_limit_has_one_routing_key(
        policy in any_policy(),
        checks in proptest::collection::vec((check(), 0..100u64), 64),
    ) {
        let catalogue = policy.compiled();
        let mut routes = std::collections::BTreeMap::new();
        for (check, cost) in &checks {
            let attributes = Attributes::new(check.iter().map(|(name, value)| (*name, &**value))).unwrap();
            let matched = catalogue.domain("d").unwrap().matching(&attributes, *cost, None).unwrap();
            let Matched::Limits(limits) = matched else { continue };
            for applied in limits.iter() {
                let bytes = |part: limits::Part<'_>| (part.kind as u8, part.bytes.to_vec());
                let key: Vec<_> = applied.key().map(bytes).collect();
                let route = applied.route().map(|parts| parts.map(bytes).collect::<Vec<_>>());
                if let Some(route) = &route {
                    prop_assert!(route.iter().all(|part| key.contains(part)), "a route is part of the key");
                }
                let first = routes.entry((applied.id(), key)).or_insert_with(|| route.clone());
                prop_assert_eq!(&*first, &route);
            }
        }
    }
}

/// A domain of its own, from a document's text; limits get the ids 1, 2, 3 in the order of the text.
fn domain(text: &str) -> Catalogue {
    let document = Document::parse(&format!("ringfence: 1\ndomain: d\n{text}")).unwrap();
    let ids = |name: &str| {
        let place = document.limits().iter().position(|limit| limit.name == name).unwrap();
        Some((LimitId(place as u32 + 1), 7))
    };
    Catalogue::empty().with_domain(&document, 3, &ids, 1_000).unwrap()
}

fn says(catalogue: &Catalogue, pairs: &[(&'static str, &str)]) -> String {
    let attributes = Attributes::new(pairs.iter().copied()).unwrap();
    match catalogue.domain("d").unwrap().matching(&attributes, 1, None).unwrap() {
        Matched::NoLimit { rule } => format!("no limit by {rule:?}"),
        Matched::MissingAttribute { limit, attribute, .. } => format!("{} lacks {attribute}", limit.name()),
        Matched::Limits(limits) => {
            let keys = limits.iter().map(|it| format!("{}{:?}", it.limit().name(), it.key().collect::<Vec<_>>()));
            keys.collect::<Vec<_>>().join(" ")
        }
    }
}

#[test]
fn without_rules_every_limit_applies_to_every_check() {
    let catalogue = domain("limits: { a: { rate: 1/s, key: [] }, b: { rate: 1/s, key: [client] } }");
    let attributes = Attributes::new([("client", "alice"), ("user", "nobody names this")]).unwrap();
    let Matched::Limits(limits) = catalogue.domain("d").unwrap().matching(&attributes, 5, None).unwrap() else {
        panic!()
    };
    assert_eq!((limits.rule(), limits.cost(), limits.len()), (None, 5, 2));
    assert_eq!(limits.iter().map(|it| it.limit().name()).collect::<Vec<_>>(), ["a", "b"]);
}

#[test]
fn an_address_counts_by_its_group_and_matches_as_itself() {
    let text = "limits: { a: { rate: 1/s, key: [ip] } }\nrules:\n- { name: one, match: { ip: 10.0.0.1 }, limits: [] }\n\
                - { name: v6, match: { ip: '2001:DB8::1' }, limits: [] }\n- { name: rest, limits: [a] }\n";
    let catalogue = domain(text);
    assert_eq!(says(&catalogue, &[("ip", "10.0.0.1")]), "no limit by Some(\"one\")");
    assert_eq!(says(&catalogue, &[("ip", "::ffff:10.0.0.1")]), "no limit by Some(\"one\")");
    assert_eq!(says(&catalogue, &[("ip", "2001:db8:0::1")]), "no limit by Some(\"v6\")");
    assert_eq!(says(&catalogue, &[("ip", "10.0.0.2")]), "a[Part { kind: Ip, bytes: [10, 0, 0, 2] }]");
    let group = "a[Part { kind: Ip, bytes: [32, 1, 13, 184, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0] }]";
    assert_eq!(says(&catalogue, &[("ip", "2001:db8::2")]), group);
    assert_eq!(says(&catalogue, &[("ip", "2001:db8::ffff:2")]), group);
}

#[test]
fn a_prefix_ends_where_a_segment_ends() {
    let catalogue =
        domain("limits: { a: { rate: 1/s, key: [] } }\nrules: [{ name: r, match: { path: /v1/* }, limits: [a] }]");
    for path in ["/v1/", "/v1/x", "/v1/x/y", "/v1/?q", "/v1//"] {
        assert_eq!(says(&catalogue, &[("path", path)]), "a[]", "{path}");
    }
    for path in ["/v1", "/v1?q=/v1/", "/v10/", "/", "/v2/v1/", "v1/"] {
        assert_eq!(says(&catalogue, &[("path", path)]), "no limit by None", "{path}");
    }
}

#[test]
fn a_prefix_deep_in_a_long_path_is_found_and_a_path_of_slashes_is_no_harm() {
    let deep = format!("{}*", "/s".repeat(15) + "/");
    let text = format!(
        "limits: {{ a: {{ rate: 1/s, key: [] }} }}\nrules: [{{ name: r, match: {{ path: {deep} }}, limits: [a] }}]"
    );
    let catalogue = domain(&text);
    assert_eq!(says(&catalogue, &[("path", &"/s".repeat(100))]), "a[]");
    assert_eq!(says(&catalogue, &[("path", &"/".repeat(256))]), "no limit by None");
}

#[test]
fn an_anonymous_part_is_no_value_and_no_address() {
    let catalogue = domain("limits: { a: { rate: 1/s, key: [ip, client], missing: anonymous } }");
    assert_eq!(says(&catalogue, &[]), "a[Part { kind: Text, bytes: [] }, Part { kind: Text, bytes: [] }]");
}

#[test]
fn a_shadow_limit_without_its_attribute_does_not_refuse() {
    let catalogue = domain("limits: { a: { rate: 1/s, key: [client], mode: shadow }, b: { rate: 1/s, key: [] } }");
    assert_eq!(says(&catalogue, &[]), "b[]");
    let catalogue = domain("limits: { a: { rate: 1/s, key: [client] }, b: { rate: 1/s, key: [] } }");
    assert_eq!(says(&catalogue, &[]), "a lacks client");
}

#[test]
fn a_cost_above_the_largest_is_an_error_that_names_the_rule() {
    let catalogue = domain("limits: { a: { rate: 1/s, key: [] } }\nrules: [{ name: dear, cost: 1000, limits: [a] }]");
    let attributes = Attributes::new([]).unwrap();
    let matching = |cost| catalogue.domain("d").unwrap().matching(&attributes, cost, None).map(|_| ());
    assert_eq!(matching(999_999_999_999), Ok(()));
    for cost in [1_000_000_000_000, u64::MAX] {
        let error = matching(cost).unwrap_err();
        assert_eq!((error.cost, error.factor, &*error.rule), (cost, 1_000, "dear"));
    }
}
