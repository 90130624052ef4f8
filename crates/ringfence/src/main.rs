//! ringfence
fn main() {}
