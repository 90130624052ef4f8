//! The policies of a case as the pure ways hold them: a catalogue, and in place of a control plane the few lines that give
//! each limit its identity.

use std::collections::BTreeMap;

use limits::{Book as _, LimitId, Now, PartKind, ShapeId, Variant};
use policy::{Attributes, Catalogue, Document, LimitDigest, Matched};

use super::case::{self, Finding};

/// Room for more keys than any case has.
const KEYS_MAX: u64 = 1_000_000;

/// What applies to a check.
#[derive(Debug)]
pub enum Applies {
    /// No limit.
    Nothing,
    /// An enforced limit counts by an attribute that is not there.
    Missing {
        /// The limit that refuses.
        limit: String,
    },
    /// These limits.
    Legs(Vec<AppliedLeg>),
}

/// One limit as it applies.
#[derive(Clone, Debug)]
pub struct AppliedLeg {
    /// Its name.
    pub limit: String,
    /// Its identity.
    pub id: LimitId,
    /// Its numbers.
    pub shape: ShapeId,
    /// The parts of its key.
    pub key: Vec<(PartKind, Vec<u8>)>,
    /// Units to charge.
    pub cost: u64,
    /// Whether it only watches.
    pub shadow: bool,
}

/// The policies of one domain, newest last.
#[derive(Debug, Default)]
pub struct Policies {
    catalogue: Catalogue,
    revision: u64,
    domain: String,
    ids: BTreeMap<String, ([u8; 16], LimitId)>,
    allotted: u32,
}

impl Policies {
    /// The catalogue as it stands.
    pub fn catalogue(&self) -> &Catalogue {
        &self.catalogue
    }

    /// Applies a document, or says what is wrong with it; then nothing has changed.
    pub fn apply(&mut self, text: &str) -> Vec<Finding> {
        let document = match Document::parse(text) {
            Ok(document) => document,
            Err(findings) => return findings.iter().map(finding).collect(),
        };
        for digest in document.limit_digests() {
            self.identify(digest);
        }
        let ids = |name: &str| self.ids.get(name).map(|(_, id)| (*id, 0));
        self.revision += 1;
        let next = self.catalogue.with_domain(&document, self.revision, &ids, KEYS_MAX);
        self.catalogue = next.expect("every limit was identified");
        document.domain().clone_into(&mut self.domain);
        Vec::new()
    }

    /// A limit is who it was while its key and route are the same; under another name if it says so.
    fn identify(&mut self, LimitDigest { name, digest, renamed_from }: LimitDigest) {
        let before = renamed_from.and_then(|before| self.ids.remove(&before)).or_else(|| self.ids.remove(&name));
        let id = before.filter(|(known, _)| *known == digest).map_or_else(|| self.allot(), |(_, id)| id);
        self.ids.insert(name, (digest, id));
    }

    fn allot(&mut self) -> LimitId {
        self.allotted += 1;
        LimitId(self.allotted)
    }

    /// What applies to a check of this cost, or the word for why it is none.
    ///
    /// # Errors
    ///
    /// The stable word of the rejection.
    pub fn applying(&self, attributes: &case::Attributes, cost: u64, at: Now) -> Result<Applies, String> {
        let word = |word: &str| word.to_owned();
        let pairs = attributes.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        let attributes = Attributes::new(pairs).map_err(|error| word(rejection(&error)))?;
        let domain = self.catalogue.domain(&self.domain).ok_or_else(|| word("unknown-domain"))?;
        Ok(match domain.matching(&attributes, cost, at.wall).map_err(|_| word("out-of-range"))? {
            Matched::NoLimit { .. } => Applies::Nothing,
            Matched::MissingAttribute { limit, .. } => Applies::Missing { limit: limit.name().to_owned() },
            Matched::Limits(limits) => Applies::Legs(limits.iter().map(|applied| self.leg(&applied)).collect()),
        })
    }

    fn leg(&self, applied: &policy::Applied<'_>) -> AppliedLeg {
        let variant: Variant = applied.variant();
        let entry = self.catalogue.limit(applied.id(), variant).expect("a limit that applies is in the book");
        AppliedLeg {
            limit: applied.limit().name().to_owned(),
            id: applied.id(),
            shape: entry.shape,
            key: applied.key().map(|part| (part.kind, part.bytes.to_vec())).collect(),
            cost: applied.cost(),
            shadow: applied.shadow(),
        }
    }
}

fn finding(error: &policy::PolicyError) -> Finding {
    Finding {
        code: error.code.as_str().to_owned(),
        line: Some(error.line.into()),
        suggestion: error.suggestion.clone(),
    }
}

fn rejection(error: &policy::AttributeError) -> &'static str {
    match error {
        policy::AttributeError::TooMany => "too-many-attributes",
        policy::AttributeError::ValueTooLong { .. } => "value-too-long",
        policy::AttributeError::NameMalformed { .. }
        | policy::AttributeError::ValueEmpty { .. }
        | policy::AttributeError::Duplicate { .. }
        | policy::AttributeError::NotAnAddress { .. } => "out-of-range",
    }
}
