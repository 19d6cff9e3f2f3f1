"""Corpora in any supported format: reading documents, cutting them into passages and storing these in an index."""
