//! Who may decide for a partition, and until when: sessions, leases, epochs, floors, records, and the ingress's rules of
//! asking. State machines only: time comes in, effects go out, and no socket or clock is known here.

mod session;

pub use session::{Epoch, SessionId};
