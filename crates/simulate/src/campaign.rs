//! Many seeds: how many were played, what they covered, and the first that fail.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::time::Instant;

use anyhow::Result;
use sim::campaign::Grid;
use sim::oracles::{self, Findings, STORIES_TO_SEE_ALL};

use crate::cli::{Cli, complain, say};
use crate::pool::{self, Block, Failed, Job};
use crate::progress::Progress;
use crate::resume::{self, State};
use crate::{page, report};

/// Played when neither seeds nor a time is said.
const SEEDS_DEFAULT: u64 = 1_000;

/// Seeds that are listed of each check that fails.
const SEEDS_SHOWN: usize = 20;

/// Plays what was asked for and tells what came of it; whether everything holds.
///
/// # Errors
/// When the campaign's file or the page cannot be read or written.
pub fn run(words: &Cli) -> Result<bool> {
    let seeds = words.seeds.clone().unwrap_or(match words.time {
        Some(_) => 0..u64::MAX / 2,
        None => 0..SEEDS_DEFAULT,
    });
    let mut campaign = Campaign {
        state: match &words.resume {
            Some(path) => State::read(path, seeds, &resume::this_build()?)?,
            None => State::new(seeds, String::new()),
        },
        covered: Grid::default(),
        findings: Findings::default(),
        failed: Vec::new(),
        seeds_by_check: BTreeMap::new(),
        progress: Progress::begin(),
    };
    if campaign.state.next > campaign.state.seeds.start {
        say(&format!("seeds {}..{} were played before", campaign.state.seeds.start, campaign.state.next));
    }
    campaign.covered = campaign.state.grid.clone();
    campaign.play(words)?;
    if campaign.has_played_nothing() {
        complain("not one seed was played: that shows nothing; give it more time");
        return Ok(false);
    }
    campaign.tell(words)?;
    let unseen = unseen(campaign.progress.played, &campaign.findings, words.mutant);
    unseen.iter().for_each(|unseen| complain(unseen));
    Ok(campaign.failed.is_empty() && unseen.is_none())
}

struct Campaign {
    state: State,
    /// What everything covered that was played, seeds that fail included.
    covered: Grid,
    findings: Findings,
    /// The first seed of each check that failed first in it.
    failed: Vec<Failed>,
    /// The seeds in which each check failed first.
    seeds_by_check: BTreeMap<&'static str, Vec<u64>>,
    progress: Progress,
}

impl Campaign {
    fn play(&mut self, words: &Cli) -> Result<()> {
        let job = Job {
            seeds: self.state.next..self.state.seeds.end,
            until: words.time.map(|time| Instant::now() + time),
            bug: words.mutant,
            threads: pool::threads(words.threads),
        };
        let mut written = Ok(());
        pool::play(&job, &mut |block| {
            let due = self.add(block, words.failures);
            let enough = self.failed.len() >= words.failures;
            if let (Some(path), true) = (&words.resume, due || enough) {
                written = self.state.write(path);
            }
            if enough || written.is_err() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        if let Some(path) = &words.resume {
            self.state.write(path)?;
        }
        written
    }

    /// Whether it is time for whatever is done now and then. A seed that fails is not behind us: the next run plays it again.
    fn add(&mut self, block: Block, failures: usize) -> bool {
        self.covered.merge(&block.grid);
        self.findings.add(&block.findings);
        for one in block.failed {
            self.seeds_by_check.entry(one.check()).or_default().push(one.seed);
            if self.failed.len() < failures && !self.failed.iter().any(|known| known.check() == one.check()) {
                self.failed.push(one);
            }
        }
        if self.failed.is_empty() {
            self.state.grid.merge(&block.grid);
            self.state.next = block.first + block.played;
        }
        self.progress.add(block.played)
    }

    /// Whether there was something to be played, and no time for any of it.
    fn has_played_nothing(&self) -> bool {
        self.progress.played == 0 && self.state.next < self.state.seeds.end
    }

    fn tell(&self, words: &Cli) -> Result<()> {
        let Progress { played, .. } = self.progress;
        let from = self.state.seeds.start;
        let (seconds, rate) = (self.progress.seconds(), self.progress.rate());
        say(&format!(
            "simulation: {played} seeds in {seconds:.0} s, {rate:.0} a second; seeds {from}..{} hold",
            self.state.next
        ));
        say(&self.findings.to_string());
        if words.grid {
            say(&self.covered.to_string());
        }
        if words.write_docs {
            page::write(&self.state)?;
        }
        for failed in &self.failed {
            say(&seeds_line(failed.check(), &self.seeds_by_check[failed.check()]));
            match (words.brief, failed.failures.first()) {
                (true, Some(failure)) => say(&report::headline(failed.seed, failure)),
                _ => report::failure(failed.seed, words.mutant),
            }
        }
        Ok(())
    }
}

/// What judges never came across in so many stories, in words: they judged nothing of it.
fn unseen(played: u64, findings: &Findings, bug: Option<ownership::Bug>) -> Option<String> {
    if played < STORIES_TO_SEE_ALL || bug.is_some() {
        return None;
    }
    let unseen: Vec<String> = oracles::unseen(findings).map(|(judge, what)| format!("{what} ({judge})")).collect();
    (!unseen.is_empty()).then(|| format!("in {played} seeds nobody saw any: {}", unseen.join(", ")))
}

fn seeds_line(check: &str, seeds: &[u64]) -> String {
    let shown: Vec<String> = seeds.iter().take(SEEDS_SHOWN).map(u64::to_string).collect();
    let more = if seeds.len() > SEEDS_SHOWN { ", ..." } else { "" };
    format!("{check} fails first in {} seeds: {}{more}", seeds.len(), shown.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn judges_that_saw_nothing_in_many_seeds_are_named() {
        let nothing = Findings::default();
        let words = unseen(STORIES_TO_SEE_ALL, &nothing, None).unwrap_or_default();
        assert!(words.contains("cancels before their question (S14)"), "{words}");
        assert_eq!(unseen(STORIES_TO_SEE_ALL - 1, &nothing, None), None);
    }

    #[test]
    fn the_seeds_of_a_check_are_listed_up_to_a_bound() {
        assert_eq!(seeds_line("C1", &[3, 9]), "C1 fails first in 2 seeds: 3, 9");
        let many: Vec<u64> = (0..50).collect();
        assert!(seeds_line("C1", &many).ends_with("18, 19, ..."));
    }
}
