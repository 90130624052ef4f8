//! Reading the node file: TOML, each value at its place. A key that is not in the table is a mistake, never ignored: what
//! an operator wrote and nobody reads is worse than a refusal.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::Path;
use std::sync::Arc;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::config::layers::{Layer, Said};
use crate::config::mistake::{FileText, Mistake, Origin, Wrong};
use crate::config::table::{SECTIONS, SETTINGS, Setting};
use crate::config::value::Value;

/// The largest file that is read, in bytes.
pub const FILE_BYTES_MAX: u64 = 1024 * 1024;

/// Reads a file of settings.
///
/// # Errors
///
/// What the system says of it, or that it is no text, or larger than [`FILE_BYTES_MAX`].
pub fn load(path: &Path) -> std::io::Result<FileText> {
    let mut text = String::new();
    std::fs::File::open(path)?.take(FILE_BYTES_MAX + 1).read_to_string(&mut text)?;
    if text.len() as u64 > FILE_BYTES_MAX {
        return Err(std::io::Error::other(format!("it is larger than {FILE_BYTES_MAX} bytes")));
    }
    Ok(FileText { path: path.to_owned(), text })
}

/// What the file says, and in `mistakes` what is wrong with it. `None` if it is not TOML at all: then nothing can be said
/// of its settings before that is mended.
pub fn read(file: &Arc<FileText>, mistakes: &mut Vec<Mistake>) -> Option<Layer> {
    let (root, broken) = DeTable::parse_recoverable(&file.text);
    if !broken.is_empty() {
        mistakes.extend(broken.iter().map(|error| {
            let at = error.span().map_or(file.text.len(), |span| span.start);
            Wrong::new(error.message(), "").at(Origin::at(file, at))
        }));
        return None;
    }
    let mut reader = Reader { file, layer: BTreeMap::new(), mistakes: Vec::new() };
    for (name, value) in root.get_ref() {
        reader.read_section(name, value);
    }
    // TOML's tables are read by name; people read from top to bottom.
    reader.mistakes.sort_by_key(|(at, _)| *at);
    mistakes.extend(reader.mistakes.into_iter().map(|(_, mistake)| mistake));
    Some(reader.layer)
}

struct Reader<'f> {
    file: &'f Arc<FileText>,
    layer: Layer,
    mistakes: Vec<(usize, Mistake)>,
}

impl Reader<'_> {
    fn read_section(&mut self, name: &Spanned<std::borrow::Cow<'_, str>>, value: &Spanned<DeValue<'_>>) {
        let section = name.get_ref().as_ref();
        if !SECTIONS.iter().any(|(known, _)| *known == section) {
            let sections = SECTIONS.iter().map(|(known, _)| *known);
            self.wrong(name.span().start, Wrong::unknown(format!("unknown section `{section}`"), section, sections));
            return;
        }
        let DeValue::Table(keys) = value.get_ref() else {
            let wrong = Wrong::new(format!("`{section}` is a section"), format!("[{section}]"));
            return self.wrong(name.span().start, wrong);
        };
        for (key, value) in keys {
            self.read_key(section, key, value);
        }
    }

    fn read_key(&mut self, section: &str, key: &Spanned<std::borrow::Cow<'_, str>>, value: &Spanned<DeValue<'_>>) {
        let name = key.get_ref().as_ref();
        let in_section = || SETTINGS.iter().filter(move |setting| setting.section() == section);
        let Some(setting) = in_section().find(|setting| setting.name() == name) else {
            let names = in_section().filter(|setting| setting.is_open()).map(Setting::name);
            let wrong = Wrong::unknown(format!("unknown key `{name}` in [{section}]"), name, names);
            return self.wrong(key.span().start, wrong);
        };
        if !setting.is_open() {
            let wrong = Wrong::new(
                format!("`{}` has no place in a file, since files are copied", setting.key),
                format!("`{name}_file`, or the variable {}", setting.variable()),
            );
            return self.wrong(key.span().start, wrong);
        }
        let value = match Value::from_toml(setting.kind, value) {
            Ok(value) => Some(value),
            Err(all) => {
                for (wrong, span) in all {
                    let message = format!("`{}`: {}", setting.key, wrong.message);
                    self.wrong(span.start, Wrong { message, ..wrong });
                }
                None
            }
        };
        self.layer.insert(setting.key, Said { value, origin: Origin::at(self.file, key.span().start) });
    }

    fn wrong(&mut self, at: usize, wrong: Wrong) {
        self.mistakes.push((at, wrong.at(Origin::at(self.file, at))));
    }
}
