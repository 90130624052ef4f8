//! The scripts, and what they must be permitted to do. Redis is asked by a script's hash, and given its text only where it
//! does not know it.

use redis::Script;

/// The line that grants what this crate needs and nothing else, with a place for the password. A test runs under it, and
/// under each line with one permission less. Another database than 0 needs `+select` besides.
pub const ACL_LINE: &str = "ACL SETUSER ringfence on >PASSWORD ~ringfence:* resetchannels -@all \
    +evalsha +script|load +info +hmget +hgetall +hset +del";

/// The format of headers that the scripts make.
pub(crate) const FORMAT: &str = "1";

/// All scripts.
#[derive(Debug)]
pub(crate) struct Scripts {
    pub(crate) claim: Script,
    pub(crate) write: Script,
    pub(crate) rewrite: Script,
    pub(crate) probe: Script,
}

impl Scripts {
    pub(crate) fn new() -> Scripts {
        Scripts {
            claim: Script::new(include_str!("scripts/claim.lua")),
            write: Script::new(include_str!("scripts/write.lua")),
            rewrite: Script::new(include_str!("scripts/rewrite.lua")),
            probe: Script::new(include_str!("scripts/probe.lua")),
        }
    }

    pub(crate) fn all(&self) -> [&Script; 4] {
        [&self.claim, &self.write, &self.rewrite, &self.probe]
    }
}
