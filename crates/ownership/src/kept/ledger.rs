//! What one partition may still spend by what is kept of it, key by key. A unit may be spent only if every record that a
//! successor could come to read allows for it: the one that was acknowledged last, and each that was sent after it and may
//! have arrived. One write is under way at a time.
//!
//! A key that is not in here goes by the implicit part alone ([`implicit`](crate::kept::implicit)): a successor reads so much
//! as used of every key, whatever it finds.

use std::collections::{BTreeMap, VecDeque};

use limits::{Fingerprint, LimitId, Moment, Span, Variant};

use crate::kept::rules::{RAISED_BEFORE, RAISED_FOR};

/// Keys that one write carries at most; a rewrite carries all.
pub const KEYS_PER_WRITE: usize = 256;

/// The shortest time over which demand is told: two spent one right after the other are no burst.
const DEMAND_OVER: Span = Span::from_millis(100);

/// A key that nobody spent of for so long is written once more if its last write allowed for more than the least that one does.
pub const LOWERED_AFTER: Span = Span::from_secs(1);

/// A key that nobody spent of for so long goes by the implicit part again.
pub const IDLE_AFTER: Span = Span::from_secs(10);

/// After so many keys were added to a record it is written anew, if it has more than doubled: what carries no information
/// any more goes.
const ADDED_MIN: usize = 64;

/// In whose favour the store has a record of the partition.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Header {
    /// Not in ours: a successor reads the worst case.
    #[default]
    Other,
    /// In ours, but nothing is said by it: a successor reads the worst case. It holds what was found.
    Claimed,
    /// It has one in ours that is not obeyed any more.
    Stale,
    /// A record was sent that may have arrived, and none has been acknowledged since.
    Doubtful,
    /// A record was acknowledged. A successor reads it, unless the log says that this session's records do not count.
    Ours,
}

/// The books of one partition.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ledger {
    pub(crate) header: Header,
    /// Whether records count: the log says so, or may come to.
    bound: bool,
    /// The number of the last write: the store takes none with this number or a lower one after it, or after a claim that
    /// names it.
    seq: u64,
    flight: Option<Flight>,
    busy: BTreeMap<Fingerprint, Busy>,
    /// Keys that are to be written, each once.
    wanted: VecDeque<Fingerprint>,
    /// All busy keys, for looking at a few now and then.
    round: VecDeque<Fingerprint>,
    /// The record is to be written anew, whatever was written before.
    anew: bool,
    /// Since when there is something to write that is in no write under way.
    due: Option<Moment>,
    /// Keys in the record after it was last written anew, and added since.
    written: usize,
    added: usize,
    /// When the record was last written anew.
    pub(crate) renewed: Moment,
    /// When the record that was acknowledged last was made, as a whole.
    whole_since: Option<Moment>,
}

/// A write under way.
#[derive(Clone, Debug)]
struct Flight {
    seq: u64,
    since: Moment,
    /// Since when what it carries was to be written.
    due: Moment,
    anew: bool,
    keys: Vec<Fingerprint>,
}

/// A key that more than the implicit part was spent of, or nearly so much.
#[derive(Clone, Debug)]
pub(crate) struct Busy {
    pub(crate) limit: LimitId,
    pub(crate) variant: Variant,
    /// What the acknowledged record still allows; `None` where there is none that counts.
    acknowledged: Option<u64>,
    /// The least that any record still allows that may have arrived.
    doubtful: Option<u64>,
    /// What the write under way allows.
    under_way: Option<u64>,
    is_wanted: bool,
    is_recorded: bool,
    /// The least that a write allows of it.
    least: u64,
    /// What the check needs that waits for the next write, or asked for it.
    needed: u64,
    /// What was spent since the last write was made, and when that was.
    spent: u64,
    since: Moment,
    last_spent: Moment,
}

/// What came of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Written {
    /// It is in the store.
    Done,
    /// The store holds no record in this reign's name, or one of a later reign; nothing was written.
    Lost,
    /// Nobody can tell whether it arrived, or will.
    Unknown,
    /// It was not sent, and will not be.
    NotSent,
}

impl Ledger {
    /// Whether what is kept binds this owner at all.
    pub(crate) fn binds(&self) -> bool {
        self.bound && matches!(self.header, Header::Doubtful | Header::Ours)
    }

    pub(crate) fn is_bound(&self) -> bool {
        self.bound
    }

    /// The store holds the partition in this reign's name, and nothing is said by it. A claim that is repeated after a record
    /// was written changes nothing.
    pub(crate) fn claim(&mut self) {
        if self.header == Header::Other {
            self.header = Header::Claimed;
        }
    }

    /// The store holds the partition for another: the books are closed. Numbers go on.
    pub(crate) fn lose(&mut self) {
        *self = Ledger { seq: self.seq, ..Ledger::default() };
    }

    /// The number of the last write.
    pub(crate) fn last_number(&self) -> u64 {
        self.seq
    }

    /// Whatever was written is gone.
    pub(crate) fn begin_anew(&mut self) {
        self.anew = true;
    }

    /// From now on records count, or may come to: whatever is in the store is written anew first.
    pub(crate) fn bind(&mut self) {
        self.bound = true;
        self.anew = true;
    }

    /// Records do not count any more: memory alone decides.
    pub(crate) fn free(&mut self) {
        let seq = self.seq;
        let header = match self.header {
            Header::Doubtful | Header::Ours | Header::Stale => Header::Stale,
            Header::Other | Header::Claimed => self.header,
        };
        *self = Ledger { header, seq, ..Ledger::default() };
    }

    /// Whether no record is in the store that says less than the truth: the one that is there is obeyed, or there is none.
    pub(crate) fn is_settled(&self) -> bool {
        match self.header {
            Header::Other | Header::Claimed => !self.bound,
            Header::Stale | Header::Doubtful => false,
            Header::Ours => self.bound && !self.anew && !self.flight.as_ref().is_some_and(|flight| flight.anew),
        }
    }

    /// Whether there is something to write, and nothing under way.
    pub(crate) fn wants_write(&self) -> bool {
        self.bound && self.flight.is_none() && (self.header != Header::Ours || self.anew || !self.wanted.is_empty())
    }

    /// Since when there is something to write that is not known to be in the store.
    pub(crate) fn unwritten_since(&self) -> Option<Moment> {
        self.due.into_iter().chain(self.flight.as_ref().map(|flight| flight.due)).min()
    }

    /// When the record was made, as a whole, that a successor would find; `None` where it would find no key in one.
    pub(crate) fn whole_since(&self) -> Option<Moment> {
        self.whole_since.filter(|_| self.header == Header::Ours && self.written + self.added > 0)
    }

    /// When the write under way was made.
    pub(crate) fn under_way_since(&self) -> Option<Moment> {
        self.flight.as_ref().map(|flight| flight.since)
    }

    /// Whether every record allows for `units` more of a key; `None` for one that goes by the implicit part.
    pub(crate) fn allows(&self, key: &Fingerprint, units: u64) -> Option<bool> {
        let busy = self.busy.get(key)?;
        let all = [busy.acknowledged, busy.doubtful, busy.under_way];
        Some(all.into_iter().flatten().all(|left| units <= left))
    }

    /// Takes note of what was spent of a key; false for one that goes by the implicit part.
    pub(crate) fn spent(&mut self, key: &Fingerprint, of: (LimitId, Variant), units: u64, now: Moment) -> bool {
        let Some(busy) = self.busy.get_mut(key) else { return false };
        for left in [&mut busy.acknowledged, &mut busy.doubtful, &mut busy.under_way].into_iter().flatten() {
            *left = left.saturating_sub(units);
        }
        busy.spent = busy.spent.saturating_add(units);
        busy.last_spent = now;
        // Where a write is under way, the next is due by what that one allows.
        let left = busy.under_way.unwrap_or_else(|| busy.least_left());
        let runs_out = left <= units.max(busy.demand(now, RAISED_BEFORE));
        if runs_out || busy.is_generous(now) {
            self.want(*key, Some(of), 0, now);
        }
        true
    }

    /// A key leaves the implicit part, of which so much is left.
    pub(crate) fn open(&mut self, key: Fingerprint, (limit, variant): (LimitId, Variant), left: u64, now: Moment) {
        let (acknowledged, doubtful) = match self.header {
            Header::Other | Header::Claimed | Header::Stale => (None, None),
            Header::Doubtful => (None, Some(left)),
            Header::Ours => (Some(left), None),
        };
        let busy = Busy {
            limit,
            variant,
            acknowledged,
            doubtful,
            under_way: None,
            is_wanted: false,
            is_recorded: false,
            least: u64::MAX,
            needed: 0,
            spent: 0,
            since: now,
            last_spent: now,
        };
        if self.busy.insert(key, busy).is_none() {
            self.round.push_back(key);
        }
    }

    /// A key is to be written soon: by these numbers of its limit, if it was decided by some since; `needed` is what a check
    /// waits for.
    pub(crate) fn want(&mut self, key: Fingerprint, of: Option<(LimitId, Variant)>, needed: u64, now: Moment) {
        let Some(busy) = self.busy.get_mut(&key) else { return };
        (busy.limit, busy.variant) = of.unwrap_or((busy.limit, busy.variant));
        busy.needed = busy.needed.max(needed);
        if !busy.is_wanted {
            busy.is_wanted = true;
            self.wanted.push_back(key);
            self.due.get_or_insert(now);
        }
    }

    /// Whether the next write is of everything.
    pub(crate) fn writes_anew(&self) -> bool {
        match self.header {
            Header::Other | Header::Claimed | Header::Stale | Header::Doubtful => true,
            Header::Ours => self.anew || self.added > self.written.max(ADDED_MIN),
        }
    }

    /// The keys of the next write, as far as they are asked for: at most [`KEYS_PER_WRITE`] unless it is of everything.
    pub(crate) fn take_wanted(&mut self, all: bool) -> Vec<(Fingerprint, Busy)> {
        let count = if all { self.wanted.len() } else { self.wanted.len().min(KEYS_PER_WRITE) };
        let keys: Vec<_> = self.wanted.drain(..count).collect();
        let mut taken = Vec::with_capacity(keys.len());
        for key in keys {
            if let Some(busy) = self.busy.get_mut(&key) {
                busy.is_wanted = false;
                taken.push((key, busy.clone()));
            }
        }
        taken
    }

    /// A key of that write allows so much, of which the least that any allows is the second number; one that was not busy is
    /// from now on.
    pub(crate) fn write_key(
        &mut self,
        key: Fingerprint,
        of: (LimitId, Variant),
        (allows, least): (u64, u64),
        now: Moment,
    ) {
        if !self.busy.contains_key(&key) {
            // What it could spend before was the implicit part, of which it has used more than there is.
            self.open(key, of, 0, now);
        }
        let Some(busy) = self.busy.get_mut(&key) else { return };
        (busy.under_way, busy.least) = (Some(allows), least);
        (busy.needed, busy.spent, busy.since) = (0, 0, now);
        self.added += usize::from(!std::mem::replace(&mut busy.is_recorded, true));
    }

    /// The write is made; returns its number.
    pub(crate) fn send(&mut self, keys: Vec<Fingerprint>, anew: bool, now: Moment) -> u64 {
        self.seq += 1;
        if anew {
            // Every other key goes by the implicit part: the record says nothing of it.
            let carried = |key: &Fingerprint| keys.binary_search(key).is_ok();
            self.busy.retain(|key, _| carried(key));
            self.round.retain(carried);
            self.wanted.clear();
            (self.written, self.added, self.renewed) = (keys.len(), 0, now);
        }
        if self.header != Header::Ours {
            self.header = Header::Doubtful;
        }
        self.anew = false;
        let due = self.due.unwrap_or(now);
        // What there was no room for has waited as long.
        self.due = (!self.wanted.is_empty()).then_some(due);
        self.flight = Some(Flight { seq: self.seq, since: now, due, anew, keys });
        self.seq
    }

    /// What came of the write with this number; whether the store has nothing in this reign's name any more. Whatever is heard
    /// of another write is no news.
    pub(crate) fn handle_written(&mut self, seq: u64, written: Written) -> bool {
        let Some(flight) = self.flight.take_if(|flight| flight.seq == seq) else { return false };
        match written {
            Written::Done => self.acknowledged(&flight),
            Written::Unknown => self.in_doubt(&flight),
            Written::NotSent | Written::Lost => self.not_written(&flight, written),
        }
        written == Written::Lost
    }

    fn acknowledged(&mut self, flight: &Flight) {
        let first = self.header != Header::Ours;
        self.header = Header::Ours;
        if flight.anew {
            self.whole_since = Some(flight.since);
        }
        for key in &flight.keys {
            if let Some(busy) = self.busy.get_mut(key) {
                busy.acknowledged = busy.under_way.take();
                busy.doubtful = None;
            }
        }
        if first || flight.anew {
            // Keys that became busy meanwhile had the implicit part of this record, and of any before.
            for busy in self.busy.values_mut().filter(|busy| busy.doubtful.is_some()) {
                busy.acknowledged = busy.doubtful.take();
            }
        }
    }

    fn in_doubt(&mut self, flight: &Flight) {
        for key in &flight.keys {
            let Some(busy) = self.busy.get_mut(key) else { continue };
            busy.doubtful = match (busy.doubtful, busy.under_way.take()) {
                (Some(before), Some(now)) => Some(before.min(now)),
                (before, now) => before.or(now),
            };
            self.want(*key, None, 0, flight.due);
        }
        self.not_done(flight);
    }

    /// As if it had never been made, where it was the only record there may be; a record from before it stands.
    fn not_written(&mut self, flight: &Flight, written: Written) {
        for key in &flight.keys {
            if let Some(busy) = self.busy.get_mut(key) {
                busy.under_way = None;
            }
            self.want(*key, None, 0, flight.due);
        }
        self.not_done(flight);
        if written == Written::Lost {
            self.header = Header::Other;
        }
    }

    /// What it was to write is to be written still.
    fn not_done(&mut self, flight: &Flight) {
        self.anew |= flight.anew;
        self.due = Some(self.due.map_or(flight.due, |due| due.min(flight.due)));
    }

    /// Has the record written anew if that was long ago, and there is anything in it.
    pub(crate) fn renew_every(&mut self, span: Span, now: Moment) {
        let is_due = self.header == Header::Ours && now.since(self.renewed) > span;
        self.anew |= is_due && self.bound && self.written + self.added > 0;
    }

    /// Looks at some busy keys: those that nobody spent of for a while go by the implicit part again.
    pub(crate) fn sweep(&mut self, now: Moment, steps: usize) {
        if self.wants_write() {
            self.due.get_or_insert(now);
        }
        for _ in 0..steps.min(self.round.len()) {
            let Some(key) = self.round.pop_front() else { return };
            let Some(busy) = self.busy.get(&key) else { continue };
            let idle_for = now.since(busy.last_spent);
            if idle_for > LOWERED_AFTER && busy.acknowledged.is_some_and(|left| left > busy.least) {
                self.want(key, None, 0, now);
                self.round.push_back(key);
            } else if idle_for > IDLE_AFTER && !busy.is_wanted && busy.under_way.is_none() && busy.doubtful.is_none() {
                self.busy.remove(&key);
            } else {
                self.round.push_back(key);
            }
        }
    }
}

impl Busy {
    fn least_left(&self) -> u64 {
        let all = [self.acknowledged, self.doubtful, self.under_way];
        all.into_iter().flatten().min().unwrap_or(u64::MAX)
    }

    /// Whether the last write allows for far more than is asked for by now: a successor would read all of it as used.
    fn is_generous(&self, now: Moment) -> bool {
        let enough = self.least.max(self.demand(now, RAISED_FOR)).saturating_mul(2);
        now.since(self.since) > LOWERED_AFTER && self.acknowledged.is_some_and(|left| left > enough)
    }

    /// What is asked for in a span, by what was since the last write.
    fn demand(&self, now: Moment, span: Span) -> u64 {
        let elapsed = now.since(self.since).max(DEMAND_OVER).as_nanos();
        let units = u128::from(self.spent) * u128::from(span.as_nanos()) / u128::from(elapsed);
        u64::try_from(units).unwrap_or(u64::MAX)
    }

    /// What the next write should allow for, by what was asked for, and what it has to.
    pub(crate) fn wants(&self, now: Moment) -> (u64, u64) {
        (self.demand(now, RAISED_FOR), self.needed)
    }
}
