"""The methods of `Backend`, one file per group: each checks its arguments and calls `_apply`."""
