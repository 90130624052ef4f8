//! The policies of a story, and what its callers ask about. Every story has limits of every failure mode and of several
//! ways of counting; amounts are so small that they are met, and windows turn while the story is told, but for one that
//! outlasts it. Later documents change numbers and failure modes and leave identities alone.

use std::fmt::Write as _;

use super::Chance;

/// The one domain.
pub const DOMAIN: &str = "sim";

/// How often all subjects are asked about in a second of the safety phase, together.
const ASKED_PER_SECOND: u64 = 60;

/// What callers ask about: a rule and the keys it counts by.
#[derive(Clone, Debug)]
pub struct Subject {
    /// The attribute that picks the rule.
    pub rule: &'static str,
    /// The attribute `key`.
    pub key: &'static str,
    /// The attribute `org`, which several keys share.
    pub org: &'static str,
    /// The most that an ask may cost and still fit.
    pub cost_max: u64,
}

/// The limits and rules of a story.
#[derive(Clone, Debug)]
pub struct Policies {
    limits: Vec<Limit>,
    rules: Vec<(&'static str, Vec<&'static str>)>,
    subjects: Vec<Subject>,
    changes: Vec<Change>,
}

#[derive(Clone, Debug)]
struct Limit {
    name: &'static str,
    counted: Counted,
    amount: u64,
    burst: u64,
    period_ms: u64,
    fail: Fail,
    key: &'static str,
    route: Option<&'static str>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Counted {
    Bucket,
    Log,
    Window(&'static str),
    Counter,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fail {
    Closed,
    Open,
    Emergency { percent: u64, reserved: bool },
}

/// What the next document says otherwise.
#[derive(Clone, Copy, Debug)]
struct Change {
    limit: usize,
    amount: u64,
    burst: u64,
    turns: bool,
}

/// Documents beyond the first that a story may have.
const CHANGES_MAX: usize = 4;

const COUNTED: &[(u64, Counted)] = &[
    (4, Counted::Bucket),
    (4, Counted::Log),
    (1, Counted::Window("epoch")),
    (1, Counted::Window("hashed")),
    (1, Counted::Window("first")),
    (1, Counted::Counter),
];

impl Policies {
    /// Those of this row of chance.
    pub fn drawn(chance: &mut Chance) -> Policies {
        let aligned = *chance.pick(&["epoch", "epoch", "hashed"]);
        let any = |chance: &mut Chance| *chance.weighed(COUNTED);
        let emergency = |chance: &mut Chance, reserved| Fail::Emergency {
            percent: chance.between(25, if reserved { 90 } else { 100 }),
            reserved,
        };
        let counter_fails = *chance.pick(&[Fail::Closed, Fail::Open]);
        let mut limits = vec![
            limit(chance, "c-bucket", Counted::Bucket, Fail::Closed),
            limit(chance, "c-log", Counted::Log, Fail::Closed),
            limit(chance, "c-window", Counted::Window(aligned), Fail::Closed),
            limit(chance, "s-counter", Counted::Counter, counter_fails),
        ];
        let counted = any(chance);
        limits.push(limit(chance, "o-any", counted, Fail::Open));
        for (name, reserved) in [("e-shared", false), ("r-reserved", true)] {
            let (counted, fail) = (any(chance), emergency(chance, reserved));
            limits.push(limit(chance, name, counted, fail));
        }
        let together = chance.one_in(3);
        limits.extend(pair(chance, together));
        let mut policies = Policies { subjects: Vec::new(), rules: rules(), changes: Vec::new(), limits };
        let outlasts = *chance.pick(&[0, 1, 1, 6]);
        policies.limits[outlasts].outlasts(chance);
        if chance.one_in(2) {
            // All of its keys in one partition.
            (policies.limits[outlasts].key, policies.limits[outlasts].route) = ("[org, key]", Some("[org]"));
        }
        policies.subjects = policies.asked_about();
        policies.changes = (0..CHANGES_MAX).map(|_| policies.change(chance)).collect();
        policies
    }

    /// What is asked about.
    pub fn subjects(&self) -> &[Subject] {
        &self.subjects
    }

    /// The first document and so many changed ones, each on top of the one before.
    pub fn documents(mut self, changes: usize) -> Vec<String> {
        let mut documents = vec![self.document()];
        for place in 0..changes {
            let change = self.changes[place % self.changes.len()];
            self.limits[change.limit].take(change);
            documents.push(self.document());
        }
        documents
    }

    fn asked_about(&self) -> Vec<Subject> {
        let subject = |rule, key, org| Subject { rule, key, org, cost_max: self.cost_max(rule) };
        vec![
            subject("bucket", "k1", "acme"),
            subject("bucket", "k2", "acme"),
            subject("log", "k3", "acme"),
            subject("log", "k11", "acme"),
            subject("window", "k4", "acme"),
            subject("counter", "k5", "acme"),
            subject("open", "k6", "acme"),
            subject("shared", "k7", "acme"),
            subject("reserved", "k8", "acme"),
            subject("pair", "k9", "zeta"),
            subject("pair", "k10", "zeta"),
        ]
    }

    fn cost_max(&self, rule: &str) -> u64 {
        let named = self.rules.iter().find(|(name, _)| *name == rule).map_or(&[][..], |(_, limits)| limits);
        let fitting = self.limits.iter().filter(|limit| named.contains(&limit.name)).map(Limit::fits);
        fitting.min().unwrap_or(1)
    }

    fn change(&self, chance: &mut Chance) -> Change {
        let limit = usize::try_from(chance.below(self.limits.len() as u64)).expect("a length fits");
        let changed = &self.limits[limit];
        let amount = match chance.below(3) {
            0 => (changed.amount / 2).max(1),
            1 => changed.amount + 1,
            _ => changed.amount * 2,
        };
        let turns = chance.one_in(4) && !matches!(changed.fail, Fail::Emergency { .. });
        Change { limit, amount, burst: changed.burst.min(amount), turns }
    }

    fn document(&self) -> String {
        let mut text = format!("ringfence: 1\ndomain: {DOMAIN}\nlimits:\n");
        self.limits.iter().for_each(|limit| limit.write(&mut text));
        text.push_str("rules:\n");
        for (name, limits) in &self.rules {
            let _ =
                writeln!(text, "  - {{ name: {name}, match: {{ rule: {name} }}, limits: [{}] }}", limits.join(", "));
        }
        text
    }
}

fn rules() -> Vec<(&'static str, Vec<&'static str>)> {
    vec![
        ("bucket", vec!["c-bucket"]),
        ("log", vec!["c-log"]),
        ("window", vec!["c-window"]),
        ("counter", vec!["s-counter"]),
        ("open", vec!["o-any"]),
        ("shared", vec!["e-shared"]),
        ("reserved", vec!["r-reserved"]),
        ("pair", vec!["p-key", "p-org"]),
    ]
}

fn limit(chance: &mut Chance, name: &'static str, counted: Counted, fail: Fail) -> Limit {
    let emergency = matches!(fail, Fail::Emergency { .. });
    let period_ms = match chance.below(10) {
        0..=3 if !emergency => *chance.pick(&[200, 250, 400, 700, 1_000]),
        0..=6 => *chance.pick(&[1_000, 1_500, 2_000]),
        _ => *chance.pick(&[3_000, 4_000, 6_000]),
    };
    // From a fifth to all of what is asked, so that it is met; a share of it is something for five nodes.
    let asked = ASKED_PER_SECOND * period_ms / 10_000;
    let amount = chance.between((asked / 5).max(1), asked.max(2));
    let amount = if emergency { amount.max(10) } else { amount };
    let burst = chance.between(1, amount);
    Limit { name, counted, amount, burst, period_ms, fail, key: "[key]", route: None }
}

/// Two limits on one check: in one partition, or in two.
fn pair(chance: &mut Chance, together: bool) -> [Limit; 2] {
    let fails = [Fail::Closed, Fail::Closed, Fail::Open, Fail::Emergency { percent: 50, reserved: false }];
    let (first, second) = (*chance.pick(&fails), *chance.pick(&fails));
    let counted = *chance.pick(&[Counted::Bucket, Counted::Log, Counted::Window("epoch")]);
    let mut of_key = limit(chance, "p-key", counted, first);
    let mut of_org = limit(chance, "p-org", Counted::Log, second);
    of_org.key = "[org]";
    of_org.amount += 1;
    if together {
        of_key.key = "[org, key]";
        (of_key.route, of_org.route) = (Some("[org]"), Some("[org]"));
    }
    [of_key, of_org]
}

impl Limit {
    /// A period that outlasts the story: what is used stays used.
    fn outlasts(&mut self, chance: &mut Chance) {
        self.period_ms = *chance.pick(&[20_000, 30_000, 60_000]);
        self.amount = chance.between(10, 30);
        self.burst = self.amount;
    }

    fn take(&mut self, change: Change) {
        (self.amount, self.burst) = (change.amount, change.burst);
        self.fail = match self.fail {
            Fail::Closed if change.turns => Fail::Open,
            Fail::Open if change.turns => Fail::Closed,
            Fail::Closed | Fail::Open | Fail::Emergency { .. } => self.fail,
        };
    }

    /// The most that fits into it at once.
    fn fits(&self) -> u64 {
        match self.counted {
            Counted::Bucket => self.burst,
            Counted::Log | Counted::Window(_) | Counted::Counter => self.amount,
        }
    }

    fn write(&self, text: &mut String) {
        let Limit { name, amount, burst, period_ms, key, .. } = self;
        let _ = write!(text, "  {name}: {{ rate: {amount}/{period_ms}ms");
        if self.counted == Counted::Bucket {
            let _ = write!(text, " burst {burst}");
        }
        match self.counted {
            Counted::Bucket => {}
            Counted::Log => text.push_str(", algorithm: sliding-log"),
            Counted::Window(align) => {
                let _ = write!(text, ", algorithm: fixed-window, align: {align}");
            }
            Counted::Counter => text.push_str(", algorithm: sliding-counter"),
        }
        if self.counted == Counted::Counter {
            text.push_str(", approximate: true");
        }
        let _ = write!(text, ", key: {key}");
        if let Some(route) = self.route {
            let _ = write!(text, ", route: {route}");
        }
        match self.fail {
            Fail::Closed => text.push_str(", fail: closed }\n"),
            Fail::Open => text.push_str(", fail: open }\n"),
            Fail::Emergency { percent, reserved: false } => {
                let _ = writeln!(text, ", fail: {{ emergency: {percent}% }} }}");
            }
            Fail::Emergency { percent, reserved: true } => {
                let _ = writeln!(text, ", fail: {{ emergency: {percent}%, reserved: true }} }}");
            }
        }
    }
}
