//! Seeds over threads. Each thread takes the next few seeds until none are left, the time is over or somebody has seen
//! enough; what comes of them is handed back block by block, in the order of the seeds.

use std::collections::BTreeMap;
use std::ops::{ControlFlow, Range};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc;
use std::time::Instant;

use ownership::Bug;
use sim::campaign::Grid;
use sim::oracles::{Failure, Findings};
use sim::world::Scenario;

use crate::play;

/// Seeds that a thread takes at once.
const BLOCK: u64 = 16;

/// What is to be played.
#[derive(Clone, Debug)]
pub struct Job {
    /// Which seeds.
    pub seeds: Range<u64>,
    /// Until when at most.
    pub until: Option<Instant>,
    /// The mistake that is made on purpose.
    pub bug: Option<Bug>,
    /// How many threads.
    pub threads: usize,
}

/// What came of a few seeds that follow each other.
#[derive(Debug, Default)]
pub struct Block {
    /// The first.
    pub first: u64,
    /// How many of them were played; fewer than were taken when the time was over.
    pub played: u64,
    /// What they covered.
    pub grid: Grid,
    /// What was judged, of those that hold.
    pub findings: Findings,
    /// Those that do not.
    pub failed: Vec<Failed>,
}

/// A seed that fails.
#[derive(Clone, Debug)]
pub struct Failed {
    /// Which.
    pub seed: u64,
    /// Why: at least one, in the order in which checks speak.
    pub failures: Vec<Failure>,
}

impl Failed {
    /// The check that speaks first.
    pub fn check(&self) -> &'static str {
        self.failures.first().map_or("", |failure| failure.check)
    }
}

/// As many threads as there are cores, or as were asked for.
pub fn threads(asked: Option<usize>) -> usize {
    asked.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from))
}

/// Plays the job and hands every block to `see`, in the order of the seeds and without a gap, until that breaks off.
pub fn play(job: &Job, see: &mut dyn FnMut(Block) -> ControlFlow<()>) {
    let (next, enough) = (AtomicU64::new(job.seeds.start), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let (sender, blocks) = mpsc::channel();
        for _ in 0..job.threads {
            let (sender, next, enough) = (sender.clone(), &next, &enough);
            scope.spawn(move || work(job, next, enough, &sender));
        }
        drop(sender);
        in_order(job, &blocks, see);
        enough.store(true, Ordering::Relaxed);
    });
}

fn in_order(job: &Job, blocks: &mpsc::Receiver<Block>, see: &mut dyn FnMut(Block) -> ControlFlow<()>) {
    let mut waiting = BTreeMap::new();
    let mut next = job.seeds.start;
    for block in blocks {
        waiting.insert(block.first, block);
        while let Some(block) = waiting.remove(&next) {
            let whole = block.played == BLOCK;
            next += block.played;
            if see(block).is_break() {
                return;
            }
            // What was played beyond a block that was cut short is forgotten: the seeds that count have no gap.
            if !whole {
                return;
            }
        }
    }
}

fn work(job: &Job, next: &AtomicU64, enough: &AtomicBool, sender: &mpsc::Sender<Block>) {
    let is_over = || enough.load(Ordering::Relaxed) || job.until.is_some_and(|until| Instant::now() >= until);
    while !is_over() {
        let first = next.fetch_add(BLOCK, Ordering::Relaxed);
        if first >= job.seeds.end {
            return;
        }
        let mut block = Block { first, ..Block::default() };
        for seed in first..(first + BLOCK).min(job.seeds.end) {
            if is_over() {
                break;
            }
            one(seed, job.bug, &mut block);
        }
        if sender.send(block).is_err() {
            return;
        }
    }
}

fn one(seed: u64, bug: Option<Bug>, block: &mut Block) {
    let scenario = Scenario::of(seed);
    let outcome = play::story(&scenario, bug);
    block.played += 1;
    outcome.count_into(&scenario, &mut block.grid);
    match outcome.verdict {
        Ok(findings) => block.findings.add(&findings),
        Err(failures) => block.failed.push(Failed { seed, failures }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(seeds: Range<u64>, threads: usize) -> Job {
        Job { seeds, until: None, bug: None, threads }
    }

    #[test]
    fn blocks_come_in_order_and_without_a_gap() {
        let mut seen = Vec::new();
        play(&job(5..45, 2), &mut |block| {
            seen.push((block.first, block.played));
            ControlFlow::Continue(())
        });
        assert_eq!(seen, [(5, 16), (21, 16), (37, 8)]);
    }

    #[test]
    fn what_was_covered_does_not_depend_on_the_threads() {
        let covered = |threads| {
            let mut grid = Grid::default();
            play(&job(0..32, threads), &mut |block| {
                grid.merge(&block.grid);
                ControlFlow::Continue(())
            });
            grid
        };
        assert_eq!(covered(1), covered(3));
    }

    #[test]
    fn nothing_is_played_when_the_time_is_over_and_little_when_somebody_has_seen_enough() {
        let mut played = 0;
        let over = Job { until: Some(Instant::now()), ..job(0..1_000, 2) };
        play(&over, &mut |block| {
            played += block.played;
            ControlFlow::Continue(())
        });
        assert_eq!(played, 0);
        play(&job(0..u64::MAX - BLOCK, 2), &mut |block| {
            played += block.played;
            ControlFlow::Break(())
        });
        assert_eq!(played, BLOCK);
    }
}
