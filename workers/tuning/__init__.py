"""`python -m workers tune`: determine by trials which batch and engine sizes are fastest for a run's questions.

sample    which of the run's questions are tried;  lengths  what context length they need
search    which settings are tried, in which order;  engine_process  each engine in its own process
trials    a single setting: scores questions in batches and measures the throughput
output    the results, for users and programs
"""
