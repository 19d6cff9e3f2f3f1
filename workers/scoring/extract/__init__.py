"""Which choice a written answer names: read by named rules, never guessed.

From text to choice: `visible_text` leaves out reasoning and what follows the answer, `normalize` gives one spelling,
`extraction` asks the `rules`, strongest first, and weighs their claims.

- Rules: `explicit` (announced by the `cues`), `checklist`, `implicit`, `option_text`; `json_answer` before them all.
- Questions that ask for what is *not* so: `sought` tells them, and `odd_one_out` has their rules.
- What stands at one place: `targets` (a label, number or text), `options` (the choices as a text may name them).
- What is no answer: `lists` of the choices, `other_cases`, one of `several` right ones; `words` that deny or take back.
"""

from workers.scoring.extract.extraction import Extraction, extract
from workers.scoring.extract.version import rules_version

__all__ = ["Extraction", "extract", "rules_version"]
