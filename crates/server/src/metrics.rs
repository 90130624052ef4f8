//! `/metrics`: a fold over counters that others keep without locks, made anew for each scrape. Labels come from the
//! configuration only, and there are at most [`LIMITS_MAX`] limits with labels of their own; the rest count as `_other`.

use std::collections::BTreeMap;
use std::fmt::Error;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, MetricEncoder};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::{Registry, Unit};

use crate::check::Front;
use crate::meter::Api;

/// Limits with labels of their own; policies are the operator's, but ten thousand limits would be ten thousand series.
pub const LIMITS_MAX: usize = 500;

const OTHER: &str = "_other";

/// All metrics of a node, as OpenMetrics text.
pub fn render(front: &Front) -> String {
    let mut registry = Registry::with_prefix("ringfence");
    registry.register_collector(Box::new(Scrape { front: front.clone() }));
    let mut text = String::new();
    encode(&mut text, &registry).expect("writing to a string does not fail");
    text
}

#[derive(Debug)]
struct Scrape {
    front: Front,
}

type Labels<const N: usize> = [(&'static str, String); N];

impl Collector for Scrape {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), Error> {
        self.decisions(&mut encoder)?;
        self.calls(&mut encoder)?;
        self.node(&mut encoder)
    }
}

impl Scrape {
    fn decisions(&self, encoder: &mut DescriptorEncoder<'_>) -> Result<(), Error> {
        let policies = self.front.node.policies();
        let mut decisions: BTreeMap<Labels<4>, u64> = BTreeMap::new();
        let mut costs: BTreeMap<Labels<2>, u64> = BTreeMap::new();
        for (place, (id, tally)) in policies.tally.iter().enumerate() {
            let known = policies.limit(id).filter(|_| place < LIMITS_MAX);
            let (domain, limit) = known.map_or((OTHER, OTHER), |known| (&*known.domain, &*known.name));
            for (outcome, source, count) in tally.decisions() {
                let labels = [
                    ("domain", domain.to_owned()),
                    ("limit", limit.to_owned()),
                    ("outcome", outcome.as_str().to_owned()),
                    ("source", source.as_str().to_owned()),
                ];
                *decisions.entry(labels).or_default() += count;
            }
            *costs.entry([("domain", domain.to_owned()), ("limit", limit.to_owned())]).or_default() += tally.cost();
        }
        counters(encoder, "decisions", "Decisions, per limit that took part", decisions)?;
        counters(encoder, "decision_cost", "Units admitted", costs)
    }

    fn calls(&self, encoder: &mut DescriptorEncoder<'_>) -> Result<(), Error> {
        let meter = &self.front.meter;
        let calls = Api::ALL.into_iter().flat_map(|api| {
            meter.statuses(api).filter(|(_, count)| *count > 0).map(move |(status, count)| {
                let code = if status == 0 { "other".to_owned() } else { status.to_string() };
                ([("api", api.as_str().to_owned()), ("code", code)], count)
            })
        });
        counters(encoder, "checks", "Calls to the front doors, by the status that they have over HTTP", calls)?;
        let help = "How long calls took";
        let mut metric =
            encoder.encode_descriptor("decision_duration", help, Some(&Unit::Seconds), MetricType::Histogram)?;
        for api in Api::ALL {
            let (sum, buckets) = meter.durations(api);
            let count = buckets.iter().map(|(_, calls)| calls).sum();
            let labels = [("api", api.as_str().to_owned())];
            metric.encode_family(&labels)?.encode_histogram::<Labels<0>>(sum, count, &buckets, None)?;
        }
        Ok(())
    }

    fn node(&self, encoder: &mut DescriptorEncoder<'_>) -> Result<(), Error> {
        let node = &self.front.node;
        let holdings = node.holdings();
        let status = node.cluster_status();
        let lease = node.lease_remaining().as_nanos() as f64 / 1e9;
        gauge(encoder, "keys", "Keys held here", holdings.keys as f64)?;
        let states = [
            ("active", holdings.active),
            ("elsewhere", status.owned - holdings.active.min(status.owned)),
            ("vacant", status.vacant),
        ];
        gauges(
            encoder,
            "partitions",
            "Partitions, by what they are to this node",
            states.map(|(state, count)| ([("state", state.to_owned())], count as f64)),
        )?;
        gauge(encoder, "lease_remaining_seconds", "How long this node may still decide without being renewed", lease)?;
        gauge(encoder, "map_version", "The version of the map applied here", status.map_version as f64)?;
        let members = node.members().into_iter().map(|(state, count)| ([("state", state.to_owned())], count as f64));
        gauges(encoder, "members", "Nodes, by what gossip thinks of them", members)?;
        let policies = node.policies();
        let revisions = policies
            .catalogue
            .domains()
            .map(|domain| ([("domain", domain.name().to_owned())], domain.revision() as f64));
        gauges(encoder, "policy_revision", "The revision in force here", revisions)?;
        counters(
            encoder,
            "cancelled_charges",
            "Charges taken back because the check was refused elsewhere or too late",
            [([], node.cancelled_charges())],
        )?;
        let takeovers = node.takeovers().into_iter().map(|(state, count)| ([("state", state.to_owned())], count));
        counters(encoder, "takeovers", "Reigns that began here, by what was known of what had been used", takeovers)?;
        let errors = node.forward_errors().map(|(reason, count)| ([("reason", reason.to_owned())], count));
        counters(encoder, "forward_errors", "Checks that could not be delivered to their owner", errors)?;
        gauges(
            encoder,
            "build_info",
            "The running version",
            [([("version", env!("CARGO_PKG_VERSION").to_owned())], 1.0)],
        )
    }
}

fn counters<const N: usize>(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    series: impl IntoIterator<Item = (Labels<N>, u64)>,
) -> Result<(), Error> {
    let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
    series.into_iter().try_for_each(|(labels, count)| {
        labelled(&mut metric, &labels, |metric| metric.encode_counter::<Labels<0>, _, u64>(&count, None))
    })
}

fn gauges<const N: usize>(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    series: impl IntoIterator<Item = (Labels<N>, f64)>,
) -> Result<(), Error> {
    let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
    series
        .into_iter()
        .try_for_each(|(labels, value)| labelled(&mut metric, &labels, |metric| metric.encode_gauge(&value)))
}

fn gauge(encoder: &mut DescriptorEncoder<'_>, name: &str, help: &str, value: f64) -> Result<(), Error> {
    gauges(encoder, name, help, [([], value)])
}

fn labelled(
    metric: &mut MetricEncoder<'_>,
    labels: &impl EncodeLabelSet,
    write: impl FnOnce(&mut MetricEncoder<'_>) -> Result<(), Error>,
) -> Result<(), Error> {
    write(&mut metric.encode_family(labels)?)
}
