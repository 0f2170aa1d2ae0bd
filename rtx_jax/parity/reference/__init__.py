"""What is right: NumPy in its widest dtypes, with the standard's special cases where NumPy has others."""
