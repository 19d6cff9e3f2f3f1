"""Run configurations, and submitting runs to the ledger and the queue."""
