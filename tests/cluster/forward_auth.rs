//! Gateways that ask whether a visitor may pass: by themselves, and with a real nginx that is given the file of the docs.
//! What a visitor can send along never gives it a fresh key.

use std::net::SocketAddr;

use serde_json::json;

use crate::gateway::{Application, NGINX_FILE, Nginx, Page, Relay, Visitor, gateway};
use crate::http;
use crate::patience::until;
use crate::serve::Fleet;

/// A few visits an hour by address, so that no test sees one come back; dear requests by user, one each.
const POLICY: &str = "
ringfence: 1
domain: default
limits:
  visits: { rate: 3/h, algorithm: sliding-log, key: [ip], fail: closed }
  dear: { rate: 1/h, algorithm: sliding-log, key: [user], fail: closed }
rules:
  - { name: dear, match: { method: POST, path: /dear }, limits: [dear] }
  - { name: all-else, limits: [visits] }
";

const ASK: &str = "/v1/forward-auth";

/// The token of access.rs that is good for checks in `default` and for nothing else.
const TOKENS: &str = r#"[
  { name = "checks", sha256 = "54421f05638d369774b44eb0c0dfbc021525b19225c2bfd20a1e725e6cbe0e5e", domains = ["default"], scopes = ["check"] },
]"#;

/// A node that trusts the gateway, not yet started.
fn fleet(nodes: usize) -> Fleet {
    let mut fleet = Fleet::new(nodes);
    std::fs::write(fleet.path("policy.yaml"), POLICY).unwrap();
    let trusted = format!("[\"{}\"]", gateway(&fleet));
    fleet.tell(0, "api.trusted_proxies", &trusted);
    fleet
}

fn start(mut fleet: Fleet) -> Fleet {
    fleet.start(1);
    fleet.wait_until_ready(1);
    fleet
}

fn api(fleet: &Fleet) -> SocketAddr {
    fleet.api(1).parse().unwrap()
}

/// What the gateway is told of a visitor with these fields.
fn ask(fleet: &Fleet, query: &str, fields: &[(&str, &str)]) -> Page {
    Visitor(gateway(fleet)).get(api(fleet), &format!("{ASK}{query}"), fields)
}

/// How many of five visits with these fields pass.
fn passed(fleet: &Fleet, fields: &[(&str, &str)]) -> usize {
    (0..5).filter(|_| ask(fleet, "", fields).status == 200).count()
}

fn seconds(page: &Page) -> u64 {
    page.field("retry-after").parse().unwrap_or_else(|_| panic!("no Retry-After: {page:?}"))
}

#[test]
fn a_gateway_is_told_by_status_and_fields_and_a_visitor_nothing_of_the_cluster() {
    let fleet = start(fleet(1));
    let visitor = [("x-forwarded-for", "203.0.113.1")];
    for left in [2, 1, 0] {
        let page = ask(&fleet, "", &visitor);
        assert_eq!((page.status, page.text.as_str()), (200, ""), "{page:?}");
        assert!(page.field("ratelimit").starts_with(&format!("\"visits\";r={left};t=")), "{page:?}");
        assert_eq!(page.field("ratelimit-policy"), "\"visits\";q=3;w=3600");
        assert_eq!((page.field("retry-after"), page.field("cache-control")), ("", "no-store"));
    }
    for (query, status) in [("", 429), ("?deny=429", 429), ("?deny=403", 403), ("?domain=default&deny=403", 403)] {
        let page = ask(&fleet, query, &visitor);
        assert_eq!(page.status, status, "{page:?}");
        assert!((3_500..=3_600).contains(&seconds(&page)), "{page:?}");
        assert!(page.field("ratelimit").starts_with("\"visits\";r=0;t="), "{page:?}");
        assert_eq!(page.field("content-type"), "application/problem+json");
        let body = page.body();
        assert_eq!(
            (&body["status"], &body["limit"], &body["allowed"]),
            (&json!(status), &json!("visits"), &json!(false))
        );
        let names: Vec<_> = body.as_object().unwrap().keys().map(String::as_str).collect();
        let expected = "allowed detail limit reason retry_after_ms status title type violated-policies";
        assert_eq!(names.join(" "), expected, "and no node, no epoch, no revision");
    }
    let metrics = http::get(&fleet.admin(1), "/metrics").body;
    let metrics = metrics.as_str().unwrap();
    assert!(metrics.contains(r#"ringfence_checks_total{api="forward_auth",code="200"} 3"#), "{metrics}");
    assert!(metrics.contains(r#"ringfence_checks_total{api="forward_auth",code="403"} 2"#), "{metrics}");
}

#[test]
fn an_address_is_believed_of_a_trusted_proxy_and_of_nobody_else() {
    let fleet = start(fleet(1));
    assert_eq!(passed(&fleet, &[("x-forwarded-for", "203.0.113.1")]), 3);
    for same in ["198.51.100.7, 203.0.113.1", "garbage, 203.0.113.1:4711", "::ffff:203.0.113.1"] {
        assert_eq!(passed(&fleet, &[("x-forwarded-for", same)]), 0, "{same}");
    }
    assert_eq!(passed(&fleet, &[("x-forwarded-for", "203.0.113.1, 203.0.113.2")]), 3, "another client");
    assert_eq!(passed(&fleet, &[("x-forwarded-for", "2001:db8::1")]), 3);
    assert_eq!(passed(&fleet, &[("x-forwarded-for", "2001:db8::ffff")]), 0, "one household is one client");
    let bad = ask(&fleet, "", &[("x-forwarded-for", "203.0.113.9, unknown")]);
    assert_eq!(bad.mistake(), (400, "out-of-range".into(), "x-forwarded-for".into()));

    // Of others the connection counts, whatever they say: this host is no exception.
    let others = [Visitor::number(&fleet, 0), Visitor("127.0.0.1".parse().unwrap())];
    for other in others {
        let ask = |number: u8| {
            let spoofed = format!("203.0.113.{}", 100 + number);
            other.get(api(&fleet), ASK, &[("x-forwarded-for", &spoofed)]).status
        };
        assert_eq!((0..5).map(ask).filter(|status| *status == 200).count(), 3, "{other:?}");
    }
    let told = fleet.log(1).matches("`api.trusted_proxies` does not list it").count();
    assert_eq!(told, 1, "once: {}", fleet.log(1));
}

#[test]
fn method_path_and_further_attributes_choose_the_rule_and_the_key() {
    let fleet = start(fleet(1));
    let dear = |query: &str, user: &str| {
        let user = ("x-ringfence-attribute-user", user);
        ask(&fleet, query, &[("x-forwarded-method", "POST"), ("x-forwarded-uri", "/dear?item=1"), user])
    };
    assert_eq!([dear("?headers=user", "u1"), dear("?headers=user", "u1")].map(|page| page.status), [200, 429]);
    assert_eq!(dear("?headers=user", "u2").status, 200);
    assert_eq!(dear("?attribute.user=u2", "u3").status, 429, "the gateway named no field, so none counts");
    let nobody = dear("", "u4");
    assert_eq!((nobody.status, nobody.body()["reason"].as_str()), (429, Some("missing_attribute")), "{nobody:?}");
    let nginx = [("x-original-method", "POST"), ("x-original-uri", "/dear")];
    assert_eq!(ask(&fleet, "?attribute.user=u5", &nginx).status, 200);
    let both = [("x-original-uri", "/dear"), ("x-forwarded-uri", "/cheap")];
    assert_eq!(ask(&fleet, "", &both).mistake(), (400, "out-of-range".into(), "x-original-uri".into()));
    // Asked twice by a gateway that tried two nodes, a request is charged once.
    let again = |id: &str| dear_with_id(&fleet, id).status;
    assert_eq!([again("one"), again("one"), again("two")], [200, 200, 429]);
}

fn dear_with_id(fleet: &Fleet, id: &str) -> Page {
    let fields = [("x-original-method", "POST"), ("x-original-uri", "/dear"), ("x-request-id", id)];
    ask(fleet, "?attribute.user=u6&id_header=x-request-id", &fields)
}

#[test]
fn mistakes_are_named_and_never_look_like_a_denial() {
    let mut fleet = fleet(1);
    fleet.tell(1, "auth.tokens", TOKENS);
    let fleet = start(fleet);
    let ask = |query: &str| ask(&fleet, query, &[("authorization", "Bearer tester-of-checks")]).mistake();
    let mistake = |status: u16, code: &str, field: &str| (status, code.to_owned(), field.to_owned());
    assert_eq!(ask("?denny=403"), mistake(400, "unknown-field", "denny"));
    assert_eq!(ask("?deny=401"), mistake(400, "out-of-range", "deny"));
    assert_eq!(ask("?attribute.User=u1"), mistake(400, "out-of-range", "attributes.User"));
    assert_eq!(ask("?domain=elsewhere"), mistake(403, "forbidden", "domain"));
    assert_eq!(ask("?domain=elsewhere&deny=403"), mistake(500, "forbidden", "domain"));
    let nobody = |query: &str| self::ask(&fleet, query, &[]);
    assert_eq!(nobody("").mistake(), mistake(401, "unauthorised", "authorization"));
    assert_eq!(nobody("?deny=403").mistake(), mistake(500, "unauthorised", "authorization"));
    assert_eq!(nobody("?deny=403").body()["status"], 500);
    let post = Visitor(gateway(&fleet)).ask("POST", api(&fleet), ASK, &[], "");
    assert_eq!(post.mistake().1, "not-found");
}

#[test]
fn a_closed_limit_that_nobody_can_count_refuses_in_the_words_of_the_gateway() {
    let mut fleet = fleet(3);
    fleet.start_all(1..=3);
    fleet.wait_until_settled(1, 3);
    fleet.signal(2, "STOP");
    fleet.signal(3, "STOP");
    let asked = |number: u8, query: &str| ask(&fleet, query, &[("x-forwarded-for", &format!("203.0.113.{number}"))]);
    let mut numbers = (0..=u8::MAX).cycle();
    let (number, page) = until("a visitor whose owner is away", || {
        let number = numbers.next().unwrap();
        let page = asked(number, "");
        if page.status == 503 { Ok((number, page)) } else { Err(page) }
    });
    assert_eq!(page.body()["reason"], "unavailable", "{page:?}");
    assert!(seconds(&page) >= 1);
    let page = asked(number, "?deny=403");
    assert_eq!((page.status, page.body()["reason"].as_str()), (403, Some("unavailable")), "{page:?}");
    assert!(seconds(&page) >= 1);
}

#[test]
fn the_docs_show_the_very_file_that_nginx_is_tried_with() {
    let docs = include_str!("../../docs/forward-auth.md");
    assert!(
        docs.contains(&format!("```nginx\n{NGINX_FILE}```")),
        "examples/gateways/nginx.conf is not what docs/forward-auth.md shows"
    );
}

/// A node, an application, and nginx in front of it that asks the node.
struct Site {
    fleet: Fleet,
    application: Application,
    nginx: Nginx,
}

impl Site {
    fn start(change: impl Fn(String) -> String) -> Site {
        let fleet = start(fleet(1));
        let application = Application::start(&fleet);
        let nginx = Nginx::start(&fleet, &application, &fleet.api(1), change);
        Site { fleet, application, nginx }
    }

    fn visitor(&self, number: u8) -> Visitor {
        Visitor::number(&self.fleet, number)
    }

    /// A visit by this visitor, with these fields.
    fn visit(&self, number: u8, fields: &[(&str, &str)]) -> Page {
        self.visitor(number).get(self.nginx.address, "/page?x=1", fields)
    }
}

#[test]
#[ignore = "needs nginx: cargo xtask gateway"]
fn nginx_lets_visitors_pass_up_to_the_limit_and_tells_the_others_when_to_come_back() {
    let site = Site::start(|file| file);
    for left in [2, 1, 0] {
        let page = site.visit(0, &[]);
        assert_eq!((page.status, page.text.as_str()), (200, "GET /page?x=1 HTTP/1.0\n"), "{page:?}");
        assert!(page.field("ratelimit").starts_with(&format!("\"visits\";r={left};t=")), "{page:?}");
        assert_eq!(page.field("ratelimit-policy"), "\"visits\";q=3;w=3600");
    }
    let denied = site.visit(0, &[]);
    assert_eq!(denied.status, 429, "{denied:?}");
    assert!((3_500..=3_600).contains(&seconds(&denied)), "{denied:?}");
    assert!(denied.field("ratelimit").starts_with("\"visits\";r=0;t="), "{denied:?}");
    assert_eq!(site.application.reached().len(), 3, "whoever is denied does not reach the application");
    let asked = site.visitor(1).get(site.nginx.address, "/_ringfence", &[]);
    assert_eq!(asked.status, 404, "the question is nginx's, and not for visitors: {asked:?}");

    let posted = site.visitor(1).ask("POST", site.nginx.address, "/form", &[], "a=1&b=2");
    assert_eq!(
        (posted.status, posted.text.as_str()),
        (200, "POST /form HTTP/1.0\na=1&b=2"),
        "bodies go past us: {posted:?}"
    );
}

#[test]
#[ignore = "needs nginx: cargo xtask gateway"]
fn nginx_hands_on_nothing_by_which_a_visitor_would_count_as_another() {
    let site = Site::start(|file| file);
    let first = [("x-request-id", "0123456789abcdef")];
    assert_eq!((0..5).filter(|_| site.visit(0, &first).status == 200).count(), 3, "an id of its own replays nothing");
    let (own, gateway) = (site.visitor(0).0.to_string(), gateway(&site.fleet).to_string());
    for spoofed in ["203.0.113.9", "203.0.113.9, 198.51.100.7", "garbage", "", "::1", &own, &gateway] {
        for field in ["X-Forwarded-For", "X-Real-IP", "Forwarded", "X-Original-URI", "X-Ringfence-Attribute-Ip"] {
            let page = site.visit(0, &[(field, spoofed)]);
            assert_eq!(page.status, 429, "{field}: {spoofed}: {page:?}");
        }
    }
    assert_eq!(site.visit(1, &[("X-Forwarded-For", &own)]).status, 200, "nobody can use up what is another's");
}

#[test]
#[ignore = "needs nginx: cargo xtask gateway"]
fn nginx_tells_method_path_and_user_and_no_visitor_overrules_it() {
    let with_user = |file: String| {
        let line = "# proxy_set_header X-Ringfence-Attribute-User $remote_user;";
        assert!(file.contains(line), "{file}");
        // Whoever sends this field has logged in.
        file.replace(line, "proxy_set_header X-Ringfence-Attribute-User $http_x_login;")
            .replace("&deny=403", "&deny=403&headers=user")
    };
    let site = Site::start(with_user);
    let dear = |user: &str, fields: &[(&str, &str)]| {
        let fields = [fields, &[("x-login", user)]].concat();
        site.visitor(0).ask("POST", site.nginx.address, "/dear?item=1", &fields, "").status
    };
    assert_eq!([dear("u1", &[]), dear("u1", &[]), dear("u2", &[])], [200, 429, 200]);
    for (field, value) in [
        ("X-Original-URI", "/cheap"),
        ("X-Forwarded-Uri", "/cheap"),
        ("X-Forwarded-Method", "GET"),
        ("X-Original-Method", "GET"),
        ("X-Ringfence-Attribute-User", "u9"),
    ] {
        assert_eq!(dear("u1", &[(field, value)]), 429, "{field}: {value}");
    }
    // A path that is longer than any attribute is still a path.
    let long = format!("/{}?item=1", "x".repeat(2_000));
    assert_eq!(site.visitor(1).get(site.nginx.address, &long, &[]).status, 200);
}

#[test]
#[ignore = "needs nginx: cargo xtask gateway"]
fn nginx_asks_on_connections_that_it_keeps() {
    let mut fleet = fleet(1);
    // The relay's connections to the node come from this address.
    fleet.tell(1, "api.trusted_proxies", "[\"127.0.0.1\"]");
    let fleet = start(fleet);
    let (application, relay) = (Application::start(&fleet), Relay::start(&fleet));
    let nginx = Nginx::start(&fleet, &application, &relay.address.to_string(), |file| file);
    // A body that is announced and not passed on would swallow the next question on the connection.
    let visit = |number: u8| {
        let (method, body) = if number.is_multiple_of(2) { ("POST", "a=1") } else { ("GET", "") };
        Visitor::number(&fleet, number).ask(method, nginx.address, "/", &[], body).status
    };
    assert_eq!((0..40).map(visit).filter(|status| *status == 200).count(), 40);
    assert_eq!(relay.accepted(), 1, "one visitor after the other needs one connection");
}

#[test]
#[ignore = "needs nginx: cargo xtask gateway"]
fn nginx_that_reaches_no_node_refuses_unless_it_is_told_to_let_visitors_through() {
    let as_it_is = |file: String| file;
    let let_through = |file: String| {
        let line = "# error_page 502 504 = @unasked;";
        assert!(file.contains(line), "{file}");
        file.replace(line, "error_page 502 504 = @unasked;")
    };
    for (change, alone) in [(&as_it_is as &dyn Fn(String) -> String, 500), (&let_through, 200)] {
        let mut site = Site::start(change);
        assert_eq!(site.visit(0, &[]).status, 200);
        site.fleet.kill(1);
        let page = site.visit(0, &[]);
        assert_eq!(
            (page.status, page.field("ratelimit")),
            (alone, ""),
            "nothing is said that nobody counted: {page:?}"
        );
    }
}
