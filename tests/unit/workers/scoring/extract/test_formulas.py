"""Formulas and units, in the spellings of LaTeX and plain text."""

from __future__ import annotations

import pytest

from tests.unit.workers.scoring.extract.extracting import label


@pytest.mark.parametrize(
    ("text", "choices", "read"),
    [
        (r"\boxed{e^{-1}}", ("$e-1$", "$1/e$", "$e^{-1}$", "$1$"), "C"),
        (r"The answer is $x^{-1}$.", ("$x-1$", "$x$", "$1$", "$x+1$"), None),
        (r"The answer is $x^2$.", ("x²", "2x", "x", "1"), "A"),
    ],
)
def test_a_negative_power_is_no_difference(text: str, choices: tuple[str, ...], read: str | None) -> None:
    assert label(text, choices) == read


@pytest.mark.parametrize("choices", [("n", "n+1", "n-1", "2n"), ("n", "n-1", "n+1", "2n")])
@pytest.mark.parametrize("text", ["The answer is n - 1.", r"\boxed{n - 1}", "Answer: n − 1"])
def test_a_formula_that_begins_with_a_choice_is_not_the_one_with_another_sign(
    text: str, choices: tuple[str, ...]
) -> None:
    assert label(text, choices) == "ABCD"[choices.index("n-1")]


@pytest.mark.parametrize("written", ["mol⁻¹", "mol-1", "mol^-1", r"\text{mol}^{-1}", r"$\mathrm{mol^{-1}}$"])
@pytest.mark.parametrize("chosen", ["mol⁻¹", "mol-1", "mol^-1", r"$\text{mol}^{-1}$"])
def test_a_unit_has_the_same_negative_power_in_every_spelling(written: str, chosen: str) -> None:
    for unit in ("mol", "s", "kJ mol", "m s"):
        choices = tuple(f"{n} {chosen.replace('mol', unit)}" for n in (5, 10, 15))
        assert label(f"The answer is 10 {written.replace('mol', unit)}.", choices) == "B"


def test_a_negative_power_of_a_variable_is_the_same_in_every_spelling() -> None:
    for written in ("x⁻¹", "x^-1", "$x^{-1}$"):
        assert label(f"The answer is {written}.", ("x-1", "$x^{-1}$", "x")) == "B"
        assert label(f"The answer is {written}.", ("x-1", "x⁻¹", "x")) == "B"


@pytest.mark.parametrize(
    ("choices", "text", "read"),
    [
        (("O(n)", "O(n log n)", "O(1)"), r"$O(n \log n)$", "B"),
        (("1/2", "1/3", "1/4"), r"\boxed{\frac12}", "A"),
        (("√3/2", "√2/2", "1/2"), r"\boxed{\dfrac{\sqrt{3}}{2}}", "A"),
        (("60°", "90°", "45°"), r"The angle is $90^\circ$.", "B"),
        (("3 × 10⁸ m/s", "3 × 10⁻⁸ m/s"), r"\boxed{3 \times 10^8 \text{ m/s}}", "A"),
        ((r"$3 \times 10^8$", r"$3 \times 10^{-8}$"), "3 × 10⁻⁸", "B"),
        (("π", "π/2", "2π"), r"The answer is $\frac{\pi}{2}$.", "B"),
        (("x ≤ 3", "x ≥ 3", "x < 3"), r"The answer is $x \geq 3$.", "B"),
        (("sin x", "cos x"), r"The answer is $\tan x$.", None),
    ],
)
def test_a_command_of_latex_is_the_sign_or_name_that_it_writes(
    choices: tuple[str, ...], text: str, read: str | None
) -> None:
    assert label(text, choices) == read
