//! What comes of playing a scenario: everything that happened, and what the judges need beside it.

use std::collections::BTreeMap;

use control::Cluster;

use super::trace::Entry;
use super::{Course, Phase};

/// A story that was played.
#[derive(Clone, Debug, Default)]
pub struct Run {
    /// What happened, in the order of real time.
    pub trace: Vec<Entry>,
    /// What each machine's boot-time clock showed, by its number; copies come after the scenario's nodes.
    pub courses: Vec<Course>,
    /// What the log agreed on in the end, as far as anybody applied it.
    pub cluster: Option<Cluster>,
    /// By the scenario's fault: the phases that held when it began; `None` where it never did.
    pub phases: Vec<Option<Vec<Phase>>>,
    /// How often things happened that are worth counting, by name.
    pub counters: BTreeMap<&'static str, u64>,
    /// How many events were played.
    pub events: u64,
}
