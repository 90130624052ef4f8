//! The numbers of every limit this process has met, each under a small id. A table's entries remember the id they were
//! written under, so ids are only ever added: an entry can always be read with the numbers it was made with.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::calendar::Calendars;
use crate::rate::Shape;
use crate::terms::{Counted, Terms};

/// The id of a [`Shape`] in one process's [`Shapes`]. Never sent to another process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ShapeId(pub(crate) u32);

/// An append-only interner: equal shapes have equal ids, and an id means one shape for as long as the process lives.
///
/// A clone continues the history of its original; intern into the newest clone only, or one id comes to mean two shapes.
#[derive(Clone, Debug, Default)]
pub struct Shapes {
    known: Vec<(Shape, Terms)>,
    ids: BTreeMap<Shape, ShapeId>,
    calendars: Option<Arc<dyn Calendars>>,
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
        let next = ShapeId(u32::try_from(self.known.len()).expect("fewer than 2^32 shapes in the life of a process"));
        *self.ids.entry(shape).or_insert_with(|| {
            self.known.push((shape, Terms::of(&shape)));
            next
        })
    }

    /// The shape that `id` means.
    ///
    /// # Panics
    ///
    /// If the id comes from other `Shapes`.
    pub fn get(&self, id: ShapeId) -> &Shape {
        &self.known[id.0 as usize].0
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
        &self.known[id.0 as usize].1
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
