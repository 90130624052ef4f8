//! One file per command; the calls about keys are one.

pub mod call;
pub mod cluster;
pub mod completion;
pub mod config;
pub mod dev;
pub mod errors;
pub mod healthcheck;
pub mod policy;
pub mod serve;
pub mod top;

use std::io::Write as _;

use serde_json::{Value, json};

/// The version of everything that `--output json` prints.
pub const OUTPUT_VERSION: u32 = 1;

/// Writes data to stdout. A reader that went away (`| head`) has what it wanted: the program ends without a complaint.
pub fn put(text: &str) {
    let mut stdout = std::io::stdout().lock();
    if let Err(error) = stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        if error.kind() != std::io::ErrorKind::BrokenPipe {
            eprintln!("ringfence: stdout: {error}");
        }
        std::process::exit(0);
    }
}

/// Prints data for programs: the payload under its name, beside the version.
pub fn print_json(name: &str, payload: &Value) {
    put(&format!("{:#}\n", json!({ "version": OUTPUT_VERSION, name: payload })));
}

/// A member of a JSON object as text for people; `-` when it is absent or null.
pub fn shown(value: &Value, name: &str) -> String {
    match value.get(name) {
        None | Some(Value::Null) => "-".to_owned(),
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    }
}
