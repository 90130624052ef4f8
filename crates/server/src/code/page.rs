//! docs/errors.md, made from the table of codes; `ringfence errors --page` prints it.

use std::fmt::Write as _;

use super::{Code, Explanation, Seen, policy_findings};

const HEAD: &str = "\
# Error codes

This page is made from the program's own table: `ringfence errors --page` prints it, `ringfence errors CODE` explains one
code in a terminal.

A denial is no error: it is a decision with `allowed: false` (status 429 or 503), and nothing on this page. An error says that no
decision could be made. Over HTTP it is an `application/problem+json` document whose `code` is one of these words and whose
`field` names what is at fault; over gRPC the message begins with the word. In a batch an error stands in the place of its
check, and the other checks are decided. The words never change; details are for people and may.
";

const FOUND: &str = "\
## Findings in a policy

They stand in the `errors` of a `policy-invalid` answer, each with its line and column. All of them are the document's
author's to mend, and nothing has changed when one is reported.
";

/// The whole page, in Markdown.
pub fn page() -> String {
    let mut page = HEAD.to_owned();
    page.push_str("\n| code | seen | what happened |\n|---|---|---|\n");
    for explanation in Code::ALL.iter().map(|code| code.explanation()) {
        let Explanation { word, seen, what, .. } = explanation;
        let first = what.split_inclusive(". ").next().unwrap_or(what).trim_end();
        row(&mut page, &format!("| [{word}](#{word}) | {} | {first} |", seen.shortly()));
    }
    for code in Code::ALL {
        let Explanation { word, seen, what, whose, changed, remedy, .. } = code.explanation();
        row(&mut page, &format!("\n## {word}\n"));
        row(&mut page, &format!("{what}\n"));
        row(&mut page, &format!("- Seen: {}.", seen.at_length()));
        row(&mut page, &format!("- Whose doing: {whose}"));
        row(&mut page, &format!("- State: {changed}"));
        row(&mut page, &format!("- What to do: {remedy}"));
    }
    row(&mut page, &format!("\n{FOUND}"));
    row(&mut page, "| code | what is wrong |\n|---|---|");
    for finding in policy_findings() {
        row(&mut page, &format!("| {} | {} |", finding.code, finding.what));
    }
    page
}

fn row(page: &mut String, text: &str) {
    let _ = writeln!(page, "{text}");
}

impl Seen {
    fn shortly(self) -> String {
        match self {
            Seen::InAnswers(status) => status.as_u16().to_string(),
            Seen::AtStart => "start, exit 78".to_owned(),
            Seen::AmongPeers => "log, events".to_owned(),
        }
    }

    /// In words, without a full stop.
    pub fn at_length(self) -> String {
        match self {
            Seen::InAnswers(status) => format!("in answers with status {status}"),
            Seen::AtStart => {
                "when a node starts, or soon after; it ends with exit code 78, and its last words begin with the code"
                    .to_owned()
            }
            Seen::AmongPeers => {
                "in a node's log, and as the event `peer_refused`; `/readyz` names it while the node belongs to no cluster"
                    .to_owned()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_in_the_documentation_is_what_the_table_says() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/errors.md");
        let written = std::fs::read_to_string(path).unwrap_or_default();
        assert!(
            written == page(),
            "docs/errors.md is not what the table says; `cargo run -q -- errors --page > docs/errors.md` writes it"
        );
    }
}
