//! A caller's question at its ingress: one asking for each partition that it concerns, and one decision out of all of
//! them. What the ingress of a node does around the machines of `ownership::ingress` is done here in the same order.

use limits::{LimitId, Span};
use ringfence_ownership::ingress::{After, AskedLeg, Asking, Came, Outcome, Patience, Said, conclude};
use ringfence_ownership::{Act, Check, CheckId, CheckLeg, EmergencyLeg};

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

impl Errand {
    pub fn new(scene: &Scene, caller: &Caller, node: &Node, now: u64, bug: Bug) -> Errand {
        let question = &scene.questions[caller.question];
        let (is_about_earlier, wanted) = (caller.then.is_some(), question.wanted);
        let mut errand = Errand { is_about_earlier, groups: Vec::new(), legs: Vec::new(), told: None };
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
        let came: Vec<Came<'_>> = self.groups.iter().map(Group::came).collect();
        let clock = node.clock(now);
        let lend = |leg: &EmergencyLeg| node.emergency.decide(leg, Some(&scene.calendars), clock);
        let legs: Vec<AskedLeg> = self.legs.iter().map(|leg| self.asked(scene, leg)).collect();
        let concluded = conclude(self.groups[0].check.act, &legs, &came, lend);
        concluded.give_back(&mut node.emergency, clock);
        let said = concluded.results.iter().map(|result| result.said).collect();
        self.told = Some(Told { at: now, allowed: concluded.allowed, times: concluded.times(), said });
        let correction = |group: u8| {
            let (after, unseen) = (concluded.after(group), concluded.owed(group).to_vec());
            Correction { group: group.into(), after, unseen }
        };
        let corrections = (0..self.groups.len() as u8).map(correction).filter(|correction| match correction.after {
            After::Nothing => false,
            After::Cancel => bug != Bug::CancelNotSent,
            After::Trim(_) => bug != Bug::TrimNotSent,
            After::Debt => true,
        });
        let corrections: Vec<_> = corrections.collect();
        corrections.iter().for_each(|correction| self.groups[correction.group].note(correction.after));
        corrections
    }

    fn asked(&self, scene: &Scene, part: &Part) -> AskedLeg {
        let (limit, group, place) = (scene.limit_of(part.key), part.group as u8, part.place as u8);
        let CheckLeg { limit: id, variant, key, cost, shadow } = self.groups[part.group].check.legs[part.place];
        let (fail, when_full, whole) = (limit.fail, limit.fail, limit.shape);
        AskedLeg { limit: id, variant, key, cost, shadow, fail, when_full, whole, group, place }
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
        let check = Check {
            id,
            asker,
            attempt,
            indexed,
            revision: 0,
            question: question.digest,
            act,
            legs: Default::default(),
        };
        let patience = Patience { budget: Span::from_millis(caller.budget), d_max: Span::from_millis(D_MAX_MS) };
        let asking = Asking::new(id, attempt, patience, node.routes[partition], node.clock(now).moment);
        let (cancel, trim, debt) = (Sent::default(), Sent::default(), Sent::default());
        Group { partition, check, asking, wake: None, outcome: None, entry: None, cancel, trim, debt }
    }

    fn came(&self) -> Came<'_> {
        Came { outcome: self.outcome.as_ref(), may_have_spent: self.asking.may_have_spent() }
    }

    fn note(&mut self, after: After) {
        match after {
            After::Nothing => {}
            After::Cancel => self.cancel.sent = true,
            After::Trim(_) => self.trim.sent = true,
            After::Debt => self.debt.sent = true,
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
