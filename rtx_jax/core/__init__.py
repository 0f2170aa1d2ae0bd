"""The engine: raw ``jax.Array`` in, raw ``jax.Array`` out; knows no face."""
