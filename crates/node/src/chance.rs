//! The only chance of this shell: ids, nonces and seeds are drawn here, so that a simulated node draws the same ones again.

use rand::distr::{Distribution, StandardUniform};

/// A random value: unguessable, but in a simulation, where it follows from the seed of the node's host.
pub(crate) fn random<T>() -> T
where
    StandardUniform: Distribution<T>,
{
    #[cfg(feature = "simulated")]
    {
        crate::simulated::random()
    }
    #[cfg(not(feature = "simulated"))]
    {
        rand::random()
    }
}
