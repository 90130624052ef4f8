//! What a check says about itself: names and values, checked once at the door. Whoever holds [`Attributes`] may trust
//! that names are well formed and stand once, values are neither empty nor long, and `ip` is an address.

use std::cmp::Ordering;
use std::fmt;
use std::net::IpAddr;

use limits::Part;

use crate::address::{Address, IpPrefixes};
use crate::name::is_attribute_name;

/// Attributes of one check.
pub const ATTRIBUTES_MAX: usize = 32;

/// The longest value, in bytes; of `path`, without its query.
pub const VALUE_MAX: usize = 256;

/// The attribute that is parsed as an address.
pub const IP: &str = "ip";

/// The attribute that says which plan a check is under.
pub(crate) const PLAN: &str = "plan";

/// The attribute that has no query.
pub(crate) const PATH: &str = "path";

/// The attributes of one check, borrowed from the request; about 1 KiB, without any allocation.
///
/// Two names have a meaning of their own. `ip` is parsed: IPv4 written as IPv6 is unmapped, and keys count addresses by
/// prefix, IPv6 by /64 unless the limit says otherwise.
/// `path` ends before its first `?` or `#`: a query that a caller forgot to cut must not lead a check past the rules for
/// its path. Nothing else is normalised; numbers are their decimal text.
#[derive(Clone)]
pub struct Attributes<'a> {
    /// The first `len` are set, sorted by name.
    pairs: [Attribute<'a>; ATTRIBUTES_MAX],
    len: usize,
    ip: Option<Address>,
}

#[derive(Clone, Copy, Debug)]
struct Attribute<'a> {
    name: &'a str,
    value: &'a str,
}

/// Why attributes were not accepted: the caller's doing, nothing was spent, and asking again with the same attributes
/// fails the same way. Names in errors are cut to [`crate::name::NAME_MAX`] characters.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AttributeError {
    /// More than [`ATTRIBUTES_MAX`] attributes.
    #[error("a check has at most {ATTRIBUTES_MAX} attributes")]
    TooMany,
    /// A name that is not `[a-z][a-z0-9_]{{0,62}}`.
    #[error("`{name}` is no attribute name: {}", crate::name::ATTRIBUTE_SHAPE)]
    NameMalformed {
        /// The name, cut.
        name: String,
    },
    /// A value without characters; of `path`, none before its query.
    #[error("attribute `{name}` is empty; leave it out instead")]
    ValueEmpty {
        /// Whose value.
        name: String,
    },
    /// A value above [`VALUE_MAX`] bytes.
    #[error("attribute `{name}` has {bytes} bytes, at most {VALUE_MAX} are allowed")]
    ValueTooLong {
        /// Whose value.
        name: String,
        /// How long it is.
        bytes: usize,
    },
    /// A name that stands twice.
    #[error("attribute `{name}` is given twice")]
    Duplicate {
        /// The name.
        name: String,
    },
    /// `ip` is not an IPv4 or IPv6 address.
    #[error("attribute `{name}` is not an IPv4 or IPv6 address")]
    NotAnAddress {
        /// The name of the attribute: `ip`.
        name: String,
    },
}

impl AttributeError {
    /// The attribute it speaks of; `None` when it is about all of them.
    pub fn attribute(&self) -> Option<&str> {
        match self {
            AttributeError::TooMany => None,
            AttributeError::NameMalformed { name }
            | AttributeError::ValueEmpty { name }
            | AttributeError::ValueTooLong { name, .. }
            | AttributeError::Duplicate { name }
            | AttributeError::NotAnAddress { name } => Some(name),
        }
    }
}

impl<'a> Attributes<'a> {
    /// Checks names and values, in any order.
    ///
    /// # Errors
    ///
    /// [`AttributeError`] for the first attribute that is not acceptable.
    pub fn new(pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> Result<Attributes<'a>, AttributeError> {
        let unset = Attribute { name: "", value: "" };
        let mut attributes = Attributes { pairs: [unset; ATTRIBUTES_MAX], len: 0, ip: None };
        for (name, value) in pairs {
            attributes.add(name, value)?;
        }
        Ok(attributes)
    }

    fn add(&mut self, name: &'a str, value: &'a str) -> Result<(), AttributeError> {
        if self.len == ATTRIBUTES_MAX {
            return Err(AttributeError::TooMany);
        }
        if !is_attribute_name(name) {
            return Err(AttributeError::NameMalformed { name: cut(name) });
        }
        let value = if name == PATH { without_query(value) } else { value };
        if value.is_empty() {
            return Err(AttributeError::ValueEmpty { name: name.to_owned() });
        }
        if value.len() > VALUE_MAX {
            return Err(AttributeError::ValueTooLong { name: name.to_owned(), bytes: value.len() });
        }
        if name == IP {
            let address = Address::parse(value);
            self.ip = Some(address.ok_or_else(|| AttributeError::NotAnAddress { name: name.to_owned() })?);
        }
        self.insert(Attribute { name, value })
    }

    /// Puts an attribute where its name belongs. They are few and often come in order, so the walk is from the end.
    fn insert(&mut self, new: Attribute<'a>) -> Result<(), AttributeError> {
        let mut place = self.len;
        while place > 0 {
            match self.pairs[place - 1].name.cmp(new.name) {
                Ordering::Less => break,
                Ordering::Equal => return Err(AttributeError::Duplicate { name: new.name.to_owned() }),
                Ordering::Greater => self.pairs[place] = self.pairs[place - 1],
            }
            place -= 1;
        }
        self.pairs[place] = new;
        self.len += 1;
        Ok(())
    }

    fn pairs(&self) -> &[Attribute<'a>] {
        &self.pairs[..self.len]
    }

    /// The value of an attribute, as text.
    pub fn get(&self, name: &str) -> Option<&'a str> {
        self.pairs().iter().find(|pair| pair.name == name).map(|pair| pair.value)
    }

    /// Names and values, sorted by name.
    pub fn iter(&self) -> impl Iterator<Item = (&'a str, &'a str)> + '_ {
        self.pairs().iter().map(|pair| (pair.name, pair.value))
    }

    /// The bytes that rules match.
    pub(crate) fn matched_at(&self, place: usize) -> &[u8] {
        let Attribute { name, value } = self.pairs[place];
        match &self.ip {
            Some(address) if name == IP => address.bytes(),
            _ => value.as_bytes(),
        }
    }

    /// The value, as the part of a key; an address counts by its group, which is the limit's to say.
    pub(crate) fn text_at(&self, place: usize) -> Part<'_> {
        Part::text(self.pairs[place].value)
    }

    /// The first address of the group that the check's address is counted in by these prefixes.
    pub fn ip_group(&self, prefixes: IpPrefixes) -> Option<IpAddr> {
        Some(self.ip?.group(prefixes).to_ip())
    }

    /// The address that the check comes from.
    pub(crate) fn address(&self) -> Option<&Address> {
        self.ip.as_ref()
    }
}

impl fmt::Debug for Attributes<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

/// The path before its query. `#` never reaches a server in a well-formed request; it is cut for the same reason.
fn without_query(path: &str) -> &str {
    path.bytes().position(|byte| byte == b'?' || byte == b'#').map_or(path, |end| &path[..end])
}

fn cut(name: &str) -> String {
    name.chars().take(crate::name::NAME_MAX).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    fn refusal(pairs: &[(&str, &str)]) -> AttributeError {
        Attributes::new(pairs.iter().copied()).unwrap_err()
    }

    #[test]
    fn attributes_are_found_by_name_and_come_sorted() {
        let attributes = Attributes::new([("user", "u1"), ("client", "c"), ("org", "acme")]).unwrap();
        assert_eq!(attributes.get("org"), Some("acme"));
        assert_eq!(attributes.get("plan"), None);
        assert_eq!(attributes.iter().map(|(name, _)| name).collect::<Vec<_>>(), ["client", "org", "user"]);
    }

    #[test]
    fn an_address_is_shown_by_the_group_it_is_counted_in() {
        let shown = |ip, v4, v6| {
            let attributes = Attributes::new([("ip", ip)]).unwrap();
            attributes.ip_group(IpPrefixes { v4, v6 }).map(|group| group.to_string())
        };
        assert_eq!(shown("2001:db8::7:1", 32, 64).as_deref(), Some("2001:db8::"));
        assert_eq!(shown("2001:db8::7:1", 32, 128).as_deref(), Some("2001:db8::7:1"));
        assert_eq!(shown("::ffff:192.0.2.9", 24, 128).as_deref(), Some("192.0.2.0"));
        assert_eq!(Attributes::new([("org", "acme")]).unwrap().ip_group(IpPrefixes::default()), None);
    }

    #[test]
    fn a_path_ends_before_its_query() {
        let path = |value| Attributes::new([("path", value)]).map(|it| it.get("path").unwrap());
        assert_eq!(path("/v1/charges?x=1"), Ok("/v1/charges"));
        assert_eq!(path("/v1/charges#top"), Ok("/v1/charges"));
        assert_eq!(path("?x=1"), Err(AttributeError::ValueEmpty { name: "path".to_owned() }));
        let long_query = format!("/a?{}", "x".repeat(VALUE_MAX));
        assert_eq!(path(&long_query), Ok("/a"));
    }

    #[test]
    fn only_path_loses_what_looks_like_a_query() {
        assert_eq!(Attributes::new([("client", "a?b")]).unwrap().get("client"), Some("a?b"));
    }

    #[test]
    fn what_is_wrong_is_named() {
        assert_eq!(refusal(&[("Client", "a")]), AttributeError::NameMalformed { name: "Client".to_owned() });
        assert_eq!(refusal(&[("", "a")]), AttributeError::NameMalformed { name: String::new() });
        assert_eq!(refusal(&[("client", "")]), AttributeError::ValueEmpty { name: "client".to_owned() });
        assert_eq!(refusal(&[("a", "1"), ("b", "1"), ("a", "2")]), AttributeError::Duplicate { name: "a".to_owned() });
        assert_eq!(refusal(&[("ip", "1.2.3")]), AttributeError::NotAnAddress { name: "ip".to_owned() });
        let long = "x".repeat(VALUE_MAX + 1);
        let error = refusal(&[("client", &long)]);
        assert_eq!(error, AttributeError::ValueTooLong { name: "client".to_owned(), bytes: VALUE_MAX + 1 });
        assert_eq!(error.attribute(), Some("client"));
        let AttributeError::NameMalformed { name } = refusal(&[(&"x".repeat(10_000), "1")]) else { panic!("shape") };
        assert_eq!(name.len(), crate::name::NAME_MAX);
    }

    #[test]
    fn the_33rd_attribute_is_one_too_many() {
        let names: Vec<String> = (0..=ATTRIBUTES_MAX).map(|n| format!("a{n}")).collect();
        let pairs = |count: usize| names.iter().take(count).map(|name| (name.as_str(), "1"));
        assert!(Attributes::new(pairs(ATTRIBUTES_MAX)).is_ok());
        assert_eq!(Attributes::new(pairs(ATTRIBUTES_MAX + 1)).unwrap_err(), AttributeError::TooMany);
    }
}
