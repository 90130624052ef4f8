//! A scrape read as a scraper reads it, and its size under many limits and calls.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use limits::{LimitId, Span};
use node::keeping::Totals;
use node::{LegAnswer, Policies, Reason, Source, StoreAges};
use policy::{Catalogue, Document};

use super::bounds::SERIES_MAX;
use super::families::Kind;
use super::*;
use crate::access::{Access, Domains, Scopes, Token};
use crate::call::Call;
use crate::meter::{Meter, PolicyOutcome};

/// Limits in one document.
const LIMITS_PER_DOMAIN: usize = 250;

fn catalogue(domains: usize) -> Catalogue {
    (0..domains).fold(Catalogue::empty(), |catalogue, number| {
        let document = Document::parse(&document_text(number)).unwrap();
        let id = |name: &str| {
            let place: usize = name[1..].parse().ok()?;
            Some((limit_id(number * LIMITS_PER_DOMAIN + place), 1))
        };
        catalogue.with_domain(&document, 1, &id, 1_000).unwrap()
    })
}

/// The identity of the limit at a place; identities begin at 1.
fn limit_id(place: usize) -> LimitId {
    LimitId(place as u32 + 1)
}

/// A document with a rule for each limit.
fn document_text(number: usize) -> String {
    let mut text = format!("ringfence: 1\ndomain: d{number}\nlimits:\n");
    for limit in 0..LIMITS_PER_DOMAIN {
        text.push_str(&format!("  l{limit}: {{ rate: 5/s, key: [client] }}\n"));
    }
    text.push_str("rules:\n");
    for limit in 0..LIMITS_PER_DOMAIN {
        text.push_str(&format!("  - {{ name: r{limit}, match: {{ kind: k{limit} }}, limits: [l{limit}] }}\n"));
    }
    text
}

fn tokens(count: usize) -> Access {
    let token = |number: usize| Token {
        name: format!("t{number}"),
        sha256: [0; 32],
        domains: Domains::All,
        scopes: Scopes::default(),
    };
    Access::of((0..count).map(token).collect())
}

fn figures(policies: Policies, access: Access) -> Figures {
    Figures {
        policies: Arc::new(policies),
        meter: Arc::new(Meter::default()),
        access: Arc::new(access),
        forward_errors: Vec::new(),
        unanswered: vec![("silence", 2)],
        circuits: vec![("n2".to_owned(), true, 4)],
        denials: 7,
        cancelled_charges: 3,
        keys: vec![("d0".to_owned(), 7)],
        forward_durations: Vec::new(),
        lost_corrections: Vec::new(),
        peer_refusals: vec![("wrong-secret", 2)],
        partitions: [("active", 10), ("elsewhere", 20), ("vacant", 2)],
        takeovers: [("fresh", 10), ("allowance", 3), ("worst_case", 0)],
        store: Some(StoreFigures {
            up: true,
            durable: false,
            connects: [("up", 1), ("failed", 2)],
            requests: vec![("write", "done", 9)],
            keys_written: 30,
            ages: StoreAges { snapshot: Some(Span::from_millis(61_500)), unwritten: None },
            durations: vec![("write", Durations { buckets: vec![(0.001, 1), (f64::INFINITY, 0)], sum: 0.5 })],
            totals: Totals { claims: vec![("counted", 2)], fenced: 1, put_off: vec![("allowance", 4)] },
        }),
        lease_remaining: Span::from_millis(2_500),
        lease_ttl: Span::from_secs(3),
        clock_trusted: true,
        n_max: 4,
        map_version: 4,
        members: [("alive", 2), ("suspect", 0), ("down", 1)],
    }
}

fn leg(limit: LimitId, allowed: bool, enforced: bool, source: Source) -> LegAnswer {
    let reason = if allowed { Reason::Ok } else { Reason::Limit };
    let variant = limits::Variant::OWN;
    LegAnswer { limit, variant, allowed, enforced, reason, source, numbers: None, owner: None, epoch: None }
}

const SOURCES: [Source; 6] =
    [Source::Owner, Source::Forwarded, Source::Emergency, Source::Open, Source::Closed, Source::Policy];

/// Every limit answers in every way there is.
fn count_everything(policies: &Policies, limits: usize) {
    for id in (0..limits).map(limit_id) {
        for source in SOURCES {
            for (allowed, enforced) in [(true, true), (false, true), (false, false)] {
                policies.tally.limit(id).unwrap().count(&leg(id, allowed, enforced, source), 2);
            }
        }
    }
}

fn durations() -> Durations {
    Durations { buckets: vec![(0.001, 1), (0.01, 2), (f64::INFINITY, 0)], sum: 0.012 }
}

/// A sample: its labels in order, and its value.
type Sample = (BTreeMap<String, String>, f64);

/// What a scraper makes of a scrape.
#[derive(Debug, Default)]
struct Scraped {
    kinds: BTreeMap<String, String>,
    helps: BTreeMap<String, String>,
    units: BTreeMap<String, String>,
    samples: BTreeMap<String, Vec<Sample>>,
}

impl Scraped {
    /// Reads OpenMetrics text 1.0 and holds it to its rules.
    fn read(text: &str) -> Scraped {
        let mut scraped = Scraped::default();
        let body = text.strip_suffix("# EOF\n").expect("a scrape ends with an end");
        for line in body.lines() {
            if let Some(meta) = line.strip_prefix("# ") {
                let (word, rest) = meta.split_once(' ').unwrap();
                let (name, value) = rest.split_once(' ').unwrap();
                let known = match word {
                    "TYPE" => scraped.kinds.insert(name.to_owned(), value.to_owned()),
                    "HELP" => scraped.helps.insert(name.to_owned(), value.to_owned()),
                    "UNIT" => {
                        assert!(name.ends_with(&format!("_{value}")), "{name} does not end with its unit");
                        scraped.units.insert(name.to_owned(), value.to_owned())
                    }
                    other => panic!("unknown comment {other}"),
                };
                assert_eq!(known, None, "{word} of {name} stands twice");
            } else {
                scraped.sample(line);
            }
        }
        scraped
    }

    fn sample(&mut self, line: &str) {
        let (series, value) = line.rsplit_once(' ').unwrap();
        let value: f64 = value.parse().unwrap();
        let (name, labels) = match series.split_once('{') {
            Some((name, labels)) => (name, labels_of(labels.strip_suffix('}').unwrap())),
            None => (series, BTreeMap::new()),
        };
        assert!(name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_'), "{name}");
        assert!(value >= 0.0, "{line}");
        let samples = self.samples.entry(name.to_owned()).or_default();
        assert!(samples.iter().all(|(known, _)| *known != labels), "twice: {line}");
        samples.push((labels, value));
    }

    fn value(&self, name: &str, labels: &[(&str, &str)]) -> Option<f64> {
        let fits = |known: &BTreeMap<String, String>| {
            labels.iter().all(|(name, value)| known.get(*name).is_some_and(|known| known == value))
        };
        let found: Vec<_> = self.samples.get(name)?.iter().filter(|(known, _)| fits(known)).collect();
        (!found.is_empty()).then(|| found.iter().map(|(_, value)| value).sum())
    }

    fn count(&self) -> usize {
        self.samples.values().map(Vec::len).sum()
    }

    fn label_names(&self, name: &str) -> BTreeSet<String> {
        self.samples.get(name).into_iter().flatten().flat_map(|(labels, _)| labels.keys().cloned()).collect()
    }
}

fn labels_of(text: &str) -> BTreeMap<String, String> {
    let mut labels = BTreeMap::new();
    let mut rest = text;
    while !rest.is_empty() {
        let (name, after) = rest.split_once("=\"").unwrap();
        let mut value = String::new();
        let mut chars = after.char_indices();
        let end = loop {
            match chars.next().expect("a label's value ends") {
                (at, '"') => break at,
                (_, '\\') => value.push(chars.next().unwrap().1),
                (_, other) => value.push(other),
            }
        };
        assert_eq!(labels.insert(name.to_owned(), value), None, "label {name} stands twice");
        rest = after[end + 1..].trim_start_matches(',');
    }
    labels
}

#[test]
fn a_scraper_finds_every_family_with_its_kind_its_help_and_its_labels() {
    let policies = Policies::after(&Policies::none(), catalogue(1));
    count_everything(&policies, 1);
    let mut figures = figures(policies, tokens(1));
    figures.meter.start(Api::Http(Call::Check)).stop(200);
    figures.forward_errors.push(("n2".to_owned(), "timeout", 5));
    figures.lost_corrections.push(("n2".to_owned(), 0));
    figures.forward_durations.push(("n2".to_owned(), durations()));
    let scraped = Scraped::read(&text_of(figures));
    for family in families::ALL {
        let full = family.full_name();
        let name = full.strip_suffix("_total").filter(|_| family.kind == Kind::Counter).unwrap_or(&full);
        assert_eq!(scraped.kinds.get(name).map(String::as_str), Some(family.kind.metric_type().as_str()), "{name}");
        assert_eq!(scraped.helps.get(name).map(String::as_str), Some(family.help), "{name}");
        assert_eq!(scraped.units.contains_key(name), family.seconds, "{name}");
        let mut labels: BTreeSet<String> = family.labels.iter().map(|label| (*label).to_owned()).collect();
        let samples = match family.kind {
            Kind::Counter | Kind::Gauge => full.clone(),
            Kind::Histogram => {
                labels.insert("le".to_owned());
                format!("{full}_bucket")
            }
        };
        assert_eq!(scraped.label_names(&samples), labels, "{samples}");
    }
    assert_eq!(scraped.kinds.len(), families::ALL.len(), "nothing is told that the table does not know");
}

#[test]
fn a_histogram_is_cumulative_and_ends_with_everything() {
    let figures = figures(Policies::none(), Access::open());
    for _ in 0..3 {
        figures.meter.start(Api::GrpcStream).stop(200);
    }
    let scraped = Scraped::read(&text_of(figures));
    let name = families::DECISION_DURATION.full_name();
    let bucket = |le: &str| scraped.value(&format!("{name}_bucket"), &[("api", "grpc_stream"), ("le", le)]);
    assert_eq!(bucket("+Inf"), Some(3.0));
    assert_eq!(bucket("1.0"), Some(3.0), "nothing here takes a second");
    assert_eq!(scraped.value(&format!("{name}_count"), &[("api", "grpc_stream")]), Some(3.0));
}

#[test]
fn a_thousand_limits_and_a_hundred_thousand_decisions_stay_within_the_bound_and_lose_nothing() {
    let (domains, limits) = (4, 4 * LIMITS_PER_DOMAIN);
    let policies = Policies::after(&Policies::none(), catalogue(domains));
    count_everything(&policies, limits);
    for key in 0..100_000 {
        let id = limit_id(key % limits);
        policies.tally.limit(id).unwrap().count(&leg(id, true, true, Source::Owner), 1);
    }
    let mut figures = figures(policies, tokens(1_000));
    for status in crate::meter::STATUSES {
        Api::all().for_each(|api| figures.meter.start(api).stop(status));
    }
    PolicyOutcome::ALL.into_iter().for_each(|outcome| figures.meter.count_policy(outcome));
    let peers = || (0..1_000).map(|peer| format!("n{peer}"));
    figures.forward_errors = peers().map(|peer| (peer, "timeout", 1)).collect();
    figures.forward_durations = peers().map(|peer| (peer, durations())).collect();
    figures.lost_corrections = peers().map(|peer| (peer, 1)).collect();
    figures.keys = (0..1_000).map(|domain| (format!("d{domain}"), 100)).collect();
    let scraped = Scraped::read(&text_of(figures));
    assert!(scraped.count() <= SERIES_MAX, "{} samples, at most {SERIES_MAX} are promised", scraped.count());
    assert!(scraped.count() > SERIES_MAX / 2, "the bound says something: {} of {SERIES_MAX}", scraped.count());

    let decisions = families::DECISIONS.full_name();
    let answers = (limits * 3 * SOURCES.len()) as f64;
    assert_eq!(scraped.value(&decisions, &[]), Some(answers + 100_000.0));
    let others = answers / 2.0 + 50_000.0;
    assert_eq!(scraped.value(&decisions, &[("limit", OTHER)]), Some(others));
    assert_eq!(scraped.value(&families::FORWARD_ERRORS.full_name(), &[]), Some(1_000.0));
    assert_eq!(scraped.value(&families::KEYS.full_name(), &[]), Some(100_000.0));
    let forwards = families::FORWARD_DURATION.full_name();
    assert_eq!(scraped.value(&format!("{forwards}_count"), &[]), Some(3_000.0));
    assert_eq!(scraped.value(&format!("{forwards}_bucket"), &[("le", "+Inf"), ("peer", "n0")]), Some(3.0));
    assert_eq!(
        scraped.value(&families::DEGRADED_DECISIONS.full_name(), &[("mode", "open")]),
        Some(3.0 * limits as f64)
    );
}

#[test]
fn a_name_with_odd_characters_stays_one_label() {
    let token =
        Token { name: "a\"b\\c\n".to_owned(), sha256: [0; 32], domains: Domains::All, scopes: Scopes::default() };
    let text = text_of(figures(Policies::none(), Access::of(vec![token])));
    assert!(text.contains(r#"ringfence_auth_total{token="a\"b\\c\n",result="ok"} 0"#), "{text}");
}
