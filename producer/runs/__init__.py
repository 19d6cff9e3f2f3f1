"""What is asked, and the run that asks it: into the ledger and the queue."""
