//! `/metrics`: a fold over counters that others keep without locks, made anew for each scrape. Labels come from the
//! configuration only, and their number is bounded.

pub mod bounds;
pub mod families;
mod figures;

use std::collections::BTreeMap;
use std::fmt::Error;

use histogram::Durations;
use limits::Span;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, MetricEncoder};
use prometheus_client::registry::{Registry, Unit};

use crate::front::Front;
use crate::meter::Api;
use bounds::{DOMAINS_MAX, LIMITS_MAX, OTHER, PEERS_MAX, Room, TOKENS_MAX};
use families::Family;
use figures::{Figures, StoreFigures};

/// All metrics of a node, as OpenMetrics text.
pub fn render(front: &Front) -> String {
    text_of(Figures::of(front))
}

fn text_of(figures: Figures) -> String {
    let mut registry = Registry::with_prefix("ringfence");
    registry.register_collector(Box::new(figures));
    let mut text = String::new();
    encode(&mut text, &registry).expect("writing to a string does not fail");
    text
}

type Labels<const N: usize> = [String; N];

impl Collector for Figures {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), Error> {
        self.decisions(&mut encoder)?;
        self.calls(&mut encoder)?;
        self.forwards(&mut encoder)?;
        self.ownership(&mut encoder)?;
        self.store(&mut encoder)?;
        self.control(&mut encoder)?;
        self.access(&mut encoder)?;
        gauges(&mut encoder, &families::BUILD_INFO, [([env!("CARGO_PKG_VERSION").to_owned()], 1.0)])
    }
}

impl Figures {
    fn decisions(&self, encoder: &mut DescriptorEncoder<'_>) -> Result<(), Error> {
        let mut decisions: Sums<4> = Sums::new();
        let mut costs: Sums<2> = Sums::new();
        let mut near: Sums<2> = Sums::new();
        let mut degraded: Sums<2> = Sums::new();
        let mut full: Sums<1> = Sums::new();
        for (place, (id, tally)) in self.policies.tally.iter().enumerate() {
            let known = self.policies.limit(id).filter(|_| place < LIMITS_MAX);
            let (domain, limit) = known.map_or((OTHER, OTHER), |known| (&*known.domain, &*known.name));
            for (outcome, source, count) in tally.decisions() {
                add(&mut decisions, [domain, limit, outcome.as_str(), source.as_str()], count);
            }
            for (mode, count) in tally.degraded().into_iter().filter(|(_, count)| *count > 0) {
                add(&mut degraded, [limit, mode], count);
            }
            add(&mut costs, [domain, limit], tally.cost());
            add(&mut near, [domain, limit], tally.near_limit());
            add(&mut full, [limit], tally.table_full());
        }
        counters(encoder, &families::DECISIONS, decisions)?;
        counters(encoder, &families::DECISION_COST, costs)?;
        counters(encoder, &families::NEAR_LIMIT, near)?;
        counters(encoder, &families::DEGRADED_DECISIONS, degraded)?;
        counters(encoder, &families::TABLE_FULL, full)
    }

    fn calls(&self, encoder: &mut DescriptorEncoder<'_>) -> Result<(), Error> {
        let calls = Api::all().flat_map(|api| {
            self.meter.statuses(api).filter(|(_, count)| *count > 0).map(move |(status, count)| {
                let code = if status == 0 { "other".to_owned() } else { status.to_string() };
                ([api.word(), code], count)
            })
        });
        counters(encoder, &families::CHECKS, calls)?;
        let durations = Api::all().map(|api| ([api.word()], self.meter.durations(api)));
        histograms(encoder, &families::DECISION_DURATION, durations)?;
        let results = self.meter.results();
        let results = results.map(|(call, came, count)| ([call.word().to_owned(), came.as_str().to_owned()], count));
        counters(encoder, &families::RESULTS, results)
    }

    fn forwards(&self, encoder: &mut DescriptorEncoder<'_>) -> Result<(), Error> {
        let mut room = Room::for_names(PEERS_MAX);
        let mut durations: BTreeMap<Labels<1>, Durations> = BTreeMap::new();
        for (peer, took) in &self.forward_durations {
            let sum = durations.entry([room.label(peer).to_owned()]).or_insert_with(|| emptied(took));
            sum.sum += took.sum;
            sum.buckets.iter_mut().zip(&took.buckets).for_each(|(sum, bucket)| sum.1 += bucket.1);
        }
        let mut errors: Sums<2> = Sums::new();
        for (peer, reason, count) in &self.forward_errors {
            add(&mut errors, [room.label(peer), reason], *count);
        }
        let mut lost: Sums<1> = Sums::new();
        for (peer, count) in &self.lost_corrections {
            add(&mut lost, [room.label(peer)], *count);
        }
        histograms(encoder, &families::FORWARD_DURATION, durations)?;
        counters(encoder, &families::FORWARD_ERRORS, errors)?;
        counters(encoder, &families::LOST_CORRECTIONS, lost)?;
        counters(encoder, &families::CANCELLED_CHARGES, [([], self.cancelled_charges)])?;
        counters(encoder, &families::UNANSWERED, self.unanswered.iter().map(word_count))?;
        let mut open: BTreeMap<Labels<1>, f64> = BTreeMap::new();
        let mut opened: Sums<1> = Sums::new();
        for (peer, is_open, count) in &self.circuits {
            let label = room.label(peer);
            *open.entry([label.to_owned()]).or_default() += f64::from(u8::from(*is_open));
            add(&mut opened, [label], *count);
        }
        gauges(encoder, &families::CIRCUIT_OPEN, open)?;
        counters(encoder, &families::CIRCUITS_OPENED, opened)?;
        gauges(encoder, &families::DENIALS_REMEMBERED, [([], self.denials as f64)])
    }

    fn ownership(&self, encoder: &mut DescriptorEncoder<'_>) -> Result<(), Error> {
        let mut room = Room::for_names(DOMAINS_MAX);
        let mut keys: Sums<1> = Sums::new();
        for (domain, count) in &self.keys {
            add(&mut keys, [room.label(domain)], *count);
        }
        gauges(encoder, &families::KEYS, keys.into_iter().map(|(labels, count)| (labels, count as f64)))?;
        gauges(encoder, &families::PARTITIONS, self.partitions.iter().map(by_word))?;
        counters(encoder, &families::TAKEOVERS, self.takeovers.iter().map(word_count))?;
        gauges(encoder, &families::LEASE_REMAINING, [([], self.lease_remaining.as_nanos() as f64 / 1e9)])?;
        gauges(encoder, &families::LEASE_TTL, [([], self.lease_ttl.as_nanos() as f64 / 1e9)])?;
        gauges(encoder, &families::CLOCK_TRUSTED, [([], f64::from(u8::from(self.clock_trusted)))])?;
        gauges(encoder, &families::N_MAX, [([], f64::from(self.n_max))])
    }

    fn store(&self, encoder: &mut DescriptorEncoder<'_>) -> Result<(), Error> {
        let none = StoreFigures::default();
        let (there, store) = (self.store.is_some(), self.store.as_ref().unwrap_or(&none));
        let flag = |yes: bool| there.then(|| ([], f64::from(u8::from(yes))));
        gauges(encoder, &families::STORE_UP, flag(store.up))?;
        gauges(encoder, &families::STORE_DURABLE, flag(store.durable))?;
        counters(encoder, &families::STORE_CONNECTS, store.connects.iter().filter(|_| there).map(word_count))?;
        let requests = store.requests.iter().map(|(op, outcome, count)| ([*op, *outcome].map(str::to_owned), *count));
        counters(encoder, &families::STORE_REQUESTS, requests)?;
        counters(encoder, &families::STORE_KEYS_WRITTEN, there.then_some(([], store.keys_written)))?;
        let age = |age: Option<Span>| there.then(|| ([], age.unwrap_or(Span::ZERO).as_nanos() as f64 / 1e9));
        gauges(encoder, &families::STORE_SNAPSHOT_AGE, age(store.ages.snapshot))?;
        gauges(encoder, &families::STORE_UNWRITTEN, age(store.ages.unwritten))?;
        let durations = store.durations.iter().map(|(op, took)| ([(*op).to_owned()], took.clone()));
        histograms(encoder, &families::STORE_REQUEST, durations)?;
        counters(encoder, &families::STORE_CLAIMS, store.totals.claims.iter().map(word_count))?;
        counters(encoder, &families::FENCED_WRITES, there.then_some(([], store.totals.fenced)))?;
        counters(encoder, &families::STORE_PUT_OFF, store.totals.put_off.iter().map(word_count))
    }

    fn control(&self, encoder: &mut DescriptorEncoder<'_>) -> Result<(), Error> {
        gauges(encoder, &families::MAP_VERSION, [([], self.map_version as f64)])?;
        gauges(encoder, &families::MEMBERS, self.members.iter().map(by_word))?;
        counters(encoder, &families::PEER_REFUSALS, self.peer_refusals.iter().map(word_count))?;
        let domains = self.policies.catalogue.domains().take(DOMAINS_MAX);
        let revisions = domains.map(|domain| ([domain.name().to_owned()], domain.revision() as f64));
        gauges(encoder, &families::POLICY_REVISION, revisions)?;
        let applies = self.meter.policies().map(|(outcome, count)| ([outcome.as_str().to_owned()], count));
        counters(encoder, &families::POLICY_APPLY, applies)
    }

    fn access(&self, encoder: &mut DescriptorEncoder<'_>) -> Result<(), Error> {
        let mut room = Room::for_names(TOKENS_MAX);
        let mut calls: Sums<2> = Sums::new();
        for shown in self.access.shown() {
            let token = shown.token.map_or("_none", |name| room.label(name));
            add(&mut calls, [token, shown.result], shown.count);
        }
        counters(encoder, &families::AUTH, calls)
    }
}

/// Counts by their labels; what folds into one label is summed.
type Sums<const N: usize> = BTreeMap<Labels<N>, u64>;

fn add<const N: usize>(sums: &mut Sums<N>, labels: [&str; N], count: u64) {
    *sums.entry(labels.map(str::to_owned)).or_default() += count;
}

fn by_word((word, count): &(&'static str, usize)) -> (Labels<1>, f64) {
    ([(*word).to_owned()], *count as f64)
}

fn word_count((word, count): &(&'static str, u64)) -> (Labels<1>, u64) {
    ([(*word).to_owned()], *count)
}

/// The same buckets, with nothing in them.
fn emptied(durations: &Durations) -> Durations {
    Durations { buckets: durations.buckets.iter().map(|(bound, _)| (*bound, 0)).collect(), sum: 0.0 }
}

fn counters<const N: usize>(
    encoder: &mut DescriptorEncoder<'_>,
    family: &Family,
    series: impl IntoIterator<Item = (Labels<N>, u64)>,
) -> Result<(), Error> {
    each(encoder, family, series, |metric, count| metric.encode_counter::<NoLabels, _, u64>(&count, None))
}

fn gauges<const N: usize>(
    encoder: &mut DescriptorEncoder<'_>,
    family: &Family,
    series: impl IntoIterator<Item = (Labels<N>, f64)>,
) -> Result<(), Error> {
    each(encoder, family, series, |metric, value| metric.encode_gauge(&value))
}

fn histograms<const N: usize>(
    encoder: &mut DescriptorEncoder<'_>,
    family: &Family,
    series: impl IntoIterator<Item = (Labels<N>, Durations)>,
) -> Result<(), Error> {
    each(encoder, family, series, |metric, took: Durations| {
        metric.encode_histogram::<NoLabels>(took.sum, took.count(), &took.buckets, None)
    })
}

type NoLabels = [(&'static str, String); 0];

/// Writes a family with all its series.
fn each<const N: usize, Value>(
    encoder: &mut DescriptorEncoder<'_>,
    family: &Family,
    series: impl IntoIterator<Item = (Labels<N>, Value)>,
    write: impl Fn(&mut MetricEncoder<'_>, Value) -> Result<(), Error>,
) -> Result<(), Error> {
    debug_assert_eq!(family.labels.len(), N, "{} has other labels", family.name);
    let unit = family.seconds.then_some(&Unit::Seconds);
    let mut metric = encoder.encode_descriptor(family.name, family.help, unit, family.kind.metric_type())?;
    series.into_iter().try_for_each(|(values, value)| {
        let labels: Vec<_> = family.labels.iter().copied().zip(values).collect();
        with_labels(&mut metric, &labels.as_slice(), |metric| write(metric, value))
    })
}

fn with_labels(
    metric: &mut MetricEncoder<'_>,
    labels: &impl EncodeLabelSet,
    write: impl FnOnce(&mut MetricEncoder<'_>) -> Result<(), Error>,
) -> Result<(), Error> {
    write(&mut metric.encode_family(labels)?)
}

#[cfg(test)]
mod tests;
