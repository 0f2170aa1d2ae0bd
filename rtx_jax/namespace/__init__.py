"""The functions of the array API standard on :class:`rtx_jax.Array`, one file per chapter."""
