"""`python -m workers tune`: which batch and engine sizes are fastest for a run's questions, found by trying.

sample    which of the run's questions are tried;  lengths  what context they need
search    which settings are tried, one after the other;  apart  each engine in a process of its own
trials    one setting: questions scored in batches, and how fast
files     what came of it, for people and programs
"""
