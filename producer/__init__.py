"""The command-line side: reads questions, enqueues them, watches runs and exports results. Needs no GPU."""
