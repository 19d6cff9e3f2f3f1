"""Message handling between Redis and the thread pool: receive, hold until a batch is full, settle. All kombu code."""
