//! The fuzzer: libFuzzer's `main` calls the target that RINGFENCE_FUZZ names, again and again.
#![no_main]

mod targets;

use std::sync::OnceLock;

use targets::{TARGETS, Target};

/// Which target this process runs.
const VARIABLE: &str = "RINGFENCE_FUZZ";

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    static TARGET: OnceLock<&'static Target> = OnceLock::new();
    (TARGET.get_or_init(chosen).run)(bytes);
});

fn chosen() -> &'static Target {
    let name = std::env::var(VARIABLE).unwrap_or_default();
    TARGETS.iter().find(|target| target.name == name).unwrap_or_else(|| {
        let names: Vec<_> = TARGETS.iter().map(|target| target.name).collect();
        panic!("{VARIABLE} names no target: expected one of {}, found `{name}`", names.join(", "))
    })
}
