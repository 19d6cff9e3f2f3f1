"""`python -m producer report`: what runs came to, as one HTML file that needs no network and no other file."""

from producer.report.command import report

__all__ = ["report"]
