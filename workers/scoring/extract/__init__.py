"""Which choice a written answer names: read by named rules, never guessed."""

from workers.scoring.extract.extraction import Extraction, extract

__all__ = ["Extraction", "extract"]
