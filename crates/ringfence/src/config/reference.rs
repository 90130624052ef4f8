//! docs/configuration.md, made from the table of settings; `ringfence config reference` prints it.

use crate::config::prepare::DEFAULT_FILE;
use crate::config::table::{Fallback, Kind, SECTIONS, SETTINGS, Setting};
use crate::config::value::{Value, expected};

const HEAD: &str = "\
# Configuration

<!-- Made by `ringfence config reference` from crates/ringfence/src/config/table.rs; a test holds the two together. -->

`ringfence serve` runs one node. What it is told comes from four places; where two of them speak of the same setting, the
one further left counts:

**flag** > **environment** > **file** > **default**

";

const RULES: &str = "\
- A key that does not exist is refused, in the file, on the command line and in the environment (`RINGFENCE_*__*`), with
  the nearest name that does. So is a value that does not fit. Everything that is wrong is told at once, with its place,
  and `serve` exits with 78 before it has touched anything.
- `ringfence config validate` looks at all that `serve` would look at before it starts: the settings, the secrets, the
  policies of `policy.initial`. `ringfence config show --origin` prints each value that holds and where it was said. Both
  take the flags of `serve`.
- An empty variable counts as none. Lists are written `a,b` in flags and variables. Times have a unit: `ms`, `s` or `min`.
- Relative paths are relative to where the process was started.
- SIGHUP reads the files of the cluster's secrets anew, and nothing else; all other settings need a restart.
- A setting marked *founding* counts while the cluster is founded. Its name, its founders and the times of its lease hold
  from then on, and a node that is told otherwise is refused (`wrong-cluster`, `wrong-founders`, `bad-config`). A time that
  nobody said gives way to what the cluster goes by, so leaving it out is always right.

## An example

```toml
";

const LIFE: &str = "\
## How a node ends

| what happens | what the node does | exit code |
|---|---|---|
| SIGTERM or SIGINT | decides nothing more, gives its partitions to the others (`node.drain_timeout`), answers what is in flight, closes its files | 0, also when nobody took the partitions in time; the last line says which |
| the same once more | ends at once | 128 + the signal's number: 130, 143 |
| SIGHUP | reads the secrets' files anew | |
| a wrong configuration, a port that is taken, a data directory that cannot be used | starts nothing, says what and where | 78 |
| `name-in-use`, `wrong-founders`, a setting that genesis holds otherwise | learns it from the cluster, says so, ends | 78 |
| one of its own invariants is broken (a panic) | says where, and aborts: half a node would be worse than none | SIGABRT (134) |

A node that is not told to end never ends by itself for other reasons: without a quorum, with other nodes' secrets or in
another cluster it stays up, not ready, and `/readyz` says why.
";

/// The whole page.
pub fn reference() -> String {
    let mut page = HEAD.to_owned();
    page += &format!("The file is `{DEFAULT_FILE}` if it is there, or what `--config` (`RINGFENCE_CONFIG`) says.\n\n");
    page += RULES;
    page += include_str!("../../../../examples/ringfence.toml");
    page += "```\n\n";
    for (section, about) in SECTIONS {
        page += &format!("## `[{section}]`\n\n{about}\n\n");
        for setting in SETTINGS.iter().filter(|setting| setting.section() == *section) {
            page += &entry(setting);
        }
    }
    page + LIFE
}

fn entry(setting: &Setting) -> String {
    let founding = if setting.founding { " *(founding)*" } else { "" };
    let names = match setting.is_open() {
        true => format!("`--{}`, `{}`", setting.flag(), setting.variable()),
        false => format!("`{}` only", setting.variable()),
    };
    format!(
        "### `{}`{founding}\n\n{}\n\n- value: {}\n- default: {}\n- also: {names}\n\n",
        setting.key,
        setting.doc,
        expected(setting.kind),
        default(setting)
    )
}

/// The default, as the file would say it.
pub fn default(setting: &Setting) -> String {
    match setting.fallback {
        Fallback::Text(text) => match (Value::from_text(setting.kind, text), setting.kind) {
            (Ok(Value::Count(_)), Kind::Count) => format!("`{text}`"),
            (Ok(value), kind) => format!("`{}`", value.toml(kind)),
            (Err(_), _) => format!("`{text}`"),
        },
        Fallback::HostName => "the machine's host name".to_owned(),
        Fallback::As(key) => format!("what `{key}` says"),
        Fallback::Absent => "none".to_owned(),
        Fallback::Required => "none; it must be said".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;
    use std::sync::Arc;

    use super::*;
    use crate::config::layers::{Effective, Sources};
    use crate::config::mistake::FileText;
    use crate::config::settings::NodeSettings;

    #[test]
    fn the_example_is_a_file_that_a_node_starts_from() {
        let path = "examples/ringfence.toml".into();
        let text = include_str!("../../../../examples/ringfence.toml");
        // The token in the example's comments is an example too.
        let with_token =
            text.replace("# [[auth", "[[auth").replace("# name = \"ch", "name = \"ch").replace("# sco", "sco");
        let with_token = with_token.replace("# sha256 = \"...\"", &format!("sha256 = \"{}\"", "0f".repeat(32)));
        for text in [text.to_owned(), with_token.replace("# domains", "domains")] {
            let file = Some(Arc::new(FileText { path: PathBuf::clone(&path), text }));
            let mut mistakes = Vec::new();
            let effective = Effective::of(&Sources { file, ..Sources::default() }, &mut mistakes);
            assert!(NodeSettings::of(&effective, &mut mistakes).is_some(), "{mistakes:?}");
            assert!(mistakes.is_empty(), "{mistakes:?}");
        }
        assert!(with_token.contains("\n[[auth.tokens]]"), "the example has a token");
    }

    #[test]
    fn the_page_in_the_docs_is_made_from_the_table() {
        let page = include_str!("../../../../docs/configuration.md");
        assert!(
            page == reference(),
            "docs/configuration.md is not what the table says; `cargo run -q -- config reference > docs/configuration.md` writes it"
        );
    }
}
