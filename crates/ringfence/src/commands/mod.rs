//! One file per command.

pub mod check;
pub mod cluster;
pub mod dev;
pub mod healthcheck;
pub mod policy;

use serde_json::{Value, json};

/// The version of everything that `--output json` prints.
pub const OUTPUT_VERSION: u32 = 1;

/// Prints data for programs: the payload under its name, beside the version.
pub fn print_json(name: &str, payload: &Value) {
    println!("{:#}", json!({ "version": OUTPUT_VERSION, name: payload }));
}

/// A member of a JSON object as text for people; `-` when it is absent or null.
pub fn shown(value: &Value, name: &str) -> String {
    match value.get(name) {
        None | Some(Value::Null) => "-".to_owned(),
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    }
}
