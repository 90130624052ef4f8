//! What may be above a limit where leases were taken beyond what they assume: for each owner that went on beside its
//! successor, or beside its copy, what one owner gives out (rows 16, 17 and 19 of the failure matrix). Measured by how long
//! it went on, on its own clock; nothing where reigns were disjoint.

use limits::{Algorithm, Shape, Span};
use ring::PartitionId;

use super::{Reign, Story};

impl Story<'_> {
    /// How long each owner of a partition that went on beyond what leases assume could do so beside another, on its own
    /// clock: one whose leases held is allowed nothing.
    pub(in crate::oracles) fn overlaps(&self, partition: PartitionId) -> Vec<Span> {
        let chain = self.chains.get(&partition).map_or(&[][..], |chain| chain);
        let reigns: Vec<&Reign<'_>> = chain.iter().map(|number| &self.reigns[*number]).collect();
        let beside = |reign: &&Reign<'_>| {
            let successors = reigns.iter().filter(|other| other.epoch > reign.epoch);
            let from = match reign.is_beside() {
                true => Some(reign.began),
                false => successors.map(|successor| successor.began).min(),
            }?;
            let overlap = self.goes_on_after(reign, from)?;
            (reign.is_beside() || self.is_beyond(reign.session, from, self.end())).then_some(overlap)
        };
        reigns.iter().filter_map(beside).collect()
    }

    /// Units that overlaps like these may have let pass above a limit of this shape.
    pub(in crate::oracles) fn beyond(shape: &Shape, overlaps: &[Span]) -> u64 {
        let capacity = shape.capacity().unwrap_or(0);
        let each = |overlap: &Span| match (shape.algorithm, shape.rate) {
            (Algorithm::TokenBucket { .. }, Some(rate)) => {
                let flown = u128::from(rate.amount()) * u128::from(overlap.as_nanos());
                let flown = flown.div_ceil(u128::from(rate.period().as_nanos()));
                capacity.saturating_add(u64::try_from(flown).unwrap_or(u64::MAX))
            }
            // An owner fills two of them within one period.
            (Algorithm::SlidingCounter | Algorithm::FixedWindow { .. }, _) => 2 * capacity,
            (
                Algorithm::TokenBucket { .. }
                | Algorithm::SlidingLog { .. }
                | Algorithm::Calendar { .. }
                | Algorithm::Concurrency { .. },
                _,
            ) => capacity,
        };
        overlaps.iter().map(each).sum()
    }

    /// How long a reign may have gone on after a moment, by its lease and by what its own clock shows.
    fn goes_on_after(&self, reign: &Reign<'_>, from: limits::Moment) -> Option<Span> {
        let life = self.lives.get(&reign.session)?;
        let course = self.course(reign.node);
        let leased = course.first(life.last(reign.node)?.end);
        let until = reign.ended.map_or(leased, |ended| ended.min(leased));
        (until > from).then(|| course.reads(until).since(course.reads(from)))
    }
}
