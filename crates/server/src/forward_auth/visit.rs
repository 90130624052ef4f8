//! What a gateway asks for a visitor, read from the request: where to ask and how to deny from the query, which is the
//! gateway's own; who the visitor is and what it wants from header fields. Visitors can send any header field along, so
//! each is read with that in mind: the address only behind trusted proxies, attributes and the id only from those and only
//! where the query names them, and two fields that contradict each other are refused rather than chosen from.

use std::borrow::Cow;
use std::net::IpAddr;

use axum::extract::Query;
use http::{HeaderMap, HeaderName, StatusCode, Uri};
use policy::attributes::{ATTRIBUTES_MAX, VALUE_MAX};
use policy::name::is_attribute_name;

use super::proxies::Proxies;
use crate::asked::{Said, shown};
use crate::code::{Code, Rejection};

/// Header fields that carry attributes begin so; the attribute's name follows, `-` for `_`.
pub const ATTRIBUTE_FIELD: &str = "x-ringfence-attribute-";

/// Query parameters that carry attributes begin so.
const ATTRIBUTE_PARAMETER: &str = "attribute.";

/// Fields with the visitor's method: what Traefik and Caddy send, and what nginx is told to send.
const METHOD_FIELDS: [&str; 2] = ["x-forwarded-method", "x-original-method"];

/// Fields with what the visitor asked for, its query included.
const URI_FIELDS: [&str; 2] = ["x-forwarded-uri", "x-original-uri"];

/// The field in which each proxy writes down who asked it, the last one at the end.
const CHAIN_FIELD: &str = "x-forwarded-for";

/// Stands at the end of a path that was cut. No path of a request has it, so nothing equals a path that was cut.
const CUT_MARK: &str = "…";

/// What the query says.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Wish {
    /// The status of a denial, where it is not the decision's own.
    pub deny: Option<StatusCode>,
    domain: Option<String>,
    /// Attributes that the query itself gives.
    pairs: Vec<(String, String)>,
    /// Attributes that the gateway sends in header fields.
    in_fields: Vec<String>,
    /// The field that carries the id of the request.
    id_field: Option<HeaderName>,
}

impl Wish {
    /// Reads the query.
    ///
    /// # Errors
    ///
    /// The first parameter that is unknown, malformed, or stands twice.
    pub fn of(uri: &Uri) -> Result<Wish, Rejection> {
        let query = Query::<Vec<(String, String)>>::try_from_uri(uri);
        let Query(parameters) =
            query.map_err(|error| Rejection::of_field(Code::OutOfRange, "query", error.body_text()))?;
        let mut wish = Wish::default();
        let mut before: Vec<&str> = Vec::new();
        for (name, value) in &parameters {
            if before.contains(&name.as_str()) {
                return Err(Rejection::of_field(Code::OutOfRange, shown(name), "expected once, found twice"));
            }
            before.push(name);
            if wish.pairs.len() == ATTRIBUTES_MAX {
                let detail = format!("at most {ATTRIBUTES_MAX} attributes");
                return Err(Rejection::of_field(Code::TooManyAttributes, "query", detail));
            }
            match name.as_str() {
                "domain" => wish.domain = Some(value.clone()),
                "deny" => wish.deny = Some(status_of(value)?),
                "headers" => wish.in_fields = names_of(value)?,
                "id_header" => wish.id_field = Some(field_named(value)?),
                other => wish.pairs.push((attribute_of(other)?, value.clone())),
            }
        }
        Ok(wish)
    }

    /// The check that is asked for: the visitor's `ip`, `method` and `path` as far as they are known, and what the gateway
    /// gives besides.
    ///
    /// # Errors
    ///
    /// A header field that is malformed or contradicts another.
    pub fn said(self, headers: &HeaderMap, peer: Option<IpAddr>, proxies: &Proxies) -> Result<Said, Rejection> {
        let Wish { domain, mut pairs, in_fields, id_field, deny: _ } = self;
        let mut add = |name: &str, value: Cow<'_, str>| pairs.push((name.to_owned(), value.into_owned()));
        if let Some(peer) = peer {
            add("ip", client_of(headers, peer, proxies)?.to_string().into());
        }
        if let Some(method) = either(headers, METHOD_FIELDS)? {
            add("method", method.into());
        }
        if let Some(uri) = either(headers, URI_FIELDS)? {
            add("path", path_of(uri)?);
        }
        let mut id = None;
        if peer.is_some_and(|peer| proxies.trust(peer)) {
            for name in &in_fields {
                if let Some(value) = single(headers, &field_of(name))? {
                    add(name, value.into());
                }
            }
            if let Some(field) = id_field {
                id = single(headers, field.as_str())?.map(str::to_owned);
            }
        }
        Ok(Said { domain, pairs, id, ..Said::default() })
    }
}

fn status_of(text: &str) -> Result<StatusCode, Rejection> {
    match text {
        "403" => Ok(StatusCode::FORBIDDEN),
        "429" => Ok(StatusCode::TOO_MANY_REQUESTS),
        _ => {
            Err(Rejection::of_field(Code::OutOfRange, "deny", format!("expected 403 or 429, found `{}`", shown(text))))
        }
    }
}

/// The names of a list such as `user,org`.
fn names_of(list: &str) -> Result<Vec<String>, Rejection> {
    let name = |text: &str| match is_attribute_name(text) && !is_of_the_request(text) {
        true => Ok(text.to_owned()),
        false => {
            let detail = format!("expected names of attributes, such as user,org; found `{}`", shown(text));
            Err(Rejection::of_field(Code::OutOfRange, "headers", detail))
        }
    };
    list.split(',').map(name).collect()
}

fn field_named(name: &str) -> Result<HeaderName, Rejection> {
    name.parse().map_err(|_| {
        let detail = format!("expected the name of a header field, such as x-request-id; found `{}`", shown(name));
        Rejection::of_field(Code::OutOfRange, "id_header", detail)
    })
}

/// The attribute that a parameter gives.
fn attribute_of(parameter: &str) -> Result<String, Rejection> {
    match parameter.strip_prefix(ATTRIBUTE_PARAMETER) {
        Some(name) if is_of_the_request(name) => {
            let detail = format!("`{name}` is taken from the request, and not from the query");
            Err(Rejection::of_field(Code::OutOfRange, parameter, detail))
        }
        Some(name) => Ok(name.to_owned()),
        None => {
            let detail = format!("expected domain, deny, headers, id_header or {ATTRIBUTE_PARAMETER}NAME");
            Err(Rejection::of_field(Code::UnknownField, shown(parameter), detail))
        }
    }
}

fn is_of_the_request(name: &str) -> bool {
    ["ip", "method", "path"].contains(&name)
}

fn field_of(attribute: &str) -> String {
    format!("{ATTRIBUTE_FIELD}{}", attribute.replace('_', "-"))
}

fn client_of(headers: &HeaderMap, peer: IpAddr, proxies: &Proxies) -> Result<IpAddr, Rejection> {
    if !proxies.trust(peer) {
        if headers.contains_key(CHAIN_FIELD) {
            proxies.tell_ignored(peer);
        }
        return Ok(peer.to_canonical());
    }
    // A field that stands twice is one list in two pieces.
    let lines: Result<Vec<&str>, Rejection> =
        headers.get_all(CHAIN_FIELD).iter().map(|value| text_of(value.as_bytes(), CHAIN_FIELD)).collect();
    let nearest_first = lines?.into_iter().rev().flat_map(|line| line.rsplit(','));
    let client = proxies.client(peer, nearest_first);
    client.map_err(|error| Rejection::of_field(Code::OutOfRange, CHAIN_FIELD, error.to_string()))
}

/// What one of two fields says, or both alike.
fn either<'h>(headers: &'h HeaderMap, fields: [&str; 2]) -> Result<Option<&'h str>, Rejection> {
    match (single(headers, fields[0])?, single(headers, fields[1])?) {
        (Some(one), Some(other)) if one != other => {
            let [first, second] = fields;
            let detail =
                format!("{first} says something else; the gateway sets one of the two and takes the other away");
            Err(Rejection::of_field(Code::OutOfRange, second, detail))
        }
        (one, other) => Ok(one.or(other)),
    }
}

/// What a field says that stands once. An empty one counts as none: gateways send it where they know nothing.
fn single<'h>(headers: &'h HeaderMap, field: &str) -> Result<Option<&'h str>, Rejection> {
    let mut values = headers.get_all(field).iter();
    let Some(value) = values.next() else { return Ok(None) };
    if values.next().is_some() {
        return Err(Rejection::of_field(Code::OutOfRange, field, "expected once, found twice"));
    }
    text_of(value.as_bytes(), field).map(|text| Some(text).filter(|text| !text.is_empty()))
}

fn text_of<'h>(bytes: &'h [u8], field: &str) -> Result<&'h str, Rejection> {
    std::str::from_utf8(bytes).map_err(|_| Rejection::of_field(Code::OutOfRange, field, "expected text in UTF-8"))
}

/// The path of a request's target. One that no attribute has room for is cut: a visitor may ask for any path, and still
/// the rules for what it begins with apply to it.
fn path_of(uri: &str) -> Result<Cow<'_, str>, Rejection> {
    let path = uri.split(['?', '#']).next().unwrap_or(uri);
    if !path.starts_with('/') && path != "*" {
        let detail = format!("expected a path that begins with /, found `{}`", shown(uri));
        return Err(Rejection::of_field(Code::OutOfRange, "path", detail));
    }
    if path.len() <= VALUE_MAX {
        return Ok(path.into());
    }
    let end = path.floor_char_boundary(VALUE_MAX - CUT_MARK.len());
    Ok(format!("{}{CUT_MARK}", &path[..end]).into())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use http::{HeaderName, HeaderValue};

    use super::*;

    const GATEWAY: &str = "10.0.0.1";
    const STRANGER: &str = "192.0.2.7";

    fn wish(query: &str) -> Result<Wish, Rejection> {
        Wish::of(&format!("/v1/forward-auth{query}").parse().unwrap())
    }

    fn refusal(query: &str) -> (Code, String) {
        let rejection = wish(query).unwrap_err();
        (rejection.code, rejection.field)
    }

    fn fields(lines: &[(&str, &str)]) -> HeaderMap {
        let field = |(name, value): &(&str, &str)| {
            (name.parse::<HeaderName>().unwrap(), HeaderValue::from_bytes(value.as_bytes()).unwrap())
        };
        lines.iter().map(field).collect()
    }

    /// The attributes of a visit, as `name=value` and sorted, or the field at fault.
    fn visit(query: &str, peer: &str, lines: &[(&str, &str)]) -> Result<Vec<String>, String> {
        let proxies = Proxies::of(vec!["10.0.0.0/8".parse().unwrap()]);
        let peer = Some(peer.parse().unwrap());
        let pairs = wish(query).unwrap().said(&fields(lines), peer, &proxies).map_err(|error| error.field)?.pairs;
        let mut pairs: Vec<_> = pairs.into_iter().map(|(name, value)| format!("{name}={value}")).collect();
        pairs.sort();
        Ok(pairs)
    }

    #[test]
    fn the_query_says_where_to_ask_and_how_to_deny() {
        let plain = wish("").unwrap();
        assert_eq!(plain, Wish::default());
        let told = wish("?deny=403&domain=web&attribute.plan=pro%20plan&headers=user,org").unwrap();
        assert_eq!((told.domain.as_deref(), told.deny), (Some("web"), Some(StatusCode::FORBIDDEN)));
        assert_eq!(wish("?deny=429").unwrap().deny, Some(StatusCode::TOO_MANY_REQUESTS));
        assert_eq!(told.pairs, [("plan".to_owned(), "pro plan".to_owned())]);
        assert_eq!(told.in_fields, ["user", "org"]);
    }

    #[test]
    fn a_parameter_that_is_unknown_malformed_or_twice_is_refused_by_name() {
        let field = |field: &str| field.to_owned();
        assert_eq!(refusal("?domian=web"), (Code::UnknownField, field("domian")));
        assert_eq!(refusal("?user=u1"), (Code::UnknownField, field("user")));
        for (query, at) in [
            ("?domain=a&domain=a", "domain"),
            ("?deny=200", "deny"),
            ("?deny=", "deny"),
            ("?deny=403&deny=403", "deny"),
            ("?headers=", "headers"),
            ("?headers=user,,org", "headers"),
            ("?headers=X-User", "headers"),
            ("?headers=ip", "headers"),
            ("?headers=a&headers=b", "headers"),
            ("?id_header=two%20words", "id_header"),
            ("?attribute.user=a&attribute.user=a", "attribute.user"),
            ("?attribute.ip=192.0.2.1", "attribute.ip"),
            ("?attribute.path=/", "attribute.path"),
        ] {
            assert_eq!(refusal(query), (Code::OutOfRange, field(at)), "{query}");
        }
    }

    #[test]
    fn method_and_path_come_in_the_fields_of_every_gateway() {
        for (method, uri) in [("X-Forwarded-Method", "X-Forwarded-Uri"), ("X-Original-Method", "X-Original-URI")] {
            let lines = [(method, "POST"), (uri, "/v1/charges?card=4")];
            assert_eq!(visit("", GATEWAY, &lines).unwrap(), ["ip=10.0.0.1", "method=POST", "path=/v1/charges"]);
        }
        assert_eq!(visit("", STRANGER, &[("x-original-uri", "*")]).unwrap(), ["ip=192.0.2.7", "path=*"]);
    }

    #[test]
    fn a_visitor_that_sends_the_other_gateways_field_chooses_nothing() {
        for (own, other) in [("x-forwarded-uri", "x-original-uri"), ("x-original-uri", "x-forwarded-uri")] {
            assert_eq!(visit("", GATEWAY, &[(own, "/dear"), (other, "/cheap")]), Err("x-original-uri".to_owned()));
            let alike = visit("", GATEWAY, &[(own, "/dear"), (other, "/dear")]).unwrap();
            assert_eq!(alike, ["ip=10.0.0.1", "path=/dear"]);
        }
        let twice = [("x-forwarded-method", "GET"), ("x-forwarded-method", "POST")];
        assert_eq!(visit("", GATEWAY, &twice), Err("x-forwarded-method".to_owned()));
        let unlike = [("x-forwarded-method", "GET"), ("x-original-method", "POST")];
        assert_eq!(visit("", GATEWAY, &unlike), Err("x-original-method".to_owned()));
    }

    #[test]
    fn an_address_is_believed_of_trusted_proxies_only_and_read_over_all_lines() {
        let lines = [("x-forwarded-for", "198.51.100.1"), ("x-forwarded-for", "203.0.113.9, 10.0.0.2")];
        assert_eq!(visit("", GATEWAY, &lines).unwrap(), ["ip=203.0.113.9"]);
        assert_eq!(visit("", STRANGER, &lines).unwrap(), ["ip=192.0.2.7"]);
        assert_eq!(visit("", "::ffff:192.0.2.7", &lines).unwrap(), ["ip=192.0.2.7"]);
        assert_eq!(visit("", GATEWAY, &[("x-forwarded-for", "unknown")]), Err("x-forwarded-for".to_owned()));
        assert_eq!(visit("", STRANGER, &[("x-forwarded-for", "unknown")]).unwrap(), ["ip=192.0.2.7"]);
    }

    #[test]
    fn attributes_come_in_fields_that_the_query_names_and_from_trusted_proxies() {
        let lines = [("X-Ringfence-Attribute-User", "u1"), ("X-Ringfence-Attribute-Traffic-Class", "batch")];
        assert_eq!(visit("", GATEWAY, &lines).unwrap(), ["ip=10.0.0.1"], "a visitor may send any field");
        let named = "?headers=user,traffic_class,org";
        assert_eq!(visit(named, GATEWAY, &lines).unwrap(), ["ip=10.0.0.1", "traffic_class=batch", "user=u1"]);
        assert_eq!(visit(named, STRANGER, &lines).unwrap(), ["ip=192.0.2.7"]);
        let empty = [("X-Ringfence-Attribute-User", "")];
        assert_eq!(visit(named, GATEWAY, &empty).unwrap(), ["ip=10.0.0.1"], "nobody is logged in");
    }

    #[test]
    fn an_id_comes_in_the_field_that_the_query_names_and_from_trusted_proxies() {
        let id = |query: &str, peer: &str| {
            let proxies = Proxies::of(vec!["10.0.0.0/8".parse().unwrap()]);
            let lines = fields(&[("x-request-id", "7f3a")]);
            wish(query).unwrap().said(&lines, Some(peer.parse().unwrap()), &proxies).unwrap().id
        };
        assert_eq!(id("?id_header=X-Request-ID", GATEWAY).as_deref(), Some("7f3a"));
        // An id that was seen before is answered as before: a visitor that could choose it would pass for ever.
        assert_eq!(id("", GATEWAY), None);
        assert_eq!(id("?id_header=x-request-id", STRANGER), None);
    }

    #[test]
    fn what_is_malformed_is_named() {
        assert_eq!(visit("", GATEWAY, &[("x-original-uri", "http://a/b")]), Err("path".to_owned()));
        let (uri, not_utf8) = (HeaderName::from_static("x-original-uri"), HeaderValue::from_bytes(b"/\xff").unwrap());
        let refused = wish("").unwrap().said(&HeaderMap::from_iter([(uri, not_utf8)]), None, &Proxies::default());
        assert_eq!(refused.unwrap_err().field, "x-original-uri");
    }

    #[test]
    fn a_path_that_is_too_long_is_cut_where_it_can_be_and_marked() {
        let path = |uri: &str| path_of(uri).unwrap().into_owned();
        let longest = format!("/{}", "x".repeat(VALUE_MAX - 1));
        assert_eq!(path(&format!("{longest}?{longest}")), longest);
        let cut = path(&format!("{longest}y"));
        assert_eq!((cut.len(), cut.as_str()), (VALUE_MAX, format!("{}{CUT_MARK}", &longest[..VALUE_MAX - 3]).as_str()));
        let umlauts = path(&format!("/{}", "ä".repeat(VALUE_MAX)));
        assert!(umlauts.len() <= VALUE_MAX && umlauts.ends_with("ä…"), "{umlauts}");
    }
}
