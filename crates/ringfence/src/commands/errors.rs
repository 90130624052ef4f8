//! `ringfence errors`: what a code means, for whoever has just met one.

use serde_json::{Value, json};
use server::code::{Code, Explanation, page, policy_findings};

use crate::cli::{Errors, Output};
use crate::commands::{print_json, put};
use crate::exit::Exit;

/// Lists all codes, explains one, or prints docs/errors.md.
pub fn run(errors: &Errors, output: Output) -> anyhow::Result<Exit> {
    match &errors.code {
        _ if errors.page => put(&page()),
        Some(word) => explain(word, output)?,
        None => list(output),
    }
    Ok(Exit::Ok)
}

fn list(output: Output) {
    let findings = policy_findings();
    if output == Output::Json {
        let codes = Code::ALL.iter().map(|code| explained(code.explanation()));
        let findings = findings.iter().map(|finding| json!({ "code": finding.code.as_str(), "what": finding.what }));
        print_json("errors", &codes.chain(findings).collect());
        return;
    }
    let mut text = String::new();
    for Explanation { word, what, .. } in Code::ALL.iter().map(|code| code.explanation()) {
        text.push_str(&format!("{word:<24} {}\n", first_sentence(what)));
    }
    for finding in findings {
        text.push_str(&format!("{:<24} {}\n", finding.code.as_str(), finding.what));
    }
    put(&text);
}

fn explain(word: &str, output: Output) -> anyhow::Result<()> {
    let json = |body: &Value| print_json("error", body);
    if let Some(code) = Code::of_word(word) {
        let explanation = code.explanation();
        match output {
            Output::Json => json(&explained(explanation)),
            Output::Text => put(&explanation_text(explanation)),
        }
        return Ok(());
    }
    let Some(finding) = policy_findings().iter().find(|finding| finding.code.as_str() == word) else {
        anyhow::bail!("`{word}` is no error code; `ringfence errors` lists them");
    };
    match output {
        Output::Json => json(&json!({ "code": word, "what": finding.what })),
        Output::Text => {
            put(&format!("{word}\n\n{}\nA finding in a policy document; nothing has changed.\n", finding.what))
        }
    }
    Ok(())
}

fn explained(explanation: &Explanation) -> Value {
    let Explanation { word, seen, what, whose, changed, remedy, .. } = explanation;
    json!({ "code": word, "seen": seen.at_length(), "what": what, "whose": whose, "changed": changed, "remedy": remedy })
}

fn explanation_text(explanation: &Explanation) -> String {
    let Explanation { word, seen, what, whose, changed, remedy, .. } = explanation;
    format!(
        "{word}\n\n{what}\n\nSeen:         {}.\nWhose doing:  {whose}\nState:        {changed}\nWhat to do:   {remedy}\n",
        seen.at_length()
    )
}

fn first_sentence(text: &str) -> &str {
    text.split_inclusive(". ").next().unwrap_or(text).trim_end()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn an_explanation_says_whose_doing_it_is_and_what_to_do() {
        let text = explanation_text(Code::WrongSecret.explanation());
        for part in ["wrong-secret", "Whose doing:", "The operator's.", "What to do:", "secret_accept_file"] {
            assert!(text.contains(part), "{part} is not in {text}");
        }
    }

    #[test]
    fn a_word_that_is_no_code_is_told_so() {
        let error = explain("no-such-code", Output::Text).unwrap_err().to_string();
        assert!(error.contains("`no-such-code`") && error.contains("ringfence errors"), "{error}");
    }
}
