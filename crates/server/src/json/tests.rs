//! What each call's body may say, and how its mistakes are named.
#![allow(clippy::unwrap_used, reason = "tests")]

use limits::Span;
use node::Wanted;

use super::*;

fn asked(call: Call, body: &str) -> Asked {
    asked_from_body(call, body.as_bytes()).unwrap()
}

fn rejected(call: Call, body: &str) -> (Code, String) {
    let rejection = asked_from_body(call, body.as_bytes()).unwrap_err();
    (rejection.code, rejection.field)
}

#[test]
fn the_smallest_check_has_defaults() {
    let asked = asked(Call::Check, r#"{"attributes":{"client":"alice","port":8080}}"#);
    assert_eq!((asked.domain.as_str(), asked.cost, asked.wanted), ("default", 1, Wanted::Spend));
    assert_eq!(asked.pairs, [("client".into(), "alice".into()), ("port".into(), "8080".into())]);
    assert_eq!((asked.id, asked.deadline), (None, None));
}

#[test]
fn every_mistake_names_its_field() {
    for (body, code, field) in [
        ("{", Code::MalformedBody, ""),
        ("[]", Code::MalformedBody, ""),
        (r#"{"cots":1}"#, Code::UnknownField, "cots"),
        (r#"{"cost":-1}"#, Code::OutOfRange, "cost"),
        (r#"{"cost":1.5}"#, Code::OutOfRange, "cost"),
        (r#"{"cost":1000000000000000}"#, Code::OutOfRange, "cost"),
        (r#"{"cost":99999999999999999999999}"#, Code::OutOfRange, "cost"),
        (r#"{"cost":"1"}"#, Code::WrongType, "cost"),
        (r#"{"cost":0,"up_to":true}"#, Code::OutOfRange, "cost"),
        (r#"{"up_to":1}"#, Code::WrongType, "up_to"),
        (r#"{"domain":7}"#, Code::WrongType, "domain"),
        (r#"{"domain":null}"#, Code::WrongType, "domain"),
        (r#"{"domain":""}"#, Code::OutOfRange, "domain"),
        (r#"{"attributes":[]}"#, Code::WrongType, "attributes"),
        (r#"{"attributes":{"client":true}}"#, Code::WrongType, "attributes.client"),
        (r#"{"id":""}"#, Code::OutOfRange, "id"),
        (r#"{"id":"a\nb"}"#, Code::OutOfRange, "id"),
        (r#"{"deadline_ms":-5}"#, Code::OutOfRange, "deadline_ms"),
        (r#"{"deadline_ms":86400001}"#, Code::OutOfRange, "deadline_ms"),
    ] {
        assert_eq!(rejected(Call::Check, body), (code, field.to_owned()), "{body}");
    }
}

#[test]
fn a_field_of_one_call_is_unknown_to_those_that_do_not_take_it() {
    let values = [
        ("cost", "1"),
        ("up_to", "true"),
        ("debt", "true"),
        ("id", r#""x""#),
        ("ttl_ms", "1000"),
        ("limit", r#""x""#),
        ("inline", "[]"),
        ("deadline_ms", "50"),
    ];
    for call in Call::ALL {
        let needed = values
            .iter()
            .filter(|(field, _)| call.takes().iter().any(|takes| takes.as_str() == *field && call.needs(*takes)));
        let needed: Vec<_> = needed.map(|(field, value)| format!(r#""{field}":{value}"#)).collect();
        for (field, value) in values {
            let others = needed.iter().filter(|needed| !needed.starts_with(&format!(r#""{field}""#)));
            let parts: Vec<_> = others.cloned().chain([format!(r#""{field}":{value}"#)]).collect();
            let read = asked_from_body(call, format!("{{{}}}", parts.join(",")).as_bytes());
            let takes = call.takes().iter().any(|takes| takes.as_str() == field);
            let told = read.as_ref().map(|_| ()).map_err(|rejection| (rejection.code, rejection.field.as_str()));
            let expected = if takes { Ok(()) } else { Err((Code::UnknownField, field)) };
            assert_eq!(told, expected, "{} of {field}", call.word());
        }
    }
}

#[test]
fn what_a_call_needs_must_be_there() {
    for (call, body, field) in [
        (Call::Reserve, r#"{"ttl_ms":1000}"#, "cost"),
        (Call::Reserve, r#"{"cost":5}"#, "ttl_ms"),
        (Call::Settle, r#"{"cost":5}"#, "id"),
        (Call::Settle, r#"{"id":"x"}"#, "cost"),
        (Call::Renew, r#"{"ttl_ms":1000}"#, "id"),
        (Call::Release, "{}", "id"),
        (Call::Refund, "{}", "id"),
    ] {
        assert_eq!(rejected(call, body), (Code::MissingField, field.to_owned()), "{} {body}", call.word());
    }
}

#[test]
fn each_call_has_its_own_ranges() {
    for (call, body, field) in [
        (Call::Reserve, r#"{"cost":0,"ttl_ms":1000}"#, "cost"),
        (Call::Reserve, r#"{"cost":1,"ttl_ms":0}"#, "ttl_ms"),
        (Call::Reserve, r#"{"cost":1,"ttl_ms":86400001}"#, "ttl_ms"),
        (Call::Reserve, r#"{"cost":1,"ttl_ms":-1}"#, "ttl_ms"),
        (Call::Acquire, r#"{"cost":0}"#, "cost"),
        (Call::Acquire, r#"{"ttl_ms":0}"#, "ttl_ms"),
        (Call::Acquire, r#"{"ttl_ms":31622400001}"#, "ttl_ms"),
        (Call::Renew, r#"{"id":"x","ttl_ms":0}"#, "ttl_ms"),
        (Call::Renew, r#"{"id":"x","cost":0}"#, "cost"),
        (Call::Settle, r#"{"id":"x","cost":1000000000000000}"#, "cost"),
        (Call::Peek, r#"{"limit":""}"#, "limit"),
    ] {
        assert_eq!(rejected(call, body), (Code::OutOfRange, field.to_owned()), "{} {body}", call.word());
    }
    assert_eq!(rejected(Call::Settle, r#"{"id":"x","cost":1,"debt":"yes"}"#), (Code::WrongType, "debt".to_owned()));
    let day = asked(Call::Reserve, r#"{"cost":1,"ttl_ms":86400000}"#);
    assert_eq!(day.wanted, Wanted::Reserve { ttl: limits::RESERVE_TTL_MAX });
    assert_eq!(asked(Call::Settle, r#"{"id":"x","cost":0}"#).cost, 0, "nothing was needed");
}

#[test]
fn what_is_wanted_is_what_was_said() {
    let ttl = Some(Span::from_secs(1));
    for (call, body, wanted) in [
        (Call::Check, r#"{"cost":7,"up_to":true}"#, Wanted::UpTo),
        (Call::Check, r#"{"cost":7,"up_to":false}"#, Wanted::Spend),
        (Call::Peek, "{}", Wanted::Peek),
        (Call::Reserve, r#"{"cost":7,"ttl_ms":1000}"#, Wanted::Reserve { ttl: Span::from_secs(1) }),
        (Call::Acquire, "{}", Wanted::Acquire { ttl: None }),
        (Call::Acquire, r#"{"ttl_ms":1000}"#, Wanted::Acquire { ttl }),
        (Call::Settle, r#"{"id":"x","cost":7}"#, Wanted::Settle { debt: false }),
        (Call::Settle, r#"{"id":"x","cost":7,"debt":true}"#, Wanted::Settle { debt: true }),
        (Call::Renew, r#"{"id":"x"}"#, Wanted::Renew { ttl: None }),
        (Call::Renew, r#"{"id":"x","ttl_ms":1000}"#, Wanted::Renew { ttl }),
        (Call::Release, r#"{"id":"x"}"#, Wanted::Release),
        (Call::Refund, r#"{"id":"x"}"#, Wanted::Refund),
        (Call::Reset, r#"{"limit":"daily"}"#, Wanted::Reset),
    ] {
        assert_eq!(asked(call, body).wanted, wanted, "{} {body}", call.word());
    }
    assert_eq!(asked(Call::Reset, r#"{"limit":"daily"}"#).limit.as_deref(), Some("daily"));
}

#[test]
fn a_limit_that_is_brought_along_has_all_of_its_fields_and_no_others() {
    let body = |limits: &str| format!(r#"{{"inline":{limits}}}"#);
    let check = asked(Call::Check, &body(r#"[{"name":"mine","rate":"5/s","key":["org","user"]}]"#));
    let limit = InlineLimit { name: "mine".into(), rate: "5/s".into(), key: vec!["org".into(), "user".into()] };
    assert_eq!(check.inline, [limit]);
    for (limits, code, field) in [
        ("{}", Code::WrongType, "inline"),
        ("[7]", Code::WrongType, "inline[0]"),
        (r#"[{"rate":"5/s","key":[]}]"#, Code::MissingField, "inline[0].name"),
        (r#"[{"name":"a","key":[]}]"#, Code::MissingField, "inline[0].rate"),
        (r#"[{"name":"a","rate":"5/s"}]"#, Code::MissingField, "inline[0].key"),
        (r#"[{"name":"a","rate":5,"key":[]}]"#, Code::WrongType, "inline[0].rate"),
        (r#"[{"name":"a","rate":"5/s","key":"org"}]"#, Code::WrongType, "inline[0].key"),
        (r#"[{"name":"a","rate":"5/s","key":[1]}]"#, Code::WrongType, "inline[0].key"),
        (r#"[{"name":"a","rate":"5/s","key":[],"fail":"open"}]"#, Code::UnknownField, "inline[0].fail"),
    ] {
        assert_eq!(rejected(Call::Check, &body(limits)), (code, field.to_owned()), "{limits}");
    }
    let many = |count: usize| body(&format!("[{}]", vec![r#"{"name":"a","rate":"5/s","key":[]}"#; count].join(",")));
    assert_eq!(asked(Call::Check, &many(node::BROUGHT_MAX)).inline.len(), node::BROUGHT_MAX);
    assert_eq!(rejected(Call::Check, &many(node::BROUGHT_MAX + 1)), (Code::OutOfRange, "inline".to_owned()));
}

#[test]
fn only_what_will_be_spoken_of_is_given_a_name() {
    let named = |call, body| asked(call, body).named(|| 7).id;
    let made = format!("{:032x}", 7);
    assert_eq!(named(Call::Acquire, "{}"), Some(made.clone()));
    assert_eq!(named(Call::Reserve, r#"{"cost":1,"ttl_ms":9}"#), Some(made));
    assert_eq!(named(Call::Acquire, r#"{"id":"mine"}"#).as_deref(), Some("mine"));
    assert_eq!((named(Call::Check, "{}"), named(Call::Peek, "{}"), named(Call::Reset, "{}")), (None, None, None));
}

#[test]
fn attributes_are_checked_by_name() {
    for (body, code, field) in [
        (r#"{"attributes":{"client":""}}"#.to_owned(), Code::OutOfRange, "attributes.client"),
        (r#"{"attributes":{"Client":"x"}}"#.to_owned(), Code::OutOfRange, "attributes.Client"),
        (format!(r#"{{"attributes":{{"client":"{}"}}}}"#, "x".repeat(10_240)), Code::ValueTooLong, "attributes.client"),
        (r#"{"attributes":{"ip":"nonsense"}}"#.to_owned(), Code::OutOfRange, "attributes.ip"),
    ] {
        let asked = asked(Call::Check, &body);
        let rejection = asked.attributes("").unwrap_err();
        assert_eq!((rejection.code, rejection.field.as_str()), (code, field), "{body}");
    }
}

#[test]
fn a_bad_item_spoils_only_its_own_place() {
    let batch = batch_from_body(br#"{"checks":[{"cost":2},{"cost":-2},7,{"ttl_ms":1}]}"#).unwrap();
    assert_eq!(batch[0].as_ref().unwrap().cost, 2);
    assert_eq!(batch[1].as_ref().unwrap_err().field, "checks[1].cost");
    assert_eq!(batch[2].as_ref().unwrap_err().code, Code::WrongType);
    assert_eq!(batch[3].as_ref().unwrap_err().field, "checks[3].ttl_ms", "a batch is of checks");
}

#[test]
fn a_batch_of_a_thousand_and_one_is_too_large() {
    let body = |count: usize| format!(r#"{{"checks":[{}]}}"#, vec!["{}"; count].join(","));
    assert_eq!(batch_from_body(body(1_000).as_bytes()).unwrap().len(), 1_000);
    assert_eq!(batch_from_body(body(1_001).as_bytes()).unwrap_err().code, Code::BatchTooLarge);
    assert_eq!(batch_from_body(br#"{"checks":[],"x":1}"#).unwrap_err().code, Code::UnknownField);
    assert_eq!(batch_from_body(b"{}").unwrap_err().code, Code::MissingField);
}
