"""Finding passages: one door (`base.Retriever`), opened by `load.load_index`. Knows neither Celery nor Redis."""
