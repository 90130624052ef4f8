//! A caller's question at its ingress: one asking for each partition that it concerns, and one decision out of all of
//! them. What the ingress of a node does around the machines of `ownership::ingress` is done here in the same order.

use limits::{Charge, FailMode, LimitId, Span};
use ringfence_ownership::ingress::{After, Asking, LegResult, Outcome, Patience, Said, after, after_grant, combine};
use ringfence_ownership::{Act, Check, CheckId, CheckLeg, EmergencyAnswer, EmergencyLeg};

use crate::bug::Bug;
use crate::node::{D_MAX_MS, Node};
use crate::scene::{Caller, Question, Scene, Then, Wanted};

/// A question under way, or decided.
pub struct Errand {
    /// Whether it speaks of an earlier charge.
    pub is_about_earlier: bool,
    pub groups: Vec<Group>,
    pub legs: Vec<Part>,
    pub told: Option<Told>,
    wanted: Wanted,
}

/// What the caller was told.
pub struct Told {
    pub at: u64,
    pub allowed: bool,
    /// How often the cost of each leg was granted.
    pub times: u64,
    pub said: Vec<Said>,
}

/// The legs that one partition decides.
pub struct Group {
    pub partition: usize,
    pub check: Check,
    pub asking: Asking,
    /// The time it is to be woken at, so that it is woken once.
    pub wake: Option<u64>,
    pub outcome: Option<Outcome>,
    /// The decision that it was told of, as the ledger numbers it.
    pub entry: Option<usize>,
    pub cancel: Sent,
    pub trim: Sent,
    pub debt: Sent,
}

/// What became of a correction.
#[derive(Debug, Default)]
pub struct Sent {
    pub sent: bool,
    /// When it came to the owner.
    pub arrived: Vec<u64>,
}

/// One leg: which group decides it, and its place there.
pub struct Part {
    pub key: usize,
    pub group: usize,
    pub place: usize,
    pub shadow: bool,
}

/// What the owners are told once a question is decided.
pub struct Correction {
    pub group: usize,
    pub after: After,
    pub unseen: Vec<CheckLeg>,
}

/// What was lent by the emergency limiter, for how many units each, and how many are wanted or granted so far.
struct Stand {
    lent: Vec<(Charge, u64)>,
    units: u64,
}

impl Errand {
    pub fn new(scene: &Scene, caller: &Caller, node: &Node, now: u64, bug: Bug) -> Errand {
        let question = &scene.questions[caller.question];
        let (is_about_earlier, wanted) = (caller.then.is_some(), question.wanted);
        let mut errand = Errand { is_about_earlier, groups: Vec::new(), legs: Vec::new(), told: None, wanted };
        let times = match (wanted, caller.then) {
            (Wanted::Reserve { units, .. }, None) => units,
            (_, Some(Then::Refund)) => 0,
            (Wanted::Spend | Wanted::Peek | Wanted::UpTo { .. } | Wanted::Acquire { .. }, None) => 1,
            (_, Some(Then::Settle { .. } | Then::Renew { .. } | Then::Release)) => 1,
        };
        for leg in &question.legs {
            let key = &scene.keys[leg.key];
            let limit = LimitId(key.limit as u32 + 1);
            let (variant, cost, shadow) = (Default::default(), leg.cost * times, leg.shadow);
            let check = CheckLeg { limit, variant, key: key.fingerprint, cost, shadow };
            let group = match errand.groups.iter().position(|group| group.partition == key.partition) {
                Some(group) => group,
                None => {
                    errand.groups.push(Group::new(scene, caller, node, key.partition, errand.groups.len(), now, bug));
                    errand.groups.len() - 1
                }
            };
            let legs = &mut errand.groups[group].check.legs;
            errand.legs.push(Part { key: leg.key, group, place: legs.len(), shadow: leg.shadow });
            legs.push(check);
        }
        errand
    }

    pub fn is_settled(&self) -> bool {
        self.groups.iter().all(|group| group.outcome.is_some())
    }

    /// The decision of a question of which every group is settled, and what is to be told to whom.
    pub fn conclude(&mut self, scene: &Scene, node: &mut Node, now: u64, bug: Bug) -> Vec<Correction> {
        if self.is_about_earlier {
            self.told = Some(Told { at: now, allowed: false, times: 0, said: Vec::new() });
            return Vec::new();
        }
        let wanted = if let Wanted::UpTo { units } = self.wanted { units } else { 1 };
        let units = self.groups.iter().filter_map(Group::granted).fold(wanted, u64::min);
        let mut stand = Stand { lent: Vec::new(), units };
        let results: Vec<LegResult> =
            self.legs.iter().map(|leg| self.result_of(scene, leg, node, now, &mut stand)).collect();
        let reused = self.groups.iter().any(|group| group.outcome == Some(Outcome::IdReused));
        let allowed = combine(&results).allowed && !reused;
        let times = if allowed { stand.units } else { 0 };
        self.give_back(&stand, times, node, now);
        let said = results.iter().map(|result| result.said).collect();
        self.told = Some(Told { at: now, allowed, times, said });
        if self.wanted == Wanted::Peek {
            return Vec::new();
        }
        (0..self.groups.len()).filter_map(|group| self.correction(group, allowed, times, &results, bug)).collect()
    }

    fn correction(
        &mut self,
        group: usize,
        allowed: bool,
        times: u64,
        results: &[LegResult],
        bug: Bug,
    ) -> Option<Correction> {
        let told = after(allowed, results, group as u8, self.groups[group].asking.may_have_spent());
        let after = self.groups[group].granted().map_or(told, |units| after_grant(told, units, times));
        match after {
            After::Nothing => return None,
            After::Cancel if bug == Bug::CancelNotSent => return None,
            After::Trim(_) if bug == Bug::TrimNotSent => return None,
            After::Cancel => self.groups[group].cancel.sent = true,
            After::Trim(_) => self.groups[group].trim.sent = true,
            After::Debt => self.groups[group].debt.sent = true,
        }
        let of_group = |leg: &Part| leg.group == group && !leg.shadow;
        let passed = self.legs.iter().zip(results).filter(|(leg, result)| of_group(leg) && result.said == Said::Open);
        let owed = |(leg, _): (&Part, &LegResult)| {
            let asked = self.groups[group].check.legs[leg.place];
            CheckLeg { cost: asked.cost * times, ..asked }
        };
        let unseen = passed.map(owed).collect();
        Some(Correction { group, after, unseen })
    }

    fn result_of(&self, scene: &Scene, leg: &Part, node: &mut Node, now: u64, stand: &mut Stand) -> LegResult {
        let group = &self.groups[leg.group];
        let said = match &group.outcome {
            Some(Outcome::Decided(verdict)) => Said::Owner(verdict.legs[leg.place]),
            Some(Outcome::TableFull { .. } | Outcome::IdReused | Outcome::Failed(_)) | None => {
                self.without_owner(scene, leg, node, now, stand)
            }
        };
        LegResult { group: leg.group as u8, shadow: leg.shadow, said }
    }

    /// What a failure mode says.
    fn without_owner(&self, scene: &Scene, leg: &Part, node: &mut Node, now: u64, stand: &mut Stand) -> Said {
        let (limit, key) = (scene.limit_of(leg.key), scene.keys[leg.key].fingerprint);
        let cost = self.groups[leg.group].check.legs[leg.place].cost;
        match limit.fail {
            FailMode::Open => Said::Open,
            FailMode::Closed => Said::Closed,
            FailMode::Emergency { percent, .. } => {
                let up_to = matches!(self.wanted, Wanted::UpTo { .. }).then_some(stand.units);
                let leg = EmergencyLeg { shape: limit.shape, percent, key, cost, up_to };
                let clock = node.clock(now);
                match node.emergency.decide(&leg, Some(&scene.calendars), clock) {
                    EmergencyAnswer::Decided { decision, charge, units } => {
                        stand.lent.extend(charge.map(|charge| (charge, units)));
                        stand.units = up_to.map_or(stand.units, |wanted| wanted.min(units));
                        Said::Emergency(decision)
                    }
                    EmergencyAnswer::Closed => Said::Closed,
                }
            }
        }
    }

    fn give_back(&self, stand: &Stand, times: u64, node: &mut Node, now: u64) {
        let clock = node.clock(now);
        for (charge, units) in &stand.lent {
            if times == 0 || self.wanted == Wanted::Peek {
                node.emergency.undo(charge, clock);
            } else if matches!(self.wanted, Wanted::UpTo { .. }) && *units > times {
                node.emergency.trim(charge, *units, times, clock);
            }
        }
    }
}

impl Group {
    fn new(scene: &Scene, caller: &Caller, node: &Node, partition: usize, number: usize, now: u64, bug: Bug) -> Group {
        let question = &scene.questions[caller.question];
        let act = act_of(question, caller.then);
        let id = match (bug, caller.then) {
            (Bug::LegUnderAnotherId, None) if number > 0 => CheckId(question.id.0 | 1 << 100),
            (_, None) => question.id,
            // What it is to do, and about what, is its name: who repeats it gets the recorded answer.
            (_, Some(Then::Refund)) => CheckId(question.id.0 | 1 << 96),
            (_, Some(Then::Settle { units, debt })) => {
                CheckId(question.id.0 | u128::from(4 + 2 * units + u64::from(debt)) << 96)
            }
            (_, Some(Then::Release)) => CheckId(question.id.0 | 1 << 97),
            // Each time is another.
            (_, Some(Then::Renew { .. })) => CheckId(question.id.0 | u128::from(caller.asker.0) << 32),
        };
        let asker = if bug == Bug::OneNameForAll { scene.callers[0].asker } else { caller.asker };
        let indexed = match caller.then {
            Some(Then::Refund | Then::Settle { .. } | Then::Release) => true,
            Some(Then::Renew { .. }) => false,
            None => question.indexed,
        };
        let attempt = caller.attempt;
        let check = Check { id, asker, attempt, indexed, question: question.digest, act, legs: Default::default() };
        let patience = Patience { budget: Span::from_millis(caller.budget), d_max: Span::from_millis(D_MAX_MS) };
        let asking = Asking::new(id, attempt, patience, node.routes[partition], node.clock(now).moment);
        let (cancel, trim, debt) = (Sent::default(), Sent::default(), Sent::default());
        Group { partition, check, asking, wake: None, outcome: None, entry: None, cancel, trim, debt }
    }

    /// The units that the owner granted to a check that takes as much as there is.
    fn granted(&self) -> Option<u64> {
        match (self.check.act, &self.outcome) {
            (Act::UpTo { .. }, Some(Outcome::Decided(verdict))) => Some(verdict.units),
            _ => None,
        }
    }
}

fn act_of(question: &Question, then: Option<Then>) -> Act {
    let of = question.id;
    match (question.wanted, then) {
        (_, Some(Then::Refund)) => Act::Refund { of },
        (_, Some(Then::Settle { units, debt })) => Act::Settle { of, units, debt },
        (Wanted::Spend, None) => Act::Spend,
        (Wanted::Peek, None) => Act::Peek,
        (Wanted::UpTo { units }, None) => Act::UpTo { units },
        (Wanted::Reserve { ttl_ms, units }, None) => Act::Reserve { ttl: Span::from_millis(ttl_ms), units },
        (Wanted::Acquire { ttl_ms }, None) => Act::Acquire { ttl: ttl_ms.map(Span::from_millis) },
        (_, Some(Then::Renew { ttl_ms })) => Act::Renew { of, ttl: ttl_ms.map(Span::from_millis) },
        (_, Some(Then::Release)) => Act::Release { of },
    }
}
