//! Plans, overrides and prefixes of addresses: which numbers a check goes by, and that nothing else hangs on them.
#![allow(clippy::unwrap_used, missing_docs, reason = "tests")]

use std::collections::BTreeMap;

use jiff::Timestamp;
use limits::{Algorithm, Book, LimitId, Rate, Shape, Span, Variant, WallTime};
use proptest::prelude::*;
use ringfence_policy::{Applied, Attributes, Calendar, CalendarUnit, Catalogue, Document, LimitDigest, Matched};

fn document(text: &str) -> Document {
    Document::parse(&format!("ringfence: 1\ndomain: d\n{text}")).unwrap_or_else(|errors| panic!("{errors:#?}"))
}

/// The catalogue after another, with this document; limits get the ids 1, 2, 3 in the order of the text.
fn after(before: &Catalogue, document: &Document) -> Catalogue {
    let ids = |name: &str| {
        let place = document.limits().iter().position(|limit| limit.name == name).unwrap();
        Some((LimitId(place as u32 + 1), 7))
    };
    before.with_domain(document, 3, &ids, 1_000).unwrap()
}

fn catalogue(text: &str) -> Catalogue {
    after(&Catalogue::empty(), &document(text))
}

/// What a check meets: per limit its variant, and the numbers that an owner finds under it.
fn met(catalogue: &Catalogue, pairs: &[(&str, &str)], wall: Option<WallTime>) -> Result<Vec<(Variant, Shape)>, String> {
    let attributes = Attributes::new(pairs.iter().copied()).unwrap();
    let matched = catalogue.domain("d").unwrap().matching(&attributes, 1, wall).unwrap();
    match matched {
        Matched::NoLimit { .. } => Ok(Vec::new()),
        Matched::MissingAttribute { limit, attribute, .. } => Err(format!("{} lacks {attribute}", limit.name())),
        Matched::Limits(limits) => Ok(limits.iter().map(|it| resolved(catalogue, &it)).collect()),
    }
}

/// The owner's numbers, which are those that the ingress has at hand.
fn resolved(catalogue: &Catalogue, applied: &Applied<'_>) -> (Variant, Shape) {
    let entry = catalogue.limit(applied.id(), applied.variant()).expect("owners know what an ingress chose");
    let shape = *catalogue.shapes().get(entry.shape);
    assert_eq!((&shape, entry.allotted_at), (applied.shape(), 7));
    assert_eq!(applied.limit().id(), shape.limit);
    (applied.variant(), shape)
}

/// The amounts per period that a check meets.
fn amounts(catalogue: &Catalogue, pairs: &[(&str, &str)], wall: Option<WallTime>) -> Result<Vec<u64>, String> {
    let met = met(catalogue, pairs, wall)?;
    Ok(met.iter().map(|(_, shape)| shape.rate.map_or(u64::MAX, Rate::amount)).collect())
}

fn wall(text: &str) -> Option<WallTime> {
    let instant: Timestamp = text.parse().unwrap();
    Some(WallTime::from_unix_nanos(u64::try_from(instant.as_nanosecond()).unwrap()))
}

const PLANS: &str = "plans: { default: { a: 10/s }, free: { a: 20/s burst 5, b: 2/s }, pro: { a: 1000/day calendar UTC, b: 3/s } }\n\
                     limits: { a: { rate: $plan, key: [client] }, b: { rate: $plan, key: [client], missing: skip } }\n";

#[test]
fn the_plan_of_a_check_picks_the_row() {
    let catalogue = catalogue(PLANS);
    let of = |plan: &str| amounts(&catalogue, &[("client", "c"), ("plan", plan)], None);
    assert_eq!(of("free"), Ok(vec![20, 2]));
    assert_eq!(of("pro"), Ok(vec![1_000, 3]));
    let shapes = met(&catalogue, &[("client", "c"), ("plan", "pro")], None).unwrap();
    let utc = Calendar::new(CalendarUnit::Day, "UTC").unwrap().id();
    assert_eq!(shapes[0].1.algorithm, Algorithm::Calendar { calendar: utc });
    assert_ne!(shapes[0].0, Variant::OWN);
    assert_eq!(shapes[0].0, shapes[1].0, "a plan is called alike at all limits");
}

#[test]
fn a_check_without_a_plan_or_under_an_unknown_one_goes_by_the_default() {
    let catalogue = catalogue(PLANS);
    for pairs in [&[("client", "c")][..], &[("client", "c"), ("plan", "gold")], &[("client", "c"), ("plan", "default")]]
    {
        let met = met(&catalogue, pairs, None).unwrap();
        assert_eq!(met.len(), 1, "b has no default and skips those that lack what it needs");
        assert_eq!((met[0].0, met[0].1.rate), (Variant::OWN, Rate::new(10, Span::from_secs(1)).ok()));
    }
    let limit = &catalogue.domain("d").unwrap().limits()[0];
    assert!(limit.is_by_plan());
    assert_eq!(limit.rate(), Rate::new(10, Span::from_secs(1)).ok());
}

#[test]
fn without_a_default_a_check_lacks_its_plan() {
    let text = "plans: { free: { a: 1/s } }\nlimits: { a: { rate: $plan, key: [client] } }\n";
    let catalogue = catalogue(text);
    for plan in [&[][..], &[("plan", "gold")], &[("plan", "Free")], &[("plan", "default")]] {
        let pairs: Vec<_> = plan.iter().copied().chain([("client", "c")]).collect();
        assert_eq!(amounts(&catalogue, &pairs, None), Err("a lacks plan".to_owned()));
    }
    assert_eq!(amounts(&catalogue, &[("plan", "free")], None), Err("a lacks client".to_owned()));
    assert_eq!(catalogue.limit(LimitId(1), Variant::OWN), None, "owners have no numbers for it either");
    let shadow = self::catalogue(&text.replace("key:", "mode: shadow, key:"));
    assert_eq!(amounts(&shadow, &[("client", "c")], None), Ok(vec![]), "a shadow limit refuses nobody");
}

#[test]
fn a_plan_that_a_rule_matches_on_and_a_rate_asks_for_is_one_attribute() {
    let text = "plans: { default: { a: 1/s }, pro: { a: 2/s } }\nlimits: { a: { rate: $plan, key: [plan] } }\n\
                rules: [{ name: r, match: { plan: [pro, gold] }, limits: [a] }]\n";
    let catalogue = catalogue(text);
    let of = |plan: &str| amounts(&catalogue, &[("plan", plan)], None);
    assert_eq!((of("pro"), of("gold"), of("free")), (Ok(vec![2]), Ok(vec![1]), Ok(vec![])));
}

const OVERRIDES: &str = "plans: { default: { a: 10/s }, pro: { a: 20/s } }\n\
    limits: { a: { rate: $plan, key: [org, user], route: [org], fail: { emergency: 20%, reserved: true } } }\n\
    overrides:\n\
    - { limit: a, key: { user: u1, org: acme }, rate: 100/s burst 300, until: 2027-01-31, reason: launch }\n\
    - { limit: a, key: { user: u2, org: acme }, rate: unlimited }\n";

#[test]
fn an_override_holds_for_its_key_alone_whatever_the_plan() {
    let catalogue = catalogue(OVERRIDES);
    let early = wall("2026-12-01T00:00:00Z");
    let of = |org, user, plan| amounts(&catalogue, &[("org", org), ("user", user), ("plan", plan)], early);
    assert_eq!(of("acme", "u1", "pro"), Ok(vec![80]), "the owner's part of 100");
    assert_eq!(of("acme", "u2", "pro"), Ok(vec![u64::MAX]));
    assert_eq!(of("acme", "u3", "pro"), Ok(vec![16]));
    assert_eq!(of("acm", "eu1", "free"), Ok(vec![8]));
    let without_plan = amounts(&catalogue, &[("org", "acme"), ("user", "u1")], early);
    assert_eq!(without_plan, Ok(vec![80]));
}

#[test]
fn an_override_ends_by_cluster_time_with_the_last_instant_of_its_date() {
    let catalogue = catalogue(OVERRIDES);
    let at = |wall| amounts(&catalogue, &[("org", "acme"), ("user", "u1")], wall).unwrap();
    assert_eq!(at(wall("2027-01-31T23:59:59.999999999Z")), [80]);
    assert_eq!(at(wall("2027-02-01T00:00:00Z")), [8]);
    assert_eq!(at(None), [80], "nobody knows yet that its time is up");
    let for_ever = amounts(&catalogue, &[("org", "acme"), ("user", "u2")], wall("2500-01-01T00:00:00Z"));
    assert_eq!(for_ever, Ok(vec![u64::MAX]));
}

#[test]
fn owner_and_emergency_both_go_by_the_variants_numbers() {
    let catalogue = catalogue(OVERRIDES);
    let attributes = Attributes::new([("org", "acme"), ("user", "u1")]).unwrap();
    let matched = catalogue.domain("d").unwrap().matching(&attributes, 1, None).unwrap();
    let Matched::Limits(limits) = matched else { panic!("it applies") };
    let applied = limits.iter().next().unwrap();
    assert_eq!(
        (applied.whole().rate, applied.whole().capacity()),
        (Rate::new(100, Span::from_secs(1)).ok(), Some(300))
    );
    assert_eq!(applied.shape().capacity(), Some(240));
    assert_eq!(applied.limit().capacity(), 8, "the limit's own stay what they are");
}

#[test]
fn a_variant_means_the_same_at_every_revision() {
    let first = catalogue(OVERRIDES);
    let changed = OVERRIDES
        .replace("rate: 100/s burst 300, until: 2027-01-31, reason: launch", "rate: 7/min")
        .replace("pro: { a: 20/s }", "free: { a: 1/s }, pro: { a: 50/s }");
    let second = after(&first, &document(&changed));
    for pairs in [&[("org", "acme"), ("user", "u1")][..], &[("org", "x"), ("user", "y"), ("plan", "pro")]] {
        let (before, now) = (met(&first, pairs, None).unwrap()[0], met(&second, pairs, None).unwrap()[0]);
        assert_eq!(before.0, now.0);
        assert_ne!(before.1.rate, now.1.rate);
    }
    let gone = after(&second, &document("limits: { a: { rate: 1/s, key: [org, user], route: [org] } }\n"));
    let variant = met(&first, &[("org", "acme"), ("user", "u1")], None).unwrap()[0].0;
    assert_eq!(gone.limit(LimitId(1), variant), None, "an owner without the override does not know it");
    assert!(gone.limit(LimitId(1), Variant::OWN).is_some());
    assert_eq!(gone.without_domain("d", 1_000).limit(LimitId(1), Variant::OWN), None);
    assert!(second.limit(LimitId(1), variant).is_some());
    assert_eq!(second.without_domain("d", 1_000).limit(LimitId(1), variant), None);
}

#[test]
fn a_limits_identity_hangs_on_no_plan_and_no_override() {
    let plain = document("limits: { a: { rate: 1/s, key: [org, user], route: [org] } }\n").limit_digests();
    let varied = document(OVERRIDES).limit_digests();
    let digest = |limits: &[LimitDigest]| limits[0].digest;
    assert_eq!(digest(&plain), digest(&varied));
}

#[test]
fn addresses_count_by_the_prefixes_of_their_limit_and_are_overridden_by_group() {
    let text = "limits:\n  fine: { rate: 1/s, key: [ip], ipv6_prefix: 128 }\n  usual: { rate: 1/s, key: [ip] }\n  \
                wide: { rate: 1/s, key: [client, ip], ipv4_prefix: 24, ipv6_prefix: 48, route: [ip] }\n\
                overrides:\n- { limit: usual, key: { ip: \"2001:db8::7\" }, rate: 9/s }\n\
                - { limit: wide, key: { client: c, ip: 192.0.2.9 }, rate: 8/s }\n";
    let catalogue = catalogue(text);
    let parts = |ip: &str| {
        let attributes = Attributes::new([("ip", ip), ("client", "c")]).unwrap();
        let matched = catalogue.domain("d").unwrap().matching(&attributes, 1, None).unwrap();
        let Matched::Limits(limits) = matched else { panic!("they apply") };
        let last = |it: Applied<'_>| it.key().last().unwrap().bytes.to_vec();
        let wide = limits.iter().last().unwrap();
        assert_eq!(wide.route().unwrap().next(), wide.key().last(), "what routes a key is part of it");
        (
            limits.iter().map(last).collect::<Vec<_>>(),
            limits.iter().map(|it| it.shape().rate.unwrap().amount()).collect::<Vec<_>>(),
        )
    };
    let bytes = |text: &str| text.parse::<std::net::Ipv6Addr>().unwrap().octets().to_vec();
    let (keys, rates) = parts("2001:db8:0:0:1::2");
    assert_eq!(keys, [bytes("2001:db8:0:0:1::2"), bytes("2001:db8::"), bytes("2001:db8::")]);
    assert_eq!(rates, [1, 9, 1], "the override's address stands for its /64");
    let (keys, rates) = parts("2001:db8:0:1::2");
    assert_eq!(keys, [bytes("2001:db8:0:1::2"), bytes("2001:db8:0:1::"), bytes("2001:db8::")]);
    assert_eq!(rates, [1, 1, 1]);
    let (keys, rates) = parts("::ffff:192.0.2.77");
    assert_eq!(rates, [1, 1, 8], "and for its /24 where that is the prefix");
    assert_eq!(keys, [vec![192, 0, 2, 77], vec![192, 0, 2, 77], vec![192, 0, 2, 0]]);
}

#[test]
fn slots_come_from_plans_and_overrides_like_rates() {
    let text = "plans: { default: { jobs: 2 }, pro: { jobs: 20 } }\n\
                limits: { jobs: { algorithm: concurrency, slots: $plan, ttl: 30s, max_hold: 10min, key: [org] } }\n\
                overrides: [{ limit: jobs, key: { org: acme }, slots: 0 }]\n";
    let catalogue = catalogue(text);
    let of = |org, plan| met(&catalogue, &[("org", org), ("plan", plan)], None).unwrap()[0].1;
    let expected =
        |slots| (Rate::new(slots, Span::from_secs(30)).ok(), Algorithm::Concurrency { max_hold: Span::from_secs(600) });
    assert_eq!((of("x", "pro").rate, of("x", "pro").algorithm), expected(20));
    assert_eq!((of("x", "none").rate, of("x", "none").algorithm), expected(2));
    assert_eq!(of("acme", "pro").capacity(), Some(0));
}

/// A policy as the twin knows it: amounts per plan, and per key an amount that holds until a second.
#[derive(Clone, Debug)]
struct Twin {
    plans: BTreeMap<&'static str, u64>,
    overrides: BTreeMap<(&'static str, &'static str), (u64, Option<u64>)>,
}

const NAMES: [&str; 4] = ["a", "b", "ab", "default"];

fn twin() -> impl Strategy<Value = Twin> {
    let name = || proptest::sample::select(NAMES.to_vec());
    let plans = proptest::collection::btree_map(name(), 1..1_000u64, 1..4);
    let until = proptest::option::of(0..100_000u64);
    let overrides = proptest::collection::btree_map((name(), name()), (1_000..2_000u64, until), 0..8);
    (plans, overrides).prop_map(|(plans, overrides)| Twin { plans, overrides })
}

impl Twin {
    fn text(&self) -> String {
        let row = |(name, amount): (&&str, &u64)| format!("{name}: {{ l: {amount}/s }}");
        let plans: Vec<String> = self.plans.iter().map(row).collect();
        let mut text = format!(
            "plans: {{ {} }}\nlimits: {{ l: {{ rate: $plan, key: [org, user] }} }}\noverrides:\n",
            plans.join(", ")
        );
        for ((org, user), (amount, until)) in &self.overrides {
            let instant = |second: u64| Timestamp::from_second(second as i64).unwrap();
            let until = until.map(|second| format!(", until: \"{}\"", instant(second))).unwrap_or_default();
            text += &format!("- {{ limit: l, key: {{ org: {org}, user: {user} }}, rate: {amount}/s{until} }}\n");
        }
        if self.overrides.is_empty() { text.replace("overrides:\n", "") } else { text }
    }

    fn amount(&self, org: &'static str, user: &'static str, plan: Option<&str>, second: u64) -> Option<u64> {
        match self.overrides.get(&(org, user)) {
            Some((amount, until)) if until.is_none_or(|until| second < until) => Some(*amount),
            Some(_) | None => plan.and_then(|plan| self.plans.get(plan)).or_else(|| self.plans.get("default")).copied(),
        }
    }
}

proptest! {
    #[test]
    fn a_check_goes_by_its_override_else_by_its_plan_else_by_the_default(
        twin in twin(),
        checks in proptest::collection::vec((0..4usize, 0..4usize, 0..6usize, 0..110_000u64), 32),
    ) {
        let catalogue = catalogue(&twin.text());
        let mut routes = BTreeMap::new();
        for (org, user, plan, second) in checks {
            let (org, user) = (NAMES[org], NAMES[user]);
            let plan = NAMES.get(plan).copied().or((plan == 4).then_some("nobody"));
            let pairs: Vec<(&str, &str)> = [("org", org), ("user", user)].into_iter().chain(plan.map(|plan| ("plan", plan))).collect();
            let wall = Some(WallTime::from_unix_nanos(second * 1_000_000_000));
            let found = amounts(&catalogue, &pairs, wall).ok().map(|amounts| amounts[0]);
            prop_assert_eq!(found, twin.amount(org, user, plan, second), "{:?} at {}", pairs, second);
            if found.is_some() {
                let attributes = Attributes::new(pairs.iter().copied()).unwrap();
                let Ok(Matched::Limits(limits)) = catalogue.domain("d").unwrap().matching(&attributes, 1, wall) else { panic!("as above") };
                let key: Vec<Vec<u8>> = limits.iter().next().unwrap().key().map(|part| part.bytes.to_vec()).collect();
                prop_assert_eq!(routes.entry((org, user)).or_insert_with(|| key.clone()), &key);
            }
        }
    }
}
