//! A history as JSON lines, one row a line, for whoever wants to look for themselves.

use std::io::{BufWriter, Write as _};
use std::path::Path;

use anyhow::{Context as _, Result};
use serde_json::{Value, json};
use sim::{Outcome, Row};

/// Writes all rows, in order.
///
/// # Errors
/// When the file cannot be written.
pub fn write(path: &Path, rows: &[Row]) -> Result<()> {
    let shown = || format!("writing {}", path.display());
    let mut file = BufWriter::new(std::fs::File::create(path).with_context(shown)?);
    for row in rows {
        writeln!(file, "{}", line(row)).with_context(shown)?;
    }
    file.flush().with_context(shown)
}

fn line(row: &Row) -> Value {
    let mut line = json!({
        "id": format!("{:032x}", row.id),
        "limit": &*row.limit,
        "key": &*row.key,
        "cost": row.cost,
        "ingress": &*row.ingress,
        "attempts": row.attempts,
        "invoked_ns": row.invoked.as_nanos(),
        "returned_ns": row.returned.as_nanos(),
        "deadline_ns": row.deadline.as_nanos(),
    });
    let more = match &row.outcome {
        Outcome::Silent(why) => json!({ "outcome": "silent", "why": why }),
        Outcome::Answered(answer) => json!({
            "outcome": if answer.allowed { "allowed" } else { "denied" },
            "reason": answer.reason.as_str(),
            "source": answer.source.as_str(),
            "degraded": answer.degraded,
            "replayed": answer.replayed,
            "remaining": answer.remaining,
            "owner": answer.owner.as_deref(),
            "epoch": answer.epoch,
            "revision": answer.revision,
        }),
    };
    if let (Value::Object(line), Value::Object(more)) = (&mut line, more) {
        line.extend(more);
    }
    line
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use limits::{Moment, Span};

    use super::*;

    #[test]
    fn a_row_is_one_line_that_reads_back() {
        let row = Row {
            id: 255,
            limit: "login".into(),
            key: "a\"b\nc".into(),
            cost: 2,
            ingress: "n1".into(),
            attempts: 1,
            invoked: Moment::from_nanos(1),
            returned: Moment::from_nanos(2),
            deadline: Span::from_millis(250),
            outcome: Outcome::Silent("reset".into()),
        };
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("history.jsonl");
        write(&path, &[row.clone(), row]).unwrap();
        let text = std::fs::read_to_string(path).unwrap();
        let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(lines.len(), 2);
        assert_eq!(lines[0]["key"], "a\"b\nc");
        assert_eq!(lines[1]["id"], "000000000000000000000000000000ff");
    }
}
