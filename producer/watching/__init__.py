"""Staying with a run, and telling how it stands."""
