//! The rules of whoever asks. An ingress forwards a check once, to the owner; it asks again only where nothing was spent
//! or under the same id; it acts on no answer that is too old or from an epoch that is over; and when its caller's time
//! is up, each limit's failure mode answers, and the owner is told what became of the question.

mod asking;
mod breaker;
mod combine;
mod conclude;
mod denials;
mod earlier;

pub use asking::{ATTEMPTS_MAX, Asking, Delivery, Outcome, POLICY_PAUSE, Patience, Step, WhyFailed};
pub use breaker::{Breaker, FAILURES, LINGER, MEMORY, PAUSE_MAX, PAUSE_MIN, PROBE, Pass, SILENCE};
pub use combine::{After, Combined, LegResult, Said, after, after_grant, combine};
pub use conclude::{AskedLeg, Came, Conclusion, conclude};
pub use denials::{DENIALS_MAX, Denials, Heard};
pub use earlier::{Found, found};
