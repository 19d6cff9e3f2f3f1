"""Reading question files in any supported format: `understand` detects format and layout, `rows` yields the rows."""

from producer.readers.field_names import PARTS
from producer.readers.file import QuestionFile, refuse_missing, understand
from producer.readers.record import Row
from producer.readers.source import HowToRead, Source, opened

__all__ = ["PARTS", "HowToRead", "QuestionFile", "Row", "Source", "opened", "refuse_missing", "understand"]
