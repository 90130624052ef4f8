//! What the next owners of a dead node's keys knew of them, read from what callers were told under the one limit that is
//! asked about all the time and never used up: what remained before is what remains after, less what one write had allowed
//! for; or, where nobody can know, nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use limits::Moment;
use sim::{Answer, Reason, Row};

use crate::terms::{ROOMY, ROOMY_CHUNK};

/// Questions about one key that may have been charged, and whose answers were lost with the owner: those of a quarter of a
/// second, as long as callers wait, asked at two nodes each.
const UNDER_WAY: u64 = 8;

/// What a successor has to know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Knows {
    /// What was used, and a chunk more.
    TheRest,
    /// Nothing, so that it admits nothing.
    Nothing,
}

/// Owners who died.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Succession {
    /// When the first of them did.
    pub at: Moment,
    /// Their names.
    pub victims: BTreeSet<String>,
    /// What those who follow them have to know.
    pub knows: Knows,
}

impl Succession {
    /// What is claimed.
    pub fn promise(&self) -> &'static str {
        match self.knows {
            Knows::TheRest => "the next owners know what was used, and admit the rest, less a chunk",
            Knows::Nothing => "the next owners know nothing, and admit nothing",
        }
    }
}

/// Answers with their questions.
type Asked<'r> = Vec<(&'r Row, &'r Answer)>;

/// What was told of one key under two owners that follow each other.
struct Told<'r> {
    key: &'r Arc<str>,
    before: Vec<&'r Answer>,
    after: Vec<&'r Answer>,
}

/// Holds the answers against what the next owners have to know, and says in a few words what they knew.
///
/// # Errors
/// What was told instead.
pub fn hold(rows: &[Row], succession: &Succession) -> Result<String, String> {
    let told = of_victims(rows, succession);
    if told.is_empty() {
        return Err(format!("nobody asked about a key of {ROOMY} that {:?} owned", succession.victims));
    }
    match succession.knows {
        Knows::TheRest => {
            let lost = told.iter().map(lost).collect::<Result<Vec<_>, _>>()?;
            let most = lost.into_iter().max().unwrap_or(0);
            let admitted: usize = told.iter().map(|told| admitted(&told.after).count()).sum();
            Ok(format!("of {} keys with room {admitted} more admitted, {most} fewer at most", told.len()))
        }
        Knows::Nothing => {
            let refused = told.iter().map(refused).collect::<Result<Vec<_>, _>>()?;
            Ok(format!("of {} keys with room none admitted, {} refused", told.len(), refused.iter().sum::<usize>()))
        }
    }
}

/// Answers about keys that victims owned, under their last epoch and under the next.
fn of_victims<'r>(rows: &'r [Row], succession: &Succession) -> Vec<Told<'r>> {
    let mut keys: BTreeMap<&Arc<str>, BTreeMap<u64, Asked<'r>>> = BTreeMap::new();
    for row in rows.iter().filter(|row| &*row.limit == ROOMY) {
        if let Some(answer) = row.answer()
            && let Some(epoch) = answer.epoch
        {
            keys.entry(&row.key).or_default().entry(epoch).or_default().push((row, answer));
        }
    }
    let victim = |answer: &Answer| answer.owner.as_deref().is_some_and(|owner| succession.victims.contains(owner));
    let told = |(key, epochs): (&'r Arc<str>, BTreeMap<u64, Asked<'r>>)| {
        let begun = |answers: &Asked<'r>| answers.iter().any(|(row, _)| row.returned < succession.at);
        let last = epochs.iter().filter(|(_, answers)| begun(answers)).map(|(epoch, _)| *epoch).max()?;
        let answers = |epoch: &u64| epochs[epoch].iter().map(|(_, answer)| *answer).collect::<Vec<_>>();
        let before = Some(answers(&last)).filter(|before| before.iter().any(|answer| victim(answer)))?;
        let next = epochs.keys().find(|epoch| **epoch > last);
        Some(Told { key, before, after: next.map(answers).unwrap_or_default() })
    };
    keys.into_iter().filter_map(told).collect()
}

/// How much less remained than what was used explains.
fn lost(told: &Told<'_>) -> Result<u64, String> {
    let Told { key, before, after } = told;
    let guessed = after.iter().filter(|answer| answer.reason == Reason::Recovering).count();
    if guessed > 0 {
        return Err(format!("{guessed} answers about {key} are `recovering`"));
    }
    let before = admitted(before).filter_map(|answer| answer.remaining).min();
    let Some(before) = before else { return Err(format!("nobody said what remained of {key}")) };
    let after = admitted(after).filter_map(|answer| answer.remaining).max();
    let Some(after) = after else {
        return Err(format!("nothing more was admitted of {key}, of which {before} were left"));
    };
    // The first one that was admitted is missing besides.
    match before.checked_sub(after + 1) {
        Some(lost) if lost <= ROOMY_CHUNK + UNDER_WAY => Ok(lost),
        Some(_) => Err(format!("{before} were left of {key}, and {after} one admitted later")),
        None => Err(format!("{before} were left of {key}, and {after} one admitted later: some was given back")),
    }
}

/// How often it was refused for want of knowledge, if nothing was admitted.
fn refused(told: &Told<'_>) -> Result<usize, String> {
    let Told { key, after, .. } = told;
    let admitted = admitted(after).count();
    let refused = after.iter().filter(|answer| answer.reason == Reason::Recovering).count();
    match (admitted, refused) {
        (0, 0) => Err(format!("no owner answered about {key}")),
        (0, refused) => Ok(refused),
        (admitted, _) => Err(format!("{admitted} were admitted of {key}")),
    }
}

fn admitted<'r>(answers: &'r [&'r Answer]) -> impl Iterator<Item = &'r &'r Answer> {
    answers.iter().filter(|answer| answer.allowed && answer.source.is_counted())
}

#[cfg(test)]
mod tests {
    use limits::Span;
    use sim::{Outcome, Source};

    use super::*;

    fn row(millis: u64, epoch: u64, owner: &str, remaining: Option<u64>) -> Row {
        let at = Moment::from_nanos(millis * 1_000_000);
        let answer = Answer {
            allowed: remaining.is_some(),
            reason: if remaining.is_some() { Reason::Ok } else { Reason::Recovering },
            source: Source::Owner,
            degraded: false,
            replayed: false,
            remaining,
            owner: Some(owner.into()),
            epoch: Some(epoch),
            revision: 1,
        };
        Row {
            id: u128::from(millis),
            limit: ROOMY.into(),
            key: "key-1".into(),
            cost: 1,
            ingress: "n3".into(),
            attempts: 1,
            invoked: at,
            returned: at,
            deadline: Span::from_millis(250),
            outcome: Outcome::Answered(answer),
        }
    }

    fn succession(knows: Knows) -> Succession {
        Succession { at: Moment::from_nanos(500_000_000), victims: BTreeSet::from(["n1".to_owned()]), knows }
    }

    fn held(knows: Knows, after: &[Row]) -> Result<String, String> {
        let before = [row(100, 1, "n1", Some(1_199)), row(400, 1, "n1", Some(1_150))];
        hold(&[&before[..], after].concat(), &succession(knows))
    }

    #[test]
    fn an_owner_that_goes_on_where_the_last_one_ended_knows() {
        let after = [row(900, 2, "n2", Some(1_130)), row(950, 2, "n2", Some(1_129))];
        let told = held(Knows::TheRest, &after).unwrap_or_else(|but| but);
        assert_eq!(told, "of 1 keys with room 2 more admitted, 19 fewer at most");
    }

    #[test]
    fn whatever_else_an_owner_does_is_told() {
        for (after, but) in [
            (row(900, 2, "n2", Some(1_150)), "some was given back"),
            (row(900, 2, "n2", Some(1_000)), "1000 one admitted later"),
            (row(900, 2, "n2", None), "are `recovering`"),
            (row(900, 1, "n1", Some(1_100)), "nothing more was admitted"),
        ] {
            let told = held(Knows::TheRest, &[after]).unwrap_or_default();
            assert_eq!(told, "", "{but}");
        }
    }

    #[test]
    fn an_owner_that_knows_nothing_admits_nothing_and_says_why() {
        assert!(held(Knows::Nothing, &[row(900, 2, "n2", None)]).is_ok());
        assert!(held(Knows::Nothing, &[row(900, 2, "n2", Some(1_100))]).is_err());
        assert!(held(Knows::Nothing, &[]).is_err());
    }

    #[test]
    fn a_key_of_somebody_else_says_nothing() {
        let rows = [row(100, 1, "n2", Some(1_199)), row(900, 2, "n3", Some(1_150))];
        assert!(hold(&rows, &succession(Knows::TheRest)).is_err());
    }
}
