//! The kinds of faults: one side of the coverage grid. A kind says what breaks and, where it matters, whom it befalls; a
//! fault can be of several kinds at once, as a crash of an owner that is back within a moment is.

use limits::Span;
use ownership::lease::Terms;

use super::{Fault, StoreFault, Who};

/// The longest that a process is down and counts as restarted in place: its lease still lives then.
pub const RESTART_MAX: Span = Span::from_millis(300);

/// What breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FaultKind {
    /// The owner of what is asked next dies.
    CrashOwner,
    /// A successor dies.
    CrashSuccessor,
    /// The node that is asked next dies.
    CrashIngress,
    /// The leader of the log dies.
    CrashLeader,
    /// Some node dies, whatever it does at the time.
    CrashAny,
    /// A process is back before its lease is over.
    Restart,
    /// SIGSTOP.
    Stop,
    /// A machine stands still with its clock.
    Freeze,
    /// A machine is copied as it runs.
    Clone,
    /// A clock runs slowly.
    ClockSlow,
    /// A clock runs fast.
    ClockFast,
    /// A wall clock is set.
    WallStep,
    /// One direction is lost.
    OneWay,
    /// One node is cut off: a minority of one.
    CutOff,
    /// Two sides; one of them may have the majority.
    Split,
    /// Two sides and a node between them.
    Bridge,
    /// Messages get lost.
    Loss,
    /// Messages arrive twice.
    Doubled,
    /// Messages are late and overtake each other.
    Overtaken,
    /// A disk is stuck.
    SlowDisk,
    /// Work piles up.
    Overload,
    /// Gossip is wrong about a node.
    Suspect,
    /// An operator applies a policy.
    Policy,
    /// A planned exit.
    Leave,
    /// An operator changes how long leases last.
    Ttl,
    /// The store dies and starts anew.
    StoreDown,
    /// The store takes its time.
    StoreSlow,
    /// A replica that was behind takes the store's place; the old one may have it back.
    StoreFailover,
    /// Somebody empties the store.
    StoreFlushed,
    /// A node and the store hear nothing of each other.
    StoreCut,
}

impl FaultKind {
    /// All of them, in the order of the grid.
    pub const ALL: &[FaultKind] = &[
        FaultKind::CrashOwner,
        FaultKind::CrashSuccessor,
        FaultKind::CrashIngress,
        FaultKind::CrashLeader,
        FaultKind::CrashAny,
        FaultKind::Restart,
        FaultKind::Stop,
        FaultKind::Freeze,
        FaultKind::Clone,
        FaultKind::ClockSlow,
        FaultKind::ClockFast,
        FaultKind::WallStep,
        FaultKind::OneWay,
        FaultKind::CutOff,
        FaultKind::Split,
        FaultKind::Bridge,
        FaultKind::Loss,
        FaultKind::Doubled,
        FaultKind::Overtaken,
        FaultKind::SlowDisk,
        FaultKind::Overload,
        FaultKind::Suspect,
        FaultKind::Policy,
        FaultKind::Leave,
        FaultKind::Ttl,
        FaultKind::StoreDown,
        FaultKind::StoreSlow,
        FaultKind::StoreFailover,
        FaultKind::StoreFlushed,
        FaultKind::StoreCut,
    ];

    /// Those of the store: they befall stories that have one.
    pub const OF_STORE: &[FaultKind] = &[
        FaultKind::StoreDown,
        FaultKind::StoreSlow,
        FaultKind::StoreFailover,
        FaultKind::StoreFlushed,
        FaultKind::StoreCut,
    ];

    /// Of parts that are not built: named in the grid, never counted.
    pub const ABSENT: &[&str] = &["move aborted", "escrow holder crash"];

    /// The words in the grid.
    pub const fn as_str(self) -> &'static str {
        match self {
            FaultKind::CrashOwner => "crash: owner",
            FaultKind::CrashSuccessor => "crash: successor",
            FaultKind::CrashIngress => "crash: ingress",
            FaultKind::CrashLeader => "crash: leader",
            FaultKind::CrashAny => "crash: any node",
            FaultKind::Restart => "restart in place",
            FaultKind::Stop => "process stopped",
            FaultKind::Freeze => "machine frozen",
            FaultKind::Clone => "machine cloned",
            FaultKind::ClockSlow => "clock slow",
            FaultKind::ClockFast => "clock fast",
            FaultKind::WallStep => "wall step",
            FaultKind::OneWay => "one direction lost",
            FaultKind::CutOff => "one node cut off",
            FaultKind::Split => "split in two",
            FaultKind::Bridge => "split with a bridge",
            FaultKind::Loss => "messages lost",
            FaultKind::Doubled => "messages doubled",
            FaultKind::Overtaken => "messages overtaken",
            FaultKind::SlowDisk => "disk stuck",
            FaultKind::Overload => "overload",
            FaultKind::Suspect => "false suspicion",
            FaultKind::Policy => "policy applied",
            FaultKind::Leave => "planned exit",
            FaultKind::Ttl => "ttl changed",
            FaultKind::StoreDown => "store down",
            FaultKind::StoreSlow => "store slow",
            FaultKind::StoreFailover => "store fails over with loss",
            FaultKind::StoreFlushed => "store flushed",
            FaultKind::StoreCut => "store cut off",
        }
    }
}

impl Fault {
    /// Hands every kind that it is of to `see`.
    pub fn kinds(&self, mut see: impl FnMut(FaultKind)) {
        match *self {
            Fault::Crash { who, down } => {
                see(match who {
                    Who::Node(_) => FaultKind::CrashAny,
                    Who::Leader => FaultKind::CrashLeader,
                    Who::Owner => FaultKind::CrashOwner,
                    Who::Successor => FaultKind::CrashSuccessor,
                    Who::Ingress => FaultKind::CrashIngress,
                });
                if down <= RESTART_MAX {
                    see(FaultKind::Restart);
                }
            }
            Fault::Stop { .. } => see(FaultKind::Stop),
            Fault::Freeze { .. } => see(FaultKind::Freeze),
            Fault::Clone { .. } => see(FaultKind::Clone),
            Fault::Rate { ppm, .. } => see(if ppm < 0 { FaultKind::ClockSlow } else { FaultKind::ClockFast }),
            Fault::WallStep { .. } => see(FaultKind::WallStep),
            Fault::OneWay { .. } => see(FaultKind::OneWay),
            Fault::Isolate { .. } => see(FaultKind::CutOff),
            Fault::Split { bridge, .. } => see(if bridge.is_some() { FaultKind::Bridge } else { FaultKind::Split }),
            Fault::Storm { weather, .. } => {
                if weather.lost_per_mille > 0 {
                    see(FaultKind::Loss);
                }
                if weather.doubled_per_mille > 0 {
                    see(FaultKind::Doubled);
                }
                if weather.delay_max > weather.delay_min {
                    see(FaultKind::Overtaken);
                }
            }
            Fault::SlowDisk { .. } => see(FaultKind::SlowDisk),
            Fault::Overload { .. } => see(FaultKind::Overload),
            Fault::Suspect { .. } => see(FaultKind::Suspect),
            Fault::Policy { .. } => see(FaultKind::Policy),
            Fault::Leave { .. } => see(FaultKind::Leave),
            Fault::Ttl { .. } => see(FaultKind::Ttl),
            Fault::Store(fault) => see(match fault {
                StoreFault::Down { .. } => FaultKind::StoreDown,
                StoreFault::Slow { .. } => FaultKind::StoreSlow,
                StoreFault::Failover { .. } => FaultKind::StoreFailover,
                StoreFault::Flushed => FaultKind::StoreFlushed,
                StoreFault::Cut { .. } => FaultKind::StoreCut,
            }),
        }
    }

    /// Whether it is more than leases assume, so that a printed bound holds instead of the strict one.
    pub fn is_beyond(&self, terms: &Terms) -> bool {
        match *self {
            Fault::Freeze { .. } | Fault::Clone { .. } => true,
            Fault::Rate { ppm, .. } => ppm.unsigned_abs() > u32::from(terms.rho_per_mille()) * 1_000,
            Fault::Crash { .. }
            | Fault::Stop { .. }
            | Fault::WallStep { .. }
            | Fault::OneWay { .. }
            | Fault::Isolate { .. }
            | Fault::Split { .. }
            | Fault::Storm { .. }
            | Fault::SlowDisk { .. }
            | Fault::Overload { .. }
            | Fault::Suspect { .. }
            | Fault::Policy { .. }
            | Fault::Ttl { .. }
            | Fault::Leave { .. }
            | Fault::Store(_) => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Weather;
    use super::*;

    fn kinds(fault: &Fault) -> Vec<FaultKind> {
        let mut kinds = Vec::new();
        fault.kinds(|kind| kinds.push(kind));
        kinds
    }

    #[test]
    fn a_kind_stands_in_its_own_place() {
        let misplaced = FaultKind::ALL.iter().enumerate().find(|(place, kind)| **kind as usize != *place);
        assert_eq!(misplaced, None);
    }

    #[test]
    fn a_short_crash_of_an_owner_is_a_restart_too() {
        let crash = |down| Fault::Crash { who: Who::Owner, down };
        assert_eq!(kinds(&crash(RESTART_MAX)), [FaultKind::CrashOwner, FaultKind::Restart]);
        assert_eq!(kinds(&crash(Span::from_secs(1))), [FaultKind::CrashOwner]);
    }

    #[test]
    fn a_storm_is_what_its_weather_does() {
        let still = Span::from_millis(1);
        let weather = Weather { delay_min: still, delay_max: still, lost_per_mille: 0, doubled_per_mille: 20 };
        assert_eq!(kinds(&Fault::Storm { weather, lasts: still }), [FaultKind::Doubled]);
    }

    #[test]
    fn a_rate_is_beyond_what_leases_assume_above_rho_and_not_at_it() {
        let rate = |ppm| Fault::Rate { who: Who::Leader, ppm, lasts: Span::from_secs(1) };
        let rho = i32::from(Terms::DEFAULT.rho_per_mille()) * 1_000;
        assert!(!rate(-rho).is_beyond(&Terms::DEFAULT));
        assert!(rate(-rho - 1).is_beyond(&Terms::DEFAULT) && rate(rho + 1).is_beyond(&Terms::DEFAULT));
    }
}
