//! The numbers of every limit this process has met, each under a small id. A table's entries remember the id they were
//! written under, so ids are only ever added: an entry can always be read with the numbers it was made with.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::calendar::Calendars;
use crate::form::Form;
use crate::keeping::Keeping;
use crate::key::LimitId;
use crate::rate::{Algorithm, Shape};
use crate::terms::{Counted, Terms};

/// The id of a [`Shape`] in one process's [`Shapes`]. Never sent to another process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ShapeId(pub(crate) u32);

/// An append-only interner: equal shapes have equal ids, and an id means one shape for as long as the process lives.
///
/// A clone continues the history of its original; intern into the newest clone only, or one id comes to mean two shapes.
#[derive(Clone, Debug, Default)]
pub struct Shapes {
    known: Vec<Known>,
    ids: BTreeMap<Shape, ShapeId>,
    forms: BTreeMap<(LimitId, Form), ShapeId>,
    calendars: Option<Arc<dyn Calendars>>,
}

/// A shape, and what follows from it.
#[derive(Clone, Debug)]
struct Known {
    shape: Shape,
    terms: Terms,
    keeping: Keeping,
    implicit: u64,
    /// The most of all shapes of the limit: whatever numbers a key was decided by, no more was spent unwritten.
    implicit_of_limit: u64,
}

impl Shapes {
    /// No shapes yet.
    pub fn new() -> Shapes {
        Shapes::default()
    }

    /// The id of `shape`: the one it has, or the next.
    ///
    /// # Panics
    ///
    /// After 2^32 different shapes.
    pub fn intern(&mut self, shape: Shape) -> ShapeId {
        if let Some(id) = self.ids.get(&shape) {
            return *id;
        }
        let id = ShapeId(u32::try_from(self.known.len()).expect("fewer than 2^32 shapes in the life of a process"));
        self.known.push(Known {
            shape,
            terms: Terms::of(&shape),
            keeping: shape.keeping(),
            implicit: shape.implicit(),
            implicit_of_limit: 0,
        });
        self.ids.insert(shape, id);
        self.forms.insert((shape.limit, self.form(id)), id);
        self.note_implicit(shape.limit);
        id
    }

    /// What is kept of the keys of a limit with this shape ([`Shape::keeping`]), and the part of each that needs no writing
    /// down ([`Shape::implicit`]).
    ///
    /// # Panics
    ///
    /// If the id comes from other `Shapes`.
    #[inline]
    pub fn keeping(&self, id: ShapeId) -> (Keeping, u64) {
        let known = &self.known[id.0 as usize];
        (known.keeping, known.implicit)
    }

    fn note_implicit(&mut self, limit: LimitId) {
        let of_limit = |known: &&Known| known.shape.limit == limit;
        let most = self.known.iter().filter(of_limit).map(|known| known.implicit).max().unwrap_or(0);
        let of_limit = self.known.iter_mut().filter(|known| known.shape.limit == limit);
        of_limit.for_each(|known| known.implicit_of_limit = most);
    }

    /// What a successor reads as used of a key that nothing was written down of: the largest implicit part among all shapes
    /// of the limit that this process has met.
    ///
    /// # Panics
    ///
    /// If the id comes from other `Shapes`.
    #[inline]
    pub fn implicit_of_limit(&self, id: ShapeId) -> u64 {
        self.known[id.0 as usize].implicit_of_limit
    }

    /// What `id` means to whoever keeps usage outside this process.
    ///
    /// # Panics
    ///
    /// If the id comes from other `Shapes`.
    pub fn form(&self, id: ShapeId) -> Form {
        let shape = self.get(id);
        match shape.algorithm {
            Algorithm::Calendar { calendar } => {
                shape.form(&self.calendars().map(|calendars| calendars.name(calendar)).unwrap_or_default())
            }
            Algorithm::TokenBucket { .. }
            | Algorithm::SlidingLog { .. }
            | Algorithm::FixedWindow { .. }
            | Algorithm::SlidingCounter
            | Algorithm::Concurrency { .. } => shape.form(""),
        }
    }

    /// The newest shape of a limit that has this form, if this process has met one.
    pub fn of_form(&self, limit: LimitId, form: Form) -> Option<ShapeId> {
        self.forms.get(&(limit, form)).copied()
    }

    /// The shape that `id` means.
    ///
    /// # Panics
    ///
    /// If the id comes from other `Shapes`.
    pub fn get(&self, id: ShapeId) -> &Shape {
        &self.known[id.0 as usize].shape
    }

    /// Where the windows of this process's calendars lie, from now on. Until it is told, limits that go by a calendar
    /// cannot be decided.
    pub fn set_calendars(&mut self, calendars: Arc<dyn Calendars>) {
        self.calendars = Some(calendars);
    }

    /// Where the windows of this process's calendars lie, if it was told; for whoever keeps shapes of its own.
    pub fn shared_calendars(&self) -> Option<&Arc<dyn Calendars>> {
        self.calendars.as_ref()
    }

    /// How many shapes are known.
    pub fn len(&self) -> usize {
        self.known.len()
    }

    /// Whether no shape is known.
    pub fn is_empty(&self) -> bool {
        self.known.is_empty()
    }

    /// The same shape, compiled for deciding.
    #[inline]
    pub(crate) fn terms(&self, id: ShapeId) -> &Terms {
        &self.known[id.0 as usize].terms
    }

    #[inline]
    pub(crate) fn calendars(&self) -> Option<&dyn Calendars> {
        self.calendars.as_deref()
    }

    /// The shape of an entry, compiled for deciding.
    #[inline]
    pub(crate) fn counted(&self, id: ShapeId) -> &Counted {
        match self.terms(id) {
            Terms::Counted(counted) => counted,
            Terms::Unlimited | Terms::Zero => unreachable!("law 9: only a limit that counts writes an entry"),
        }
    }
}
