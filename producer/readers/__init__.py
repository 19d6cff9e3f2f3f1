"""Reading question files in any supported format: `understand` detects how, from a file's beginning, `rows` reads it.

`file` has both. A field becomes a part of a question in four steps, each of which has modules of its own:

1. Bytes. A `source` is a file, a `folder` of several (of which `splits` may be selected), or a dataset (`hub`).
   `stream` decompresses, `text` decodes.
2. Records, entries with named fields (`record`). `format` chooses the reader: `json`, `jsonl`, `parquet`, or `csv`,
   with the `csv_dialect` of a table. A record may hold several questions (`articles`), and `answer_file` adds answers.
3. Parts (`parts`): the question, its choices, the answer as given, and so on. `field_names` says which names are in
   use for each, `layouts` which of the known layouts fits; `mapping` makes one of `--map`. A layout extracts the parts
   by a function: of `plain` if there are fields for the choices, of `scored` if choices are right or wrong by their
   field or score, or are yes and no, of `prose` if they are inside a text. `choices` reads a field of choices, `inline`
   a text that contains them, and `marks` removes the labels that they begin with.
4. Questions (`fields`), once it is known which choices the answer names. All answers of the beginning decide that
   together: `answer_fields` finds the field and `second_key` what must not contradict it, `answers` how its values name
   choices; in our own layout, `own_answers` reads each by itself. `fields_used` reports the fields that parts are from.

Whatever might be misread is refused, with a remedy: `unsupported` types of files, `csv_headers` that are none,
questions in `shapes` that are not read, and `misnamed` fields.
"""

from producer.readers.field_names import PARTS
from producer.readers.file import QuestionFile, refuse_missing, understand
from producer.readers.record import Row
from producer.readers.source import HowToRead, Source, opened

__all__ = ["PARTS", "HowToRead", "QuestionFile", "Row", "Source", "opened", "refuse_missing", "understand"]
