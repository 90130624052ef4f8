//! One machine: its clocks, its disk, the process that runs on it or does not, and what piles up at a process that stands
//! still or is slow.

use std::collections::VecDeque;

use limits::{Moment, Span, WallTime};
use ownership::lease::Holder;

use super::consensus::Disk;
use super::layers::Layers;
use super::node::{At, Node};
use super::packet::{Entry, Input};
use super::{ClockSpec, Course, FROZEN_PPM};

/// What wall clocks that are right show when a story begins: some day in 2023.
const STORY_BEGINS: WallTime = WallTime::from_unix_nanos(1_700_000_000_000_000_000);

/// Inputs that wait at a process that stands still; more are lost.
pub(crate) const INBOX_MAX: usize = 16_384;

/// See the module.
#[derive(Debug)]
pub(crate) struct Machine {
    /// The node that it is, or is a copy of.
    pub(crate) node_number: u8,
    pub(crate) course: Course,
    /// How its clock runs where nothing ails it.
    base_ppm: i32,
    rates: Layers<i32>,
    frozen: u8,
    /// How far the wall clock is from a right one that runs like the boot-time clock.
    wall_nanos: i128,
    boot: Moment,
    pub(crate) node: Option<Box<Node>>,
    /// Which process this is; the first is 1.
    pub(crate) life: u64,
    pub(crate) disk: Disk<Entry>,
    pub(crate) remains: Option<Holder>,
    /// When the last process died, and whether the machine tells whoever calls.
    pub(crate) died: Option<(Moment, bool)>,
    /// How many faults keep the process from running.
    pub(crate) halted: u8,
    pub(crate) inbox: VecDeque<Input>,
    pub(crate) stuck: Layers<()>,
    /// How long each thing takes the process, where that matters.
    pub(crate) slow: Layers<Span>,
    /// Of a process that is asked to leave: how long the node is away.
    pub(crate) leaves: Option<Span>,
    pub(crate) busy_until: Moment,
    /// Whether something is planned that empties the inbox.
    pub(crate) draining: bool,
    /// When it is to be woken, in real time.
    pub(crate) wake: Moment,
}

impl Machine {
    pub(crate) fn new(number: u8, spec: ClockSpec) -> Machine {
        Machine {
            node_number: number,
            course: Course::new(spec.boot, spec.ppm),
            base_ppm: spec.ppm,
            rates: Layers::default(),
            frozen: 0,
            wall_nanos: i128::from(spec.wall_ms) * 1_000_000,
            boot: spec.boot,
            node: None,
            life: 0,
            disk: Disk::default(),
            remains: None,
            died: None,
            halted: 0,
            stuck: Layers::default(),
            inbox: VecDeque::new(),
            slow: Layers::default(),
            leaves: None,
            busy_until: Moment::ZERO,
            draining: false,
            wake: Moment::MAX,
        }
    }

    /// A machine that goes on from where this one is: what keeps this one from running keeps the copy from it too.
    pub(crate) fn copied(&self) -> Machine {
        Machine {
            node_number: self.node_number,
            course: self.course.clone(),
            rates: self.rates.clone(),
            slow: self.slow.clone(),
            node: None,
            life: 0,
            disk: Disk::default(),
            remains: None,
            died: None,
            stuck: Layers::default(),
            inbox: VecDeque::new(),
            busy_until: Moment::ZERO,
            draining: false,
            wake: Moment::MAX,
            ..*self
        }
    }

    /// What its clocks show at a real moment.
    pub(crate) fn at(&self, real: Moment) -> At {
        let boot = self.course.reads(real);
        let shown =
            i128::from(STORY_BEGINS.as_unix_nanos()) + i128::from(boot.since(self.boot).as_nanos()) + self.wall_nanos;
        At { boot, wall: WallTime::from_unix_nanos(u64::try_from(shown).unwrap_or(0)) }
    }

    pub(crate) fn step_wall(&mut self, millis: i64) {
        self.wall_nanos += i128::from(millis) * 1_000_000;
    }

    pub(crate) fn set_wall(&mut self, millis: i64) {
        self.wall_nanos = i128::from(millis) * 1_000_000;
    }

    /// How its clocks run where they do not stand still.
    pub(crate) fn ppm(&self) -> i32 {
        self.rates.top().unwrap_or(self.base_ppm)
    }

    /// A fault makes its clocks run at another rate from now on.
    pub(crate) fn set_rate(&mut self, real: Moment, fault: usize, ppm: i32) {
        self.rates.lay(fault, ppm);
        self.follow_rate(real);
    }

    /// That fault does so no longer.
    pub(crate) fn lift_rate(&mut self, real: Moment, fault: usize) {
        self.rates.lift(fault);
        self.follow_rate(real);
    }

    fn follow_rate(&mut self, real: Moment) {
        if self.frozen == 0 {
            self.course.change(real, self.ppm());
        }
    }

    /// Its clocks stand still.
    pub(crate) fn freeze(&mut self, real: Moment) {
        self.frozen += 1;
        if self.frozen == 1 {
            self.course.change(real, FROZEN_PPM);
        }
    }

    pub(crate) fn thaw(&mut self, real: Moment) {
        debug_assert!(self.frozen > 0, "only what was frozen thaws");
        self.frozen = self.frozen.saturating_sub(1);
        if self.frozen == 0 {
            self.course.change(real, self.ppm());
        }
    }

    /// How long each thing takes the process.
    pub(crate) fn each(&self) -> Span {
        self.slow.top().unwrap_or(Span::ZERO)
    }

    pub(crate) fn is_disk_stuck(&self) -> bool {
        self.stuck.top().is_some()
    }

    /// Whether a process runs that is not standing still.
    pub(crate) fn runs(&self) -> bool {
        self.node.is_some() && self.halted == 0
    }

    /// Whether the process takes an input at once.
    pub(crate) fn is_free(&self, real: Moment) -> bool {
        self.halted == 0 && self.inbox.is_empty() && self.busy_until <= real
    }

    /// Keeps an input until the process takes it.
    pub(crate) fn keep(&mut self, input: Input) {
        if self.inbox.len() < INBOX_MAX {
            self.inbox.push_back(input);
        }
    }
}
