//! Policy documents of a rate limiter: how they are read, what may be wrong with them, and the compiled catalogue that
//! turns the attributes of a check into the limits that apply and the keys they count by. Pure: text and attributes come
//! in as arguments, and everything that goes out is a value.

mod address;
pub mod attributes;
pub mod bounds;
pub mod catalogue;
mod digest;
pub mod document;
pub mod domain;
pub mod error;
mod fields;
mod index;
pub mod name;
mod nearest;
pub mod rate_text;
mod share;
mod tree;

pub use attributes::{AttributeError, Attributes};
pub use bounds::Bounds;
pub use catalogue::{Catalogue, CatalogueError};
pub use digest::LimitDigest;
pub use document::{Dialect, Document, SAMPLE};
pub use domain::{Applied, CostOutOfRange, Domain, Limit, Limits, Matched, Parts};
pub use error::{PolicyCode, PolicyError};
