//! Mistakes that an ingress or an owner could make, put into a history on purpose to see that it is found.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bug {
    None,
    /// A refused check leaves what other owners charged for it.
    CancelNotSent,
    /// An owner that granted more than the others is not told.
    TrimNotSent,
    /// What was let pass unseen is booked under two ids.
    DebtBookedTwice,
    /// The legs of another partition are asked for under an id of their own.
    LegUnderAnotherId,
    /// All askers bear one name, so that each takes back what others were told of.
    OneNameForAll,
    /// A new owner reads absent keys as fresh, as if nobody had come before.
    FloorForgotten,
    /// Each ingress gives the whole emergency share.
    EmergencyUndivided,
}
