"""One host: its GPUs, the plan of its workers, and their supervision."""
