"""The reference: every operation of a backend in NumPy, written for clarity, in float64 or wider inside.

Functions have the names, operands and parameters of `rtx_jax.backend.OPERATIONS` and take and return ``np.ndarray``.
Nothing here imports JAX. Subnormal numbers are kept; devices that flush them to zero are compared with that in mind.
"""
