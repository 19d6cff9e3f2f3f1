"""Messages between Redis and the thread pool: taken, held until their batch is full, settled. All that knows kombu."""
