//! One question on its way to the owner of its partition, until it has an answer or its caller's time is up. The owner
//! may fall silent, lose the partition, or answer too late, and the map may change meanwhile; through all of that the
//! question keeps its id, so that however often it is asked it is charged once.

use limits::{Moment, Span};

use crate::bug::Bug;
use crate::check::{Answer, CheckId, Unknown, Verdict};
use crate::route::{Owner, Route};
use crate::session::Epoch;

/// How often one question is asked at most. A caller who waits the longest time that is allowed (1 s) asks a silent owner
/// four times; two are left for changes of the map, or for an owner whose log is behind. Past it the question waits for the
/// answers that are on their way.
pub const ATTEMPTS_MAX: u8 = 6;

/// How long an owner whose log is behind is given after the first attempt; twice as long after each further one.
pub const POLICY_PAUSE: Span = Span::from_millis(10);

/// How long an owner is given at first to write down what may be spent of a key: a few times what a store takes that is well.
/// Four times as long after each further attempt, so that who waits a second is there when a store that fell silent has been
/// given up.
pub const ALLOWANCE_PAUSE: Span = Span::from_millis(2);

/// How long a question may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patience {
    /// The time until the caller's deadline.
    pub budget: Span,
    /// How old an answer may be, counted from when its attempt was sent: the cluster's `D_max`.
    pub d_max: Span,
}

/// One question under way: the legs of a check that one partition decides together.
///
/// Inlets: [`handle_answer`](Asking::handle_answer), [`handle_unreachable`](Asking::handle_unreachable),
/// [`handle_route`](Asking::handle_route), [`handle_timeout`](Asking::handle_timeout). After creation and after each of
/// them, carry out [`poll_step`](Asking::poll_step) until there is none, then wait until
/// [`poll_timeout`](Asking::poll_timeout). The last step is [`Step::Done`]; whatever comes in afterwards changes nothing.
/// No verb allocates.
#[derive(Clone, Debug)]
pub struct Asking {
    id: CheckId,
    first_attempt: u8,
    deadline: Moment,
    /// Half the budget; past, once the question was asked again for that reason or for its attempt's age.
    half: Moment,
    d_max: Span,
    route: Route,
    asked: Option<Owner>,
    sent: [Moment; ATTEMPTS_MAX as usize],
    attempts: u8,
    /// One bit per attempt that may have spent something.
    unproven: u8,
    in_flight: bool,
    reask_at: Moment,
    /// When an owner whose log was behind is asked again; [`Moment::MAX`] unless one was.
    pause_until: Moment,
    refresh: bool,
    send: Option<Moment>,
    why: WhyFailed,
    state: State,
}

#[derive(Clone, Debug)]
enum State {
    Asking,
    Settled(Outcome),
    Done,
}

/// What the shell does next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Hand in the newest route that this node has, now, and any newer one when it comes. Something about the known one
    /// does not hold.
    Refresh,
    /// Send the question to that session's node, with at most one hop.
    Send {
        /// The question's id, the same each time.
        id: CheckId,
        /// The number of this attempt; a reply or an error is handed in under it.
        attempt: u8,
        /// Whom to ask.
        owner: Owner,
        /// What is left of the caller's time.
        budget: Span,
    },
    /// The question is settled.
    Done(Outcome),
}

/// What a question came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The owner decided, in time.
    Decided(Verdict),
    /// The owner has no room for a leg's key: `when_full` of that limit answers.
    TableFull {
        /// Index into the legs that were asked.
        leg: u8,
    },
    /// The id is known under another question: the caller's mistake.
    IdReused,
    /// The owner goes by this later revision of the policy: once it is known here, the question is matched anew and asked
    /// again under its id. Where there is no time for that, the failure mode of each limit answers.
    Stale {
        /// The owner's revision of the domain.
        revision: u64,
    },
    /// The caller's time is up: the failure mode of each limit answers.
    Failed(WhyFailed),
}

/// The last that was heard before the caller's time was up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WhyFailed {
    /// The map names no owner.
    NoOwner,
    /// The owner said nothing.
    Silence,
    /// The owner could not be reached.
    Unreachable,
    /// Whoever was asked does not own the partition, and no newer route is known.
    NotOwner,
    /// The owner answered, but too late for its answer to be acted on.
    Late,
    /// An answer came from an epoch that is over.
    OldEpoch,
    /// The owner cannot say.
    Unknown(Unknown),
    /// The owner has been silent to everybody for a while, and is not asked.
    CircuitOpen,
}

impl WhyFailed {
    /// All of them; [`Unknown::TableFull`] stands for every leg.
    pub const ALL: [WhyFailed; 14] = [
        WhyFailed::NoOwner,
        WhyFailed::Silence,
        WhyFailed::Unreachable,
        WhyFailed::CircuitOpen,
        WhyFailed::NotOwner,
        WhyFailed::Late,
        WhyFailed::OldEpoch,
        WhyFailed::Unknown(Unknown::Lease),
        WhyFailed::Unknown(Unknown::Record),
        WhyFailed::Unknown(Unknown::Policy),
        WhyFailed::Unknown(Unknown::Clock),
        WhyFailed::Unknown(Unknown::Loading),
        WhyFailed::Unknown(Unknown::Allowance),
        WhyFailed::Unknown(Unknown::TableFull { leg: 0 }),
    ];

    /// The word that metrics and logs use.
    pub const fn as_str(&self) -> &'static str {
        match self {
            WhyFailed::NoOwner => "no_owner",
            WhyFailed::Silence => "silence",
            WhyFailed::Unreachable => "unreachable",
            WhyFailed::CircuitOpen => "circuit_open",
            WhyFailed::NotOwner => "not_owner",
            WhyFailed::Late => "late",
            WhyFailed::OldEpoch => "old_epoch",
            WhyFailed::Unknown(Unknown::Lease) => "lease",
            WhyFailed::Unknown(Unknown::Record) => "record",
            WhyFailed::Unknown(Unknown::Policy) => "policy",
            WhyFailed::Unknown(Unknown::Clock) => "clock",
            WhyFailed::Unknown(Unknown::Loading) => "loading",
            WhyFailed::Unknown(Unknown::Allowance) => "allowance",
            WhyFailed::Unknown(Unknown::TableFull { .. }) => "table_full",
        }
    }
}

impl Outcome {
    /// Why no owner's decision came of the question; `None` if one did, or none could.
    pub const fn why_unanswered(&self) -> Option<WhyFailed> {
        match self {
            Outcome::Decided(_) | Outcome::IdReused => None,
            Outcome::TableFull { leg } => Some(WhyFailed::Unknown(Unknown::TableFull { leg: *leg })),
            Outcome::Stale { .. } => Some(WhyFailed::Unknown(Unknown::Policy)),
            Outcome::Failed(why) => Some(*why),
        }
    }
}

/// What is known of a message that could not be delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delivery {
    /// It never left this node: nothing was spent.
    NeverSent,
    /// It left, and the connection broke before an answer came.
    Lost,
}

impl Asking {
    /// A question that is put now. `attempt` is the caller's own count, 1 for a question that is put to anyone for the
    /// first time.
    pub fn new(id: CheckId, attempt: u8, patience: Patience, route: Route, now: Moment) -> Asking {
        let mut asking = Asking {
            id,
            first_attempt: attempt.clamp(1, u8::MAX - ATTEMPTS_MAX),
            deadline: now.saturating_add(patience.budget),
            half: now.saturating_add(patience.budget.scaled(1, 2)),
            d_max: patience.d_max,
            route,
            asked: None,
            sent: [Moment::ZERO; ATTEMPTS_MAX as usize],
            attempts: 0,
            unproven: 0,
            in_flight: false,
            reask_at: Moment::MAX,
            pause_until: Moment::MAX,
            refresh: route.session.is_none(),
            send: None,
            why: if route.session.is_some() { WhyFailed::Silence } else { WhyFailed::NoOwner },
            state: State::Asking,
        };
        asking.reask_at = asking.next_reask(now);
        asking.want_to_send(now);
        asking
    }

    /// The question's id.
    pub const fn id(&self) -> CheckId {
        self.id
    }

    /// When the caller's time is up.
    pub const fn deadline(&self) -> Moment {
        self.deadline
    }

    /// The owner that was asked last, to whom `Cancel` and `Debt` go; `None` if nobody was asked.
    pub const fn last_asked(&self) -> Option<Owner> {
        self.asked
    }

    /// Whether some attempt may have been charged: it was sent, and no answer proves the contrary.
    pub const fn may_have_spent(&self) -> bool {
        self.unproven != 0
    }

    /// An answer to an attempt came, from an owner at `epoch`.
    pub fn handle_answer(&mut self, attempt: u8, epoch: Epoch, answer: Answer, now: Moment) {
        let Some(index) = self.index_of(attempt) else { return };
        if self.is_over(now) {
            return;
        }
        match answer {
            Answer::Decided(verdict) => self.decided(index, epoch, verdict, now),
            Answer::NotOwner { epoch, hint } => self.not_owner(index, Route { epoch, session: hint }, now),
            Answer::Unknown(Unknown::TableFull { leg }) => {
                self.spent_nothing(index);
                self.state = State::Settled(Outcome::TableFull { leg });
            }
            Answer::Unknown(why) => {
                self.spent_nothing(index);
                self.wait(index, WhyFailed::Unknown(why));
                if let Some(pause) = pause_after(why, self.attempts).filter(|_| self.is_latest(index)) {
                    self.pause_until = now.saturating_add(pause);
                }
            }
            Answer::StaleRevision { revision } => {
                self.spent_nothing(index);
                self.state = State::Settled(Outcome::Stale { revision });
            }
            Answer::IdReused => {
                self.spent_nothing(index);
                self.state = State::Settled(Outcome::IdReused);
            }
        }
    }

    /// An attempt could not be delivered, or its connection broke.
    pub fn handle_unreachable(&mut self, attempt: u8, delivery: Delivery, now: Moment) {
        let Some(index) = self.index_of(attempt) else { return };
        if self.is_over(now) {
            return;
        }
        if delivery == Delivery::NeverSent {
            self.spent_nothing(index);
        }
        self.wait(index, WhyFailed::Unreachable);
    }

    /// An attempt was not sent, since its owner is silent to everybody. Unless an earlier attempt is still under way, the
    /// question has failed: whoever waits for it gains nothing from waiting longer.
    pub fn handle_barred(&mut self, attempt: u8, now: Moment) {
        let Some(index) = self.index_of(attempt) else { return };
        if self.is_over(now) {
            return;
        }
        self.spent_nothing(index);
        self.wait(index, WhyFailed::CircuitOpen);
        if self.unproven == 0 {
            self.state = State::Settled(Outcome::Failed(self.why));
        }
    }

    /// The newest route that this node has. An older one, or the known one, changes nothing.
    ///
    /// A new owner is asked at once, even while the old one has not answered: its answer could not be acted on any more.
    pub fn handle_route(&mut self, route: Route, now: Moment) {
        if self.is_over(now) || !route.is_news_to(&self.route) {
            return;
        }
        self.route = route;
        let elsewhere = self.asked.is_none_or(|asked| route.session != Some(asked.session));
        if elsewhere || !self.in_flight {
            self.want_to_send(now);
        }
    }

    /// Time has come to `now`: at half the budget, or once an attempt is too old to be answered, the question is asked
    /// again, and so it is after a pause for an owner whose log was behind; at the deadline it has failed.
    pub fn handle_timeout(&mut self, now: Moment) {
        if self.is_over(now) || now < self.reask_at.min(self.pause_until) {
            return;
        }
        if now >= self.pause_until {
            self.pause_until = Moment::MAX;
        }
        if now >= self.reask_at {
            self.half = now;
            self.reask_at = self.next_reask(now);
        }
        self.refresh = true;
        self.want_to_send(now);
    }

    /// When [`handle_timeout`](Asking::handle_timeout) is next worth calling; `None` once the question is settled.
    pub fn poll_timeout(&self) -> Option<Moment> {
        match self.state {
            State::Asking if self.attempts < ATTEMPTS_MAX => {
                Some(self.deadline.min(self.reask_at).min(self.pause_until))
            }
            State::Asking => Some(self.deadline),
            State::Settled(_) | State::Done => None,
        }
    }

    /// The next thing to do, until there is none.
    pub fn poll_step(&mut self) -> Option<Step> {
        match std::mem::replace(&mut self.state, State::Done) {
            State::Done => None,
            State::Settled(outcome) => Some(Step::Done(outcome)),
            State::Asking => {
                self.state = State::Asking;
                self.poll_asking()
            }
        }
    }

    fn poll_asking(&mut self) -> Option<Step> {
        if std::mem::take(&mut self.refresh) {
            return Some(Step::Refresh);
        }
        let now = self.send.take()?;
        let owner = self.route.owner()?;
        self.note_sent(owner, now);
        let attempt = self.first_attempt + self.attempts - 1;
        Some(Step::Send { id: self.id, attempt, owner, budget: self.deadline.since(now) })
    }

    fn note_sent(&mut self, owner: Owner, now: Moment) {
        self.sent[usize::from(self.attempts)] = now;
        self.unproven |= 1 << self.attempts;
        self.attempts += 1;
        self.asked = Some(owner);
        self.in_flight = true;
        self.why = WhyFailed::Silence;
        self.reask_at = self.next_reask(now);
        self.pause_until = Moment::MAX;
    }

    fn decided(&mut self, index: u8, epoch: Epoch, verdict: Verdict, now: Moment) {
        let is_over = epoch < self.route.epoch && !Bug::OlderEpochAccepted.is_here();
        let is_late = now.since(self.sent[usize::from(index)]) > self.d_max && !Bug::NoCallerDeadline.is_here();
        if is_over {
            self.wait(index, WhyFailed::OldEpoch);
            self.ask_again_if_route_is_newer(now);
        } else if is_late {
            let latest = self.is_latest(index);
            self.wait(index, WhyFailed::Late);
            if latest {
                self.want_to_send(now);
            }
        } else {
            self.unproven = if verdict.allowed { self.unproven } else { 0 };
            self.state = State::Settled(Outcome::Decided(verdict));
        }
    }

    fn not_owner(&mut self, index: u8, told: Route, now: Moment) {
        self.spent_nothing(index);
        self.wait(index, WhyFailed::NotOwner);
        if told.is_news_to(&self.route) {
            self.route = told;
        }
        self.ask_again_if_route_is_newer(now);
    }

    /// The attempt came to nothing. What follows is the business of the next route or of the next timeout: an owner that
    /// has just said that it cannot answer gains nothing from being asked at once.
    fn wait(&mut self, index: u8, why: WhyFailed) {
        if self.is_latest(index) {
            self.in_flight = false;
            self.refresh = true;
            self.why = why;
        }
    }

    fn ask_again_if_route_is_newer(&mut self, now: Moment) {
        let asked_before = self.asked.is_some_and(|asked| asked.epoch >= self.route.epoch);
        if !self.in_flight && !asked_before {
            self.want_to_send(now);
        }
    }

    fn want_to_send(&mut self, now: Moment) {
        if self.attempts < ATTEMPTS_MAX && self.route.session.is_some() && now < self.deadline {
            self.send = Some(now);
        }
    }

    fn spent_nothing(&mut self, index: u8) {
        self.unproven &= !(1 << index);
    }

    fn is_latest(&self, index: u8) -> bool {
        index + 1 == self.attempts
    }

    /// A peer may name any attempt; only those that were sent count.
    fn index_of(&self, attempt: u8) -> Option<u8> {
        attempt.checked_sub(self.first_attempt).filter(|index| *index < self.attempts)
    }

    fn next_reask(&self, now: Moment) -> Moment {
        let too_old = now.saturating_add(self.d_max);
        if now < self.half { too_old.min(self.half) } else { too_old }
    }

    /// Whether the question is settled, be it by the clock.
    fn is_over(&mut self, now: Moment) -> bool {
        if matches!(self.state, State::Asking) && now >= self.deadline {
            self.state = State::Settled(Outcome::Failed(self.why));
        }
        !matches!(self.state, State::Asking)
    }
}

/// How long an owner is given that says why it cannot answer yet, after so many attempts; `None` where asking it again soon
/// gains nothing.
fn pause_after(why: Unknown, attempts: u8) -> Option<Span> {
    let (first, doublings) = match why {
        Unknown::Policy | Unknown::Loading => (POLICY_PAUSE, 1),
        Unknown::Allowance => (ALLOWANCE_PAUSE, 2),
        Unknown::Lease | Unknown::Record | Unknown::Clock | Unknown::TableFull { .. } => return None,
    };
    Some(first.scaled(1 << (doublings * attempts.saturating_sub(1).min(ATTEMPTS_MAX)), 1))
}
