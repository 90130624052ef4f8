//! The catalogue from revision to revision: what keeps its number, what an owner finds under an id, and how the room for
//! keys is divided.
#![allow(clippy::unwrap_used, missing_docs, reason = "tests")]

use limits::{
    Absent, Algorithm, Basis, Book, Decided, DomainId, FailMode, Fingerprint, Leg, LimitId, Moment, Now, Rate, Span,
    Table, Variant, WallTime,
};
use ringfence_policy::{Calendar, CalendarUnit, Catalogue, CatalogueError, Dialect, Document, SAMPLE};

fn document(domain: &str, limits: &str) -> Document {
    Document::parse(&format!("ringfence: 1\ndomain: {domain}\nlimits: {{ {limits} }}\n")).unwrap()
}

/// The catalogue with a document whose limits have the ids from `first` on, allotted at 10 times their id.
fn with(catalogue: &Catalogue, document: &Document, revision: u64, first: u32) -> Result<Catalogue, CatalogueError> {
    let id = |name: &str| {
        let place = document.limits().iter().position(|limit| limit.name == name)? as u32;
        Some((LimitId(first + place), u64::from(first + place) * 10))
    };
    catalogue.with_domain(document, revision, &id, 1_000)
}

#[test]
fn the_sample_policy_is_the_smallest_legal_one() {
    let sample = Document::parse(SAMPLE).unwrap();
    let catalogue = with(&Catalogue::empty(), &sample, 1, 1).unwrap();
    let domain = catalogue.domain("default").unwrap();
    assert_eq!((domain.name(), domain.revision(), domain.headers()), ("default", 1, &[Dialect::Draft10][..]));
    let limit = &domain.limits()[0];
    assert_eq!(
        (limit.name(), limit.id(), limit.capacity(), limit.fail()),
        ("per-client", LimitId(1), 20, &FailMode::Open)
    );
    assert_eq!(limit.rate(), Rate::new(10, Span::from_secs(1)).ok());
}

#[test]
fn an_owner_finds_each_limit_under_its_id() {
    let catalogue = with(&Catalogue::empty(), &document("one", "a: { rate: 5/s, key: [] }"), 1, 1).unwrap();
    let catalogue =
        with(&catalogue, &document("two", "b: { rate: 7/h, key: [], algorithm: sliding-log }"), 9, 3).unwrap();
    let entry = catalogue.limit(LimitId(3), Variant::OWN).unwrap();
    assert_eq!(entry.allotted_at, 30);
    let shape = catalogue.shapes().get(entry.shape);
    assert_eq!((shape.limit, shape.domain), (LimitId(3), DomainId(1)));
    assert_eq!(shape.algorithm, Algorithm::SlidingLog { max_entries: 4_096 });
    assert_eq!(catalogue.limit(LimitId(1), Variant::OWN).unwrap().allotted_at, 10);
    for nobody in [0, 2, 4, u32::MAX] {
        assert_eq!(catalogue.limit(LimitId(nobody), Variant::OWN), None);
    }
}

#[test]
fn a_new_revision_keeps_the_ids_of_shapes_that_stay() {
    let first = with(&Catalogue::empty(), &document("d", "a: { rate: 5/s, key: [] }, b: { rate: 1/s, key: [] }"), 1, 1)
        .unwrap();
    let second = with(&first, &document("d", "a: { rate: 5/s, key: [] }, b: { rate: 2/s, key: [] }"), 2, 1).unwrap();
    let shape = |catalogue: &Catalogue, id| catalogue.limit(LimitId(id), Variant::OWN).unwrap().shape;
    assert_eq!(shape(&first, 1), shape(&second, 1));
    assert_ne!(shape(&first, 2), shape(&second, 2));
    assert_eq!(second.shapes().get(shape(&first, 2)).rate, Rate::new(1, Span::from_secs(1)).ok());
    assert_eq!(second.domain("d").unwrap().revision(), 2);
    assert_eq!(first.domain("d").unwrap().revision(), 1);
}

#[test]
fn a_limit_that_is_dropped_is_no_longer_found() {
    let first = with(&Catalogue::empty(), &document("d", "a: { rate: 5/s, key: [] }, b: { rate: 1/s, key: [] }"), 1, 1)
        .unwrap();
    let second = with(&first, &document("d", "a: { rate: 5/s, key: [] }"), 2, 1).unwrap();
    assert!(first.limit(LimitId(2), Variant::OWN).is_some());
    assert!(second.limit(LimitId(2), Variant::OWN).is_none());
}

#[test]
fn a_domain_that_comes_back_has_its_number() {
    let one = document("one", "a: { rate: 5/s, key: [] }");
    let catalogue = with(&Catalogue::empty(), &one, 1, 1).unwrap();
    let catalogue = with(&catalogue, &document("two", "a: { rate: 5/s, key: [] }"), 1, 2).unwrap();
    let without = catalogue.without_domain("one", 1_000);
    assert!(without.domain("one").is_none());
    assert!(without.limit(LimitId(1), Variant::OWN).is_none());
    assert!(without.limit(LimitId(2), Variant::OWN).is_some());
    let back = with(&without, &one, 2, 5).unwrap();
    assert_eq!(back.domain("one").unwrap().id(), catalogue.domain("one").unwrap().id());
    assert_eq!(back.domains().map(|domain| domain.name()).collect::<Vec<_>>(), ["one", "two"]);
}

#[test]
fn a_limit_without_a_usable_id_changes_nothing() {
    let catalogue = with(&Catalogue::empty(), &document("one", "a: { rate: 5/s, key: [] }"), 1, 1).unwrap();
    let two = document("two", "b: { rate: 5/s, key: [] }");
    let (domain, limit) = ("two".to_owned(), "b".to_owned());
    let refusal =
        |ids: &dyn Fn(&str) -> Option<(LimitId, u64)>| catalogue.with_domain(&two, 1, ids, 1_000).unwrap_err();
    assert_eq!(refusal(&|_| None), CatalogueError::NoLimitId { domain: domain.clone(), limit: limit.clone() });
    for id in [0, 1, u32::MAX] {
        let error = refusal(&move |_| Some((LimitId(id), 0)));
        assert_eq!(error, CatalogueError::LimitIdUnusable { domain: domain.clone(), limit: limit.clone(), id });
    }
    assert!(catalogue.domain("two").is_none());
}

#[test]
fn the_failure_mode_decides_what_an_owner_believes_and_what_a_full_table_says() {
    let text = "a: { rate: 1/s, key: [] }, b: { rate: 1/s, key: [], fail: closed }, \
                c: { rate: 1/s, key: [], fail: { emergency: 5% }, when_full: open }, d: { rate: 1/s, key: [], when_full: closed }";
    let catalogue = with(&Catalogue::empty(), &document("d", text), 1, 1).unwrap();
    let emergency = FailMode::Emergency { percent: 5, reserved: false };
    let expected = [
        ("a", FailMode::Open, FailMode::Open, Basis::Lo),
        ("b", FailMode::Closed, FailMode::Closed, Basis::Hi),
        ("c", emergency, FailMode::Open, Basis::Hi),
        ("d", FailMode::Open, FailMode::Closed, Basis::Lo),
    ];
    let limits = catalogue.domain("d").unwrap().limits().iter();
    let found: Vec<_> = limits.map(|it| (it.name(), *it.fail(), *it.when_full(), it.shape().basis)).collect();
    assert_eq!(found, expected);
}

#[test]
fn the_owner_of_a_limit_with_a_reserve_decides_with_the_rest() {
    let text = "a: { rate: 100/s burst 50, key: [], fail: { emergency: 20%, reserved: true } }";
    let catalogue = with(&Catalogue::empty(), &document("d", text), 1, 1).unwrap();
    let limit = &catalogue.domain("d").unwrap().limits()[0];
    assert_eq!(limit.capacity(), 40);
    assert_eq!(limit.rate(), Rate::new(100, Span::from_secs(1)).ok());
    let shape = catalogue.shapes().get(catalogue.limit(LimitId(1), Variant::OWN).unwrap().shape);
    assert_eq!((shape.rate, shape.capacity()), (Rate::new(80, Span::from_secs(1)).ok(), Some(40)));
    let emergency = limit.emergency_shape(3).unwrap();
    assert_eq!((emergency.rate, emergency.capacity()), (Rate::new(6, Span::from_secs(1)).ok(), Some(3)));
}

/// How many keys of a domain's first limit a fresh table takes.
fn room(catalogue: &Catalogue, domain: &str) -> usize {
    let mut table = Table::new();
    let limit = catalogue.domain(domain).unwrap().limits()[0].shape_id();
    let now = Now::at(Moment::from_nanos(1));
    let mut decided = Decided::default();
    let taken = (0..100).take_while(|&n| {
        let leg = Leg { shape: limit, key: Fingerprint([n, n]), cost: 1, absent: Absent::Fresh, shadow: false };
        table.decide(&[leg], catalogue.shapes(), catalogue.budgets(), now, &mut decided).is_ok()
    });
    let taken = taken.count();
    table.clear(catalogue.shapes(), catalogue.budgets());
    taken
}

#[test]
fn the_room_for_keys_is_divided_equally_among_the_domains_there_are() {
    let hourly = "a: { rate: 1/h, key: [client] }";
    let one = document("one", hourly);
    let id = |first: u32| move |_: &str| Some((LimitId(first), 0));
    let alone = Catalogue::empty().with_domain(&one, 1, &id(1), 9).unwrap();
    assert_eq!(room(&alone, "one"), 9);
    let both = alone.with_domain(&document("two", hourly), 1, &id(2), 9).unwrap();
    assert_eq!((room(&both, "one"), room(&both, "two")), (4, 4));
    let again = both.with_domain(&one, 2, &id(1), 9).unwrap();
    assert_eq!((room(&again, "one"), room(&again, "two")), (4, 4));
    let without = again.without_domain("two", 9);
    assert_eq!(room(&without, "one"), 9);
    assert_eq!(room(&both, "two"), 0, "a domain that was removed gets no new keys");
    let crowded = without.with_domain(&document("three", hourly), 1, &id(3), 1).unwrap();
    assert_eq!((room(&crowded, "one"), room(&crowded, "three")), (1, 1), "never none");
}

#[test]
fn the_1025th_domain_is_refused() {
    let mut catalogue = Catalogue::empty();
    for number in 0..limits::DOMAINS_MAX as u32 {
        catalogue =
            with(&catalogue, &document(&format!("d{number}"), "a: { rate: 1/s, key: [] }"), 1, number + 1).unwrap();
    }
    let one_more = document("one-more", "a: { rate: 1/s, key: [] }");
    assert_eq!(with(&catalogue, &one_more, 1, 5_000).unwrap_err(), CatalogueError::TooManyDomains);
}

#[test]
fn an_owner_counts_by_the_calendar_that_the_policy_names() {
    let text = "a: { rate: 2/day calendar Europe/Berlin, key: [] }";
    let catalogue = with(&Catalogue::empty(), &document("d", text), 1, 1).unwrap();
    let shape = catalogue.limit(LimitId(1), Variant::OWN).unwrap().shape;
    let mut table = Table::new();
    let mut admitted = |at: &str| {
        let instant: jiff::Timestamp = at.parse().unwrap();
        let wall = WallTime::from_unix_nanos(u64::try_from(instant.as_nanosecond()).unwrap());
        let now = Now::with_wall(Moment::from_nanos(wall.as_unix_nanos()), wall);
        let leg = Leg { shape, key: Fingerprint([1, 1]), cost: 1, absent: Absent::Fresh, shadow: false };
        let mut decided = Decided::default();
        table.decide(&[leg], catalogue.shapes(), catalogue.budgets(), now, &mut decided).unwrap()
    };
    let day = ["2026-10-24T22:00:01Z", "2026-10-25T22:59:59Z", "2026-10-25T22:59:59.5Z", "2026-10-25T23:00:00Z"];
    assert_eq!(day.map(&mut admitted), [true, true, false, true], "a day of 25 hours");
}

#[test]
fn every_algorithm_has_the_numbers_that_the_document_says() {
    let text = "a: { rate: 7/s, algorithm: sliding-counter, fail: closed, approximate: true, key: [] }, \
                b: { rate: 9/week calendar Asia/Tokyo, algorithm: calendar, key: [], fail: closed }, \
                c: { algorithm: concurrency, slots: 20, ttl: 30s, max_hold: 10min, key: [] }, \
                d: { algorithm: concurrency, slots: 3, ttl: 1s, fail: open, key: [] }";
    let catalogue = with(&Catalogue::empty(), &document("d", text), 1, 1).unwrap();
    let week = Calendar::new(CalendarUnit::Week, "Asia/Tokyo").unwrap().id();
    let rate = |amount, seconds| Rate::new(amount, Span::from_secs(seconds)).ok();
    let expected = [
        (rate(7, 1), Algorithm::SlidingCounter, FailMode::Closed),
        (rate(9, 7 * 86_400), Algorithm::Calendar { calendar: week }, FailMode::Closed),
        (rate(20, 30), Algorithm::Concurrency { max_hold: Span::from_secs(600) }, FailMode::Closed),
        (rate(3, 1), Algorithm::Concurrency { max_hold: limits::PERIOD_MAX }, FailMode::Open),
    ];
    let limits = catalogue.domain("d").unwrap().limits().iter();
    let found: Vec<_> = limits.map(|it| (it.rate(), it.algorithm(), *it.fail())).collect();
    assert_eq!(found, expected);
}

#[test]
fn rates_that_come_with_the_check_are_allowed_where_the_document_says_so() {
    let text = "ringfence: 1\ndomain: d\ninline: { max_rate: 1000/s burst 50, max_limits: 9, fail: closed }\n\
                limits: { a: { rate: 1/s, key: [] } }\n";
    let catalogue = with(&Catalogue::empty(), &Document::parse(text).unwrap(), 1, 1).unwrap();
    let inline = catalogue.domain("d").unwrap().inline().unwrap();
    assert_eq!(
        (inline.max_limits(), inline.fail(), inline.max_rate().to_string()),
        (9, FailMode::Closed, "1000/s burst 50".to_owned())
    );
    let usual = Document::parse(&text.replace(" burst 50, max_limits: 9, fail: closed", "")).unwrap();
    assert_eq!(usual.inline().map(|inline| (inline.max_limits(), inline.fail())), Some((64, FailMode::Open)));
    assert!(Document::parse(SAMPLE).unwrap().inline().is_none());
}
