//! What the boot-time clock of this machine rests on. A guest's clock stands still with its machine: when a hypervisor
//! freezes a guest, moves it or wakes a copy of it, the guest's own clock may not show the pause, and a lease that is over
//! for everybody else still seems to run. A vmclock device tells a guest of such breaks; without one the clock of a
//! hypervisor is trusted less, and that is told.

use std::fs;
use std::path::Path;

/// Where Linux says which counter its clocks are read from.
const CURRENT: &str = "/sys/devices/system/clocksource/clocksource0/current_clocksource";

/// Where devices without a class of their own are listed, by name.
const DEVICES: &str = "/sys/class/misc";

/// How the counters of hypervisors begin, as Linux names them: of KVM, Hyper-V, Xen and VMware.
const OF_HYPERVISORS: [&str; 4] = ["kvm-clock", "hyperv", "xen", "vmware"];

/// The longest name that is shown, in bytes; longer ones are cut.
const NAME_MAX: usize = 64;

/// Whether the boot-time clock sees every pause of its machine (assumption A3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClockTrust {
    /// Nothing speaks against it.
    Trusted,
    /// It may stand still while the machine does, or it is not known what it rests on.
    Weak,
}

impl ClockTrust {
    /// The word that operators see.
    pub const fn as_str(self) -> &'static str {
        match self {
            ClockTrust::Trusted => "trusted",
            ClockTrust::Weak => "weak",
        }
    }
}

/// The source of a machine's clocks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClockSource {
    /// As Linux names it; `unknown` where it does not say.
    pub name: String,
    /// How far it can be trusted.
    pub trust: ClockTrust,
}

impl ClockSource {
    /// That of the machine on which this process runs.
    pub fn of_this_machine() -> ClockSource {
        let name = fs::read_to_string(CURRENT).unwrap_or_default();
        ClockSource::judged(name.trim(), has_vmclock(Path::new(DEVICES)))
    }

    /// The source of this name, on a machine that has a vmclock device or none.
    fn judged(name: &str, has_vmclock: bool) -> ClockSource {
        let of_hypervisor = OF_HYPERVISORS.iter().any(|begins| name.starts_with(begins));
        let weak = name.is_empty() || (of_hypervisor && !has_vmclock);
        let shown = if name.is_empty() { "unknown" } else { name };
        let visible = shown.chars().filter(char::is_ascii_graphic).take(NAME_MAX);
        ClockSource { name: visible.collect(), trust: if weak { ClockTrust::Weak } else { ClockTrust::Trusted } }
    }

    /// Tells the log, once, when the node starts, by the names that `/v1/cluster` has.
    pub fn tell(&self) {
        let (source, trust) = (self.name.as_str(), self.trust.as_str());
        match self.trust {
            ClockTrust::Trusted => {
                tracing::info!(clock.source = source, clock.trust = trust, "the boot-time clock of this machine");
            }
            ClockTrust::Weak => tracing::warn!(
                clock.source = source,
                clock.trust = trust,
                "the boot-time clock of this machine may not show a pause of the machine: \
                 after one, this node may for a moment decide under a lease that is over"
            ),
        }
    }
}

fn has_vmclock(devices: &Path) -> bool {
    let Ok(devices) = fs::read_dir(devices) else { return false };
    devices.flatten().any(|device| device.file_name().to_string_lossy().starts_with("vmclock"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn a_hypervisors_clock_is_weak_unless_the_machine_is_told_of_its_pauses() {
        let trust = |name, has_vmclock| ClockSource::judged(name, has_vmclock).trust;
        for name in ["kvm-clock", "hyperv_clocksource_tsc_page", "hyperv_clocksource_msr", "xen", "vmware-tsc"] {
            assert_eq!((trust(name, false), trust(name, true)), (ClockTrust::Weak, ClockTrust::Trusted), "{name}");
        }
        for name in ["tsc", "hpet", "acpi_pm", "arch_sys_counter"] {
            assert_eq!(trust(name, false), ClockTrust::Trusted, "{name}");
        }
    }

    #[test]
    fn a_source_that_is_not_told_is_weak_and_its_name_is_fit_to_be_shown() {
        let unknown = ClockSource::judged("", true);
        assert_eq!((unknown.name.as_str(), unknown.trust), ("unknown", ClockTrust::Weak));
        assert_eq!(ClockSource::judged("t\nsc\u{7}", false).name, "tsc");
        assert_eq!(ClockSource::judged(&"x".repeat(200), false).name.len(), NAME_MAX);
    }

    #[test]
    fn a_vmclock_device_is_found_by_its_name() {
        let directory = std::env::temp_dir().join(format!("ringfence-clock-{}", std::process::id()));
        fs::create_dir_all(directory.join("rtc")).unwrap();
        assert!(!has_vmclock(&directory));
        fs::create_dir_all(directory.join("vmclock0")).unwrap();
        assert!(has_vmclock(&directory));
        fs::remove_dir_all(&directory).unwrap();
        assert!(!has_vmclock(&directory), "nor on a machine that lists no devices");
    }
}
