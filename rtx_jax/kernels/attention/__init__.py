"""Attention: one face, and implementations for any device, CUDA, ROCm and TPU."""
