"""Which choice a written answer names: read by named rules, never guessed.

From text to choice: `visible_text` leaves out reasoning and what follows the answer, `normalize` gives one spelling,
`extraction` asks the `rules`, strongest first, and weighs their claims.

- Rules: `explicit` (announced by the `cues`), `checklist`, `implicit`, `option_text`, `completed`; `json_answer`
  before them all.
- Questions that ask for what is *not* so: `sought` tells them, and `odd_one_out` has their rules.
- What a question asks otherwise: `asked`, for the rule in `completed`.
- What stands at one place: `targets` (a label, number or text), `options` (the choices as a text may name them; those
  that match two lists, as they are `matched`, and those of several statements, as they are `combined`).
- What is no answer: `lists` of the choices, `other_cases`, one of `several` right ones, that of one of the `parts`;
  `words` that deny or take back; where the verb comes last, whatever is not among the words of `verb_last`; what is
  only `explained`, or `hedged` by another choice; a label with another choice `stated_beside` it.
"""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path

from workers.scoring.extract.extraction import Extraction, extract, extract_said, read_on

__all__ = ["Extraction", "extract", "extract_said", "read_on", "rules_version"]

HERE = Path(__file__).parent
#: What counts the texts of a vote, and what cuts a text to what is read, are rules, too.
READERS = (HERE.parent / "generate.py", HERE.parent / "vote.py")


@cache
def rules_version() -> str:
    """First 8 hex digits of the SHA-256 over the rules' source: a changed rule is another version by itself."""
    found = hashlib.sha256()
    for path in (*sorted(HERE.glob("*.py")), *READERS):
        found.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return found.hexdigest()[:8]
