//! The calls about keys, a row for each: what it is called, who may make it, and which fields it takes in which ranges.
//! Both doors, the counters and the command line read this table; what a call does to a key is the node's to know.

use std::ops::RangeInclusive;

use limits::{AMOUNT_MAX, PERIOD_MAX, RESERVE_TTL_MAX};

use crate::access::Scope;

/// The longest deadline that a caller may spell, in milliseconds (the node cuts it to its own maximum): one day.
pub const DEADLINE_MS_MAX: u64 = 86_400_000;

/// The longest that a reserve stays open, in milliseconds.
pub const RESERVE_TTL_MS_MAX: u64 = RESERVE_TTL_MAX.as_millis_ceil();

/// The longest that a lease may be asked for, in milliseconds: that of a limit's own. Its `max_hold` cuts it.
pub const LEASE_TTL_MS_MAX: u64 = PERIOD_MAX.as_millis_ceil();

/// What may be asked about a key. The first four decide; the others speak of what was charged before, or of the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// May this key spend this cost? Then it is spent.
    Check,
    /// May it? Nothing is spent.
    Peek,
    /// Spend the most that something may cost, and settle later.
    Reserve,
    /// Spend, and hold slots until they are released or their time is over.
    Acquire,
    /// Say what something did cost in the end.
    Settle,
    /// Hold slots for longer.
    Renew,
    /// Give slots back.
    Release,
    /// Undo a charge.
    Refund,
    /// Make a key as one that was never used.
    Reset,
}

/// A field of a call. The words are those of JSON and of gRPC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Field {
    /// The policy's name space.
    Domain,
    /// What is known of the request.
    Attributes,
    /// Units.
    Cost,
    /// Whether less than all of the units will do.
    UpTo,
    /// Whether what was spent above a reserve is booked.
    Debt,
    /// The name of a charge.
    Id,
    /// How long a reserve stays open, or a lease is held.
    Ttl,
    /// The one limit that is meant.
    Limit,
    /// Limits that the call brings along.
    Inline,
    /// How long the caller waits.
    Deadline,
}

/// A call's row.
#[derive(Debug)]
struct Row {
    call: Call,
    word: &'static str,
    scope: Scope,
    takes: &'static [Field],
    /// Those of them that must be there.
    needs: &'static [Field],
}

/// The calls in the order of the enum.
const TABLE: [Row; 9] = {
    use Field::{Attributes, Cost, Deadline, Debt, Domain, Id, Inline, Limit, Ttl, UpTo};
    [
        Row {
            call: Call::Check,
            word: "check",
            scope: Scope::Check,
            takes: &[Domain, Attributes, Cost, UpTo, Id, Inline, Deadline],
            needs: &[],
        },
        Row {
            call: Call::Peek,
            word: "peek",
            scope: Scope::Check,
            takes: &[Domain, Attributes, Cost, Limit, Inline, Deadline],
            needs: &[],
        },
        Row {
            call: Call::Reserve,
            word: "reserve",
            scope: Scope::Check,
            takes: &[Domain, Attributes, Cost, Ttl, Id, Inline, Deadline],
            needs: &[Cost, Ttl],
        },
        Row {
            call: Call::Acquire,
            word: "acquire",
            scope: Scope::Check,
            takes: &[Domain, Attributes, Cost, Ttl, Id, Inline, Deadline],
            needs: &[],
        },
        Row {
            call: Call::Settle,
            word: "settle",
            scope: Scope::Check,
            takes: &[Domain, Attributes, Id, Cost, Debt, Inline, Deadline],
            needs: &[Id, Cost],
        },
        Row {
            call: Call::Renew,
            word: "renew",
            scope: Scope::Check,
            takes: &[Domain, Attributes, Id, Ttl, Cost, Inline, Deadline],
            needs: &[Id],
        },
        Row {
            call: Call::Release,
            word: "release",
            scope: Scope::Check,
            takes: &[Domain, Attributes, Id, Inline, Deadline],
            needs: &[Id],
        },
        Row {
            call: Call::Refund,
            word: "refund",
            scope: Scope::Refund,
            takes: &[Domain, Attributes, Id, Inline, Deadline],
            needs: &[Id],
        },
        Row {
            call: Call::Reset,
            word: "reset",
            scope: Scope::Reset,
            takes: &[Domain, Attributes, Limit, Inline, Deadline],
            needs: &[],
        },
    ]
};

impl Call {
    /// All calls, in the order of the documentation.
    pub const ALL: [Call; TABLE.len()] = {
        let mut all = [Call::Check; TABLE.len()];
        let mut index = 0;
        while index < all.len() {
            all[index] = TABLE[index].call;
            index += 1;
        }
        all
    };

    const fn row(self) -> &'static Row {
        &TABLE[self as usize]
    }

    /// Its word in metrics and on the command line.
    pub const fn word(self) -> &'static str {
        self.row().word
    }

    /// Where it is answered over HTTP.
    pub fn path(self) -> String {
        format!("/v1/{}", self.word())
    }

    /// What its caller must be good for.
    pub const fn scope(self) -> Scope {
        self.row().scope
    }

    /// The fields that it takes, in the order of the documentation.
    pub const fn takes(self) -> &'static [Field] {
        self.row().takes
    }

    /// Whether the field must be there.
    pub fn needs(self, field: Field) -> bool {
        self.row().needs.contains(&field)
    }

    /// Whether it is answered by a decision; otherwise by what it came to.
    pub const fn decides(self) -> bool {
        match self {
            Call::Check | Call::Peek | Call::Reserve | Call::Acquire => true,
            Call::Settle | Call::Renew | Call::Release | Call::Refund | Call::Reset => false,
        }
    }

    /// What units may be. Asking for none is a check that only looks; it reserves nothing and holds nothing. A lease is
    /// renewed with the slots it has, for an owner that took over and does not know it.
    pub const fn costs(self) -> RangeInclusive<u64> {
        match self {
            Call::Reserve | Call::Acquire | Call::Renew => 1..=AMOUNT_MAX,
            Call::Check | Call::Peek | Call::Settle | Call::Release | Call::Refund | Call::Reset => 0..=AMOUNT_MAX,
        }
    }

    /// What a time to live may be, in milliseconds.
    pub const fn ttls_ms(self) -> RangeInclusive<u64> {
        match self {
            Call::Reserve => 1..=RESERVE_TTL_MS_MAX,
            Call::Check
            | Call::Peek
            | Call::Acquire
            | Call::Settle
            | Call::Renew
            | Call::Release
            | Call::Refund
            | Call::Reset => 1..=LEASE_TTL_MS_MAX,
        }
    }
}

impl Field {
    /// The word of JSON and gRPC.
    pub const fn as_str(self) -> &'static str {
        match self {
            Field::Domain => "domain",
            Field::Attributes => "attributes",
            Field::Cost => "cost",
            Field::UpTo => "up_to",
            Field::Debt => "debt",
            Field::Id => "id",
            Field::Ttl => "ttl_ms",
            Field::Limit => "limit",
            Field::Inline => "inline",
            Field::Deadline => "deadline_ms",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_call_stands_in_its_own_row_and_needs_only_what_it_takes() {
        for (index, call) in Call::ALL.into_iter().enumerate() {
            assert_eq!(call as usize, index, "{}", call.word());
            assert!(call.row().needs.iter().all(|field| call.takes().contains(field)), "{}", call.word());
            assert!(call.takes().contains(&Field::Attributes), "{}: they lead to the key's owner", call.word());
        }
    }

    #[test]
    fn whoever_speaks_of_a_charge_names_it_and_only_two_calls_have_a_scope_of_their_own() {
        let names = |call: &Call| call.needs(Field::Id);
        assert!(Call::ALL.iter().filter(|call| names(call)).all(|call| !call.decides()));
        let own = Call::ALL.into_iter().filter(|call| call.scope() != Scope::Check);
        assert_eq!(own.collect::<Vec<_>>(), [Call::Refund, Call::Reset]);
    }
}
