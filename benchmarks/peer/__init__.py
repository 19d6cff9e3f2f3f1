"""lm-evaluation-harness as the peer of `benchmarks/peers.py`: how it is run, and how its answers are compared."""
