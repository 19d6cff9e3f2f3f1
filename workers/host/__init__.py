"""One host: its GPUs, the workers that it gets, and their lives."""
