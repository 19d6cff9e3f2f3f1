"""Corpora, whatever their format: documents out of files, passages out of documents, passages into an index."""
