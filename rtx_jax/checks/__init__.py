"""Checks of operands and parameters, on shapes and dtypes alone: pure Python that every implementation shares."""
