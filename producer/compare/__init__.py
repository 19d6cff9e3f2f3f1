"""Paired comparison of two runs, question by question: for `compare`, and for `report` and `suite`."""
