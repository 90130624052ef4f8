//! The machine's own clocks. Linux only.

/// Nanoseconds of the boot-time clock: it runs on while the machine sleeps, and nobody can set it.
pub(super) fn boot() -> u64 {
    read(libc::CLOCK_BOOTTIME)
}

/// Nanoseconds since 1970, as the machine believes.
pub(super) fn wall() -> u64 {
    read(libc::CLOCK_REALTIME)
}

/// One reading in nanoseconds. A reading before zero (a wall clock set before 1970) counts as zero.
#[allow(unsafe_code, reason = "std has no clock that runs on while the machine sleeps, and fault injection hooks libc")]
fn read(clock: libc::clockid_t) -> u64 {
    let mut reading = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `reading` is a live, writable timespec for the whole call, and the call keeps no pointer to it.
    let failed = unsafe { libc::clock_gettime(clock, &raw mut reading) };
    assert_eq!(failed, 0, "Linux has had both clocks since 2.6.39");
    let seconds = u64::try_from(reading.tv_sec).unwrap_or(0);
    let nanos = u64::try_from(reading.tv_nsec).unwrap_or(0);
    seconds.saturating_mul(1_000_000_000).saturating_add(nanos)
}
