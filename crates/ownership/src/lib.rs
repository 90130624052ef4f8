//! Who may decide for a partition, and until when: sessions, leases, epochs, floors, records, and the ingress's rules of
//! asking. State machines only: time comes in, effects go out, and no socket or clock is known here.

mod bug;
mod check;
pub mod cluster_time;
mod emergency;
mod floor;
pub mod ingress;
pub mod kept;
pub mod lease;
mod partition;
mod records;
mod refunds;
mod route;
mod session;
mod strip;

pub use bug::Bug;
pub use check::{Act, Answer, Asker, Check, CheckId, CheckLeg, MAX_LEGS, Unknown, Verdict};
pub use emergency::{DIVISORS_MAX, EMERGENCY_KEYS_MAX, Emergency, EmergencyAnswer, EmergencyLeg, SHARES_MAX};
pub use floor::Floor;
pub use partition::{
    Cancelled, DENIAL_CERTAIN_MAX, Found, LeaseBound, Partition, RENEWED_EVERY, Recovered, WORD_AWAITED_FOR, Write,
};
pub use records::{CHARGED_RECORDS_MAX, FREE_RECORDS_MAX, RECORD_HORIZON};
pub use refunds::{REFUND_HORIZON, REFUNDS_MAX};
pub use route::{Owner, Route, Routes};
pub use session::{Epoch, SessionId};
