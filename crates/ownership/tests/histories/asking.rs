//! A caller's question at its ingress: one asking for each partition that it concerns, and one decision out of all of
//! them. What the ingress of a node does around the machines of `ownership::ingress` is done here in the same order.

use limits::{Charge, FailMode, LimitId};
use ringfence_ownership::ingress::{After, Asking, LegResult, Outcome, Patience, Said, after, combine};
use ringfence_ownership::{Act, Check, CheckId, CheckLeg, EmergencyAnswer, EmergencyLeg};

use crate::bug::Bug;
use crate::node::{D_MAX_MS, Node};
use crate::scene::{Caller, Scene};

/// A question under way, or decided.
pub struct Errand {
    pub groups: Vec<Group>,
    pub legs: Vec<Part>,
    pub told: Option<Told>,
}

/// What the caller was told.
pub struct Told {
    pub at: u64,
    pub allowed: bool,
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
    pub cancel: Cancel,
}

/// What became of a group's cancel.
#[derive(Debug, Default)]
pub struct Cancel {
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

impl Errand {
    pub fn new(scene: &Scene, caller: &Caller, node: &Node, now: u64, bug: Bug) -> Errand {
        let question = &scene.questions[caller.question];
        let mut errand = Errand { groups: Vec::new(), legs: Vec::new(), told: None };
        for leg in &question.legs {
            let key = &scene.keys[leg.key];
            let limit = LimitId(key.limit as u32 + 1);
            let check = CheckLeg {
                limit,
                variant: Default::default(),
                key: key.fingerprint,
                cost: leg.cost,
                shadow: leg.shadow,
            };
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
        let mut lent = Vec::new();
        let results: Vec<LegResult> =
            self.legs.iter().map(|leg| self.result_of(scene, leg, node, now, &mut lent)).collect();
        let reused = self.groups.iter().any(|group| group.outcome == Some(Outcome::IdReused));
        let allowed = combine(&results).allowed && !reused;
        if !allowed {
            let clock = node.clock(now);
            lent.iter().for_each(|charge| node.emergency.undo(charge, clock));
        }
        let said = results.iter().map(|result| result.said).collect();
        self.told = Some(Told { at: now, allowed, said });
        (0..self.groups.len()).filter_map(|group| self.correction(group, allowed, &results, bug)).collect()
    }

    fn correction(&mut self, group: usize, allowed: bool, results: &[LegResult], bug: Bug) -> Option<Correction> {
        let after = after(allowed, results, group as u8, self.groups[group].asking.may_have_spent());
        match after {
            After::Nothing | After::Trim(_) => return None,
            After::Cancel if bug == Bug::CancelNotSent => return None,
            After::Cancel => self.groups[group].cancel.sent = true,
            After::Debt => {}
        }
        let passed = self
            .legs
            .iter()
            .zip(results)
            .filter(|(leg, result)| leg.group == group && !leg.shadow && result.said == Said::Open);
        let unseen = passed.map(|(leg, _)| self.groups[group].check.legs[leg.place]).collect();
        Some(Correction { group, after, unseen })
    }

    fn result_of(&self, scene: &Scene, leg: &Part, node: &mut Node, now: u64, lent: &mut Vec<Charge>) -> LegResult {
        let group = &self.groups[leg.group];
        let said = match &group.outcome {
            Some(Outcome::Decided(verdict)) => Said::Owner(verdict.legs[leg.place]),
            Some(Outcome::TableFull { .. } | Outcome::IdReused | Outcome::Failed(_)) | None => {
                without_owner(scene, leg.key, group.check.legs[leg.place].cost, node, now, lent)
            }
        };
        LegResult { group: leg.group as u8, shadow: leg.shadow, said }
    }
}

/// What a failure mode says.
fn without_owner(scene: &Scene, key: usize, cost: u64, node: &mut Node, now: u64, lent: &mut Vec<Charge>) -> Said {
    let limit = scene.limit_of(key);
    match limit.fail {
        FailMode::Open => Said::Open,
        FailMode::Closed => Said::Closed,
        FailMode::Emergency { percent, .. } => {
            let leg = EmergencyLeg { shape: limit.shape, percent, key: scene.keys[key].fingerprint, cost, up_to: None };
            let clock = node.clock(now);
            match node.emergency.decide(&leg, Some(&scene.calendars), clock) {
                EmergencyAnswer::Decided { decision, charge, .. } => {
                    lent.extend(charge);
                    Said::Emergency(decision)
                }
                EmergencyAnswer::Closed => Said::Closed,
            }
        }
    }
}

impl Group {
    fn new(scene: &Scene, caller: &Caller, node: &Node, partition: usize, number: usize, now: u64, bug: Bug) -> Group {
        let question = &scene.questions[caller.question];
        let id = match bug {
            Bug::LegUnderAnotherId if number > 0 => CheckId(question.id.0 | 1 << 100),
            _ => question.id,
        };
        let asker = if bug == Bug::OneNameForAll { scene.callers[0].asker } else { caller.asker };
        let (attempt, indexed) = (caller.attempt, question.indexed);
        let check =
            Check { id, asker, attempt, indexed, question: question.digest, act: Act::Spend, legs: Default::default() };
        let patience =
            Patience { budget: limits::Span::from_millis(caller.budget), d_max: limits::Span::from_millis(D_MAX_MS) };
        let asking = Asking::new(question.id, attempt, patience, node.routes[partition], node.clock(now).moment);
        let (wake, outcome, entry) = (None, None, None);
        Group { partition, check, asking, wake, outcome, entry, cancel: Cancel::default() }
    }
}
