//! The node file and what goes with it: one table of settings, read from flags, environment, file and defaults, held
//! against each other, and shown with where each value came from. Everything that is wrong is told at once.

pub mod file;
pub mod layers;
pub mod mistake;
pub mod prepare;
pub mod reference;
pub mod secrets;
pub mod settings;
pub mod table;
pub mod token;
pub mod value;
