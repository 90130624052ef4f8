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

#[cfg(test)]
mod tests {
    use super::*;

    fn wrong(text: &str) -> String {
        let file = Arc::new(FileText { path: "n.toml".into(), text: text.to_owned() });
        let mut mistakes = Vec::new();
        read(&file, &mut mistakes);
        mistakes.iter().map(Mistake::render).collect()
    }

    #[test]
    fn everything_that_is_wrong_is_told_at_once_from_top_to_bottom() {
        let text = "\
[peer]
listen = 7601
[nodes]
name = \"n1\"
[cluster]
seeds = [\"n1\", 5]
secret = \"in plain sight\"
[admin]
open_metrics = \"yes\"
";
        assert_eq!(
            wrong(text),
            r#"n.toml:2:10: `peer.listen`: the number 7601 does not fit [bad-config]
  |
2 | listen = 7601
  |          ^
  expected: an IP address and a port, such as "127.0.0.1:7600" or "[::1]:7600"
n.toml:3:2: unknown section `nodes` [bad-config]
  |
3 | [nodes]
  |  ^
  expected: `node`, `api`, `peer`, `admin`, `cluster`, `lease`, `limits`, `redis`, `policy`, `auth` or `log`
  did you mean: `node`
n.toml:6:10: `cluster.seeds`: `n1` does not fit [bad-config]
  |
6 | seeds = ["n1", 5]
  |          ^
  expected: a host and a port, such as "n1:7601"
n.toml:6:16: `cluster.seeds`: the number 5 does not fit [bad-config]
  |
6 | seeds = ["n1", 5]
  |                ^
  expected: a host and a port, such as "n1:7601"
n.toml:7:1: `cluster.secret` has no place in a file, since files are copied [bad-config]
  |
7 | secret = "in plain sight"
  | ^
  expected: `secret_file`, or the variable RINGFENCE_CLUSTER__SECRET
n.toml:9:16: `admin.open_metrics`: the text "yes" does not fit [bad-config]
  |
9 | open_metrics = "yes"
  |                ^
  expected: true or false
"#
        );
    }

    #[test]
    fn a_file_that_is_not_toml_is_told_as_such_and_nothing_else_is_said_of_it() {
        let said = wrong("[node\nname = 1\n");
        assert!(said.starts_with("n.toml:1:6: unclosed table"), "{said}");
        assert!(!said.contains("does not fit"), "{said}");
        let said = wrong("[node]\nname = \"n1\"\nname = \"n2\"\n");
        assert!(said.starts_with("n.toml:3:1: duplicate key"), "{said}");
    }

    #[test]
    fn a_key_at_the_top_is_no_section() {
        let said = wrong("node = \"n1\"\n");
        assert!(said.starts_with("n.toml:1:1: `node` is a section [bad-config]"), "{said}");
        assert!(wrong("name = \"n1\"\n").contains("unknown section `name`"));
    }

    #[test]
    fn dotted_keys_and_inline_tables_are_sections_too() {
        assert_eq!(wrong("node.name = \"n1\"\nlog = { format = \"json\" }\n"), "");
    }

    #[test]
    fn a_token_is_looked_at_field_by_field() {
        let said = wrong(
            "[[auth.tokens]]\nname = \"ci\"\nsha265 = \"00\"\nscopes = [\"chekc\"]\n[[auth.tokens]]\nname = \"x\"\nsha256 = \"abc\"\nscopes = []\n",
        );
        for part in [
            "n.toml:3:1: `auth.tokens`: unknown key `sha265` in a token [bad-config]",
            "did you mean: `sha256`",
            "n.toml:1:1: `auth.tokens`: a token has no `sha256`",
            "n.toml:4:10: `auth.tokens`: `chekc` is no scope [bad-config]",
            "did you mean: `check`",
            "n.toml:7:10: `auth.tokens`: a `sha256` of 3 characters does not fit",
            "n.toml:8:10: `auth.tokens`: a token without scopes is good for nothing",
        ] {
            assert!(said.contains(part), "{part} in\n{said}");
        }
    }
}
