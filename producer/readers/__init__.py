"""Question files, whatever their format: `understand` says what a file is, and its rows what it says."""

from producer.readers.field_names import PARTS
from producer.readers.file import QuestionFile, understand
from producer.readers.record import Row
from producer.readers.source import HowToRead, Source, opened

__all__ = ["PARTS", "HowToRead", "QuestionFile", "Row", "Source", "opened", "understand"]
