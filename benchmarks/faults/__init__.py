"""Faults that `benchmarks/chaos.py` inflicts on real worker processes, one module per kind."""
