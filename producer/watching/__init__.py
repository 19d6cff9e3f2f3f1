"""Watching a run, and reporting its status and results."""
