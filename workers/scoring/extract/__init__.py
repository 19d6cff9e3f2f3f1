"""Which choice a written answer names: read by named rules, never guessed."""

from workers.scoring.extract.extraction import Extraction, extract
from workers.scoring.extract.version import rules_version

__all__ = ["Extraction", "extract", "rules_version"]
