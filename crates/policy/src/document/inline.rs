//! Whether rates may come with the check, and which.

use limits::FailMode;

use crate::bounds::{INLINE_LIMITS_DEFAULT, INLINE_LIMITS_MAX};
use crate::error::Findings;
use crate::fields::{self, Fields, choose};
use crate::inline::Inline;
use crate::rate_text::RateText;
use crate::tree::Node;

use super::conflict;
use super::numbers::rate;

pub(super) const KNOWN: [&str; 3] = ["max_rate", "max_limits", "fail"];

const FAILS: [(&str, FailMode); 2] = [("open", FailMode::Open), ("closed", FailMode::Closed)];

/// Reads `inline:`.
pub(super) fn read(node: &Node<'_>, findings: &mut Findings) -> Option<Inline> {
    let fields = Fields::of(node, "`inline`", &KNOWN, &[], findings)?;
    let highest = fields.require("max_rate", "the highest rate that may come with a check, such as `1000/s`", findings);
    let highest = highest.and_then(|node| max_rate(node, findings));
    let max_limits = fields.get("max_limits").map_or(Some(INLINE_LIMITS_DEFAULT), |node| {
        let most = fields::number(node, "`max_limits`", 1, INLINE_LIMITS_MAX.into(), findings)?;
        u32::try_from(most).ok()
    });
    let fail = choose(&fields, "fail", &FAILS, FailMode::Open, &[], findings);
    let (max_rate, max_burst) = highest?;
    Some(Inline { max_rate, max_burst, max_limits: max_limits?, fail: fail? })
}

/// A rate of fixed length, and its burst if it has one.
fn max_rate(node: &Node<'_>, findings: &mut Findings) -> Option<(limits::Rate, Option<u64>)> {
    match rate(node, findings)? {
        RateText::Limited { rate, burst } => Some((rate, burst)),
        RateText::Unlimited | RateText::Calendar { .. } => {
            let error = conflict(node.at, "what comes with a check is measured by a rate of fixed length");
            findings.push(error.expected("a rate, such as `1000/s` or `1000/s burst 5000`"));
            None
        }
    }
}
