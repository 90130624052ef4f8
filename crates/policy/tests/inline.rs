//! Limits that checks bring along: part of a domain like any other, but applied only to checks that bring them.
#![allow(clippy::unwrap_used, reason = "tests")]

use limits::{Book as _, LimitId, Variant};
use ringfence_policy::{Attributes, Catalogue, Document, Domain, InlineLimit, InlineRefusal, Matched};

const TEXT: &str = "
ringfence: 1
domain: d
inline: { max_rate: 100/s, fail: closed }
limits: { a: { rate: 10/s, key: [org] } }
rules: [{ name: r, match: { kind: limited }, cost: 3, limits: [a] }]
";

fn brought(name: &str, rate: &str, key: &[&str]) -> InlineLimit {
    Document::parse(TEXT).unwrap().inline().unwrap().define(name, rate, key).unwrap()
}

fn catalogue_of(limits: Vec<InlineLimit>) -> Catalogue {
    let document = Document::parse(TEXT).unwrap().with_inline(limits);
    let id = |name: &str| Some((LimitId(name.bytes().fold(0, |id, byte| id * 128 + u32::from(byte)) % 4_000), 7));
    Catalogue::empty().with_domain(&document, 1, &id, 1_000).unwrap()
}

/// The names of the limits that apply to a check that brings these, with what each is charged.
fn applied(domain: &Domain, pairs: &[(&str, &str)], names: &[&str]) -> Vec<(String, u64)> {
    let attributes = Attributes::new(pairs.iter().copied()).unwrap();
    let places: Vec<u32> = names.iter().map(|name| domain.brought(name).unwrap().0).collect();
    match domain.matching_with(&attributes, 2, None, &places).unwrap() {
        Matched::Limits(limits) => limits.iter().map(|it| (it.limit().name().to_owned(), it.cost())).collect(),
        Matched::NoLimit { .. } => Vec::new(),
        Matched::MissingAttribute { limit, attribute, .. } => panic!("{} lacks {attribute}", limit.name()),
    }
}

#[test]
fn they_apply_beside_the_rules_limits_and_only_where_they_are_brought() {
    let catalogue = catalogue_of(vec![brought("x", "5/s", &["user"]), brought("y", "7/s", &[])]);
    let domain = catalogue.domain("d").unwrap();
    let named =
        |names: &[(&str, u64)]| names.iter().map(|(name, cost)| ((*name).to_owned(), *cost)).collect::<Vec<_>>();
    let limited = [("kind", "limited"), ("org", "acme"), ("user", "u")];
    assert_eq!(applied(domain, &limited, &[]), named(&[("a", 6)]));
    assert_eq!(
        applied(domain, &limited, &["y", "x"]),
        named(&[("a", 6), ("y", 6), ("x", 6)]),
        "the rule's cost counts"
    );
    let free = [("kind", "free"), ("user", "u")];
    assert_eq!(applied(domain, &free, &[]), []);
    assert_eq!(applied(domain, &free, &["x"]), named(&[("x", 2)]), "without a rule they are all there is");
}

#[test]
fn an_owner_finds_their_numbers_and_the_ingress_their_failure_mode() {
    let catalogue = catalogue_of(vec![brought("x", "5/min burst 9", &["user"])]);
    let domain = catalogue.domain("d").unwrap();
    let entry = catalogue.limit(LimitId(u32::from(b'x')), Variant::OWN).unwrap();
    assert_eq!(catalogue.shapes().get(entry.shape).capacity(), Some(9));
    let limit = domain.limits().iter().find(|limit| limit.name() == "x").unwrap();
    assert_eq!(*limit.fail(), limits::FailMode::Closed);
    assert_eq!(domain.key_names(limit).collect::<Vec<_>>(), ["user"]);
}

#[test]
fn one_that_lacks_its_attribute_refuses_the_check() {
    let catalogue = catalogue_of(vec![brought("x", "5/s", &["user"])]);
    let attributes = Attributes::new([("kind", "free")]).unwrap();
    let matched = catalogue.domain("d").unwrap().matching_with(&attributes, 1, None, &[1]).unwrap();
    assert!(matches!(matched, Matched::MissingAttribute { attribute: "user", .. }));
}

#[test]
fn a_document_that_allows_none_has_none() {
    let none = "ringfence: 1\ndomain: d\nlimits: { a: { rate: 10/s, key: [org] } }";
    let without = Document::parse(none).unwrap().with_inline([brought("x", "5/s", &[])]);
    assert_eq!(without.limits().len(), 1);
}

#[test]
fn what_does_not_fit_is_left_out_and_it_is_known_why() {
    let many = (0..10).map(|limit| {
        let names: Vec<String> = (0..7).map(|part| format!("k{limit}_{part}")).collect();
        brought(&format!("x{limit}"), "5/s", &names.iter().map(String::as_str).collect::<Vec<_>>())
    });
    let catalogue = catalogue_of([brought("a", "5/s", &[])].into_iter().chain(many).collect());
    let domain = catalogue.domain("d").unwrap();
    assert_eq!(domain.left_out("a"), Some(&InlineRefusal::NameTaken { name: "a".into() }));
    // `org` and `kind` are named by the document: 62 are free, and the ninth would be the 65th.
    assert!(domain.brought("x7").is_some() && domain.left_out("x7").is_none());
    assert_eq!(domain.left_out("x8"), Some(&InlineRefusal::TooManyAttributes));
    assert!(domain.brought("x8").is_none());
    assert_eq!(domain.inline_defined(), 11, "what does not fit was defined all the same");
}
