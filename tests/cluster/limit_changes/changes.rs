//! Every change of a limit that the test makes: from each algorithm to each other, and each other kind of change under
//! each algorithm. All of them are limits of one policy, so that two revisions of it make them all at once.

use serde_json::{Value, json};

/// Units of a limit before its change, of one that is raised, and of one that is cut.
pub const AMOUNT: u64 = 60;
pub const MORE: u64 = 90;
pub const LESS: u64 = 40;

/// Whose checks are counted.
pub const CLIENT: &str = "live";

/// Windows so long that nothing comes back while the test runs, in days.
const LONG: u64 = 300;
const SHORTER: u64 = 200;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithm {
    Bucket,
    Log,
    Counter,
    First,
    Epoch,
    Hashed,
    Calendar,
    Slots,
}

pub const ALGORITHMS: [Algorithm; 8] = [
    Algorithm::Bucket,
    Algorithm::Log,
    Algorithm::Counter,
    Algorithm::First,
    Algorithm::Epoch,
    Algorithm::Hashed,
    Algorithm::Calendar,
    Algorithm::Slots,
];

/// What is changed about a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    To(Algorithm),
    Raised,
    Cut,
    Shorter,
    OpenToClosed,
    ClosedToOpen,
    Renamed,
    /// The plan that its caller is on gives more.
    PlanRaised,
    /// Its caller goes to another plan.
    PlanLeft,
    /// The key is given more than others.
    Overridden,
}

const KINDS: [Kind; 9] = [
    Kind::Raised,
    Kind::Cut,
    Kind::Shorter,
    Kind::OpenToClosed,
    Kind::ClosedToOpen,
    Kind::Renamed,
    Kind::PlanRaised,
    Kind::PlanLeft,
    Kind::Overridden,
];

/// One limit and what becomes of it.
#[derive(Clone, Debug)]
pub struct Change {
    pub name: String,
    algorithm: Algorithm,
    kind: Kind,
}

/// All changes.
pub fn all() -> Vec<Change> {
    let change = |algorithm: Algorithm, kind: Kind, what: &str| {
        let name = format!("{}-{what}", algorithm.word());
        Change { name, algorithm, kind }
    };
    let mut changes = Vec::new();
    for from in ALGORITHMS {
        let others = ALGORITHMS.into_iter().filter(|to| *to != from);
        changes.extend(others.map(|to| change(from, Kind::To(to), &format!("to-{}", to.word()))));
        changes.extend(KINDS.into_iter().map(|kind| change(from, kind, kind.word())));
    }
    changes
}

/// The policy before (`changed` false) and after.
pub fn policy(changes: &[Change], changed: bool) -> String {
    let lines = |line: &dyn Fn(&Change) -> Option<String>| changes.iter().filter_map(line).collect::<String>();
    let limits = lines(&|change| Some(format!("  {}: {{ {} }}\n", change.limit(changed), change.body(changed))));
    let rules = lines(&|change| {
        Some(format!("- {{ name: {0}, match: {{ of: {0} }}, limits: [{1}] }}\n", change.name, change.limit(changed)))
    });
    let plan = |plan: &str| lines(&|change| Some(format!("{}: {}, ", change.name, change.plan_row(plan, changed)?)));
    let overrides = lines(&|change| {
        let numbers = change.algorithm.numbers(MORE, LONG);
        (change.kind == Kind::Overridden && changed)
            .then(|| format!("- {{ limit: {}, key: {{ client: {CLIENT} }}, {numbers} }}\n", change.name))
    });
    let overrides = if overrides.is_empty() { overrides } else { format!("overrides:\n{overrides}") };
    format!(
        "ringfence: 1\ndomain: default\nplans:\n  default: {{ {} }}\n  pro: {{ {} }}\nlimits:\n{limits}{overrides}rules:\n{rules}",
        plan("default"),
        plan("pro"),
    )
}

impl Change {
    /// Units before and after.
    pub const fn amounts(&self) -> (u64, u64) {
        match self.kind {
            Kind::To(_) | Kind::Shorter | Kind::OpenToClosed | Kind::ClosedToOpen | Kind::Renamed => (AMOUNT, AMOUNT),
            Kind::Raised | Kind::PlanRaised | Kind::PlanLeft | Kind::Overridden => (AMOUNT, MORE),
            Kind::Cut => (AMOUNT, LESS),
        }
    }

    /// A check that costs one unit of this limit.
    pub fn check(&self, changed: bool) -> Value {
        let plan = if self.kind == Kind::PlanLeft && changed { "pro" } else { "none" };
        let attributes = json!({ "of": self.name, "client": CLIENT, "plan": plan });
        json!({ "attributes": attributes, "deadline_ms": 1_000 })
    }

    /// The limit's name.
    fn limit(&self, changed: bool) -> String {
        if self.kind == Kind::Renamed && changed { format!("{}-now", self.name) } else { self.name.clone() }
    }

    fn body(&self, changed: bool) -> String {
        let algorithm = if let (Kind::To(algorithm), true) = (self.kind, changed) { algorithm } else { self.algorithm };
        let period = if self.kind == Kind::Shorter && changed { SHORTER } else { LONG };
        let (before, after) = self.amounts();
        let numbers = match self.kind {
            Kind::PlanRaised | Kind::PlanLeft => algorithm.by_plan().to_owned(),
            Kind::Raised | Kind::Cut => algorithm.numbers(if changed { after } else { before }, period),
            Kind::To(_)
            | Kind::Shorter
            | Kind::OpenToClosed
            | Kind::ClosedToOpen
            | Kind::Renamed
            | Kind::Overridden => algorithm.numbers(before, period),
        };
        let fail = match (self.kind, changed) {
            (Kind::OpenToClosed, false) | (Kind::ClosedToOpen, true) => "open",
            _ => "closed",
        };
        let renamed = if self.kind == Kind::Renamed && changed {
            format!(", renamed_from: {}", self.name)
        } else {
            String::new()
        };
        format!("{numbers}{}, key: [client], fail: {fail}{renamed}", algorithm.rest(period))
    }

    /// What a plan gives, where the limit goes by plans.
    fn plan_row(&self, plan: &str, changed: bool) -> Option<String> {
        let amount = match self.kind {
            Kind::PlanRaised if changed => MORE,
            Kind::PlanRaised => AMOUNT,
            Kind::PlanLeft if plan == "pro" => MORE,
            Kind::PlanLeft => AMOUNT,
            Kind::To(_)
            | Kind::Raised
            | Kind::Cut
            | Kind::Shorter
            | Kind::OpenToClosed
            | Kind::ClosedToOpen
            | Kind::Renamed
            | Kind::Overridden => return None,
        };
        let numbers = self.algorithm.numbers(amount, LONG);
        numbers.split_once(": ").map(|(_, row)| row.to_owned())
    }
}

impl Kind {
    const fn word(self) -> &'static str {
        match self {
            Kind::To(_) => "to-another",
            Kind::Raised => "raised",
            Kind::Cut => "cut",
            Kind::Shorter => "shorter",
            Kind::OpenToClosed => "open-to-closed",
            Kind::ClosedToOpen => "closed-to-open",
            Kind::Renamed => "renamed",
            Kind::PlanRaised => "plan-raised",
            Kind::PlanLeft => "plan-left",
            Kind::Overridden => "overridden",
        }
    }
}

impl Algorithm {
    const fn word(self) -> &'static str {
        match self {
            Algorithm::Bucket => "bucket",
            Algorithm::Log => "log",
            Algorithm::Counter => "counter",
            Algorithm::First => "first",
            Algorithm::Epoch => "epoch",
            Algorithm::Hashed => "hashed",
            Algorithm::Calendar => "calendar",
            Algorithm::Slots => "slots",
        }
    }

    /// The numbers, as a limit, a plan or an override spells them.
    fn numbers(self, amount: u64, days: u64) -> String {
        match self {
            Algorithm::Slots => format!("slots: {amount}"),
            Algorithm::Calendar if days == LONG => format!("rate: {amount}/year calendar UTC"),
            Algorithm::Calendar => format!("rate: {amount}/year calendar Europe/Berlin"),
            Algorithm::Bucket
            | Algorithm::Log
            | Algorithm::Counter
            | Algorithm::First
            | Algorithm::Epoch
            | Algorithm::Hashed => format!("rate: {amount}/{days}d"),
        }
    }

    const fn by_plan(self) -> &'static str {
        match self {
            Algorithm::Slots => "slots: $plan",
            Algorithm::Bucket
            | Algorithm::Log
            | Algorithm::Counter
            | Algorithm::First
            | Algorithm::Epoch
            | Algorithm::Hashed
            | Algorithm::Calendar => "rate: $plan",
        }
    }

    /// What else the limit says.
    fn rest(self, days: u64) -> String {
        let words = match self {
            Algorithm::Bucket => "algorithm: token-bucket",
            Algorithm::Log => "algorithm: sliding-log",
            Algorithm::Counter => "algorithm: sliding-counter, approximate: true",
            Algorithm::First => "algorithm: fixed-window, align: first",
            Algorithm::Epoch => "algorithm: fixed-window, align: epoch",
            Algorithm::Hashed => "algorithm: fixed-window, align: hashed",
            Algorithm::Calendar => "algorithm: calendar",
            Algorithm::Slots => return format!(", algorithm: concurrency, ttl: {days}d, max_hold: {LONG}d"),
        };
        format!(", {words}")
    }
}
