"""The standard's operations on raw ``jax.Array``s, one file per chapter; always run inside a compiled call."""
