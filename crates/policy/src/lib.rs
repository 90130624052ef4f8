//! Policy documents of a rate limiter: how they are read, what may be wrong with them, and the compiled catalogue that
//! turns the attributes of a check into the limits that apply and the keys they count by. Pure: text and attributes come
//! in as arguments, and everything that goes out is a value.
//!
//! ```
//! use limits::LimitId;
//! use ringfence_policy::{Attributes, Catalogue, Document, Matched, SAMPLE};
//!
//! let document = Document::parse(SAMPLE).expect("the sample has no findings");
//! let ids = |_name: &str| Some((LimitId(1), 0)); // the control plane's
//! let catalogue = Catalogue::empty().with_domain(&document, 1, &ids, 1_000_000).expect("its limit has an id");
//!
//! let attributes = Attributes::new([("client", "alice")]).expect("well-formed attributes");
//! let domain = catalogue.domain("default").expect("the domain of the sample");
//! match domain.matching(&attributes, 1, None).expect("a cost within range") {
//!     Matched::Limits(limits) => {
//!         let applied = limits.iter().next().expect("at least one limit");
//!         assert_eq!((applied.limit().name(), applied.cost()), ("per-client", 1));
//!         assert_eq!(applied.key().next(), Some(limits::Part::text("alice")));
//!     }
//!     Matched::NoLimit { .. } | Matched::MissingAttribute { .. } => unreachable!("the sample counts by client"),
//! }
//! ```

mod address;
pub mod almanac;
pub mod attributes;
pub mod bounds;
pub mod calendar;
pub mod catalogue;
mod digest;
pub mod document;
pub mod domain;
pub mod error;
mod fields;
mod index;
pub mod inline;
pub mod name;
mod nearest;
pub mod rate_text;
mod share;
mod time_text;
mod tree;
mod variant;

pub use address::IpPrefixes;
pub use almanac::Almanac;
pub use attributes::{AttributeError, Attributes};
pub use bounds::Bounds;
pub use calendar::{Calendar, CalendarUnit, ZONES_VERSION};
pub use catalogue::{Catalogue, CatalogueError};
pub use digest::LimitDigest;
pub use document::{Dialect, Document, Numbers, SAMPLE};
pub use domain::{Applied, CostOutOfRange, Domain, Limit, Limits, Matched, Parts};
pub use error::{PolicyCode, PolicyError};
pub use inline::{Inline, InlineLimit, InlineRefusal};
