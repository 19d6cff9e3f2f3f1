"""What a person runs: reads questions, enqueues them, watches, exports. Needs no GPU."""
