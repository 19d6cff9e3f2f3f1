"""Monitoring of a worker: metrics, hardware, and its tasks in Flower."""
