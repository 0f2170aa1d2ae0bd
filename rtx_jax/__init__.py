"""rtx_jax: an array-API namespace on JAX and XLA, with arrays that can be written in place."""
