//! Campaigns: many seeds, what they covered, what was found and how a story that shows it is made small. Pure; threads,
//! clocks and files are the tool's, `crates/simulate`.

pub mod grid;
mod part;
mod places;
mod shrink;
pub mod story;
mod teeth;

pub use grid::{Cell, Grid};
pub use part::{Beyond, Part};
pub use places::{NoPlaces, Places};
pub use shrink::{Shrunk, TRIES_MAX, shrink};
pub use teeth::{ABSENT, ELSEWHERE, TEETH, Tooth};
