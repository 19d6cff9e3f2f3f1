"""What a batch goes through: its questions begun, scored or looked up, and settled in the ledger. Without Celery."""
