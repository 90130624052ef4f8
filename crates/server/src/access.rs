//! Who may ask what. A caller shows a bearer token; the configuration knows its SHA-256 only, and says for which domains
//! and for which kinds of calls (scopes) it is good. No scope implies another. Without any token the API answers everybody
//! and the admin API answers loopback.

use std::fmt;
use std::str::FromStr;
use std::sync::atomic::{AtomicU64, Ordering};

use http::HeaderMap;
use http::header::AUTHORIZATION;
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;

use crate::asked::shown;
use crate::code::{Code, Rejection};
use crate::door::Peer;

/// A kind of call. The words are those of the configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Scope {
    /// Ask for decisions, and look at what is left.
    Check,
    /// Give back what was charged.
    Refund,
    /// Forget what a key has used.
    Reset,
    /// Bring limits along with a check.
    Inline,
    /// Ask why a check would be decided as it would.
    Explain,
    /// Learn which node owns what.
    Topology,
    /// Read policies, the cluster, and metrics.
    Read,
    /// Change policies and steer the cluster.
    Admin,
}

impl Scope {
    /// All scopes, in the order of the documentation.
    pub const ALL: [Scope; 8] = [
        Scope::Check,
        Scope::Refund,
        Scope::Reset,
        Scope::Inline,
        Scope::Explain,
        Scope::Topology,
        Scope::Read,
        Scope::Admin,
    ];

    /// The word of the configuration.
    pub const fn as_str(self) -> &'static str {
        match self {
            Scope::Check => "check",
            Scope::Refund => "refund",
            Scope::Reset => "reset",
            Scope::Inline => "inline",
            Scope::Explain => "explain",
            Scope::Topology => "topology",
            Scope::Read => "read",
            Scope::Admin => "admin",
        }
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A word that is no scope. Whoever wrote the configuration mends it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no scope; there are check, refund, reset, inline, explain, topology, read, admin")]
pub struct NoSuchScope(pub String);

impl FromStr for Scope {
    type Err = NoSuchScope;

    fn from_str(word: &str) -> Result<Scope, NoSuchScope> {
        Scope::ALL.into_iter().find(|scope| scope.as_str() == word).ok_or_else(|| NoSuchScope(word.to_owned()))
    }
}

/// A set of scopes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Scopes(u8);

impl Scopes {
    /// Whether the set has this scope.
    pub const fn contains(self, scope: Scope) -> bool {
        self.0 & (1 << scope as u8) != 0
    }

    /// Whether it has none at all.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The scopes in the set, in the order of the documentation.
    pub fn iter(self) -> impl Iterator<Item = Scope> {
        Scope::ALL.into_iter().filter(move |scope| self.contains(*scope))
    }
}

impl FromIterator<Scope> for Scopes {
    fn from_iter<I: IntoIterator<Item = Scope>>(scopes: I) -> Scopes {
        Scopes(scopes.into_iter().fold(0, |set, scope| set | 1 << scope as u8))
    }
}

/// The domains that a token is good for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Domains {
    /// Every domain, those to come included.
    All,
    /// These, by name.
    Only(Vec<String>),
}

impl Domains {
    /// Whether this domain is one of them.
    pub fn contain(&self, domain: &str) -> bool {
        match self {
            Domains::All => true,
            Domains::Only(names) => names.iter().any(|name| name == domain),
        }
    }
}

/// What the configuration knows of a token; not the token itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token {
    /// What people call it: it is shown in metrics and scopes the ids of its callers. Unique.
    pub name: String,
    /// The SHA-256 of the token.
    pub sha256: [u8; 32],
    /// Where it is good.
    pub domains: Domains,
    /// What it is good for.
    pub scopes: Scopes,
}

/// Who may ask what, and how often which token was shown.
#[derive(Debug, Default)]
pub struct Access {
    tokens: Vec<Counted>,
    missing: AtomicU64,
    malformed: AtomicU64,
    unknown: AtomicU64,
}

#[derive(Debug)]
struct Counted {
    token: Token,
    admitted: AtomicU64,
    forbidden: AtomicU64,
}

/// A caller whose token, if it needs one, is good for the kind of call that it made.
#[derive(Clone, Copy, Debug)]
pub struct Caller<'a> {
    place: Option<usize>,
    counted: Option<&'a Counted>,
}

/// A caller that was admitted, for later calls on the same stream.
#[derive(Clone, Copy, Debug)]
pub struct Standing(Option<usize>);

/// How a call fared at the gate, as the metric tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shown<'a> {
    /// The token's name; `None` for a caller that showed none that is known.
    pub token: Option<&'a str>,
    /// `ok`, `forbidden`, `missing`, `malformed` or `unknown`.
    pub result: &'static str,
    /// How often.
    pub count: u64,
}

impl Access {
    /// No tokens: the API answers everybody, the admin API answers loopback.
    pub fn open() -> Access {
        Access::default()
    }

    /// These tokens and no other; with none at all this is [`Access::open`].
    pub fn of(tokens: Vec<Token>) -> Access {
        let counted = |token| Counted { token, admitted: AtomicU64::default(), forbidden: AtomicU64::default() };
        Access { tokens: tokens.into_iter().map(counted).collect(), ..Access::default() }
    }

    /// Whether there are no tokens.
    pub fn is_open(&self) -> bool {
        self.tokens.is_empty()
    }

    /// Lets a caller of the API in. Without tokens everybody may ask for checks; all else is for loopback.
    ///
    /// # Errors
    ///
    /// `unauthorised` without a known token, `forbidden` with one that is not good for this. The caller's doing, and
    /// nothing changed.
    pub fn at_api(&self, headers: &HeaderMap, peer: Option<Peer>, scope: Scope) -> Result<Caller<'_>, Rejection> {
        if self.is_open() && scope != Scope::Check {
            only_loopback(peer)?;
        }
        self.with_scope(headers, scope)
    }

    /// Lets a caller of the admin API in. Without tokens it must sit on this host.
    ///
    /// # Errors
    ///
    /// As [`Access::at_api`].
    pub fn at_admin(&self, headers: &HeaderMap, peer: Option<Peer>, scope: Scope) -> Result<Caller<'_>, Rejection> {
        if self.is_open() {
            only_loopback(peer)?;
        }
        self.with_scope(headers, scope)
    }

    fn with_scope(&self, headers: &HeaderMap, scope: Scope) -> Result<Caller<'_>, Rejection> {
        if self.is_open() {
            return Ok(Caller { place: None, counted: None });
        }
        let (place, counted) = self.known(headers)?;
        counted.require(scope)?;
        counted.admitted.fetch_add(1, Ordering::Relaxed);
        Ok(Caller { place: Some(place), counted: Some(counted) })
    }

    /// The caller that stands for its [`Standing`] again: on a stream it is admitted once and asks often.
    pub fn caller(&self, Standing(place): Standing) -> Caller<'_> {
        Caller { place, counted: place.and_then(|place| self.tokens.get(place)) }
    }

    fn known(&self, headers: &HeaderMap) -> Result<(usize, &Counted), Rejection> {
        let refuse = |counter: &AtomicU64, detail: &str| {
            counter.fetch_add(1, Ordering::Relaxed);
            Rejection::of_field(Code::Unauthorised, "authorization", detail)
        };
        let Some(value) = headers.get(AUTHORIZATION) else {
            return Err(refuse(&self.missing, "expected `authorization: Bearer TOKEN`"));
        };
        let Some(shown) = bearer(value.as_bytes()) else {
            return Err(refuse(&self.malformed, "expected `Bearer TOKEN`, found another scheme or no token"));
        };
        self.find(shown).ok_or_else(|| refuse(&self.unknown, "no such token is configured on this node"))
    }

    /// The token with this digest. Every token is compared whole, so the time this takes says nothing about any of them.
    fn find(&self, shown: &[u8]) -> Option<(usize, &Counted)> {
        let digest: [u8; 32] = Sha256::digest(shown).into();
        self.tokens.iter().enumerate().fold(None, |found, candidate| {
            let equal = bool::from(candidate.1.token.sha256.ct_eq(&digest));
            if equal { found.or(Some(candidate)) } else { found }
        })
    }

    /// How calls fared, by token; only configured names appear.
    pub fn shown(&self) -> impl Iterator<Item = Shown<'_>> {
        let nameless = [("missing", &self.missing), ("malformed", &self.malformed), ("unknown", &self.unknown)];
        let nameless = nameless.map(|(result, count)| (None, result, count));
        let named = self.tokens.iter().flat_map(|counted| {
            let name = Some(counted.token.name.as_str());
            [(name, "ok", &counted.admitted), (name, "forbidden", &counted.forbidden)]
        });
        let shown = nameless.into_iter().chain(named);
        shown.map(|(token, result, count)| Shown { token, result, count: count.load(Ordering::Relaxed) })
    }
}

impl Counted {
    fn require(&self, scope: Scope) -> Result<(), Rejection> {
        if self.token.scopes.contains(scope) {
            return Ok(());
        }
        self.forbidden.fetch_add(1, Ordering::Relaxed);
        let detail = format!("token {} has no scope `{scope}`", self.token.name);
        Err(Rejection::of_field(Code::Forbidden, "authorization", detail))
    }
}

impl<'a> Caller<'a> {
    /// What is kept of the caller for as long as its stream lives.
    pub fn standing(self) -> Standing {
        Standing(self.place)
    }

    /// The token's name; empty for a caller that needs none.
    pub fn name(self) -> &'a str {
        self.counted.map_or("", |counted| counted.token.name.as_str())
    }

    /// Whether the caller may bring limits along; without tokens everybody may.
    ///
    /// # Errors
    ///
    /// `forbidden`: its token lacks the scope. The caller's doing, and nothing changed.
    pub fn may_bring_limits(self) -> Result<(), Rejection> {
        self.counted.map_or(Ok(()), |counted| counted.require(Scope::Inline))
    }

    /// Whether the caller may speak of this domain.
    ///
    /// # Errors
    ///
    /// `forbidden`: its token is not good there. The caller's doing, and nothing changed.
    pub fn may_use(self, domain: &str, field: &str) -> Result<(), Rejection> {
        match self.counted {
            Some(counted) if !counted.token.domains.contain(domain) => {
                counted.forbidden.fetch_add(1, Ordering::Relaxed);
                let detail = format!("token {} is not good for domain `{}`", counted.token.name, shown(domain));
                Err(Rejection::of_field(Code::Forbidden, field, detail))
            }
            Some(_) | None => Ok(()),
        }
    }
}

fn only_loopback(peer: Option<Peer>) -> Result<(), Rejection> {
    if peer.is_some_and(|Peer(address)| address.ip().to_canonical().is_loopback()) {
        return Ok(());
    }
    let detail = "without configured tokens this is answered on loopback only; configure [auth] tokens, or ask on the node's own host";
    Err(Rejection::new(Code::Forbidden, detail))
}

/// The token of `Bearer TOKEN` (RFC 6750); the scheme's case does not matter.
fn bearer(value: &[u8]) -> Option<&[u8]> {
    let space = value.iter().position(|byte| *byte == b' ')?;
    let (scheme, token) = value.split_at(space);
    let token = token.trim_ascii();
    (scheme.eq_ignore_ascii_case(b"bearer") && !token.is_empty()).then_some(token)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use http::HeaderValue;

    use super::*;

    fn token(name: &str, text: &str, domains: Domains, scopes: &[Scope]) -> Token {
        let sha256 = Sha256::digest(text).into();
        Token { name: name.to_owned(), sha256, domains, scopes: scopes.iter().copied().collect() }
    }

    fn access() -> Access {
        Access::of(vec![
            token("gateway", "a-long-gateway-token", Domains::Only(vec!["default".to_owned()]), &[Scope::Check]),
            token("operator", "a-long-operator-token", Domains::All, &[Scope::Read, Scope::Admin]),
        ])
    }

    fn headers(authorization: &str) -> HeaderMap {
        HeaderMap::from_iter([(AUTHORIZATION, HeaderValue::from_str(authorization).unwrap())])
    }

    fn peer(address: &str) -> Option<Peer> {
        Some(Peer(address.parse().unwrap()))
    }

    fn code(result: Result<Caller<'_>, Rejection>) -> Code {
        result.unwrap_err().code
    }

    fn count(access: &Access, token: Option<&str>, result: &str) -> u64 {
        access.shown().find(|shown| (shown.token, shown.result) == (token, result)).unwrap().count
    }

    #[test]
    fn scopes_are_told_by_their_words() {
        for scope in Scope::ALL {
            assert_eq!(scope.to_string().parse(), Ok(scope));
        }
        assert_eq!("write".parse::<Scope>(), Err(NoSuchScope("write".to_owned())));
        let set: Scopes = [Scope::Read, Scope::Check].into_iter().collect();
        assert_eq!(set.iter().collect::<Vec<_>>(), [Scope::Check, Scope::Read]);
        assert!(!set.contains(Scope::Admin) && Scopes::default().is_empty());
    }

    #[test]
    fn without_tokens_everybody_checks_and_loopback_does_the_rest() {
        let access = Access::open();
        let none = HeaderMap::new();
        let (far, near) = (peer("192.0.2.7:4000"), peer("127.0.0.1:4000"));
        assert_eq!(access.at_api(&none, far, Scope::Check).unwrap().name(), "");
        assert_eq!(code(access.at_api(&none, far, Scope::Refund)), Code::Forbidden);
        access.at_api(&none, near, Scope::Refund).unwrap();
        assert_eq!(code(access.at_admin(&none, far, Scope::Read)), Code::Forbidden);
        assert_eq!(code(access.at_admin(&none, None, Scope::Read)), Code::Forbidden);
        access.at_admin(&none, near, Scope::Admin).unwrap();
        access.at_admin(&none, peer("[::ffff:127.0.0.1]:4000"), Scope::Admin).unwrap();
        access.at_admin(&none, peer("[::1]:4000"), Scope::Admin).unwrap();
        assert_eq!(code(access.at_admin(&none, peer("[::ffff:192.0.2.7]:4000"), Scope::Admin)), Code::Forbidden);
    }

    #[test]
    fn with_tokens_loopback_is_nothing_special() {
        let access = access();
        assert_eq!(code(access.at_admin(&HeaderMap::new(), peer("127.0.0.1:4000"), Scope::Read)), Code::Unauthorised);
        assert_eq!(code(access.at_api(&HeaderMap::new(), peer("127.0.0.1:4000"), Scope::Check)), Code::Unauthorised);
        assert_eq!(count(&access, None, "missing"), 2);
    }

    #[test]
    fn a_token_is_good_for_its_scopes_and_domains_only() {
        let access = access();
        let gateway = headers("Bearer a-long-gateway-token");
        let caller = access.at_api(&gateway, None, Scope::Check).unwrap();
        assert_eq!(caller.name(), "gateway");
        caller.may_use("default", "domain").unwrap();
        let refused = caller.may_use("payments", "checks[3].domain").unwrap_err();
        assert_eq!((refused.code, refused.field.as_str()), (Code::Forbidden, "checks[3].domain"));
        assert_eq!(code(access.at_admin(&gateway, None, Scope::Read)), Code::Forbidden);
        let operator = access.at_admin(&headers("bearer  a-long-operator-token"), None, Scope::Admin).unwrap();
        operator.may_use("anything", "domain").unwrap();
        assert_eq!(code(access.at_api(&headers("Bearer a-long-operator-token"), None, Scope::Check)), Code::Forbidden);
        assert_eq!(count(&access, Some("gateway"), "ok"), 1);
        assert_eq!(count(&access, Some("gateway"), "forbidden"), 2);
        assert_eq!(count(&access, Some("operator"), "forbidden"), 1);
    }

    #[test]
    fn what_is_no_token_is_refused_whatever_it_looks_like() {
        let access = access();
        for (shown, result) in [
            ("Basic Z2F0ZXdheTo=", "malformed"),
            ("a-long-gateway-token", "malformed"),
            ("Bearer", "malformed"),
            ("Bearer ", "malformed"),
            ("Bearer a-long-gateway-toke", "unknown"),
            ("Bearer a-long-gateway-token2", "unknown"),
            ("Bearer A-LONG-GATEWAY-TOKEN", "unknown"),
        ] {
            let before = count(&access, None, result);
            assert_eq!(code(access.at_api(&headers(shown), None, Scope::Check)), Code::Unauthorised, "{shown}");
            assert_eq!(count(&access, None, result), before + 1, "{shown}");
        }
        // The digest itself, which the configuration holds, opens nothing.
        let digest: String = Sha256::digest("a-long-gateway-token").iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(code(access.at_api(&headers(&format!("Bearer {digest}")), None, Scope::Check)), Code::Unauthorised);
    }
}
