//! All domains of a cluster, each at one revision: what the ingress matches checks with, and what an owner looks numbers
//! up in. A catalogue never changes; applying a document makes the next one, which continues its numbers, so that keys
//! counted under the one are understood by the other.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use limits::{Algorithm, Book, BookEntry, Budgets, Calendars, DomainId, LimitId, Shape, Shapes, Variant};

use crate::almanac::Almanac;
use crate::document::Document;
use crate::domain::{Domain, Listed};

/// The compiled policies of all domains. Cheap to share in an [`Arc`]; nothing in it changes but the counts of keys.
#[derive(Clone, Debug)]
pub struct Catalogue {
    domains: HashMap<Box<str>, Arc<Domain>, FixedState>,
    /// The number of every domain there ever was: one that comes back finds its keys counted where they were.
    numbers: BTreeMap<Box<str>, DomainId>,
    shapes: Shapes,
    almanac: Arc<Almanac>,
    budgets: Arc<Budgets>,
    book: Listing,
}

/// What owners look up.
#[derive(Clone, Debug)]
struct Listing {
    /// The limits' own numbers, by limit id.
    own: Vec<Option<BookEntry>>,
    /// The numbers of plans and overrides.
    varied: HashMap<(LimitId, Variant), BookEntry, FixedState>,
}

/// Why a document could not become part of the catalogue. The catalogue is as it was; the document was readable, so it
/// is the control plane's entry that does not fit it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CatalogueError {
    /// A limit of the document has no id.
    #[error("limit `{limit}` of domain `{domain}` has no id")]
    NoLimitId {
        /// The domain.
        domain: String,
        /// The limit.
        limit: String,
    },
    /// An id that is zero, above [`limits::LIMIT_ID_MAX`], or that another limit has.
    #[error("limit `{limit}` of domain `{domain}` cannot have the id {id}")]
    LimitIdUnusable {
        /// The domain.
        domain: String,
        /// The limit.
        limit: String,
        /// The id.
        id: u32,
    },
    /// There were [`limits::DOMAINS_MAX`] domains already, those that were removed included.
    #[error("a cluster has at most {} domains", limits::DOMAINS_MAX)]
    TooManyDomains,
}

impl Catalogue {
    /// No domains.
    pub fn empty() -> Catalogue {
        let almanac = Arc::new(Almanac::new());
        let mut shapes = Shapes::new();
        shapes.set_calendars(almanac.clone());
        Catalogue {
            domains: HashMap::with_hasher(FixedState::with_seed(0)),
            numbers: BTreeMap::new(),
            shapes,
            almanac,
            budgets: Arc::new(Budgets::new()),
            book: Listing::empty(),
        }
    }

    /// The catalogue after this one, with `document` as its domain's policy at `revision`. `ids` gives the identity of
    /// each limit and the log entry that allotted it. `max_keys` is what the node may hold in all; every domain gets an
    /// equal part of it, *at once*, since the counts of keys are shared with this catalogue: call it to publish what
    /// it returns, not to try a document out.
    ///
    /// # Errors
    ///
    /// [`CatalogueError`]; nothing has changed then.
    pub fn with_domain(
        &self,
        document: &Document,
        revision: u64,
        ids: &dyn Fn(&str) -> Option<(LimitId, u64)>,
        max_keys: u64,
    ) -> Result<Catalogue, CatalogueError> {
        let mut next = self.clone();
        let name = document.domain();
        let number = next.number(name)?;
        let (shapes, almanac) = (&mut next.shapes, &next.almanac);
        let listed = |limit: &str| listed(name, limit, ids);
        let intern = |shape: Shape| {
            if let Algorithm::Calendar { calendar } = shape.algorithm {
                almanac.open(calendar);
            }
            shapes.intern(shape)
        };
        let domain = Domain::compile(document, number, revision, listed, intern)?;
        next.domains.insert(name.into(), Arc::new(domain));
        next.check_ids()?;
        next.book = next.list();
        next.divide(max_keys);
        Ok(next)
    }

    /// The catalogue after this one, without a domain. Its keys stay until they carry no information; no new ones come.
    /// As with [`Catalogue::with_domain`], the room for keys is divided anew at once.
    pub fn without_domain(&self, name: &str, max_keys: u64) -> Catalogue {
        let mut next = self.clone();
        next.domains.remove(name);
        next.book = next.list();
        next.divide(max_keys);
        next
    }

    /// The policy of a domain.
    pub fn domain(&self, name: &str) -> Option<&Domain> {
        self.domains.get(name).map(|domain| &**domain)
    }

    /// All domains, sorted by name.
    pub fn domains(&self) -> impl Iterator<Item = &Domain> {
        self.numbers.keys().filter_map(|name| self.domain(name))
    }

    /// Where the windows of this process's calendars lie, for whoever decides with shapes of his own.
    pub fn calendars(&self) -> Arc<dyn Calendars> {
        self.almanac.clone()
    }

    /// The counts of keys, for whoever holds tables.
    pub fn shared_budgets(&self) -> &Arc<Budgets> {
        &self.budgets
    }

    /// The same catalogue with counts of keys of its own from here on, as a copied machine has.
    pub fn copied(&self) -> Catalogue {
        Catalogue { budgets: Arc::new(Budgets::clone(&self.budgets)), ..self.clone() }
    }

    /// The number of a domain: the one it has or had, or the next.
    fn number(&mut self, name: &str) -> Result<DomainId, CatalogueError> {
        if let Some(number) = self.numbers.get(name) {
            return Ok(*number);
        }
        let next = self.numbers.len();
        if next >= limits::DOMAINS_MAX {
            return Err(CatalogueError::TooManyDomains);
        }
        let number = DomainId(u16::try_from(next).expect("DOMAINS_MAX fits"));
        self.numbers.insert(name.into(), number);
        Ok(number)
    }

    /// That no two limits have one id.
    fn check_ids(&self) -> Result<(), CatalogueError> {
        let mut ids = BTreeSet::new();
        for domain in self.domains() {
            for limit in domain.limits() {
                if !ids.insert(limit.id()) {
                    return Err(unusable(domain.name(), limit.name(), limit.id()));
                }
            }
        }
        Ok(())
    }

    /// The numbers of all limits of all domains.
    fn list(&self) -> Listing {
        let mut book = Listing::empty();
        for (limit, variant, entry) in self.domains().flat_map(Domain::entries) {
            book.add(limit, variant, entry);
        }
        book
    }

    /// Gives every domain an equal part of the keys, at least one, and those that were removed none.
    fn divide(&self, max_keys: u64) {
        let part = max_keys.checked_div(self.domains.len() as u64).unwrap_or(0).max(1);
        for (name, number) in &self.numbers {
            self.budgets.set_max(*number, if self.domains.contains_key(name) { part } else { 0 });
        }
    }
}

/// The identity of one limit, as the control plane gave it.
fn listed(domain: &str, limit: &str, ids: &dyn Fn(&str) -> Option<(LimitId, u64)>) -> Result<Listed, CatalogueError> {
    let Some((id, allotted_at)) = ids(limit) else {
        return Err(CatalogueError::NoLimitId { domain: domain.to_owned(), limit: limit.to_owned() });
    };
    if id.0 == 0 || id.0 > limits::LIMIT_ID_MAX {
        return Err(unusable(domain, limit, id));
    }
    Ok(Listed { id, allotted_at })
}

fn unusable(domain: &str, limit: &str, id: LimitId) -> CatalogueError {
    CatalogueError::LimitIdUnusable { domain: domain.to_owned(), limit: limit.to_owned(), id: id.0 }
}

impl Listing {
    fn empty() -> Listing {
        Listing { own: Vec::new(), varied: HashMap::with_hasher(FixedState::with_seed(0)) }
    }

    fn add(&mut self, limit: LimitId, variant: Variant, entry: BookEntry) {
        match variant {
            Variant::OWN => {
                let place = limit.0 as usize;
                self.own.resize(self.own.len().max(place + 1), None);
                self.own[place] = Some(entry);
            }
            Variant(_) => drop(self.varied.insert((limit, variant), entry)),
        }
    }
}

impl Default for Catalogue {
    fn default() -> Catalogue {
        Catalogue::empty()
    }
}

impl Book for Catalogue {
    fn limit(&self, limit: LimitId, variant: Variant) -> Option<BookEntry> {
        match variant {
            Variant::OWN => self.book.own.get(limit.0 as usize).copied().flatten(),
            Variant(_) => self.book.varied.get(&(limit, variant)).copied(),
        }
    }

    fn shapes(&self) -> &Shapes {
        &self.shapes
    }

    fn budgets(&self) -> &Budgets {
        &self.budgets
    }
}
