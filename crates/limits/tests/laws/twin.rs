//! The slow exact twin of one key: every admission it made, in order, and the definitions of the algorithms applied to
//! all of them each time. Fractions of a unit are exact, in parts of `1 / period`.

use limits::{Algorithm, Align, Fingerprint, Now, Rate, Shape};

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
}

impl Twin {
    pub fn new(shape: Shape, key: Fingerprint) -> Twin {
        Twin { shape, key, admissions: Vec::new() }
    }

    pub fn rate(&self) -> Rate {
        self.shape.rate.unwrap()
    }

    pub fn admits(&self, cost: u64, now: Now) -> bool {
        cost == 0 || self.fits(cost, now)
    }

    /// Admits and remembers, or refuses.
    pub fn ask(&mut self, cost: u64, now: Now) -> bool {
        let admits = self.admits(cost, now);
        if admits && cost > 0 {
            self.admissions.push(Admission { at: now, cost });
        }
        admits
    }

    /// Whole units available.
    pub fn remaining(&self, now: Now) -> u64 {
        match self.shape.algorithm {
            Algorithm::TokenBucket { .. } => (self.tokens(now) / self.period()) as u64,
            Algorithm::SlidingLog { .. } | Algorithm::FixedWindow { .. } => {
                (u128::from(self.rate().amount()) - self.used(now)) as u64
            }
        }
    }

    /// Whether the key stands as if nobody had ever asked.
    pub fn is_fresh(&self, now: Now) -> bool {
        match self.shape.algorithm {
            Algorithm::TokenBucket { burst } => self.tokens(now) == u128::from(burst) * self.period(),
            Algorithm::SlidingLog { .. } | Algorithm::FixedWindow { .. } => self.used(now) == 0,
        }
    }

    fn fits(&self, cost: u64, now: Now) -> bool {
        match self.shape.algorithm {
            Algorithm::TokenBucket { .. } => self.tokens(now) >= u128::from(cost) * self.period(),
            Algorithm::SlidingLog { .. } | Algorithm::FixedWindow { .. } => {
                self.used(now) + u128::from(cost) <= u128::from(self.rate().amount())
            }
        }
    }

    /// Tokens in a bucket, in parts of `1 / period`: full at first, refilled continuously, never above `burst`.
    pub fn tokens(&self, now: Now) -> u128 {
        let Algorithm::TokenBucket { burst } = self.shape.algorithm else { panic!("not a bucket") };
        let full = u128::from(burst) * self.period();
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

    /// Units used in the window that `now` lies in or ends.
    fn used(&self, now: Now) -> u128 {
        match self.shape.algorithm {
            Algorithm::SlidingLog { .. } => {
                let counts = |at: Now| self.period() > u128::from(now.moment.as_nanos() - at.moment.as_nanos());
                self.sum(|admission| counts(admission.at))
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
                if u128::from(now.moment.as_nanos()) < end { used } else { 0 }
            }
            Algorithm::FixedWindow { align: Align::Epoch | Align::Hashed } => {
                let index = self.window_index(now);
                self.sum(|admission| self.window_index(admission.at) == index)
            }
            Algorithm::TokenBucket { .. } => panic!("a bucket has tokens"),
        }
    }

    /// The number of the aligned window that `now` lies in.
    pub fn window_index(&self, now: Now) -> u128 {
        let shift = match self.shape.algorithm {
            Algorithm::FixedWindow { align: Align::Hashed } => (u128::from(self.key.0[1]) * self.period()) >> 64,
            Algorithm::FixedWindow { .. } | Algorithm::TokenBucket { .. } | Algorithm::SlidingLog { .. } => 0,
        };
        (u128::from(now.wall.unwrap().as_unix_nanos()) + shift) / self.period()
    }

    fn sum(&self, counts: impl Fn(&Admission) -> bool) -> u128 {
        self.admissions.iter().filter(|admission| counts(admission)).map(|admission| u128::from(admission.cost)).sum()
    }

    fn period(&self) -> u128 {
        u128::from(self.rate().period().as_nanos())
    }
}

/// Brute force over every interval between two admissions: what a limit promises in *any* window. Aligned windows are
/// checked one by one, and any stretch of a period holds at most twice the amount.
pub fn assert_never_over(twin: &Twin, admissions: &[Admission]) {
    let (amount, period) = (u128::from(twin.rate().amount()), u128::from(twin.rate().period().as_nanos()));
    for (first, from) in admissions.iter().enumerate() {
        let mut sum = 0;
        for to in &admissions[first..] {
            sum += u128::from(to.cost);
            let length = u128::from(to.at.moment.as_nanos() - from.at.moment.as_nanos());
            let most = match twin.shape.algorithm {
                Algorithm::TokenBucket { burst } => u128::from(burst) + length * amount / period,
                Algorithm::SlidingLog { .. } if length < period => amount,
                Algorithm::FixedWindow { align: Align::Epoch | Align::Hashed }
                    if twin.window_index(from.at) == twin.window_index(to.at) =>
                {
                    amount
                }
                Algorithm::FixedWindow { .. } if length < period => 2 * amount,
                Algorithm::SlidingLog { .. } | Algorithm::FixedWindow { .. } => continue,
            };
            assert!(sum <= most, "{sum} units within {length} ns, at most {most}: {:?}", twin.shape);
        }
    }
}
