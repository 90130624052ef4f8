//! Charged once: what a limit says is used, against the questions that were asked. A question may have been asked many
//! times under its id and may have been cut off by its caller; it costs once or not at all.

use std::collections::BTreeMap;

/// What one key's limit says after the questions, where nothing flows back in the meantime.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standing {
    /// Units that the limit counts as used.
    pub used: u64,
}

/// One attempt at a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attempt {
    /// The question's id.
    pub id: u128,
    /// Its cost.
    pub cost: u64,
    /// What the asker was told; `None` when it did not wait for the answer, or none came.
    pub admitted: Option<bool>,
}

/// What does not add up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Discrepancy {
    /// More was charged than all ids together cost.
    #[error("{used} units are used by questions that cost {asked} in all: something was charged twice")]
    ChargedTwice {
        /// Units used.
        used: u64,
        /// The cost of all ids, each once.
        asked: u64,
    },
    /// Less was charged than callers were told.
    #[error("callers were told that {admitted} units were admitted, and {used} are used: something was not charged")]
    NotCharged {
        /// Units used.
        used: u64,
        /// The cost of ids that were admitted.
        admitted: u64,
    },
    /// One id got two answers.
    #[error("id {id:032x} was admitted once and refused once")]
    TwoAnswers {
        /// Which.
        id: u128,
    },
}

/// Holds what is used against what was asked.
///
/// # Errors
///
/// The first [`Discrepancy`] found.
pub fn reconcile(attempts: &[Attempt], standing: Standing) -> Result<(), Discrepancy> {
    let mut questions: BTreeMap<u128, (u64, Option<bool>)> = BTreeMap::new();
    for attempt in attempts {
        let (_, told) = questions.entry(attempt.id).or_insert((attempt.cost, None));
        match (*told, attempt.admitted) {
            (Some(before), Some(now)) if before != now => return Err(Discrepancy::TwoAnswers { id: attempt.id }),
            (None, now) => *told = now,
            (Some(_), _) => {}
        }
    }
    let sum = |wanted: fn(Option<bool>) -> bool| {
        questions.values().filter(|(_, told)| wanted(*told)).map(|(cost, _)| cost).sum::<u64>()
    };
    // A refusal charges nothing; an answer nobody waited for may have.
    let (admitted, asked) = (sum(|told| told == Some(true)), sum(|told| told != Some(false)));
    let used = standing.used;
    if used > asked {
        return Err(Discrepancy::ChargedTwice { used, asked });
    }
    if used < admitted {
        return Err(Discrepancy::NotCharged { used, admitted });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attempt(id: u128, admitted: Option<bool>) -> Attempt {
        Attempt { id, cost: 2, admitted }
    }

    #[test]
    fn an_id_that_was_asked_three_times_costs_once() {
        let attempts = [attempt(1, None), attempt(1, Some(true)), attempt(1, Some(true)), attempt(2, None)];
        assert_eq!(reconcile(&attempts, Standing { used: 2 }), Ok(()));
        assert_eq!(
            reconcile(&attempts, Standing { used: 4 }),
            Ok(()),
            "the one that was cut off may have been charged"
        );
        let twice = Discrepancy::ChargedTwice { used: 6, asked: 4 };
        assert_eq!(reconcile(&attempts, Standing { used: 6 }), Err(twice));
    }

    #[test]
    fn what_callers_were_told_is_there() {
        let attempts = [attempt(1, Some(true)), attempt(2, Some(false))];
        assert_eq!(reconcile(&attempts, Standing { used: 2 }), Ok(()));
        let lost = Discrepancy::NotCharged { used: 0, admitted: 2 };
        assert_eq!(reconcile(&attempts, Standing { used: 0 }), Err(lost));
        let refused = Discrepancy::ChargedTwice { used: 4, asked: 2 };
        assert_eq!(reconcile(&attempts, Standing { used: 4 }), Err(refused), "a refusal costs nothing");
    }

    #[test]
    fn an_id_has_one_answer() {
        let attempts = [attempt(7, Some(true)), attempt(7, None), attempt(7, Some(false))];
        assert_eq!(reconcile(&attempts, Standing { used: 2 }), Err(Discrepancy::TwoAnswers { id: 7 }));
    }
}
