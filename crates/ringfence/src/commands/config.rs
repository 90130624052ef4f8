//! `ringfence config`: what a node would be told, whether it fits, and the page that lists every setting.

use serde_json::{Value, json};

use crate::cli::{Config, Output, Told};
use crate::commands::{print_json, put};
use crate::config::layers::Effective;
use crate::config::mistake::{Mistake, Origin};
use crate::config::prepare::{Refusal, gather, prepare};
use crate::config::reference::reference;
use crate::config::table::{Fallback, SECTIONS, SETTINGS, Setting};
use crate::exit::{Exit, bad_config};

/// Runs one of the configuration commands.
pub fn run(command: &Config, output: Output) -> anyhow::Result<Exit> {
    match command {
        Config::Show { origin, told } => show(told, *origin, output),
        Config::Validate { file, told } => {
            let file = file.as_ref().or(told.config.as_ref());
            validate(&Told { config: file.cloned(), settings: told.settings.clone() }, output)
        }
        Config::Reference => {
            put(&reference());
            Ok(Exit::Ok)
        }
    }
}

fn validate(told: &Told, output: Output) -> anyhow::Result<Exit> {
    let sources = gather(told).map_err(bad_config)?;
    let file = sources.file.as_ref().map(|file| file.path.display().to_string());
    match (prepare(&sources), output) {
        (Ok(prepared), Output::Text) => {
            for warning in &prepared.warnings {
                eprintln!("warning: {warning}");
            }
            let name = prepared.settings.name;
            let from = file.unwrap_or_else(|| "no file".to_owned());
            put(&format!("{from} is valid: node {name} of cluster {}\n", prepared.settings.cluster.name));
            Ok(Exit::Ok)
        }
        (Ok(prepared), Output::Json) => {
            print_json("config", &json!({ "valid": true, "file": file, "warnings": prepared.warnings, "errors": [] }));
            Ok(Exit::Ok)
        }
        (Err(refusal), Output::Text) => {
            eprint!("{}", refusal.render());
            Ok(Exit::BadConfig)
        }
        (Err(Refusal { mistakes, policies }), Output::Json) => {
            let errors: Vec<_> = mistakes.iter().map(Mistake::json).collect();
            let valid = json!({ "valid": false, "file": file, "warnings": [], "errors": errors, "policies": policies });
            print_json("config", &valid);
            Ok(Exit::BadConfig)
        }
    }
}

fn show(told: &Told, origin: bool, output: Output) -> anyhow::Result<Exit> {
    let sources = gather(told).map_err(bad_config)?;
    let mut mistakes = Vec::new();
    let effective = Effective::of(&sources, &mut mistakes);
    for mistake in &mistakes {
        eprint!("{}", mistake.render());
    }
    if !mistakes.is_empty() {
        return Ok(Exit::BadConfig);
    }
    match output {
        Output::Text => put(&shown(&effective, origin)),
        Output::Json => print_json("config", &SETTINGS.iter().map(|setting| entry(&effective, setting)).collect()),
    }
    Ok(Exit::Ok)
}

/// A file that says what holds; what is absent, and what a file may not say, stands in comments.
fn shown(effective: &Effective, origin: bool) -> String {
    let mut text = String::new();
    for (section, _) in SECTIONS {
        let blank = if text.is_empty() { "" } else { "\n" };
        text += &format!("{blank}[{section}]\n");
        for setting in SETTINGS.iter().filter(|setting| setting.section() == *section) {
            let line = match effective.value(setting) {
                Some(value) if setting.is_open() => format!("{} = {}", setting.name(), value.toml(setting.kind)),
                Some(value) => format!("# {} = {}", setting.name(), value.toml(setting.kind)),
                None => format!("# {} is not set", setting.name()),
            };
            match origin {
                true => text += &format!("{line:<48} # {}\n", origin_of(effective, setting)),
                false => text += &format!("{line}\n"),
            }
        }
    }
    text
}

fn origin_of(effective: &Effective, setting: &Setting) -> String {
    match (&effective.said(setting.key).origin, setting.fallback) {
        (Origin::Default(_), Fallback::As(other)) => format!("default: what {other} says"),
        (Origin::Default(_), Fallback::HostName) => "default: the host name".to_owned(),
        (origin, _) => origin.to_string(),
    }
}

fn entry(effective: &Effective, setting: &Setting) -> Value {
    let origin = &effective.said(setting.key).origin;
    json!({
        "key": setting.key,
        "value": effective.value(setting).map(|value| value.json(setting.kind)),
        "origin": origin.word(),
        "place": origin.place(),
    })
}
