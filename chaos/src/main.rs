//! The chaos suite: real nodes, real faults, a history of what callers saw, and a verdict.

fn main() {}
