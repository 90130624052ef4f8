//! The placement: which member should have each partition. Consistent hashing finds the place, a cap keeps the shares
//! even, and what has a place keeps it. A cap recomputed for every membership would push partitions from one old node
//! to the next (a node that joins lowers everybody's cap, and what overflows spills clockwise), and each of those moves
//! is a hand-over of live state for nothing. So the placement depends on where things are as well as on who is there:
//! only what must move does, and the price is that two clusters with the same members may place differently.

use std::hash::{Hash, Hasher};

use hashring::HashRing;

use crate::hash::{NodeId, PartitionCount, PartitionId};

/// Points that each node has on the circle: enough that the places, before the cap, lie within a few percent of even.
pub const POINTS_PER_NODE: u32 = 512;

/// A node that may own partitions.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Member {
    /// What places it on the circle: a wiped node that returns under its name, with another id, has its old place.
    pub name: String,
    /// Who it is now.
    pub id: NodeId,
}

/// Who should have each partition, by partition number; `None` for all of them when there are no members.
///
/// A pure function of the members (in any order; names are distinct) and of `current`, where things are now, by
/// partition number (missing entries, and owners that are no members, count as vacant). With a fair share of `count /
/// members`, rounded down, and the remainder going to one member each:
///
/// - a partition stays where it is, unless its owner is above its share and some member is below its fair share;
/// - a vacant one goes to the first member clockwise from it that still has room;
/// - a member below its fair share, which is what a newcomer is, is filled up to it from whoever has most, preferring
///   the partitions that lie at its own points.
///
/// So from an even placement a join moves the newcomer's fair share and nothing between the others, a leave moves what
/// the leaver had, and the shares stay within one of each other.
pub fn place(members: &[Member], current: &[Option<NodeId>], count: PartitionCount) -> Vec<Option<NodeId>> {
    let mut members: Vec<&Member> = members.iter().collect();
    members.sort();
    if members.is_empty() {
        return vec![None; usize::from(count.get())];
    }
    let circle = Circle::of(&members);
    let mut placement = Placement::standing(&members, current, count);
    placement.fill_vacant(&circle);
    placement.level(&circle);
    placement.owners.iter().map(|owner| owner.map(|seat| members[seat].id)).collect()
}

/// A member's index in the order of names.
type Seat = usize;

/// Where things are while the placement is made.
struct Placement {
    owners: Vec<Option<Seat>>,
    loads: Vec<usize>,
    /// What every member should have at least.
    share: usize,
    /// How many members may have one more.
    extras: usize,
}

impl Placement {
    fn standing(members: &[&Member], current: &[Option<NodeId>], count: PartitionCount) -> Placement {
        let mut owners = vec![None; usize::from(count.get())];
        let mut loads = vec![0; members.len()];
        for (owner, id) in owners.iter_mut().zip(current) {
            let seat = id.and_then(|id| members.iter().position(|member| member.id == id));
            if let Some(seat) = seat {
                loads[seat] += 1;
            }
            *owner = seat;
        }
        Placement { share: owners.len() / members.len(), extras: owners.len() % members.len(), owners, loads }
    }

    fn fill_vacant(&mut self, circle: &Circle) {
        for partition in 0..self.owners.len() {
            if self.owners[partition].is_none() {
                let seat = circle
                    .clockwise(partition)
                    .find(|&seat| self.has_room(seat))
                    .expect("a vacant partition leaves the sum of loads below the sum of shares, so somebody has room");
                self.owners[partition] = Some(seat);
                self.loads[seat] += 1;
            }
        }
    }

    /// Below its share, or at it while not all of the remainder is taken.
    fn has_room(&self, seat: Seat) -> bool {
        let above = || self.loads.iter().filter(|&&load| load > self.share).count();
        self.loads[seat] < self.share || (self.loads[seat] == self.share && above() < self.extras)
    }

    /// Fills every member up to its fair share. Nothing is vacant any more, so while one is below, another is above.
    fn level(&mut self, circle: &Circle) {
        for newcomer in 0..self.loads.len() {
            while self.loads[newcomer] < self.share {
                let donor = self.most_loaded();
                let partition = self.partition_to_give(donor, newcomer, circle);
                self.owners[partition] = Some(newcomer);
                self.loads[donor] -= 1;
                self.loads[newcomer] += 1;
            }
        }
    }

    /// Of those with most, the first by name.
    fn most_loaded(&self) -> Seat {
        let most = self.loads.iter().max().expect("there are members");
        self.loads.iter().position(|load| load == most).expect("the maximum is one of them")
    }

    fn partition_to_give(&self, donor: Seat, newcomer: Seat, circle: &Circle) -> usize {
        let mut given = (0..self.owners.len()).filter(|&partition| self.owners[partition] == Some(donor));
        let any = given.clone().next().expect("the most loaded member has something");
        given.find(|&partition| circle.first(partition) == newcomer).unwrap_or(any)
    }
}

/// The circle of points, and where on it each partition lies. The ring hashes with SipHash-2-4 and a key of zeros,
/// alike on every node; partition numbers are nobody's to choose, so this hash needs no secret. We walk past full
/// members over the sorted points ourselves: the ring's own `get_with_replicas` copies it whole and returns points, not
/// members.
struct Circle {
    /// The seats of all points, in clockwise order.
    seats: Vec<Seat>,
    ring: HashRing<Point>,
    /// By `seat * POINTS_PER_NODE + number`: the point's index in `seats`.
    indexes: Vec<usize>,
}

impl Circle {
    fn of(members: &[&Member]) -> Circle {
        let points = members.iter().enumerate().flat_map(|(seat, member)| Point::all_of(seat, &member.name)).collect();
        let mut ring = HashRing::new();
        ring.batch_add(points);
        let clockwise: Vec<Point> = ring.clone().into_iter().collect();
        let mut indexes = vec![0; clockwise.len()];
        for (index, point) in clockwise.iter().enumerate() {
            indexes[point.ordinal()] = index;
        }
        Circle { seats: clockwise.iter().map(|point| point.seat).collect(), ring, indexes }
    }

    /// The seats of all points clockwise from a partition, each seat many times.
    fn clockwise(&self, partition: usize) -> impl Iterator<Item = Seat> {
        let start = self.start(partition);
        self.seats[start..].iter().chain(&self.seats[..start]).copied()
    }

    /// The member at whose point a partition lies.
    fn first(&self, partition: usize) -> Seat {
        self.seats[self.start(partition)]
    }

    fn start(&self, partition: usize) -> usize {
        let partition = PartitionId(u16::try_from(partition).expect("a partition's number fits in 16 bits"));
        let point = self.ring.get(&Place(partition)).expect("a circle has points, since there are members");
        self.indexes[point.ordinal()]
    }
}

/// One of a member's points. Its hash is over fixed bytes, `0 | len u32 LE | name | number u32 LE`: a derived `Hash` is
/// no contract between nodes of different builds.
#[derive(Clone)]
struct Point {
    seat: Seat,
    number: u32,
    bytes: Vec<u8>,
}

impl Point {
    fn all_of(seat: Seat, name: &str) -> impl Iterator<Item = Point> {
        (0..POINTS_PER_NODE).map(move |number| {
            let mut bytes = vec![0];
            bytes.extend((name.len() as u32).to_le_bytes());
            bytes.extend(name.as_bytes());
            bytes.extend(number.to_le_bytes());
            Point { seat, number, bytes }
        })
    }

    fn ordinal(&self) -> usize {
        self.seat * POINTS_PER_NODE as usize + self.number as usize
    }
}

impl Hash for Point {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write(&self.bytes);
    }
}

/// A partition on the circle: `1 | partition u16 LE`.
struct Place(PartitionId);

impl Hash for Place {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let [low, high] = self.0.0.to_le_bytes();
        state.write(&[1, low, high]);
    }
}

#[cfg(test)]
mod tests;
