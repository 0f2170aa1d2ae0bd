"""Kernels on raw arrays: each folder is one operation, with one implementation a file."""
