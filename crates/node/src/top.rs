//! Which keys are hit and denied most at this node, per limit: counted where checks come in, by sketches of bounded size.
//! They are the only place where the text of a key is kept.
//!
//! A check must not wait for them. Each limit has a few sketches, a thread counts in its own, and who finds it taken (by
//! one of more threads than there are sketches, or by a reader who copies it) does not wait: that weight goes past the
//! sketch, into a counter, and into the error that is told. A key that is in the sketch already costs one scan over its
//! fingerprints; its text is written only when it is not.
//!
//! What is told is of the last five to ten minutes: a generation lasts five, and the one before is kept beside. Counts
//! since the start would tell who was heavy once, and fading ones would be numbers of no time that can be named.

mod collect;

use std::fmt::Write as _;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use limits::top::{By, KeyText, Summary, Top};
use limits::{Fingerprint, LimitId, Span, WallTime};
use parking_lot::Mutex;
use policy::attributes::IP;
use policy::{Attributes, IpPrefixes};
use wire::top::{KEYS_TOLD_MAX, LIMITS_TOLD_MAX, TopAsked, TopTold};

use crate::aside;
use crate::clock;
use crate::decision::{Decision, Wanted};
use crate::ingress::plan::Asks;
use crate::tally::{SHARDS, shard_of_this_thread};
use crate::views::{KnownLimit, Policies, Views};

pub(crate) use collect::told_here;
pub use collect::{Silent, TOP_WITHIN, TopKeys, TopLimit, TopQuestion};

/// Keys in one sketch: whoever has more than a 64th of what a thread counted is in that thread's.
pub const KEYS_PER_SKETCH: usize = 64;

/// Sketches of one node at a time, of 10 KB each, and as many summaries of the generation before: 90 MB if they all were
/// in use and all keys as long as can be. What finds no sketch is counted as missed, and the error says so.
pub const SKETCHES_MAX: usize = 4_096;

/// How long a generation lasts. All nodes begin theirs at the same times of day, so that what they tell goes together.
pub const GENERATION: Span = Span::from_secs(300);

/// The sketches of every limit, by its identity. A new policy revision takes the old ones over; those of limits that are
/// gone go with them.
#[derive(Clone, Debug)]
pub struct Tops {
    limits: Vec<Option<Arc<LimitTop>>>,
    shared: Arc<Shared>,
}

/// What the sketches of all limits have in common.
#[derive(Debug)]
struct Shared {
    /// How many there are.
    sketches: AtomicUsize,
    since: Mutex<Since>,
}

/// When the two generations began.
#[derive(Clone, Copy, Debug)]
struct Since {
    before: Option<WallTime>,
    current: WallTime,
}

impl Tops {
    /// No sketches, of a process that began at `now`.
    pub fn beginning(now: WallTime) -> Tops {
        let since = Mutex::new(Since { before: None, current: now });
        Tops { limits: Vec::new(), shared: Arc::new(Shared { sketches: AtomicUsize::new(0), since }) }
    }

    /// Sketches for exactly these limits; those that stand already go on. They are made when there is something to count.
    pub fn with_limits(&self, ids: impl IntoIterator<Item = LimitId>) -> Tops {
        let mut limits: Vec<Option<Arc<LimitTop>>> = Vec::new();
        for id in ids {
            let index = id.0 as usize;
            limits.resize(limits.len().max(index + 1), None);
            let standing = self.limits.get(index).cloned().flatten();
            limits[index] = Some(standing.unwrap_or_else(|| Arc::new(LimitTop::new(Arc::clone(&self.shared)))));
        }
        Tops { limits, shared: Arc::clone(&self.shared) }
    }

    /// The sketches of one limit.
    pub fn limit(&self, id: LimitId) -> Option<&LimitTop> {
        self.limits.get(id.0 as usize).and_then(Option::as_deref)
    }

    /// Since when anything that is told was counted.
    pub fn since(&self) -> WallTime {
        let since = self.shared.since.lock();
        since.before.unwrap_or(since.current)
    }

    /// A generation is over at `now`: it becomes the one before, and what was before goes.
    fn turn(&self, now: WallTime) {
        for limit in self.limits.iter().flatten() {
            limit.turn();
        }
        let mut since = self.shared.since.lock();
        *since = Since { before: Some(since.current), current: now };
    }
}

/// The sketches of one limit.
#[derive(Debug)]
pub struct LimitTop {
    hits: OnceLock<Box<Sketches>>,
    denials: OnceLock<Box<Sketches>>,
    shared: Arc<Shared>,
}

/// The sketches of what is counted, one per group of threads, and the generation before.
#[derive(Debug, Default)]
struct Sketches {
    shards: [Shard; SHARDS],
    /// Held while a generation ends and while a reader reads, so that no reader finds half of either.
    before: Mutex<Summary>,
}

#[derive(Debug, Default)]
#[repr(align(64))]
struct Shard {
    sketch: Mutex<Option<Box<Rented>>>,
    /// Weight that went past the sketch.
    missed: AtomicU64,
}

/// A sketch that counts among those of the node.
#[derive(Debug)]
struct Rented {
    top: Top,
    shared: Arc<Shared>,
}

impl LimitTop {
    fn new(shared: Arc<Shared>) -> LimitTop {
        LimitTop { hits: OnceLock::new(), denials: OnceLock::new(), shared }
    }

    /// Counts `weight` for a key. `text` writes its text, if the sketch does not have it.
    pub fn count(&self, by: By, key: Fingerprint, weight: u64, text: impl FnOnce(&mut KeyText)) {
        let sketches = self.of(by).get_or_init(Box::default);
        sketches.shards[shard_of_this_thread()].count(&self.shared, key, weight, text);
    }

    /// The weight of everything that was counted.
    fn total(&self, by: By) -> u64 {
        self.of(by).get().map_or(0, |sketches| {
            let before = sketches.before.lock();
            sketches.shards.iter().map(Shard::total).fold(before.total, u64::saturating_add)
        })
    }

    /// What is told of the heaviest keys.
    pub fn summary(&self, by: By) -> Summary {
        let Some(sketches) = self.of(by).get() else { return Summary::default() };
        let before = sketches.before.lock();
        let now = sketches.shards.iter().map(Shard::summary);
        Summary::merge(&now.chain([before.clone()]).collect::<Vec<_>>())
    }

    fn turn(&self) {
        for sketches in [&self.hits, &self.denials].into_iter().filter_map(OnceLock::get) {
            let mut before = sketches.before.lock();
            let ended: Vec<Summary> = sketches.shards.iter().map(Shard::end).collect();
            *before = Summary::merge(&ended);
            before.truncate(KEYS_PER_SKETCH);
        }
    }

    const fn of(&self, by: By) -> &OnceLock<Box<Sketches>> {
        match by {
            By::Hits => &self.hits,
            By::Denials => &self.denials,
        }
    }
}

impl Shard {
    fn count(&self, shared: &Arc<Shared>, key: Fingerprint, weight: u64, text: impl FnOnce(&mut KeyText)) {
        let mut sketch = self.sketch.try_lock();
        let rented = sketch.as_mut().and_then(|sketch| match &mut **sketch {
            Some(rented) => Some(rented),
            empty @ None => {
                *empty = Some(Box::new(Rented::new(shared)?));
                empty.as_mut()
            }
        });
        match rented {
            Some(rented) => rented.top.add(key, weight, text),
            None => {
                self.missed.fetch_add(weight, Ordering::Relaxed);
            }
        }
    }

    fn total(&self) -> u64 {
        let counted = self.sketch.lock().as_ref().map_or(0, |rented| rented.top.total());
        counted.saturating_add(self.missed.load(Ordering::Relaxed))
    }

    /// The sketch is copied, so that whoever counts meanwhile finds it taken for a blink only.
    fn summary(&self) -> Summary {
        let copy = self.sketch.lock().as_ref().map(|rented| rented.top.clone());
        summary_of(copy.as_ref(), self.missed.load(Ordering::Relaxed))
    }

    fn end(&self) -> Summary {
        let ended = self.sketch.lock().take();
        summary_of(ended.as_ref().map(|rented| &rented.top), self.missed.swap(0, Ordering::Relaxed))
    }
}

fn summary_of(top: Option<&Top>, missed: u64) -> Summary {
    top.map_or_else(|| Summary::of_missed(missed), |top| top.summary(missed))
}

impl Rented {
    /// `None` when there are as many as there may be.
    fn new(shared: &Arc<Shared>) -> Option<Rented> {
        let one_more = |sketches: usize| (sketches < SKETCHES_MAX).then_some(sketches + 1);
        shared.sketches.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more).ok()?;
        Some(Rented { top: Top::new(KEYS_PER_SKETCH), shared: Arc::clone(shared) })
    }
}

impl Drop for Rented {
    fn drop(&mut self) {
        self.shared.sketches.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Ends generations, for as long as the node runs.
pub async fn turn(views: Arc<Views>) {
    loop {
        tokio::time::sleep(until_next_turn(clock::wall()).into()).await;
        let policies = views.policies.load_full();
        // It takes milliseconds where many limits are busy, and checks are decided on these threads.
        let turned = aside::run(move || policies.tops.turn(clock::wall()));
        if let Err(error) = turned.await {
            tracing::error!(%error, "the top keys were not turned over");
        }
    }
}

/// Until the next whole generation of the day, but no less than half of one: a timer that wakes early must not end the
/// generation that it has just begun.
fn until_next_turn(now: WallTime) -> Span {
    let (generation, now) = (GENERATION.as_nanos(), now.as_unix_nanos());
    let left = generation - now % generation;
    Span::from_nanos(if left < generation / 2 { left + generation } else { left })
}

impl Policies {
    /// Counts a decision among the keys of its limits: a hit of what stays charged where the check passed, a denial where a
    /// limit refused, also one that only watches. A limit that admitted what another refused counts nothing, and nor does
    /// a peek. A failure mode's answer counts as what it says.
    pub(crate) fn count_keys(&self, asks: &Asks, attributes: &Attributes<'_>, decision: &Decision) {
        if decision.wanted == Wanted::Peek {
            return;
        }
        for (leg, answer) in asks.legs.iter().zip(&decision.legs) {
            let (Some(top), Some(known)) = (self.tops.limit(leg.limit), self.limit(leg.limit)) else { continue };
            let units =
                if decision.wanted == Wanted::UpTo { leg.cost.saturating_mul(decision.units) } else { leg.cost };
            let write = |text: &mut KeyText| write_key(known, attributes, text);
            match (answer.allowed, decision.allowed) {
                (true, true) if units > 0 => top.count(By::Hits, leg.key, units, write),
                (true, _) => {}
                (false, _) => top.count(By::Denials, leg.key, 1, write),
            }
        }
    }
}

/// Writes the text of a key: the attributes that its limit counts by, with what a check says of them; an address as the
/// group that it is counted in.
fn write_key(limit: &KnownLimit, attributes: &Attributes<'_>, text: &mut KeyText) {
    for name in &limit.key {
        match (&**name, attributes.ip_group(limit.prefixes)) {
            (IP, Some(group)) => text.push_part(name, group_of(group, limit.prefixes).as_str()),
            (_, _) => text.push_part(name, attributes.get(name).unwrap_or("")),
        }
    }
}

/// A group of addresses as text, without an allocation; one that is a single address, as that.
fn group_of(first: IpAddr, prefixes: IpPrefixes) -> KeyText {
    let (prefix, bits) = match first {
        IpAddr::V4(_) => (prefixes.v4, 32),
        IpAddr::V6(_) => (prefixes.v6, 128),
    };
    let mut text = KeyText::new();
    let written = if prefix == bits { write!(text, "{first}") } else { write!(text, "{first}/{prefix}") };
    written.expect("a text that is full is cut, not refused");
    text
}

/// What this node tells whoever asks, of the limits of which anything was counted here: the busiest, as far as one telling
/// holds them.
pub fn told(policies: &Policies, asked: &TopAsked) -> TopTold {
    let known: Vec<LimitId> = match (asked.limit, policies.catalogue.domain(&asked.domain)) {
        (_, None) => Vec::new(),
        (Some(limit), Some(_)) => vec![limit],
        (None, Some(domain)) => domain.limits().iter().map(policy::Limit::id).collect(),
    };
    let tops = known.into_iter().filter_map(|id| Some((id, policies.tops.limit(id)?)));
    let mut busy: Vec<_> =
        tops.map(|(id, top)| (top.total(asked.by), id, top)).filter(|(total, ..)| *total > 0).collect();
    busy.sort_by_key(|(total, id, _)| (std::cmp::Reverse(*total), *id));
    let left_out = busy.len().saturating_sub(LIMITS_TOLD_MAX);
    busy.truncate(LIMITS_TOLD_MAX);
    let keys_each = KEYS_TOLD_MAX / busy.len().max(1);
    let summaries = busy.into_iter().map(|(_, id, top)| {
        let mut summary = top.summary(asked.by);
        summary.truncate(keys_each);
        (id, summary)
    });
    let left_out = u32::try_from(left_out).unwrap_or(u32::MAX);
    TopTold { since: policies.tops.since(), limits: summaries.collect(), left_out }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: LimitId = LimitId(3);
    const START: WallTime = WallTime::from_unix_nanos(1_000);

    fn key(number: u64) -> Fingerprint {
        Fingerprint([number, 0])
    }

    fn hit(tops: &Tops, number: u64, weight: u64) {
        let limit = tops.limit(LIMIT).expect("it is one of them");
        limit.count(By::Hits, key(number), weight, |text| text.push_part("client", &number.to_string()));
    }

    fn counts(tops: &Tops, by: By) -> Vec<(String, u64, u64)> {
        let summary = tops.limit(LIMIT).expect("it is one of them").summary(by);
        summary.keys.into_iter().map(|key| (key.text.into(), key.count, key.error)).collect()
    }

    #[test]
    fn what_several_threads_count_is_told_together() {
        let tops = Tops::beginning(START).with_limits([LIMIT]);
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| (0..1_000).for_each(|_| hit(&tops, 1, 2)));
            }
        });
        let [(text, count, error)] = &counts(&tops, By::Hits)[..] else { panic!("one key") };
        assert_eq!((text.as_str(), *count), ("client=1", 16_000), "a hit that found its sketch taken is not lost");
        assert!(*error < 16_000, "{error}");
        assert!(counts(&tops, By::Denials).is_empty());
    }

    #[test]
    fn a_hit_waits_for_nobody_and_its_weight_is_told_as_error() {
        let tops = Tops::beginning(START).with_limits([LIMIT]);
        hit(&tops, 1, 5);
        let sketches = tops.limits[3].as_ref().and_then(|limit| limit.hits.get()).expect("there was a hit");
        {
            let _reader = sketches.shards[shard_of_this_thread()].sketch.lock();
            hit(&tops, 1, 2);
        }
        assert_eq!(counts(&tops, By::Hits), [("client=1".to_owned(), 7, 2)]);
    }

    #[test]
    fn a_generation_is_told_until_the_next_one_is_over() {
        let tops = Tops::beginning(START).with_limits([LIMIT]);
        hit(&tops, 1, 5);
        tops.turn(WallTime::from_unix_nanos(2_000));
        hit(&tops, 1, 2);
        hit(&tops, 2, 1);
        assert_eq!(counts(&tops, By::Hits), [("client=1".to_owned(), 7, 0), ("client=2".to_owned(), 1, 0)]);
        assert_eq!(tops.since(), START);
        tops.turn(WallTime::from_unix_nanos(3_000));
        assert_eq!(counts(&tops, By::Hits), [("client=1".to_owned(), 2, 0), ("client=2".to_owned(), 1, 0)]);
        assert_eq!(tops.since(), WallTime::from_unix_nanos(2_000));
        tops.turn(WallTime::from_unix_nanos(4_000));
        assert!(counts(&tops, By::Hits).is_empty());
    }

    #[test]
    fn a_new_revision_keeps_the_sketches_of_limits_that_stand_and_gives_the_others_back() {
        let tops = Tops::beginning(START).with_limits([LIMIT, LimitId(4)]);
        hit(&tops, 1, 5);
        tops.limit(LimitId(4)).expect("it is one of them").count(By::Denials, key(1), 1, |_| {});
        assert_eq!(tops.shared.sketches.load(Ordering::Relaxed), 2);
        let next = tops.with_limits([LIMIT, LimitId(7)]);
        drop(tops);
        assert_eq!(counts(&next, By::Hits), [("client=1".to_owned(), 5, 0)]);
        assert!(next.limit(LimitId(4)).is_none());
        assert_eq!(next.shared.sketches.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn what_finds_no_sketch_is_counted_as_missed() {
        let tops = Tops::beginning(START).with_limits([LIMIT]);
        tops.shared.sketches.store(SKETCHES_MAX, Ordering::Relaxed);
        hit(&tops, 1, 5);
        assert_eq!(tops.limit(LIMIT).expect("it is one of them").summary(By::Hits), Summary::of_missed(5));
        tops.shared.sketches.store(SKETCHES_MAX - 1, Ordering::Relaxed);
        hit(&tops, 1, 1);
        assert_eq!(counts(&tops, By::Hits), [("client=1".to_owned(), 6, 5)]);
        assert_eq!(tops.shared.sketches.load(Ordering::Relaxed), SKETCHES_MAX);
    }

    #[test]
    fn a_timer_that_wakes_early_does_not_end_what_it_began() {
        let at = |seconds: u64, nanos: u64| {
            WallTime::from_unix_nanos(seconds * 1_000_000_000).saturating_sub(Span::from_nanos(nanos))
        };
        assert_eq!(until_next_turn(at(600, 0)), GENERATION);
        assert_eq!(until_next_turn(at(660, 0)), Span::from_secs(240));
        assert_eq!(until_next_turn(at(600, 5)), GENERATION.saturating_add(Span::from_nanos(5)));
    }

    fn read(key: &[&str], prefixes: (u8, u8), pairs: &[(&str, &str)]) -> String {
        let rate = limits::Rate::new(1, Span::from_secs(1)).expect("it is one");
        let limit = KnownLimit {
            name: "limit".into(),
            domain: "default".into(),
            revision: 1,
            shape: limits::Shape {
                limit: LIMIT,
                domain: limits::DomainId(0),
                rate: Some(rate),
                algorithm: limits::Algorithm::TokenBucket { burst: 1 },
                basis: limits::Basis::Hi,
            },
            fail: limits::FailMode::Closed,
            key: key.iter().map(|name| Box::from(*name)).collect(),
            prefixes: IpPrefixes { v4: prefixes.0, v6: prefixes.1 },
        };
        let mut text = KeyText::new();
        write_key(&limit, &Attributes::new(pairs.iter().copied()).expect("they are well formed"), &mut text);
        text.as_str().to_owned()
    }

    #[test]
    fn a_key_reads_as_it_is_counted() {
        let pairs = [("user", "u1"), ("org", "acme"), ("x", "y")];
        assert_eq!(read(&["org", "user"], (32, 64), &pairs), "org=acme user=u1");
        assert_eq!(read(&["client"], (32, 64), &pairs), "client=", "counted as anonymous");
        assert_eq!(read(&[], (32, 64), &pairs), "", "one key for all");
        assert_eq!(read(&["ip"], (32, 64), &[("ip", "::ffff:192.0.2.1")]), "ip=192.0.2.1");
        assert_eq!(read(&["ip"], (24, 64), &[("ip", "192.0.2.1")]), "ip=192.0.2.0/24");
        assert_eq!(read(&["ip"], (32, 64), &[("ip", "2001:db8::7")]), "ip=2001:db8::/64");
        assert_eq!(read(&["ip"], (32, 128), &[("ip", "2001:db8::7")]), "ip=2001:db8::7");
    }
}
