"""The rules by which an answer is read, strongest first.

| rule                   | reads                                                  | example                        |
|------------------------|--------------------------------------------------------|--------------------------------|
| `boxed`                | LaTeX's box                                            | `\\boxed{(C)}`                 |
| `answer-tag`           | an XML element made for the answer                     | `<answer>(C) Paris</answer>`   |
| `answer-statement`     | words that announce an answer, in some forty languages | `So the correct answer is (C)` |
| `exception-statement`* | words that announce the exception                      | `The false statement is C`     |
| `checked-choice`       | the only choice ticked or called right in a list of all | `❌ A) Rome`, `✅ B) Paris`     |
| `denied-choice`*       | the only choice said to be what is asked for           | `Oxygen is not a noble gas`    |
| `judged-label`         | the only label that is called right                    | `(C) is correct.`              |
| `stated-choice`        | a label with its own text, which something "is"        | `The diagnosis is B. Flu.`     |
| `bold-label`           | the only label in bold                                 | `The Seine, in short **C**`    |
| `leading-label`        | the label that the text begins with                    | `C) Paris, because …`          |
| `lone-label`           | a label alone in the last line, or ending the only one | `Paris (C)`                    |
| `number`               | a position instead of a label, if no choice is a number | `Option 3`                     |
| `option-text`          | a choice's own text instead of a label                 | `It's Paris.`                  |
| `completed-question`   | the question's own words, with a choice or its label   | `The war ended in 1945.`       |

The first four are *explicit*: together they are one rule, in which the last word stands ("The answer is A. No, the
answer is C."), and what they announce may also be a number or the text of a choice. The others are tried one by one;
each must find one label only. What is said of another case ("D would be the best choice for Italy") displaces none.

* Only where the question asks for the choice that is *not* so, as `sought` tells.
"""

from __future__ import annotations

from workers.scoring.extract.checklist import checked_choice
from workers.scoring.extract.completed import completed_question
from workers.scoring.extract.explicit import answer_statement, answer_tag, boxed, judged_label
from workers.scoring.extract.implicit import bold_label, leading_label, lone_label, number, stated_choice
from workers.scoring.extract.odd_one_out import denied_choice, exception_statement
from workers.scoring.extract.option_text import option_text

__all__ = ["EXPLICIT", "IMPLICIT"]

EXPLICIT = (boxed, answer_tag, answer_statement, exception_statement)
IMPLICIT = (
    checked_choice,
    denied_choice,
    judged_label,
    stated_choice,
    bold_label,
    leading_label,
    lone_label,
    number,
    option_text,
    completed_question,
)
