//! What all doors share, and the one way in which they ask: calls go to the node in a batch, and each is answered in
//! its own place, by what the node says or by what is wrong with it.

use std::sync::Arc;

use node::{Checked, Node, NotPut};

use crate::access::{Access, Caller};
use crate::asked::{Asked, shown};
use crate::body::{Told, is_unanswered};
use crate::code::{Code, Rejection};
use crate::forward_auth::Proxies;
use crate::meter::{CameOf, Meter};

/// What the handlers share.
#[derive(Clone, Debug)]
pub struct Front {
    /// The node that decides.
    pub node: Arc<Node>,
    /// Counts calls and measures them.
    pub meter: Arc<Meter>,
    /// Who may ask what.
    pub access: Arc<Access>,
    /// Whether `/metrics` answers without a token.
    pub open_metrics: bool,
    /// Who is believed when it says for whom it asks.
    pub proxies: Arc<Proxies>,
}

/// Calls that were put, with their answers.
#[derive(Debug)]
pub struct Answered<'a> {
    node: &'a Node,
    asked: &'a [Result<Asked, Rejection>],
    /// For each call: its place among the questions, or why it is none.
    questions: Vec<Result<usize, Rejection>>,
    checked: Checked,
    several: bool,
}

/// Where fields of the call at this place are said to be; there is no such place for a call that came alone.
pub fn place(index: usize, several: bool) -> String {
    if several { format!("checks[{index}].") } else { String::new() }
}

/// Puts these calls in the name of a caller. A call that cannot be put spoils only its own place.
pub async fn put<'a>(
    front: &'a Front,
    caller: Caller<'_>,
    asked: &'a [Result<Asked, Rejection>],
    several: bool,
) -> Answered<'a> {
    let node = &*front.node;
    let brought: Vec<_> = asked.iter().map(|asked| asked.as_ref().map(Asked::brought).unwrap_or_default()).collect();
    let mut put = Vec::with_capacity(asked.len());
    let question = |(index, asked): (usize, &'a Result<Asked, Rejection>)| {
        let asked = asked.as_ref().map_err(Clone::clone)?;
        put.push(asked.question(caller, &brought[index], &place(index, several), node)?);
        Ok(put.len() - 1)
    };
    let questions = asked.iter().enumerate().map(question).collect();
    let checked = node.check(&put).await;
    let answered = Answered { node, asked, questions, checked, several };
    (0..asked.len()).for_each(|index| answered.count(index, &front.meter));
    answered
}

impl Answered<'_> {
    /// The answer to the call at `index`.
    ///
    /// # Errors
    ///
    /// Why it could not be put, with the field at fault; nothing was spent.
    ///
    /// # Panics
    ///
    /// If there was no such call.
    pub fn told(&self, index: usize) -> Result<Told<'_>, Rejection> {
        let asked = self.asked[index].as_ref().map_err(Clone::clone)?;
        let (decision, policies) = self.checked.decision(self.questions[index].clone()?);
        let refused = |why: &NotPut| not_put(why, asked, &place(index, self.several));
        let decision = decision.map_err(refused)?;
        Told::new(decision, policies, asked, self.node).ok_or_else(|| refused(&NotPut::UnknownDomain))
    }

    /// All answers, in the order of the calls.
    pub fn all(&self) -> impl Iterator<Item = Result<Told<'_>, Rejection>> {
        (0..self.asked.len()).map(|index| self.told(index))
    }

    fn count(&self, index: usize, meter: &Meter) {
        let (Ok(asked), Ok(at)) = (&self.asked[index], &self.questions[index]) else { return };
        if asked.call.decides() {
            return;
        }
        let came = match self.checked.decision(*at).0 {
            Ok(decision) if is_unanswered(decision.reason) => CameOf::Unavailable,
            Ok(decision) if decision.allowed => CameOf::Done,
            Ok(_) | Err(NotPut::UnknownReservation) => CameOf::Nothing,
            Err(NotPut::InlineUndefined) => CameOf::Unavailable,
            Err(
                NotPut::UnknownDomain
                | NotPut::UnknownLimit
                | NotPut::InlineNotAllowed
                | NotPut::InlineRefused(_)
                | NotPut::InlineConflict { .. }
                | NotPut::InlineFull { .. }
                | NotPut::TooManyLimits
                | NotPut::CostTooLarge
                | NotPut::IdReused
                | NotPut::AboveReservation { .. },
            ) => CameOf::Refused,
        };
        meter.count_result(asked.call, came);
    }
}

/// How a question that could not be put is told.
fn not_put(why: &NotPut, asked: &Asked, place: &str) -> Rejection {
    let (code, field) = match why {
        NotPut::UnknownDomain => (Code::UnknownDomain, "domain"),
        NotPut::UnknownLimit => (Code::UnknownLimit, "limit"),
        NotPut::InlineNotAllowed | NotPut::InlineFull { .. } => (Code::InlineNotAllowed, "inline"),
        NotPut::InlineRefused(_) | NotPut::TooManyLimits => (Code::OutOfRange, "inline"),
        NotPut::InlineConflict { .. } => (Code::InlineConflict, "inline"),
        NotPut::InlineUndefined => (Code::NoLeader, "inline"),
        NotPut::CostTooLarge => (Code::OutOfRange, "cost"),
        NotPut::IdReused => (Code::IdReused, "id"),
        NotPut::UnknownReservation => (Code::UnknownReservation, "id"),
        NotPut::AboveReservation { .. } => (Code::AboveReservation, "cost"),
    };
    let detail = match why {
        NotPut::UnknownDomain => format!("no policy for domain `{}`", shown(&asked.domain)),
        NotPut::UnknownLimit => {
            let limit = asked.limit.as_deref().unwrap_or_default();
            format!("limit `{}` is not among those that apply to these attributes", shown(limit))
        }
        NotPut::AboveReservation { reserved } => {
            format!("{} is above the {reserved} that were reserved; `debt: true` books the rest", asked.cost)
        }
        NotPut::InlineNotAllowed
        | NotPut::InlineRefused(_)
        | NotPut::InlineConflict { .. }
        | NotPut::InlineFull { .. }
        | NotPut::InlineUndefined
        | NotPut::TooManyLimits
        | NotPut::CostTooLarge
        | NotPut::IdReused
        | NotPut::UnknownReservation => why.to_string(),
    };
    Rejection::of_field(code, format!("{place}{field}"), detail)
}
