"""Passage retrieval: `load.load_index` returns a `base.Retriever`. Independent of Celery and Redis."""
