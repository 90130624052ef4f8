//! The slow exact twin of one key: every admission it made, in order, and the definitions of the algorithms applied to
//! all of them each time. Fractions of a unit are exact, in parts of `1 / period`.

use std::ops::RangeInclusive;

use limits::{Algorithm, Align, Basis, CalendarId, Fingerprint, Now, Rate, Shape, Span, WallTime};

use crate::irregular;

#[derive(Clone, Copy, Debug)]
pub struct Admission {
    pub at: Now,
    pub cost: u64,
}

#[derive(Clone, Debug)]
pub struct Twin {
    pub shape: Shape,
    pub key: Fingerprint,
    pub admissions: Vec<Admission>,
    /// Where the cells of a sliding counter begin: at the first admission, and at every one of which no cell counts.
    anchor: u64,
}

impl Twin {
    pub fn new(shape: Shape, key: Fingerprint) -> Twin {
        Twin::of(shape, key, Vec::new())
    }

    /// A twin that has admitted all this.
    pub fn of(shape: Shape, key: Fingerprint, admissions: Vec<Admission>) -> Twin {
        Twin { shape, key, admissions, anchor: 0 }
    }

    pub fn rate(&self) -> Rate {
        self.shape.rate.unwrap()
    }

    pub fn admits(&self, cost: u64, now: Now) -> bool {
        cost == 0 || self.used(now) + u128::from(cost) * self.period() <= self.full()
    }

    /// Admits and remembers, or refuses.
    pub fn ask(&mut self, cost: u64, now: Now) -> bool {
        let admits = self.admits(cost, now);
        if admits && cost > 0 {
            self.admit(cost, now);
        }
        admits
    }

    pub fn admit(&mut self, cost: u64, now: Now) {
        if self.shape.algorithm == Algorithm::SlidingCounter && self.used(now) == 0 {
            self.anchor = now.moment.as_nanos();
        }
        self.admissions.push(Admission { at: now, cost });
    }

    /// Whole units available.
    pub fn remaining(&self, now: Now) -> u64 {
        (self.full().saturating_sub(self.used(now)) / self.period()) as u64
    }

    /// Whether the key stands as if nobody had ever asked.
    pub fn is_fresh(&self, now: Now) -> bool {
        match self.shape.algorithm {
            // A window that is not asked yet may hold something already.
            Algorithm::Calendar { calendar } => {
                let first = *self.reach(calendar, now).start();
                self.admissions.iter().all(|admission| *self.reach(calendar, admission.at).end() < first)
            }
            Algorithm::TokenBucket { .. }
            | Algorithm::SlidingLog { .. }
            | Algorithm::FixedWindow { .. }
            | Algorithm::SlidingCounter
            | Algorithm::Concurrency { .. } => self.used(now) == 0,
        }
    }

    /// Tokens in a bucket, in parts of `1 / period`: full at first, refilled continuously, never above `burst`.
    pub fn tokens(&self, now: Now) -> u128 {
        let full = self.full();
        let refill = |tokens: u128, from: u64, to: u64| {
            full.min(tokens + u128::from(to - from) * u128::from(self.rate().amount()))
        };
        let (mut tokens, mut since) = (full, 0);
        for admission in &self.admissions {
            let at = admission.at.moment.as_nanos();
            tokens = refill(tokens, since, at) - u128::from(admission.cost) * self.period();
            since = at;
        }
        refill(tokens, since, now.moment.as_nanos())
    }

    /// What is used, in parts of `1 / period`.
    fn used(&self, now: Now) -> u128 {
        match self.shape.algorithm {
            Algorithm::TokenBucket { .. } => self.full() - self.tokens(now),
            Algorithm::SlidingCounter => self.in_cells(now),
            Algorithm::SlidingLog { .. } | Algorithm::Concurrency { .. } => {
                let counts = |at: Now| self.period() > u128::from(now.moment.as_nanos() - at.moment.as_nanos());
                self.sum(|admission| counts(admission.at)) * self.period()
            }
            Algorithm::FixedWindow { align: Align::First } => {
                let (mut end, mut used) = (0, 0);
                for admission in &self.admissions {
                    let at = u128::from(admission.at.moment.as_nanos());
                    if at >= end {
                        (end, used) = (at + self.period(), 0);
                    }
                    used += u128::from(admission.cost);
                }
                if u128::from(now.moment.as_nanos()) < end { used * self.period() } else { 0 }
            }
            Algorithm::FixedWindow { align: Align::Epoch | Align::Hashed } => {
                let index = self.window_index(now);
                self.sum(|admission| self.window_index(admission.at) == index) * self.period()
            }
            Algorithm::Calendar { calendar } => {
                let in_window = |index: u64| self.sum(|admission| self.reach(calendar, admission.at).contains(&index));
                self.reach(calendar, now).map(in_window).max().unwrap() * self.period()
            }
        }
    }

    /// The cell that `now` lies in whole, and of the one before the part that a window ending now still covers.
    fn in_cells(&self, now: Now) -> u128 {
        let since = |at: Now| u128::from(at.moment.as_nanos().saturating_sub(self.anchor));
        let cell = |at: Now| since(at) / self.period();
        let known = |admission: &Admission| admission.at.moment.as_nanos() >= self.anchor;
        let later = self.sum(|admission| known(admission) && cell(admission.at) == cell(now));
        let earlier = self.sum(|admission| known(admission) && cell(admission.at) + 1 == cell(now));
        later * self.period() + earlier * (self.period() - since(now) % self.period())
    }

    /// The number of the aligned window that `now` lies in.
    pub fn window_index(&self, now: Now) -> u128 {
        let shift = match self.shape.algorithm {
            Algorithm::Calendar { calendar } => {
                return u128::from(irregular::window(calendar, now.wall.unwrap()).index);
            }
            Algorithm::FixedWindow { align: Align::Hashed } => (u128::from(self.key.0[1]) * self.period()) >> 64,
            Algorithm::FixedWindow { .. }
            | Algorithm::TokenBucket { .. }
            | Algorithm::SlidingLog { .. }
            | Algorithm::SlidingCounter
            | Algorithm::Concurrency { .. } => 0,
        };
        (u128::from(now.wall.unwrap().as_unix_nanos()) + shift) / self.period()
    }

    /// The windows of a calendar that an instant may lie in by anybody's clock: they differ by up to 100 ms.
    fn reach(&self, calendar: CalendarId, now: Now) -> RangeInclusive<u64> {
        let (wall, apart) = (now.wall.unwrap(), Span::from_millis(100));
        let index = |at: WallTime| irregular::window(calendar, at).index;
        match self.shape.basis {
            Basis::Lo => index(wall)..=index(wall),
            Basis::Hi => index(wall.saturating_sub(apart))..=index(wall.saturating_add(apart)),
        }
    }

    fn sum(&self, counts: impl Fn(&Admission) -> bool) -> u128 {
        self.admissions.iter().filter(|admission| counts(admission)).map(|admission| u128::from(admission.cost)).sum()
    }

    fn full(&self) -> u128 {
        u128::from(self.shape.capacity().unwrap()) * self.period()
    }

    fn period(&self) -> u128 {
        u128::from(self.rate().period().as_nanos())
    }
}

/// Brute force over every interval between two admissions: what a limit promises in *any* window. Aligned windows are
/// checked one by one, and any stretch of a period holds at most twice the amount.
pub fn assert_never_over(twin: &Twin, admissions: &[Admission]) {
    assert_eq!(over(twin, admissions), None, "{:?}", twin.shape);
}

/// Which window holds more than is promised, in words, if one does.
pub fn over(twin: &Twin, admissions: &[Admission]) -> Option<String> {
    let (amount, period) = (u128::from(twin.rate().amount()), u128::from(twin.rate().period().as_nanos()));
    for (first, from) in admissions.iter().enumerate() {
        let mut sum = 0;
        for to in &admissions[first..] {
            sum += u128::from(to.cost);
            let length = u128::from(to.at.moment.as_nanos() - from.at.moment.as_nanos());
            let in_one_window = || twin.window_index(from.at) == twin.window_index(to.at);
            let most = match twin.shape.algorithm {
                Algorithm::TokenBucket { burst } => u128::from(burst) + length * amount / period,
                Algorithm::SlidingLog { .. } | Algorithm::Concurrency { .. } if length < period => amount,
                Algorithm::FixedWindow { align: Align::Epoch | Align::Hashed } if in_one_window() => amount,
                Algorithm::Calendar { .. } if in_one_window() => amount,
                Algorithm::FixedWindow { .. } if length < period => 2 * amount,
                Algorithm::SlidingCounter if length < period => 2 * amount - amount.div_ceil(period),
                Algorithm::SlidingLog { .. }
                | Algorithm::FixedWindow { .. }
                | Algorithm::SlidingCounter
                | Algorithm::Calendar { .. }
                | Algorithm::Concurrency { .. } => continue,
            };
            if sum > most {
                return Some(format!("{sum} units within {length} ns, at most {most}"));
            }
        }
    }
    None
}
