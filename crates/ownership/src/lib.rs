//! Who may decide for a partition, and until when: sessions, leases, epochs, floors, records, and the ingress's rules of
//! asking. State machines only: time comes in, effects go out, and no socket or clock is known here.

mod check;
pub mod cluster_time;
pub mod lease;
mod route;
mod session;

pub use check::{Answer, Check, CheckId, CheckLeg, MAX_LEGS, Unknown, Verdict};
pub use route::{Owner, Route, Routes};
pub use session::{Epoch, SessionId};
