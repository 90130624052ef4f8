//! What nodes say of themselves, summed over a fleet.

use crate::http;
use crate::serve::Fleet;

/// The sum of every sample of a metric on so many nodes whose labels hold all of these words.
pub fn sum(fleet: &Fleet, nodes: usize, metric: &str, words: &[&str]) -> f64 {
    (1..=nodes).map(|number| of_node(&fleet.admin(number), metric, words)).sum()
}

fn of_node(admin: &str, metric: &str, words: &[&str]) -> f64 {
    let text = http::get(admin, "/metrics").body;
    let lines = text.as_str().expect("metrics are text").lines();
    let samples = lines.filter(|line| line.split(['{', ' ']).next() == Some(metric));
    let fitting = samples.filter(|line| words.iter().all(|word| line.contains(word)));
    fitting.map(|line| line.rsplit(' ').next().and_then(|value| value.parse::<f64>().ok()).expect("a number")).sum()
}
