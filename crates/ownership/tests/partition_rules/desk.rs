//! A small desk to ask a partition from: a book of limits, checks in a few words, and the clock in hand.

use std::collections::BTreeMap;
use std::num::NonZeroU64;

use limits::{
    Algorithm, Align, Basis, Book, BookEntry, Budgets, DomainId, Fingerprint, LimitId, Moment, Now, Rate, Shape,
    Shapes, Span, Variant, WallTime,
};
use ring::NodeId;
use ringfence_ownership::{
    Act, Answer, Asker, Check, CheckId, CheckLeg, Epoch, Floor, LeaseBound, Partition, SessionId, Verdict,
};

/// Cluster time at the boot of every clock in these tests; a multiple of no window.
const EPOCH_AT_BOOT: u64 = 1_800_000_000_123_456_789;

pub const DOMAIN: DomainId = DomainId(3);
pub const SESSION: SessionId =
    SessionId { node: NodeId(NonZeroU64::new(11).expect("not zero")), nonce: 0x5EED, counter: 1 };

/// A book that is written by hand.
#[derive(Default)]
pub struct Desk {
    limits: BTreeMap<LimitId, BookEntry>,
    shapes: Shapes,
    pub budgets: Budgets,
}

impl Book for Desk {
    fn limit(&self, limit: LimitId, _: Variant) -> Option<BookEntry> {
        self.limits.get(&limit).copied()
    }

    fn shapes(&self) -> &Shapes {
        &self.shapes
    }

    fn budgets(&self) -> &Budgets {
        &self.budgets
    }
}

impl Desk {
    /// A desk with limit 1.
    pub fn with(algorithm: Algorithm, amount: u64, period: Span, basis: Basis) -> Desk {
        Desk::default().and(1, algorithm, amount, period, basis)
    }

    /// And another limit, allotted at log index 10.
    pub fn and(mut self, limit: u32, algorithm: Algorithm, amount: u64, period: Span, basis: Basis) -> Desk {
        let limit = LimitId(limit);
        let rate = Some(Rate::new(amount, period).unwrap());
        let shape = self.shapes.intern(Shape { limit, domain: DOMAIN, rate, algorithm, basis });
        self.limits.insert(limit, BookEntry { shape, allotted_at: 10, revision: 0 });
        self
    }

    /// The same desk, at another revision of the policy.
    pub fn at_revision(mut self, revision: u64) -> Desk {
        self.limits.values_mut().for_each(|entry| entry.revision = revision);
        self
    }

    /// The same desk, where `limit` was allotted at another log index.
    pub fn allotted(mut self, limit: u32, allotted_at: u64) -> Desk {
        self.limits.get_mut(&LimitId(limit)).unwrap().allotted_at = allotted_at;
        self
    }

    pub fn ask(&self, partition: &mut Partition, check: &Check, now: Now) -> Answer {
        self.ask_under(partition, check, now, &forever())
    }

    pub fn ask_under(&self, partition: &mut Partition, check: &Check, now: Now, lease: &LeaseBound) -> Answer {
        let mut answers = Vec::new();
        partition.decide_batch(std::slice::from_ref(check), self, now, lease, &mut answers);
        assert_eq!(answers.len(), 1, "one answer per check");
        answers.remove(0)
    }

    /// What an act on key 1 under limit 1 came to: whether it was allowed or found, and its units.
    pub fn act(&self, partition: &mut Partition, check: Check, now: Now) -> (bool, u64) {
        let verdict = self.decide(partition, &check, now);
        (verdict.allowed, verdict.units)
    }

    /// The verdict on a check that must get one.
    pub fn decide(&self, partition: &mut Partition, check: &Check, now: Now) -> Verdict {
        let answer = self.ask(partition, check, now);
        let Answer::Decided(verdict) = answer else { panic!("no verdict but {answer:?}") };
        verdict
    }

    /// Units of key 1 under `limit` that are in use, as a peek shows them.
    pub fn used(&self, partition: &mut Partition, limit: u32, now: Now) -> u64 {
        let peek = first(0).spending(limit, 0);
        let said = self.decide(partition, &peek, now).legs[0];
        said.capacity - said.remaining
    }
}

/// Short words to make a check with.
pub trait Words {
    fn spending(self, limit: u32, cost: u64) -> Check;
    fn watching(self, limit: u32, cost: u64) -> Check;
    fn again(&self) -> Check;
    fn named_by_its_caller(self) -> Check;
    fn about(self, question: u64) -> Check;
    fn asked_by(self, asker: Asker) -> Check;
    fn to(self, act: Act) -> Check;
}

impl Words for Check {
    fn spending(mut self, limit: u32, cost: u64) -> Check {
        self.legs.push(leg(limit, cost));
        self
    }

    fn watching(mut self, limit: u32, cost: u64) -> Check {
        self.legs.push(CheckLeg { shadow: true, ..leg(limit, cost) });
        self
    }

    fn again(&self) -> Check {
        Check { attempt: self.attempt + 1, ..self.clone() }
    }

    fn named_by_its_caller(self) -> Check {
        Check { indexed: true, ..self }
    }

    fn about(self, question: u64) -> Check {
        Check { question, ..self }
    }

    fn asked_by(self, asker: Asker) -> Check {
        Check { asker, ..self }
    }

    fn to(self, act: Act) -> Check {
        Check { act, ..self }
    }
}

/// Who asks, where nobody else does.
pub const FIRST: Asker = Asker(1);

/// Somebody else who asks the same.
pub const SECOND: Asker = Asker(2);

/// The first attempt at question `id`, still without legs.
pub fn first(id: u128) -> Check {
    Check {
        id: CheckId(id),
        asker: FIRST,
        attempt: 1,
        indexed: false,
        revision: 0,
        question: 77,
        act: Act::Spend,
        legs: Default::default(),
    }
}

/// Key 1 under `limit`.
pub fn leg(limit: u32, cost: u64) -> CheckLeg {
    CheckLeg {
        limit: LimitId(limit),
        variant: Variant::OWN,
        key: Fingerprint([u64::from(limit), 1]),
        cost,
        shadow: false,
    }
}

/// A partition that began its first reign with this floor.
pub fn owned(floor: Floor) -> Partition {
    let mut partition = Partition::vacant();
    partition.activate(Epoch(1), SESSION, floor);
    partition
}

/// The floor of a takeover at `at`, logged at index 20.
pub fn taken_over(at: Now) -> Floor {
    Floor::FullAsOf { at, takeover_index: 20 }
}

pub fn forever() -> LeaseBound {
    LeaseBound { session: SESSION, end: Moment::MAX, margin: Span::from_millis(250) }
}

/// A reading `nanos` after boot, with the cluster time that belongs to it.
pub fn at_nanos(nanos: u64) -> Now {
    Now::with_wall(Moment::from_nanos(nanos), WallTime::from_unix_nanos(EPOCH_AT_BOOT + nanos))
}

pub fn at_millis(millis: u64) -> Now {
    at_nanos(millis * 1_000_000)
}

pub const fn bucket(burst: u64) -> Algorithm {
    Algorithm::TokenBucket { burst }
}

pub const LOG: Algorithm = Algorithm::SlidingLog { max_entries: 4_096 };

pub const fn window(align: Align) -> Algorithm {
    Algorithm::FixedWindow { align }
}

pub const fn secs(secs: u64) -> Span {
    Span::from_secs(secs)
}
