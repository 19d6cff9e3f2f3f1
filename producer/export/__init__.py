"""A run's results and its summary, out of the ledger into files."""
