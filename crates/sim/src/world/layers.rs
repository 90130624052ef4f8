//! What several faults do to one thing at the same time: the latest counts, and the end of each undoes only itself.

/// Faults by their numbers with what each of them does, in the order in which they began.
#[derive(Clone, Debug)]
pub(crate) struct Layers<T>(Vec<(usize, T)>);

impl<T> Default for Layers<T> {
    fn default() -> Layers<T> {
        Layers(Vec::new())
    }
}

impl<T: Copy> Layers<T> {
    /// A fault begins.
    pub(crate) fn lay(&mut self, fault: usize, what: T) {
        self.0.push((fault, what));
    }

    /// It is over.
    pub(crate) fn lift(&mut self, fault: usize) {
        self.0.retain(|(laid, _)| *laid != fault);
    }

    /// All of them are.
    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }

    /// What the latest of those that last does.
    pub(crate) fn top(&self) -> Option<T> {
        self.0.last().map(|(_, what)| *what)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_one_leaves_the_others() {
        let mut layers = Layers::default();
        layers.lay(4, 'a');
        layers.lay(7, 'b');
        layers.lay(5, 'c');
        layers.lift(4);
        assert_eq!(layers.top(), Some('c'));
        layers.lift(5);
        assert_eq!(layers.top(), Some('b'));
        layers.lift(7);
        assert_eq!(layers.top(), None);
    }
}
