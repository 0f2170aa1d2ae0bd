"""Default bodies of operations, made of a backend's primitives; one file per group.

A body takes the backend, then operands and parameters in the order of the operation's table.
"""
