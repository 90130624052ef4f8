//! How names are spelt. Names of domains, limits and rules stand in answers, headers, metrics and logs, so they are
//! short, lower case, and can be written anywhere without quotes.

/// The longest name, in bytes.
pub const NAME_MAX: usize = 63;

/// How domains, limits and rules are named, for messages.
pub(crate) const NAME_SHAPE: &str = "a lower-case letter, then letters, digits, `_` or `-`, at most 63 characters";

/// How attributes are named, for messages.
pub(crate) const ATTRIBUTE_SHAPE: &str = "a lower-case letter, then letters, digits or `_`, at most 63 characters";

/// Whether `text` can name a domain, a limit or a rule: `[a-z][a-z0-9_-]{0,62}`.
pub fn is_name(text: &str) -> bool {
    spelt(text, |byte| byte == b'_' || byte == b'-')
}

/// Whether `text` can name an attribute: `[a-z][a-z0-9_]{0,62}`.
pub fn is_attribute_name(text: &str) -> bool {
    spelt(text, |byte| byte == b'_')
}

fn spelt(text: &str, joint: impl Fn(u8) -> bool) -> bool {
    let bytes = text.as_bytes();
    bytes.len() <= NAME_MAX
        && bytes.first().is_some_and(u8::is_ascii_lowercase)
        && bytes.iter().all(|&byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || joint(byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_short_lower_case_and_begin_with_a_letter() {
        for name in ["a", "per-client", "v1_x", &"a".repeat(63)] {
            assert!(is_name(name), "{name}");
        }
        for name in ["", "1a", "-a", "A", "per client", "é", "a.b", &"a".repeat(64)] {
            assert!(!is_name(name), "{name}");
        }
    }

    #[test]
    fn attributes_have_no_dash() {
        assert!(is_attribute_name("traffic_class"));
        assert!(!is_attribute_name("traffic-class"));
    }
}
