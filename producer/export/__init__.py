"""Export of a run's results and summary from the ledger to files."""
