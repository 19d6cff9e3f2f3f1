"""Checking a question file and selecting its questions before any of them is sent."""
