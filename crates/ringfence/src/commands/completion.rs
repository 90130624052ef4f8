//! `ringfence completion` and `ringfence man`: what a shell and a manual need to know of the command line, made from it.

use anyhow::Context as _;
use clap::CommandFactory as _;
use clap_complete::Shell;

use crate::cli::Cli;
use crate::commands::put;
use crate::exit::Exit;

/// Prints the completions for a shell.
pub fn completion(shell: Shell) -> anyhow::Result<Exit> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "ringfence", &mut script);
    put(&String::from_utf8(script)?);
    Ok(Exit::Ok)
}

/// Prints the manual page of the program, or of the command that these words name.
pub fn man(words: &[String]) -> anyhow::Result<Exit> {
    put(&page(words)?);
    Ok(Exit::Ok)
}

fn page(words: &[String]) -> anyhow::Result<String> {
    let mut command = Cli::command();
    // Flags that hold for all commands are known to each only once the whole is built.
    command.build();
    for word in words {
        let found = command.find_subcommand(word).cloned();
        command = found.with_context(|| format!("`{}` has no command `{word}`", command.get_name()))?;
    }
    let name = std::iter::once("ringfence").chain(words.iter().map(String::as_str)).collect::<Vec<_>>().join("-");
    let mut page = Vec::new();
    clap_mangen::Man::new(command.name(name)).render(&mut page)?;
    Ok(String::from_utf8(page)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_has_a_page_and_a_word_that_is_none_is_refused() {
        let serve = page(&["serve".to_owned()]).unwrap();
        assert!(serve.contains(".TH ringfence-serve 1") && serve.contains("cluster\\-seeds"), "{serve}");
        assert!(page(&[]).unwrap().contains(".TH ringfence 1"));
        let refused = page(&["cluster".to_owned(), "statsu".to_owned()]).unwrap_err();
        assert_eq!(refused.to_string(), "`cluster` has no command `statsu`");
    }

    #[test]
    fn a_shell_learns_the_flags_of_the_settings() {
        let mut script = Vec::new();
        clap_complete::generate(Shell::Bash, &mut Cli::command(), "ringfence", &mut script);
        assert!(String::from_utf8(script).unwrap().contains("--node-data-dir"));
    }
}
