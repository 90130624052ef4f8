//! The one runner: every case, call by call, through a way of answering, and what was answered held against what must be.
//! A case that a way cannot express is named with its reason; none is passed over in silence.

use std::fmt::{self, Debug};

use limits::Span;

use super::answer::{Answer, LimitSaid, Said};
use super::case::{Act, Attributes, Call, Case, Expect, ExpectLimit, Finding};

/// A way of answering cases: the twin, the engine, three nodes.
pub trait Way {
    /// Its name, as the run prints it and as cases speak of it.
    fn name(&self) -> &'static str;

    /// Begins a case: nothing was used, limit time stands at the case's zero.
    ///
    /// # Errors
    ///
    /// Why the case cannot be expressed.
    fn begin(&mut self, case: &Case) -> Result<(), Cannot>;

    /// Moves limit time to this long after the case's zero. Never back.
    fn go_to(&mut self, at: Span);

    /// Offers a reading of the clock that is before what it read last.
    ///
    /// # Errors
    ///
    /// Why that cannot be expressed.
    fn go_back_to(&mut self, at: Span) -> Result<(), Cannot>;

    /// Applies a document; what is wrong with it, or nothing once it applies everywhere.
    ///
    /// # Errors
    ///
    /// Why that cannot be expressed.
    fn apply(&mut self, document: &str) -> Result<Vec<Finding>, Cannot>;

    /// Asks, in the domain of the case.
    ///
    /// # Errors
    ///
    /// Why that cannot be expressed.
    fn ask(&mut self, act: &Act, attributes: &Attributes) -> Result<Said, Cannot>;
}

/// Why a way cannot express something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cannot(pub String);

impl Cannot {
    /// With this reason.
    pub fn because(reason: impl Into<String>) -> Cannot {
        Cannot(reason.into())
    }
}

/// How a case ended in one way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ending {
    /// Every answer was as it must be.
    Held,
    /// These were not.
    Failed(Vec<String>),
    /// It was not asked, and why.
    CannotSay(String),
}

/// All cases in one way.
#[derive(Debug)]
pub struct Report {
    way: &'static str,
    endings: Vec<(String, Ending)>,
    /// Cases whose header fields and statuses this way does not have.
    without_door: usize,
}

/// Runs every case through a way.
pub fn run(cases: &[&Case], way: &mut impl Way) -> Report {
    let mut report = Report { way: way.name(), endings: Vec::new(), without_door: 0 };
    for case in cases {
        let mut run = Run { case, way, failures: Vec::new(), lacks_door: false };
        let ending = match run.run() {
            Err(Cannot(reason)) => Ending::CannotSay(reason),
            Ok(()) if run.failures.is_empty() => Ending::Held,
            Ok(()) => Ending::Failed(std::mem::take(&mut run.failures)),
        };
        report.without_door += usize::from(run.lacks_door);
        report.endings.push((case.id.clone(), ending));
    }
    report
}

struct Run<'r, W> {
    case: &'r Case,
    way: &'r mut W,
    failures: Vec<String>,
    lacks_door: bool,
}

impl<W: Way> Run<'_, W> {
    fn run(&mut self) -> Result<(), Cannot> {
        if let Some(reason) = self.case.cannot.get(self.way.name()) {
            return Err(Cannot(reason.clone()));
        }
        self.way.begin(self.case)?;
        let found = self.way.apply(&self.case.document(&self.case.policy))?;
        self.compare_findings("the policy", &self.case.errors, &found);
        if !found.is_empty() {
            return Ok(());
        }
        for call in &self.case.calls {
            self.call(call)?;
        }
        Ok(())
    }

    fn call(&mut self, call: &Call) -> Result<(), Cannot> {
        let place = format!("line {}", call.line);
        if let Act::Apply(policy) = &call.act {
            self.way.go_to(call.at);
            let found = self.way.apply(&self.case.document(policy))?;
            self.compare_findings(&place, &call.expect.errors, &found);
            return Ok(());
        }
        let mut admitted = 0;
        for turn in 0..call.times {
            match call.back {
                true => self.way.go_back_to(call.at)?,
                false => self.way.go_to(call.at.saturating_add(Span::from_nanos(call.every.as_nanos() * turn))),
            }
            let said = self.way.ask(&call.act, call.with.as_ref().unwrap_or(&self.case.with))?;
            admitted += u64::from(matches!(&said, Said::Answer(answer) if answer.allowed));
            self.compare(&place, &call.expect, &said);
        }
        if let Some(admits) = call.expect.admits.filter(|admits| *admits != admitted) {
            self.fail(&place, "admitted", admits, admitted);
        }
        Ok(())
    }

    fn compare_findings(&mut self, place: &str, expected: &[Finding], found: &[Finding]) {
        let matches = |expected: &Finding| {
            found.iter().any(|found| {
                found.code == expected.code
                    && expected.line.is_none_or(|line| found.line == Some(line))
                    && expected.suggestion.as_ref().is_none_or(|meant| found.suggestion.as_ref() == Some(meant))
            })
        };
        if expected.len() != found.len() || !expected.iter().all(matches) {
            self.fail(place, "findings", expected, found);
        }
    }

    fn compare(&mut self, place: &str, expect: &Expect, said: &Said) {
        match (said, &expect.error) {
            (Said::Rejected { code, status }, Some(error)) if code == error => {
                self.same(place, "status", expect.status.filter(|_| status.is_some()).map(Some), *status);
            }
            (Said::Answer(answer), None) => {
                self.compare_answer(place, expect, answer);
                self.compare_door(place, expect, answer);
                for (name, limit) in &expect.limits {
                    self.compare_limit(
                        &format!("{place}, {name}"),
                        limit,
                        answer.limits.iter().find(|it| it.limit == *name),
                    );
                }
            }
            (Said::Rejected { .. } | Said::Answer(_), error) => self.fail(place, "error", error, said),
        }
    }

    fn compare_answer(&mut self, place: &str, expect: &Expect, answer: &Answer) {
        self.same(place, "allowed", expect.allowed, answer.allowed);
        self.same(place, "reason", expect.reason.clone(), answer.reason.clone());
        self.same(place, "limit", expect.limit.clone().map(Some), answer.limit.clone());
        self.same(place, "remaining", expect.remaining.map(Some), answer.remaining);
        self.same(place, "reset_after_ms", expect.reset_after_ms.map(Some), answer.reset_after_ms);
        self.same(place, "units", expect.units, answer.units);
        // Whoever is let pass need not wait, and a denial that says no wait is one that waiting does not help.
        let wait = expect.allowed.map(|_| expect.retry_after_ms).or(expect.retry_after_ms.map(Some));
        self.same(place, "retry_after_ms", wait, answer.retry_after_ms);
    }

    fn compare_limit(&mut self, place: &str, expect: &ExpectLimit, said: Option<&LimitSaid>) {
        let Some(said) = said else { return self.fail(place, "limit", "an answer", "none") };
        self.same(place, "allowed", expect.allowed, said.allowed);
        self.same(place, "capacity", expect.capacity.map(Some), said.capacity);
        self.same(place, "remaining", expect.remaining.map(Some), said.remaining);
        self.same(place, "retry_after_ms", expect.retry_after_ms.map(Some), said.retry_after_ms);
        self.same(place, "reset_after_ms", expect.reset_after_ms.map(Some), said.reset_after_ms);
    }

    fn compare_door(&mut self, place: &str, expect: &Expect, answer: &Answer) {
        if expect.status.is_none() && expect.headers.is_empty() {
            return;
        }
        let Some(door) = &answer.door else {
            self.lacks_door = true;
            return;
        };
        self.same(place, "status", expect.status, door.status);
        for (name, value) in &expect.headers {
            let said = door.headers.iter().find(|(field, _)| field == name).map_or("", |(_, value)| value);
            self.same(place, name, Some(value.as_str()), said);
        }
    }

    fn same<T: PartialEq + Debug>(&mut self, place: &str, what: &str, expected: Option<T>, said: T) {
        if let Some(expected) = expected
            && expected != said
        {
            self.fail(place, what, expected, said);
        }
    }

    fn fail(&mut self, place: &str, what: &str, expected: impl Debug, said: impl Debug) {
        self.failures.push(format!("{place}: {what} must be {expected:?}, and is {said:?}"));
    }
}

impl Report {
    /// Whether no case failed.
    pub fn holds(&self) -> bool {
        !self.endings.iter().any(|(_, ending)| matches!(ending, Ending::Failed(_)))
    }

    /// How many cases held.
    pub fn held(&self) -> usize {
        self.endings.iter().filter(|(_, ending)| *ending == Ending::Held).count()
    }

    /// How each case ended.
    pub fn endings(&self) -> &[(String, Ending)] {
        &self.endings
    }
}

/// The count, then what could not be expressed and why, then what failed.
impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = |wanted: fn(&Ending) -> bool| self.endings.iter().filter(|(_, ending)| wanted(ending)).count();
        let failed = count(|ending| matches!(ending, Ending::Failed(_)));
        let unsaid = count(|ending| matches!(ending, Ending::CannotSay(_)));
        let (all, held) = (self.endings.len(), self.held());
        writeln!(
            f,
            "conformance, {}: {all} cases, {held} held, {failed} failed, {unsaid} cannot be expressed",
            self.way
        )?;
        if self.without_door > 0 {
            writeln!(
                f,
                "  of {} the header fields and statuses are compared elsewhere: only a front door has them",
                self.without_door
            )?;
        }
        for (id, ending) in &self.endings {
            match ending {
                Ending::Held => {}
                Ending::CannotSay(reason) => writeln!(f, "  {id}: not expressed: {reason}")?,
                Ending::Failed(failures) => {
                    failures.iter().try_for_each(|failure| writeln!(f, "  {id}: FAILED: {failure}"))?
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::super::answer::Door;
    use super::super::read::cases;
    use super::*;

    /// A front door that says the same to everything.
    struct Parrot {
        status: u16,
    }

    impl Way for Parrot {
        fn name(&self) -> &'static str {
            "parrot"
        }

        fn begin(&mut self, _case: &Case) -> Result<(), Cannot> {
            Ok(())
        }

        fn go_to(&mut self, _at: Span) {}

        fn go_back_to(&mut self, _at: Span) -> Result<(), Cannot> {
            Err(Cannot::because("parrots know no past"))
        }

        fn apply(&mut self, _document: &str) -> Result<Vec<Finding>, Cannot> {
            Ok(Vec::new())
        }

        fn ask(&mut self, _act: &Act, _attributes: &Attributes) -> Result<Said, Cannot> {
            if self.status == 400 {
                return Ok(Said::Rejected { code: "out-of-range".to_owned(), status: Some(400) });
            }
            let headers = vec![("retry-after".to_owned(), "1".to_owned())];
            let door = Some(Door { status: self.status, headers });
            let (reason, retry_after_ms) = ("limit".to_owned(), Some(900));
            Ok(Said::Answer(Answer { reason, retry_after_ms, door, ..Answer::default() }))
        }
    }

    fn ending(call: &str, status: u16) -> Ending {
        let case =
            format!("[[case]]\nid = \"x\"\nsource = \"x\"\nwrong = \"x\"\npolicy = \"x\"\ncalls = [{{ {call} }}]\n");
        let case = cases(&case).unwrap().remove(0);
        run(&[&case], &mut Parrot { status }).endings()[0].1.clone()
    }

    #[test]
    fn header_fields_and_statuses_are_compared_and_so_is_a_field_that_must_not_be_there() {
        let denied = "allowed = false, reason = \"limit\", retry_after_ms = 900";
        let ends = |more: &str| ending(&format!("{denied}, {more}"), 429);
        assert_eq!(ends("status = 429, headers = { retry-after = \"1\", ratelimit = \"\" }"), Ending::Held);
        for wrong in ["status = 503", "headers = { retry-after = \"2\" }", "headers = { retry-after = \"\" }"] {
            assert!(matches!(ends(wrong), Ending::Failed(_)), "{wrong}");
        }
    }

    #[test]
    fn a_rejection_is_compared_by_its_word_and_its_status() {
        assert_eq!(ending("error = \"out-of-range\", status = 400", 400), Ending::Held);
        assert!(matches!(ending("error = \"out-of-range\", status = 404", 400), Ending::Failed(_)));
        assert!(matches!(ending("error = \"unknown-field\"", 400), Ending::Failed(_)));
        assert!(matches!(ending("error = \"out-of-range\"", 429), Ending::Failed(_)));
        assert!(matches!(ending("allowed = true, remaining = 1", 400), Ending::Failed(_)));
    }

    #[test]
    fn what_cannot_be_expressed_is_named_with_its_reason() {
        let text = "[[case]]\nid = \"x\"\nsource = \"x\"\nwrong = \"x\"\npolicy = \"x\"\ncalls = [\n\
            { at = \"2s\", admits = 0 },\n{ at = \"1s\", back = true, admits = 0 },\n]\n";
        let case = cases(text).unwrap().remove(0);
        let report = run(&[&case], &mut Parrot { status: 429 });
        assert!(report.holds() && report.held() == 0, "neither held nor failed");
        assert!(report.to_string().contains("1 cases, 0 held, 0 failed, 1 cannot be expressed"), "{report}");
        assert!(report.to_string().contains("x: not expressed: parrots know no past"), "{report}");
    }
}
