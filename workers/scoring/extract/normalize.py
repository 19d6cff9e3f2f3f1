"""One spelling for what can be written in many ways, so that the rules need to know one only."""

from __future__ import annotations

import re
import unicodedata

__all__ = ["folded", "lowered", "plain", "unemphasized"]

_SPELLINGS = str.maketrans(
    {
        **dict.fromkeys("“”„‟«»「」『』《》〝〞", '"'),
        **dict.fromkeys("‘’‚‛ʼ′", "'"),
        **dict.fromkeys("‐‑‒–—―−", "-"),
        **dict.fromkeys("⇒➜➔⟶", "→"),
        "∴": "so ",
        "⁄": "/",
        **dict.fromkeys("\u00ad\u200b\u200c\u200d\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2060\ufeff"),
    }
)
#: Signs that NFKC would make part of the number before them: 10² is not 102, and 1½ not 11/2.
_POWER = re.compile(r"(?<=[\d)])[⁻⁺]?[⁰¹²³⁴-⁹]+|(?<=[A-Za-z])⁻[⁰¹²³⁴-⁹]+")
_MIXED = re.compile(r"(?<=\d)(?=[¼-¾⅐-⅞])")
#: Between statements that are named together: ①和② is ①②. A comma may part what is right from what is wrong: ①,②错误.
_CIRCLED = re.compile(
    r"(?<=[①-⑳])\s?(?:[、和与及]|[，,](?!\s?[①-⑳、和与及\s]{1,20}[^①-⑳、和与及\s，,。]{0,3}[不错误]))\s?(?=[①-⑳])"
)
_LATEX_SIGNS = frozenset("\\$^_")
_LATEX_FONT = re.compile(
    r"\\(?:ce|text(?:bf|it|rm|sf|tt)?|math(?:rm|bf|it|sf|tt|cal|bb)|underline|operatorname)\s?\{([^{}]{0,200})\}"
)
#: The older commands, which have their content behind them: {\bf C}, \large C.
_LATEX_SWITCH = re.compile(r"\\(?:bf|it|rm|sf|tt|large|Large|LARGE|huge|Huge)(?![A-Za-z])\s?")
_LATEX_MARK = re.compile(r"\\[()]|\$")
_LATEX_FRACTION = re.compile(r"\\[dt]?frac\s?\{([^{}]{1,40})\}\s?\{([^{}]{1,40})\}")
#: Commands for signs and names, as a text without LaTeX has them; and short forms: \frac12, \sqrt2.
_LATEX_NAMES = (
    {each: each for each in ("log", "ln", "sin", "cos", "tan", "exp")}
    | {"times": "×", "cdot": "·", "pm": "±", "infty": "∞", "to": "→", "rightarrow": "→", "approx": "≈"}
    | {"le": "≤", "leq": "≤", "ge": "≥", "geq": "≥", "ne": "≠", "neq": "≠"}
    | {"alpha": "α", "beta": "β", "gamma": "γ", "delta": "δ", "theta": "θ", "lambda": "λ", "pi": "π", "omega": "ω"}
)
_LATEX_NAME = re.compile(rf"\\({'|'.join(_LATEX_NAMES)})(?![A-Za-z])")
_LATEX_DEGREE = re.compile(r"\^\s?(?:\{\s?\\circ\s?\}|\\circ(?![A-Za-z]))")
_LATEX_ROOT = re.compile(r"\\sqrt\s?(?:\{(\w{1,9})\}|(\d))")
_LATEX_SHORT = re.compile(r"\\[dt]?frac\s?(\d)(\d)(?!\d)")
_LATEX_MIXED = re.compile(r"(?<=\d)(?=\\[dt]?frac)")
_LATEX_BRACED = re.compile(r"([_^])\{(-?\w{1,8}[+-]?)\}")
#: Behind a letter, digits are the same raised, lowered or neither: m², m^2, m2; CH₄, CH_{4}, CH4. So are negative ones
#: behind a unit, mol⁻¹, mol^{-1}, mol-1; but e^{-1} is not e-1.
_LATEX_DIGITS = re.compile(r"(?<=[A-Za-z}])(?:\^(?!-)|_)(-?\d{1,3})")
_LATEX_PER = re.compile(r"(?:(?<![A-Za-z])[A-Za-z]{2,10}|(?:(?<=[\w)}] )|(?<=  ))[smKJgLhNVATMWC])\^(?=-\d)")
#: A minus sign apart from its number, at the start of a formula: $- 2$, \boxed{-\,2}; and anywhere, if it is no dash.
_LATEX_NEGATIVE = re.compile(r"(?<=[${(])\s?[-−](?:\s|\\[,;:! ])+(?=\d)")
_NEGATIVE = re.compile(r"(?<![\w)\]}])(?<![\w)\]}]\s)−\s(?=\d)")
_LATEX_SIGN = re.compile(r"\\([%&#_$])")
#: Commas within a number: 10,000.
_THOUSANDS = re.compile(r"(?<![\d,.(])\d{1,3}(?:,\d{3})+(?![\d,])")
_LATEX_SPACE = re.compile(r"\\[\[\],;:! ]")
_ATTRIBUTES = r"(?:\s[a-z-]{2,20}\s?=\s?[\"'#\w][^<>\n]{0,100})?\s?/?"
_HTML = re.compile(rf"</?(?:b|i|u|em|mark|strong|code|span|font){_ATTRIBUTES}>", re.IGNORECASE)
#: Elements that end the line before them: of `A<br>B`, AB is no part.
_HTML_LINE = re.compile(rf"</?(?:p|br|li|ul|ol|div|center|table|thead|tbody|tr|h[1-6]){_ATTRIBUTES}>", re.IGNORECASE)
#: A cell of an HTML table, and the end of its row, which become those of a Markdown table.
_HTML_CELL = re.compile(rf"<t[dh]{_ATTRIBUTES}>", re.IGNORECASE)
_HTML_CELL_END = re.compile(r"</t[dh]\s?>(?P<row>\s{0,20}</tr\s?>)?", re.IGNORECASE)
_TABLE_ROW = re.compile(r"^[ \t]{0,4}\|[^\n]*", re.MULTILINE)
_EMPHASIS = re.compile(r"\*{2,3}|__|(?<![\w*])\*(?=[^\s*])|(?<=[^\s*])\*(?![\w*])")
#: Letters of other alphabets that look like, and stand where, a Latin label does: Cyrillic А, С, Greek Α, Β, Ε.
#: Cyrillic В is both "B" and the third letter of its alphabet: nobody can know.
_LOOKALIKE = re.compile(r"(?<!\w)[АСΑΒΕ](?!\w)")
_LATIN = str.maketrans("АСΑΒΕ", "ACABE")


def plain(text: str) -> str:
    """`text` in one spelling and without markup; emphasis marks stay.

    `“Ｃ”` → `"C"`, `$\\text{C}$` → `C`, `<b>C</b>` → `C`, `10²` → `10^2`; runs of blanks and empty lines shrink to one.
    """
    if not text.isascii():
        text = _POWER.sub(r"^\g<0>", _MIXED.sub(" ", _NEGATIVE.sub("-", _CIRCLED.sub("", text))))
        text = unicodedata.normalize("NFKC", text).translate(_SPELLINGS)
    if not _LATEX_SIGNS.isdisjoint(text):
        text = _without_latex(text)
    if "`" in text:
        text = text.replace("`", "")
    if "," in text:
        text = _THOUSANDS.sub(lambda found: found[0].replace(",", ""), text)
    if "<" in text:
        text = _HTML_CELL_END.sub(lambda end: " |\n" if end["row"] else " ", _HTML_CELL.sub("| ", _HTML.sub("", text)))
        text = _TABLE_ROW.sub(lambda row: _HTML_LINE.sub(" ", row[0]), text)
        text = _HTML_LINE.sub("\n", text)
    if not text.isascii():
        text = _LOOKALIKE.sub(lambda found: found[0].translate(_LATIN), text)
    return _squeezed(text)


def _without_latex(text: str) -> str:
    text = _LATEX_NEGATIVE.sub("-", text)
    text = _LATEX_ROOT.sub(r"√\1\2", _LATEX_DEGREE.sub("°", text))
    text = _LATEX_NAME.sub(lambda found: _LATEX_NAMES[found[1]], _LATEX_SHORT.sub(r"\\frac{\1}{\2}", text))
    text = _LATEX_MARK.sub("", _LATEX_SPACE.sub(" ", _LATEX_SIGN.sub(r"\1", text)))
    text = _LATEX_SWITCH.sub("", _LATEX_BRACED.sub(r"\1\2", text))
    for _ in range(2):  # \textbf{\text{C}}
        text = _LATEX_FONT.sub(r"\1", text)
    text = _LATEX_DIGITS.sub(r"\1", _LATEX_PER.sub(lambda found: found[0][:-1], text))
    return _LATEX_FRACTION.sub(r"\1/\2", _LATEX_MIXED.sub(" ", text))


def unemphasized(text: str) -> str:
    """`text` without Markdown's bold and italics: `**C**` → `C`."""
    return _squeezed(_EMPHASIS.sub("", text) if "*" in text or "_" in text else text)


def lowered(text: str) -> str:
    """`text` in lower case, of the same length, so that positions stay true."""
    lower = text.lower()
    return lower if len(lower) == len(text) else "".join(c.lower() if len(c.lower()) == 1 else c for c in text)


def folded(text: str) -> str:
    """`text` for comparison: no case, quotes or final punctuation.  `"Paris."` → `paris`."""
    return unemphasized(plain(text)).casefold().replace('"', "").strip(" '\n").rstrip(" .,;:!?")


def _squeezed(text: str) -> str:
    rows = text.splitlines()
    if len(rows) < 2:
        return " ".join(text.split())
    lines: list[str] = []
    for line in (" ".join(row.split()) for row in rows):
        if line or (lines and lines[-1]):
            lines.append(line)
    return "\n".join(lines).strip()
