//! The limits that checks bring along, added to the document whose domain allows them: from there on they are limits like
//! any other, but that no rule names them and they apply only to checks that bring them.

use crate::address::IpPrefixes;
use crate::attributes::IP;
use crate::bounds::{ATTRIBUTES_NAMED_MAX, IP_PREFIXES_MAX};
use crate::inline::{Inline, InlineLimit, InlineRefusal};

use super::numbers::Counting;
use super::{Document, LimitSpec, Missing, Mode};

impl Document {
    /// This document with limits that checks brought along, after its own; unchanged where it allows none. Those that do
    /// not fit are left out, and it is remembered why: of two that do not fit together, the later one. Who is given the
    /// same in the same order leaves out the same.
    pub fn with_inline(mut self, brought: impl IntoIterator<Item = InlineLimit>) -> Document {
        let Some(inline) = self.inline else { return self };
        for limit in brought {
            match self.check_fit(&limit) {
                Ok(()) => {
                    self.limits.push(spec(&limit, inline));
                    self.brought.push(limit);
                }
                Err(why) => self.left_out.push((limit.name, why)),
            }
        }
        self
    }

    fn check_fit(&self, limit: &InlineLimit) -> Result<(), InlineRefusal> {
        if self.limits.iter().any(|other| other.name == limit.name) {
            return Err(InlineRefusal::NameTaken { name: limit.name.clone() });
        }
        let mut named = self.attributes();
        named.extend(limit.key.iter().map(String::as_str));
        named.sort_unstable();
        named.dedup();
        let mut prefixes = self.prefixes();
        prefixes.extend(limit.key.iter().any(|name| name == IP).then_some(IpPrefixes::default()));
        prefixes.sort_unstable();
        prefixes.dedup();
        let fits = named.len() <= ATTRIBUTES_NAMED_MAX && prefixes.len() <= IP_PREFIXES_MAX;
        if fits { Ok(()) } else { Err(InlineRefusal::TooManyAttributes) }
    }

    /// The limits of the text alone, without those that checks brought along.
    pub(crate) fn own_limits(&self) -> usize {
        self.limits.len() - self.brought.len()
    }
}

fn spec(limit: &InlineLimit, inline: Inline) -> LimitSpec {
    LimitSpec {
        name: limit.name.clone(),
        numbers: Some(limit.numbers),
        counting: Counting::AsTheRateSays,
        key: limit.key.clone(),
        route: None,
        prefixes: IpPrefixes::default(),
        fail: inline.fail(),
        missing: Missing::Deny,
        mode: Mode::Enforce,
        when_full: inline.fail(),
        renamed_from: None,
    }
}
