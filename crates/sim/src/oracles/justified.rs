//! Denials are justified: when an owner refused, its account could hold no more, by what it had charged and not taken back,
//! what it had booked, and what its predecessor may have spent. What is left of a charge that was taken back is the
//! limit's business, so every doubt of that kind speaks for the denial. A takeover that is to blame is named as the reason,
//! and only while it can be; where a debt was booked on its floor, or a bucket or counter shows it as use, it need not be.
//! What callers were told follows from what was said.

use std::collections::{BTreeMap, VecDeque};

use limits::{Algorithm, Align, Basis, Fingerprint, Keeping, Moment, Now, Shape, Span, WallTime};
use ownership::Recovered;

use super::fullest::{index, shift};
use super::story::{Account, Key, Reign, Story, Touch, What};
use super::{Failure, Findings};
use crate::history::{Reason, Source};
use crate::world::trace::{LegTold, Told};

/// How far apart two nodes may tell cluster time, and so how far around a takeover windows may be full.
const EDGE: Span = Span::from_millis(100);

pub(super) fn judge(story: &Story<'_>, findings: &mut Findings) -> Result<(), Failure> {
    for (at, told) in &story.told {
        follows(told, findings).map_err(|words| Failure::new("justified", *at, words))?;
    }
    for (key, account) in &story.accounts {
        used_up(story, key, account, findings)?;
    }
    Ok(())
}

/// Whether what a caller was told follows from what each limit said.
fn follows(told: &Told, findings: &mut Findings) -> Result<(), String> {
    let Some(decision) = &told.decision else {
        findings.count("askings without an answer", 1);
        return Ok(());
    };
    let refuses = |leg: &&LegTold| !leg.leg.shadow && !leg.leg.allowed;
    for leg in decision.legs.iter().filter(refuses) {
        findings.count(kind_of(leg), 1);
    }
    match decision.legs.iter().any(|leg| refuses(&leg)) {
        refused if refused == decision.allowed => Err(format!(
            "{:?} was told {} though its limits said otherwise: {:?}",
            told.id, decision.allowed, decision.legs
        )),
        _ => Ok(()),
    }
}

fn kind_of(leg: &LegTold) -> &'static str {
    match (leg.source, leg.reason) {
        (Source::Emergency, _) => "denials by an emergency share",
        (_, Reason::Unavailable) => "denials: unavailable",
        (_, Reason::Recovering) => "denials: recovering",
        (_, Reason::Limit) => "denials: limit",
        (_, Reason::Never) => "denials: never",
        (_, Reason::Ok | Reason::NoLimit | Reason::MissingAttribute) => "denials of another kind",
    }
}

/// Every refusal about one key, in the order of the trace, against what its owner had on the account then.
fn used_up(story: &Story<'_>, key: &Key, account: &Account, findings: &mut Findings) -> Result<(), Failure> {
    let mut books: BTreeMap<usize, Ledger> = BTreeMap::new();
    for touch in &account.touches {
        let reign = &story.reigns[touch.reign];
        let ledger = books.entry(touch.reign).or_insert_with(|| Ledger::begun(story, touch.reign, account));
        match touch.what {
            What::Charged(_) | What::Owed | What::Undone(_) => ledger.write(touch),
            What::Refused { recovering, alone } => {
                findings.count("denials held against an account", 1);
                let said = Refusal { touch, recovering, alone, key: &key.1 };
                is_right(reign, ledger, &said, findings).map_err(|why| {
                    let words = format!(
                        "n{} in {:?} at {:?} refused {} units of {:?} ({}, {:?} per {:?}): {why}",
                        reign.node + 1,
                        reign.partition,
                        reign.epoch,
                        touch.cost,
                        key.0,
                        name(&touch.shape.algorithm),
                        touch.shape.capacity(),
                        touch.shape.rate.map(|rate| rate.period())
                    );
                    Failure::new("justified", touch.at, words)
                })?;
            }
        }
    }
    Ok(())
}

fn name(algorithm: &Algorithm) -> &'static str {
    match algorithm {
        Algorithm::TokenBucket { .. } => "token bucket",
        Algorithm::SlidingLog { .. } => "sliding log",
        Algorithm::FixedWindow { .. } => "fixed window",
        Algorithm::SlidingCounter => "sliding counter",
        Algorithm::Calendar { .. } => "calendar",
        Algorithm::Concurrency { .. } => "concurrency",
    }
}

/// A refusal, and what was said of it.
struct Refusal<'t> {
    touch: &'t Touch,
    recovering: bool,
    /// Whether no other limit refused.
    alone: bool,
    key: &'t Fingerprint,
}

fn is_right(
    reign: &Reign<'_>,
    ledger: &mut Ledger,
    refusal: &Refusal<'_>,
    findings: &mut Findings,
) -> Result<(), String> {
    if refusal.touch.cost > refusal.capacity() {
        return Ok(());
    }
    let floor = floor(reign, refusal);
    match refusal.recovering {
        true => may_be_blamed(reign, ledger, refusal, floor, findings),
        false => is_used_up(reign, ledger, refusal, floor, findings),
    }
}

impl Refusal<'_> {
    fn capacity(&self) -> u64 {
        self.touch.shape.capacity().unwrap_or(u64::MAX)
    }

    /// Whether there is no room for it where so much is used.
    fn is_too_much(&self, used: u64) -> bool {
        used.saturating_add(self.touch.cost) > self.capacity()
    }

    fn is_of_a_bucket(&self) -> bool {
        matches!(self.touch.shape.algorithm, Algorithm::TokenBucket { .. })
    }
}

/// Whether a takeover that was named as the reason can be it.
fn may_be_blamed(
    reign: &Reign<'_>,
    ledger: &mut Ledger,
    refusal: &Refusal<'_>,
    floor: Option<Span>,
    findings: &mut Findings,
) -> Result<(), String> {
    let touch = refusal.touch;
    let Some(lasted) = floor else {
        let (taken, said) = (reign.full_as_of, (touch.clock, touch.wall));
        return Err(format!(
            "a takeover was named as the reason, and none can be: taken over at {taken:?}, said at {said:?}"
        ));
    };
    // What is left of a bucket that was taken over empty is what has flowed in since.
    if refusal.is_of_a_bucket() && !reign.is_beside() {
        let (used, capacity) = (ledger.used_since_takeover(touch), refusal.capacity());
        if !refusal.is_too_much(used) && !ledger.changed {
            return Err(format!("a takeover was named as the reason, and {used} of {capacity} can be used since"));
        }
    }
    findings.count("denials by a takeover", 1);
    findings.measure("longest after a takeover that it was the reason, ms", lasted.as_nanos() / 1_000_000);
    Ok(())
}

/// Whether the limit was used up, or what a takeover left shows as use.
fn is_used_up(
    reign: &Reign<'_>,
    ledger: &mut Ledger,
    refusal: &Refusal<'_>,
    floor: Option<Span>,
    findings: &mut Findings,
) -> Result<(), String> {
    let touch = refusal.touch;
    let mut taken_in = if touch.shape.keeping() == Keeping::Nothing { 0 } else { ledger.taken_in };
    // What was taken in by a limit that decided on the most stays used where it comes to decide on the least (law 5).
    if ledger.is_kept && touch.shape.basis == Basis::Lo {
        taken_in = taken_in.saturating_add(ledger.allowance);
    }
    let mut used = ledger.used(touch, refusal.key).saturating_add(taken_in);
    if floor.is_some() && ledger.is_kept && is_aligned(&touch.shape) {
        // Whoever takes over close to an edge has what may have been used before counted on the far side, and all that is
        // charged meanwhile with it.
        used = used.max(ledger.in_all.saturating_add(taken_in));
    }
    let full = |used: u64| refusal.is_too_much(used);
    if full(used) {
        return Ok(());
    }
    // Where another limit refused too, and truly, a takeover is not the reason.
    if floor.is_some() && !refusal.alone {
        findings.count("denials beside that of another limit, by a takeover", 1);
        return Ok(());
    }
    // A debt was booked on what a takeover left, by a limit that decided on the most then: all of it is told as used (law 5).
    if touch.shape.basis == Basis::Lo && ledger.has_debts() && ledger.opened_on_floor.is_some_and(full) {
        findings.count("denials by what a takeover left, where a limit was made open", 1);
        return Ok(());
    }
    let full_since_takeover = full(ledger.used_since_takeover(touch));
    if full_since_takeover && may_say_so(ledger, touch, floor, full) {
        findings.count("denials by what a takeover left", 1);
        return Ok(());
    }
    // Debts that were booked make a key known, on the floor; what is on it then is told as used.
    let is_full = !refusal.is_of_a_bucket() || ledger.changed || full_since_takeover;
    if floor.is_some() && ledger.has_debts() && is_full {
        findings.count("denials by what a takeover left, where a debt was booked", 1);
        return Ok(());
    }
    // A copy shares its records with its original, and neither hears all that the other is told (row 17).
    if reign.is_beside() {
        findings.count("denials by a copy, unexplained", 1);
        return Ok(());
    }
    let whose = if floor.is_some() { "which only the takeover explains" } else { "which nothing explains" };
    Err(format!("{used} of {} were used at most, {whose}", refusal.capacity()))
}

/// Whether what a takeover left may be told as used. A bucket that was taken over empty gives out its rate and stays near
/// empty for as long as it is asked for more: until it has had time to fill it is used when what was spent since is, of
/// which nothing has flowed back, and from then on like any bucket.
fn may_say_so(ledger: &Ledger, touch: &Touch, floor: Option<Span>, full: impl Fn(u64) -> bool) -> bool {
    match touch.shape.algorithm {
        // Where the numbers changed meanwhile, the time to fill did too.
        Algorithm::TokenBucket { .. } => floor.is_none() || full(ledger.in_all) || ledger.changed,
        Algorithm::SlidingCounter => true,
        Algorithm::SlidingLog { .. }
        | Algorithm::FixedWindow { .. }
        | Algorithm::Calendar { .. }
        | Algorithm::Concurrency { .. } => false,
    }
}

/// How long ago the takeover was that may still be the reason; `None` where none can be.
fn floor(reign: &Reign<'_>, refusal: &Refusal<'_>) -> Option<Span> {
    let touch = refusal.touch;
    let (Some(full), Some(rate), Basis::Hi) = (reign.full_as_of, touch.shape.rate, touch.shape.basis) else {
        return None;
    };
    // It turned out that nobody had decided before.
    if reign.recovered.is_some_and(|(at, recovered)| recovered == Recovered::Fresh && at <= touch.at) {
        return None;
    }
    let since = touch.clock.since(full.moment);
    let period = rate.period();
    let matters = match touch.shape.algorithm {
        Algorithm::TokenBucket { burst } => {
            let nanos = u128::from(period.as_nanos()) * u128::from(burst);
            since
                < Span::from_nanos(u64::try_from(nanos.div_ceil(u128::from(rate.amount().max(1)))).unwrap_or(u64::MAX))
        }
        Algorithm::SlidingLog { .. } | Algorithm::FixedWindow { align: Align::First } => since < period,
        Algorithm::SlidingCounter => since < period.saturating_add(period),
        Algorithm::FixedWindow { align } => {
            let shift = if align == Align::Hashed { shift(refusal.key, period.as_nanos()) } else { 0 };
            touches(taken_over_at(reign, full, touch), touch.wall, shift, period)
        }
        Algorithm::Calendar { .. } | Algorithm::Concurrency { .. } => true,
    };
    matters.then_some(since)
}

/// What cluster time was at the takeover, and how far that may be off. Where it was not known then: as worked out when it
/// became known, by a clock that may be off. Cluster time that is put back stands still from then on, so the latest counts.
fn taken_over_at(reign: &Reign<'_>, full: Now, touch: &Touch) -> Option<(WallTime, Span)> {
    if let Some(wall) = full.wall {
        return Some((wall, EDGE));
    }
    let since = |clock: Moment| clock.since(full.moment);
    let known = reign.decisions.iter().take_while(|(_, at, _)| *at <= touch.at);
    let known = known.filter_map(|(_, _, decided)| Some(decided.wall?.saturating_sub(since(decided.clock))));
    let unsure = EDGE.saturating_add(EDGE).saturating_add(since(touch.clock).scaled(2, 100));
    Some((known.max()?, unsure))
}

/// Whether the window of `now` may have been touched by the takeover; where either is not known it may.
fn touches(then: Option<(WallTime, Span)>, now: Option<WallTime>, shift: u64, period: Span) -> bool {
    let (Some((then, unsure)), Some(now)) = (then, now) else { return true };
    index(then.saturating_add(unsure), shift, period.as_nanos()) >= index(now, shift, period.as_nanos())
}

const fn is_aligned(shape: &Shape) -> bool {
    matches!(shape.algorithm, Algorithm::FixedWindow { align: Align::Epoch | Align::Hashed })
}

/// What owners before had charged of a key, where a record of it was taken in. A record does not tell what its owner knew to
/// be used from what that one had to assume in its turn: an allowance, a quarter of the limit at most, or everything.
fn taken_in(story: &Story<'_>, number: usize, account: &Account) -> u64 {
    let Reign { recovered, partition, epoch, .. } = story.reigns[number];
    if !matches!(recovered, Some((_, Recovered::Allowance { .. }))) {
        return 0;
    }
    let is_before = |reign: &Reign<'_>| reign.partition == partition && reign.epoch < epoch;
    let charged =
        |touch: &&Touch| is_before(&story.reigns[touch.reign]) && matches!(touch.what, What::Charged(_) | What::Owed);
    let charged: u64 = account.touches.iter().filter(charged).map(|touch| touch.cost).sum();
    let assumed = story.reigns.iter().filter(|reign| is_before(reign)).map(|reign| match reign.recovered {
        Some((_, Recovered::Fresh)) => 0,
        Some((_, Recovered::Allowance { .. })) => most_allowed(account),
        Some((_, Recovered::WorstCase)) | None => greatest(account),
    });
    charged + assumed.sum::<u64>()
}

/// The greatest of the capacities that a key was counted by.
fn greatest(account: &Account) -> u64 {
    account.touches.iter().filter_map(|touch| touch.shape.capacity()).max().unwrap_or(0)
}

/// The most that one write allows of a key.
fn most_allowed(account: &Account) -> u64 {
    greatest(account) / 4 + 1
}

/// One owner's account of one key.
#[derive(Default)]
struct Ledger {
    entries: VecDeque<Entry>,
    /// Units times the period, drained as a bucket drains; charges that were taken back are left in.
    level: u128,
    /// When it was last drained, and by which numbers.
    drained: Option<(Moment, Shape)>,
    in_all: u64,
    /// Whether the limit's numbers ever changed.
    changed: bool,
    /// When all of it may have been used, if so.
    full_as_of: Option<Moment>,
    /// The units of a takeover on which the key's first charge was written, of a limit that decided on the most then. They
    /// stay where it comes to decide on the least (law 5).
    opened_on_floor: Option<u64>,
    /// As `level`, of a bucket that was empty then.
    level_on_floor: Option<u128>,
    /// Units that owners before had charged, or may have for all that a record says, where what was kept was taken in. Of
    /// limits that are kept all of it still counts: they remember for longer than stories last.
    taken_in: u64,
    /// Whether anything was taken in, or known to be nothing.
    is_kept: bool,
    /// What may have been taken in beyond what was used.
    allowance: u64,
}

#[derive(Clone, Copy)]
struct Entry {
    charge: Option<usize>,
    clock: Moment,
    wall: Option<WallTime>,
    cost: u64,
}

impl Ledger {
    /// An account that begins with a reign: empty, or at a copy with what its original had on it.
    fn begun(story: &Story<'_>, number: usize, account: &Account) -> Ledger {
        let reign = &story.reigns[number];
        let full_as_of = reign.full_as_of.map(|full| full.moment);
        let taken_in = taken_in(story, number, account);
        let is_kept = matches!(reign.recovered, Some((_, Recovered::Allowance { .. })));
        let allowance = most_allowed(account);
        // What was used under other numbers may be more than these hold, and stays used.
        let changed = is_kept && account.touches.windows(2).any(|two| two[0].shape != two[1].shape);
        let mut ledger = Ledger { full_as_of, taken_in, is_kept, allowance, changed, ..Ledger::default() };
        let known = |touch: &&Touch| Some(touch.reign) == reign.copy_of && touch.at <= reign.began;
        account.touches.iter().filter(known).for_each(|touch| ledger.write(touch));
        ledger
    }

    fn write(&mut self, touch: &Touch) {
        match touch.what {
            What::Charged(charge) => self.charge(touch, Some(charge)),
            What::Owed => self.charge(touch, None),
            What::Undone(charge) => self.undo(charge),
            What::Refused { .. } => {}
        }
    }

    fn charge(&mut self, touch: &Touch, charge: Option<usize>) {
        self.drain(touch);
        if let Some(rate) = touch.shape.rate {
            let price = u128::from(touch.cost) * u128::from(rate.period().as_nanos());
            self.level += price;
            self.level_on_floor = self.level_on_floor.map(|level| level + price);
        }
        if self.in_all == 0 && self.full_as_of.is_some() && touch.shape.basis == Basis::Hi {
            self.opened_on_floor = touch.shape.capacity();
        }
        self.in_all += touch.cost;
        self.entries.push_back(Entry { charge, clock: touch.clock, wall: touch.wall, cost: touch.cost });
    }

    fn undo(&mut self, charge: usize) {
        self.entries.retain(|entry| entry.charge != Some(charge));
    }

    /// By the slower of the numbers before and now, where they changed.
    fn drain(&mut self, touch: &Touch) {
        let Some(rate) = touch.shape.rate else { return };
        let began = self.full_as_of.filter(|_| touch.shape.basis == Basis::Hi);
        if let (None, Some(_)) = (self.level_on_floor, began) {
            let capacity = u128::from(touch.shape.capacity().unwrap_or(0));
            self.level_on_floor = Some(capacity * u128::from(rate.period().as_nanos()));
        }
        let (since, before) = self.drained.unwrap_or((began.unwrap_or(touch.clock), touch.shape));
        self.changed |= before != touch.shape;
        let amount = before.rate.map_or(rate.amount(), |before| before.amount().min(rate.amount()));
        let passed = u128::from(touch.clock.since(since).as_nanos());
        self.level = self.level.saturating_sub(passed * u128::from(amount));
        self.level_on_floor = self.level_on_floor.map(|level| level.saturating_sub(passed * u128::from(amount)));
        self.drained = Some((touch.clock, touch.shape));
    }

    /// The same, with what a predecessor may have spent.
    fn used_since_takeover(&mut self, touch: &Touch) -> u64 {
        let Some(rate) = touch.shape.rate else { return 0 };
        let period = rate.period();
        match (touch.shape.algorithm, self.full_as_of) {
            (Algorithm::TokenBucket { .. }, _) => {
                self.drain(touch);
                let level = self.level_on_floor.unwrap_or(0).div_ceil(u128::from(period.as_nanos()));
                u64::try_from(level).unwrap_or(u64::MAX)
            }
            (Algorithm::SlidingCounter, Some(full)) => {
                let floor = match touch.shape.basis {
                    Basis::Hi => touch.shape.capacity().unwrap_or(0),
                    Basis::Lo => self.opened_on_floor.unwrap_or(0),
                };
                let lasts = touch.clock.since(full) < period.saturating_add(period);
                let left = if lasts { floor } else { 0 };
                self.within(touch, period.saturating_add(period)).saturating_add(left)
            }
            (
                Algorithm::SlidingLog { .. }
                | Algorithm::FixedWindow { .. }
                | Algorithm::SlidingCounter
                | Algorithm::Calendar { .. }
                | Algorithm::Concurrency { .. },
                _,
            ) => 0,
        }
    }

    /// The most that may be in use.
    fn used(&mut self, touch: &Touch, key: &Fingerprint) -> u64 {
        let Some(rate) = touch.shape.rate else { return 0 };
        let period = rate.period();
        match touch.shape.algorithm {
            Algorithm::TokenBucket { .. } => {
                self.drain(touch);
                u64::try_from(self.level.div_ceil(u128::from(period.as_nanos()))).unwrap_or(u64::MAX)
            }
            Algorithm::SlidingLog { .. } | Algorithm::FixedWindow { align: Align::First } => self.within(touch, period),
            Algorithm::SlidingCounter => self.within(touch, period.saturating_add(period)),
            Algorithm::FixedWindow { align } => {
                let shift = if align == Align::Hashed { shift(key, period.as_nanos()) } else { 0 };
                let Some(now) = touch.wall else { return u64::MAX };
                let window = |wall: WallTime| index(wall, shift, period.as_nanos());
                let same = |entry: &&Entry| entry.wall.is_none_or(|wall| window(wall) == window(now));
                self.entries.iter().filter(same).map(|entry| entry.cost).sum()
            }
            Algorithm::Calendar { .. } | Algorithm::Concurrency { .. } => u64::MAX,
        }
    }

    fn has_debts(&self) -> bool {
        self.entries.iter().any(|entry| entry.charge.is_none())
    }

    fn within(&self, touch: &Touch, span: Span) -> u64 {
        let counts = |entry: &&Entry| touch.clock.since(entry.clock) < span;
        self.entries.iter().rev().take_while(counts).map(|entry| entry.cost).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::super::telling::{Telling, shape};
    use super::*;
    use crate::world::trace::{Decided, Decision, Event};

    fn refused(telling: &mut Telling, millis: u64, node: u8, epoch: u64, recovering: bool) {
        let decided = telling.at(millis).decide(node, epoch, 1, false);
        if let Some(Event::Decided(decided)) = telling.trace.last_mut().map(|entry| &mut entry.event) {
            decided.recovering = recovering;
        }
        telling.told(&decided, 1);
    }

    fn owner_of(algorithm: Algorithm) -> Telling {
        let mut telling = Telling::new();
        telling.shape = shape(3, algorithm);
        telling.at(100).reign(0, 1);
        telling
    }

    const LOG: Algorithm = Algorithm::SlidingLog { max_entries: 9 };
    const BUCKET: Algorithm = Algorithm::TokenBucket { burst: 3 };

    #[test]
    fn a_denial_of_what_is_used_up_is_right_and_one_unit_below_it_is_not() {
        for algorithm in [LOG, BUCKET, Algorithm::FixedWindow { align: Align::Epoch }, Algorithm::SlidingCounter] {
            for (units, kept) in [(3, true), (2, false)] {
                let mut telling = owner_of(algorithm);
                (0..units).for_each(|_| drop(telling.at(200).ask(0, 1, 1, true)));
                refused(&mut telling, 210, 0, 1, false);
                assert_eq!(telling.judged(judge).is_ok(), kept, "{algorithm:?} {units}");
            }
        }
    }

    #[test]
    fn what_has_come_back_explains_no_denial() {
        for (algorithm, at, kept) in
            [(LOG, 1_199, true), (LOG, 1_200, false), (BUCKET, 533, true), (BUCKET, 534, false)]
        {
            let mut telling = owner_of(algorithm);
            (0..3).for_each(|_| drop(telling.at(200).ask(0, 1, 1, true)));
            refused(&mut telling, at, 0, 1, false);
            assert_eq!(telling.judged(judge).is_ok(), kept, "{algorithm:?} {at}");
        }
    }

    #[test]
    fn a_charge_that_was_taken_back_explains_no_denial() {
        let mut telling = owner_of(LOG);
        (0..3).for_each(|_| drop(telling.at(200).ask(0, 1, 1, true)));
        let Some(Event::Told(told)) = telling.trace.last().map(|entry| entry.event.clone()) else { panic!() };
        let (partition, epoch) = (super::super::telling::P, ownership::Epoch(1));
        telling.at(210).tell(Event::Undone { node: 0, partition, epoch, id: told.id, asker: ownership::Asker(1) });
        refused(&mut telling, 220, 0, 1, false);
        assert!(telling.judged(judge).unwrap_err().words.contains("2 of 3"));
    }

    #[test]
    fn a_takeover_explains_denials_for_a_window_and_is_named() {
        for (at, recovering, kept) in
            [(300, true, true), (1_299, true, true), (1_300, true, false), (300, false, false)]
        {
            let mut telling = owner_of(LOG);
            telling.at(300).reign(1, 2);
            refused(&mut telling, at, 1, 2, recovering);
            assert_eq!(telling.judged(judge).is_ok(), kept, "{at} {recovering}");
        }
    }

    #[test]
    fn a_takeover_explains_no_denial_of_what_has_flowed_into_a_bucket_since() {
        for (at, kept) in [(633, true), (634, false)] {
            let mut telling = owner_of(BUCKET);
            telling.at(300).reign(1, 2);
            refused(&mut telling, at, 1, 2, true);
            assert_eq!(telling.judged(judge).is_ok(), kept, "{at}");
        }
    }

    /// Three a second: whoever asks for more finds a bucket that was taken over empty still empty after a second.
    #[test]
    fn a_bucket_that_was_taken_over_empty_stays_so_while_it_is_asked_for_more() {
        for (spent_at, kept) in [(&[700, 1_050, 1_400][..], true), (&[1_050][..], false)] {
            let mut telling = owner_of(BUCKET);
            telling.at(300).reign(1, 2);
            spent_at.iter().for_each(|millis| drop(telling.at(*millis).ask(1, 2, 1, true)));
            refused(&mut telling, 1_401, 1, 2, false);
            let judged = telling.judged(judge);
            assert_eq!(judged.is_ok(), kept, "{spent_at:?}: {judged:?}");
        }
    }

    #[test]
    fn a_takeover_may_be_told_as_use_where_a_debt_was_booked_since() {
        for (booked, kept) in [(true, true), (false, false)] {
            let mut telling = owner_of(LOG);
            telling.at(300).reign(1, 2);
            let owed = telling.at(310).decide(1, 2, 1, true);
            telling.trace.pop();
            if booked {
                let Decided { partition, epoch, id, asker, clock, wall, legs, .. } = owed;
                telling.tell(Event::Booked { node: 1, partition, epoch, id, asker, clock, wall, legs });
            }
            refused(&mut telling, 320, 1, 2, false);
            assert_eq!(telling.judged(judge).is_ok(), kept, "{booked}");
        }
    }

    #[test]
    fn what_a_takeover_left_stays_on_a_counter_that_comes_to_fail_open() {
        for (opened_under, at, kept) in [(Basis::Hi, 2_299, true), (Basis::Hi, 2_300, false), (Basis::Lo, 2_200, false)]
        {
            let mut telling = owner_of(Algorithm::SlidingCounter);
            telling.shape.basis = opened_under;
            telling.at(300).reign(1, 2);
            telling.at(1_900).ask(1, 2, 1, true);
            telling.shape.basis = Basis::Lo;
            refused(&mut telling, at, 1, 2, false);
            assert_eq!(telling.judged(judge).is_ok(), kept, "{opened_under:?} {at}");
        }
    }

    #[test]
    fn a_first_owner_has_nothing_to_recover_from() {
        let mut telling = owner_of(LOG);
        refused(&mut telling, 200, 0, 1, true);
        assert!(telling.judged(judge).unwrap_err().words.contains("none can be"));
    }

    #[test]
    fn what_a_caller_is_told_follows_from_what_the_limits_said() {
        let mut telling = owner_of(LOG);
        let decided = telling.at(200).decide(0, 1, 1, true);
        telling.tell_caller(&decided, 1, Some(Decision { allowed: false, legs: Vec::new() }));
        assert!(telling.judged(judge).unwrap_err().words.contains("said otherwise"));
    }
}
