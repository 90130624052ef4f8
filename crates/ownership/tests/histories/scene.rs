//! What one history is about, worked out from its seed before anything happens: limits that count in every way and fail in
//! every way, their keys spread over the partitions of three owners, the questions, who asks them and how often, how the
//! network behaves, and which owner is lost.

use std::sync::Arc;

use limits::{
    Algorithm, Align, Book, BookEntry, Budgets, CalendarId, Calendars, DomainId, FailMode, Fingerprint, LimitId, Rate,
    Shape, Shapes, Span, Variant, WallTime, WindowBounds,
};
use ringfence_ownership::{Asker, CheckId};

use crate::chance::Chance;

pub const NODES: usize = 3;

/// A period that no history outlives: what is charged under it stays charged, so that the ledger can be held to it.
pub const LONG_MS: u64 = 3_600_000;

/// What a history is made to try most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Theme {
    /// Messages are lost, late, doubled and overtaken.
    Lost,
    /// Callers put their questions again, under the same id and elsewhere.
    AskedTwice,
    /// An owner is lost while it is asked.
    Takeover,
    /// All of it.
    Everything,
}

impl Theme {
    pub const ALL: [Theme; 4] = [Theme::Lost, Theme::AskedTwice, Theme::Takeover, Theme::Everything];

    /// Every fourth seed is of one theme, so that a seed is all that a replay needs.
    pub fn of(seed: u64) -> Theme {
        Theme::ALL[(seed % 4) as usize]
    }
}

#[derive(Debug)]
pub struct Scene {
    pub limits: Vec<Limit>,
    pub keys: Vec<Key>,
    pub partitions: usize,
    pub questions: Vec<Question>,
    pub callers: Vec<Caller>,
    pub weather: Weather,
    pub loss: Option<Loss>,
    pub calendars: Arc<dyn Calendars>,
}

#[derive(Debug)]
pub struct Limit {
    pub shape: Shape,
    pub fail: FailMode,
}

/// One key of one limit, and the partition that its route leads to.
#[derive(Debug)]
pub struct Key {
    pub limit: usize,
    pub fingerprint: Fingerprint,
    pub partition: usize,
}

/// What is asked under one id.
#[derive(Clone, Debug)]
pub struct Question {
    pub id: CheckId,
    pub digest: u64,
    pub indexed: bool,
    pub wanted: Wanted,
    pub legs: Vec<Leg>,
    /// What its caller does about it afterwards, and how long after it was told.
    pub then: Vec<(u64, Then)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    Spend,
    Peek,
    UpTo { units: u64 },
    Reserve { ttl_ms: u64, units: u64 },
    Acquire { ttl_ms: Option<u64> },
}

/// What a caller does about a check that it has made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Then {
    Refund,
    Settle { units: u64, debt: bool },
    Renew { ttl_ms: Option<u64> },
    Release,
}

#[derive(Clone, Copy, Debug)]
pub struct Leg {
    pub key: usize,
    /// Of one unit, where units are wanted.
    pub cost: u64,
    pub shadow: bool,
}

/// Somebody who asks: a question put at one ingress, once.
#[derive(Clone, Debug)]
pub struct Caller {
    pub question: usize,
    /// What is to be done about the question, if it is not put anew.
    pub then: Option<Then>,
    pub asker: Asker,
    pub ingress: usize,
    pub attempt: u8,
    pub at: u64,
    pub budget: u64,
}

/// What the network does, in percent of the messages.
#[derive(Debug)]
pub struct Weather {
    pub lost: u64,
    pub doubled: u64,
    pub slow: u64,
    /// Whether a few messages take longer than a question is remembered.
    pub forgetful: bool,
}

/// The loss of an owner.
#[derive(Debug)]
pub struct Loss {
    pub node: usize,
    /// From when on its lease is not renewed any more.
    pub at: u64,
    /// Whether it is dead at once; otherwise it goes on deciding as long as its lease lasts.
    pub dead: bool,
}

impl Limit {
    pub fn rate(&self) -> Rate {
        self.shape.rate.expect("no limit of these is unlimited")
    }

    pub fn capacity(&self) -> u64 {
        self.shape.capacity().expect("no limit of these is unlimited")
    }

    pub fn period_ms(&self) -> u64 {
        self.rate().period().as_nanos() / 1_000_000
    }

    pub fn is_long(&self) -> bool {
        self.period_ms() == LONG_MS
    }

    pub fn counts_slots(&self) -> bool {
        matches!(self.shape.algorithm, Algorithm::Concurrency { .. })
    }

    /// The longest that a slot is held; nothing where none are.
    pub fn max_hold_ms(&self) -> u64 {
        match self.shape.algorithm {
            Algorithm::Concurrency { max_hold } => max_hold.as_nanos() / 1_000_000,
            Algorithm::TokenBucket { .. }
            | Algorithm::SlidingLog { .. }
            | Algorithm::FixedWindow { .. }
            | Algorithm::SlidingCounter
            | Algorithm::Calendar { .. } => 0,
        }
    }

    pub fn is_open(&self) -> bool {
        self.fail == FailMode::Open
    }
}

impl Scene {
    pub fn of(seed: u64) -> Scene {
        let chance = &mut Chance::new(seed);
        let theme = Theme::of(seed);
        let limits: Vec<Limit> = (0..chance.between(2, 5)).map(|number| limit(number as u32, chance)).collect();
        let partitions = chance.between(2, 5) as usize;
        let keys: Vec<Key> = (0..limits.len()).flat_map(|limit| keys(limit, partitions, chance)).collect();
        let questions: Vec<Question> =
            (1..=chance.between(8, 30)).map(|id| question(id, &limits, &keys, chance)).collect();
        let callers = callers(theme, &questions, chance);
        let (weather, loss) = (weather(theme, chance), loss(theme, chance));
        let calendars = Arc::new(Even);
        Scene { limits, keys, partitions, questions, callers, weather, loss, calendars }
    }

    pub fn limit_of(&self, key: usize) -> &Limit {
        &self.limits[self.keys[key].limit]
    }

    pub fn key_of(&self, fingerprint: Fingerprint) -> usize {
        self.keys.iter().position(|key| key.fingerprint == fingerprint).expect("only keys of the scene are asked for")
    }
}

fn limit(number: u32, chance: &mut Chance) -> Limit {
    let long = chance.percent(50);
    let mut period = if long { LONG_MS } else { chance.between(40, 700) };
    let algorithm = match chance.between(0, 10) {
        0..=2 => Algorithm::TokenBucket { burst: chance.between(1, 12) },
        3 | 4 => Algorithm::SlidingLog { max_entries: 4_096 },
        5 => Algorithm::FixedWindow { align: Align::First },
        6 => Algorithm::FixedWindow { align: [Align::Epoch, Align::Hashed][chance.between(0, 1) as usize] },
        7 => Algorithm::SlidingCounter,
        8 => {
            // A window of a calendar is never shorter than a second.
            period = period.max(1_000);
            Algorithm::Calendar { calendar: CalendarId(period as u32) }
        }
        _ => Algorithm::Concurrency { max_hold: Span::from_millis(period * chance.between(1, 3)) },
    };
    let fail = match (chance.between(0, 9), algorithm) {
        (0..=4, _) => FailMode::Closed,
        // A share of slots is lent by an ingress, and nobody can give it back there.
        (5..=7, _) | (_, Algorithm::Concurrency { .. }) => FailMode::Open,
        _ => FailMode::Emergency { percent: chance.between(30, 100) as u8, reserved: false },
    };
    let rate = Some(Rate::new(chance.between(1, 12), Span::from_millis(period)).unwrap());
    let shape = Shape { limit: LimitId(number + 1), domain: DomainId(0), rate, algorithm, basis: fail.basis() };
    Limit { shape, fail }
}

fn keys(limit: usize, partitions: usize, chance: &mut Chance) -> Vec<Key> {
    let count = chance.between(1, 2);
    let mut key = |_| Key {
        limit,
        fingerprint: Fingerprint([chance.next(), chance.next()]),
        partition: chance.between(0, partitions as u64 - 1) as usize,
    };
    (0..count).map(&mut key).collect()
}

/// Several limits, one key of each, in the order of a rule.
fn question(id: u64, limits: &[Limit], keys: &[Key], chance: &mut Chance) -> Question {
    let share = chance.between(40, 100);
    let wanted = wanted(chance);
    let dearest = if wanted == Wanted::Spend { 4 } else { 2 };
    let mut legs = Vec::new();
    for limit in 0..limits.len() {
        if !chance.percent(share) {
            continue;
        }
        let of_limit: Vec<usize> = (0..keys.len()).filter(|key| keys[*key].limit == limit).collect();
        let key = of_limit[chance.between(0, of_limit.len() as u64 - 1) as usize];
        let cost = if chance.percent(4) { 0 } else { chance.between(1, dearest) };
        legs.push(Leg { key, cost, shadow: chance.percent(8) });
    }
    if legs.is_empty() {
        legs.push(Leg { key: 0, cost: 1, shadow: false });
    }
    let (digest, indexed) = (chance.next(), chance.percent(50));
    Question { id: CheckId(u128::from(id)), digest, indexed, wanted, legs, then: then(wanted, chance) }
}

fn wanted(chance: &mut Chance) -> Wanted {
    let units = chance.between(1, 6);
    match chance.between(0, 19) {
        0..=11 => Wanted::Spend,
        12 => Wanted::Peek,
        13 | 14 => Wanted::UpTo { units },
        15..=17 => Wanted::Acquire { ttl_ms: chance.percent(50).then(|| chance.between(30, 900)) },
        _ => Wanted::Reserve { ttl_ms: if chance.percent(50) { chance.between(20, 800) } else { LONG_MS }, units },
    }
}

fn then(wanted: Wanted, chance: &mut Chance) -> Vec<(u64, Then)> {
    let mut again = match wanted {
        Wanted::Spend | Wanted::UpTo { .. } => 20,
        Wanted::Reserve { .. } | Wanted::Acquire { .. } => 80,
        Wanted::Peek => 0,
    };
    let (mut then, mut ever) = (Vec::new(), 0);
    while chance.percent(again) {
        // Some time after the records of a partition have forgotten the check.
        let after = if chance.percent(20) { chance.between(1_900, 2_500) } else { chance.between(0, 700) };
        then.push((after, about(wanted, &mut ever, chance)));
        again = if again > 50 { 60 - 20 * ever } else { again / 3 };
    }
    then
}

/// What is done about a check of this kind; about a lease, the more of it was done before, the rather it is given back.
fn about(wanted: Wanted, ever: &mut u64, chance: &mut Chance) -> Then {
    *ever += 1;
    match wanted {
        _ if chance.percent(8) => Then::Refund,
        Wanted::Spend | Wanted::Peek | Wanted::UpTo { .. } => Then::Refund,
        Wanted::Reserve { units, .. } => Then::Settle { units: chance.between(0, units + 1), debt: chance.percent(50) },
        Wanted::Acquire { .. } if chance.percent(50 * *ever) => Then::Release,
        Wanted::Acquire { .. } => Then::Renew { ttl_ms: chance.percent(50).then(|| chance.between(30, 900)) },
    }
}

fn callers(theme: Theme, questions: &[Question], chance: &mut Chance) -> Vec<Caller> {
    let again = match theme {
        Theme::Lost => 0,
        Theme::AskedTwice => 70,
        Theme::Takeover => 10,
        Theme::Everything => 30,
    };
    let mut callers: Vec<Caller> = Vec::new();
    let span = chance.between(50, 1_500);
    let mut ask = |question: usize, attempt: u8, at: u64, chance: &mut Chance| {
        let (ingress, budget) = (chance.between(0, NODES as u64 - 1) as usize, chance.between(30, 450));
        let asker = Asker(1_000 + callers.len() as u64);
        callers.push(Caller { question, then: None, asker, ingress, attempt, at, budget });
    };
    for (number, question) in questions.iter().enumerate() {
        let (mut at, mut attempt) = (chance.between(1, span), 1);
        ask(number, attempt, at, chance);
        while attempt < 4 && chance.percent(again) {
            // A caller's own id is looked up whatever the attempt, and comes without a count.
            attempt += 1;
            at += chance.between(0, 300);
            ask(number, if question.indexed { 1 } else { attempt }, at, chance);
        }
    }
    callers
}

fn weather(theme: Theme, chance: &mut Chance) -> Weather {
    let (most, forgetful) = match theme {
        Theme::Lost | Theme::Everything => (30, chance.percent(50)),
        Theme::AskedTwice | Theme::Takeover => (12, false),
    };
    Weather { lost: chance.between(0, most), doubled: chance.between(0, 25), slow: chance.between(0, 30), forgetful }
}

fn loss(theme: Theme, chance: &mut Chance) -> Option<Loss> {
    let may_be = match theme {
        Theme::Lost | Theme::AskedTwice => false,
        Theme::Takeover | Theme::Everything => true,
    };
    may_be.then(|| Loss {
        node: chance.between(0, NODES as u64 - 1) as usize,
        at: chance.between(0, 900),
        dead: chance.percent(50),
    })
}

/// The limits of a scene, as every owner knows them.
pub struct Pages<'a> {
    entries: Vec<BookEntry>,
    shapes: Shapes,
    budgets: &'a Budgets,
}

impl<'a> Pages<'a> {
    pub fn of(scene: &Scene, budgets: &'a Budgets) -> Pages<'a> {
        let mut shapes = Shapes::new();
        shapes.set_calendars(Arc::clone(&scene.calendars));
        let entry = |limit: &Limit| BookEntry { shape: shapes.intern(limit.shape), allotted_at: 10, revision: 0 };
        let entries = scene.limits.iter().map(entry).collect();
        Pages { entries, shapes, budgets }
    }
}

impl Book for Pages<'_> {
    fn limit(&self, LimitId(limit): LimitId, _: Variant) -> Option<BookEntry> {
        self.entries.get(limit as usize - 1).copied()
    }

    fn shapes(&self) -> &Shapes {
        &self.shapes
    }

    fn budgets(&self) -> &Budgets {
        self.budgets
    }
}

/// Calendars whose windows are all of one length, which is their number, in milliseconds.
#[derive(Debug)]
pub struct Even;

impl Calendars for Even {
    fn window(&self, CalendarId(millis): CalendarId, at: WallTime) -> Option<WindowBounds> {
        let length = u64::from(millis) * 1_000_000;
        let index = at.as_unix_nanos() / length;
        let edge = |index: u64| WallTime::from_unix_nanos(index * length);
        Some(WindowBounds { index, start: edge(index), end: edge(index + 1) })
    }

    fn name(&self, calendar: CalendarId) -> String {
        format!("{calendar:?}")
    }
}
