"""Answers are asked for again, one at a time, by settings that serve the run: what flipped."""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Sequence
from importlib.metadata import version

import pytest
from click.testing import CliRunner

from contract import Failure, MemoryLedger, Mode, Outcome, Prompt, Question, Settings, Verdict, load_settings
from contract.commands import INTERRUPTED
from contract.engine_info import EngineUsed
from contract.errors import InputError, SettingsError
from contract.spec import IndexKind, Judge, Retrieval
from contract.verdict import Passage
from tests.support import make_question, make_questions, open_run
from tests.unit.workers.ready_engine import ReadyEngine, WordTokenizer
from tests.unit.workers.recheck.stored import GENERATES, commit, stored
from workers.cli import main
from workers.commands import recheck
from workers.engines.base import Completion, Request, ScoreRequest, Text
from workers.engines.encoding import PromptEncoder
from workers.engines.simulated import SimulatedEngine
from workers.recheck.serving import refuse_lacking_adapter, serving
from workers.recheck.stability import answered, engine_differences, stability
from workers.recheck.tokens import request_tokens


class Writes(ReadyEngine):
    """The same text after every prompt."""

    def __init__(self, settings: Settings, text: str) -> None:
        super().__init__(settings)
        self.text = text

    def generate(self, requests: Sequence[Request]) -> list[Completion]:
        return [Completion(texts=(Text(self.text, 3),)) for _ in requests]


class Contrary(ReadyEngine):
    """Chooses the last label, whoever asks."""

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self.calls: list[int] = []
        self.prompts: list[str] = []

    def generate(self, requests: Sequence[Request]) -> list[Completion]:
        self.calls.append(len(requests))
        self.prompts += [each.prompt for each in requests]
        scored = Completion(logprobs=(-4.0, -3.0, -2.0, -1.0), token_counts=(1,) * 4)
        return [scored for each in requests if isinstance(each, ScoreRequest)]


def test_stability_asks_one_question_at_a_time_and_reports_what_flipped(books: MemoryLedger) -> None:
    run = open_run(books, make_questions(10), "old")
    commit(books, run, *(stored(f"q{n}", "", choice="D" if n % 2 else "A", margin=0.1) for n in range(10)))
    engine = Contrary(load_settings())
    found = list(stability(books, run, engine, sample=10))
    assert len(found) == 10
    assert engine.calls == [1] * 10
    flips = [flip for flip in found if flip]
    assert {flip.question_id for flip in flips} == {"q0", "q2", "q4", "q6", "q8"}
    assert {(flip.in_batch, flip.alone, flip.margin) for flip in flips} == {("A", "D", 0.1)}


class Impatience(Contrary):
    """Ctrl-C while the second question is asked."""

    def generate(self, requests: Sequence[Request]) -> list[Completion]:
        if self.calls:
            raise KeyboardInterrupt
        return super().generate(requests)


def test_what_flipped_before_ctrl_c_is_told(books: MemoryLedger, monkeypatch: pytest.MonkeyPatch) -> None:
    run = open_run(books, make_questions(2), "old")
    commit(books, run, *(stored(f"q{n}", "", choice=None) for n in range(2)))
    engine = Impatience(load_settings())
    monkeypatch.setattr(recheck, "load_served_run", lambda *_: (load_settings(), books, run))
    monkeypatch.setattr(recheck, "make_engine", lambda _: engine)
    placed: list[Settings] = []
    monkeypatch.setattr(recheck, "take_first_place", placed.append)
    monkeypatch.setattr(recheck, "TELL_EVERY_S", -1.0)

    result = CliRunner().invoke(main, ["stability", run.run_id])

    assert result.exit_code == INTERRUPTED
    assert len(placed) == 1, "pinned as a worker is, before the engine boots"
    assert f"asking 2 questions one at a time, once {run.spec.model} is up" in result.stderr
    assert "1 of 2 asked" in result.stderr
    assert "no choice in its batch, D alone" in result.stdout
    assert "1 of 1 question changed when asked alone" in result.stdout


def test_a_run_that_answered_nothing_yet_is_refused_before_an_engine_boots(books: MemoryLedger) -> None:
    """It booted an engine for minutes and said that 0 of 0 questions changed, which sounds stable."""
    run = open_run(books, make_questions(2), "old")
    with pytest.raises(InputError, match=f"No question of {run.run_id} was answered yet"):
        answered(books, run)
    error = Failure(type="Made", message="up")
    commit(books, run, Verdict(question_id="q0", outcome=Outcome.FAILED, error=error))
    with pytest.raises(InputError, match="was answered yet: 1 of 2 settled, 1 of them failed"):
        answered(books, run)
    commit(books, run, stored("q1", "", choice="A"))
    assert answered(books, run) == 1


def test_of_a_large_run_only_the_sample_is_in_memory(books: MemoryLedger, monkeypatch: pytest.MonkeyPatch) -> None:
    run = open_run(books, make_questions(1), "old")
    alive: set[int] = set()
    most = 0

    def results(run_id: str) -> Iterator[tuple[Question, Verdict]]:
        nonlocal most
        for number in range(500):
            question = make_question(number)
            alive.add(number)
            weakref.finalize(question, alive.discard, number)
            most = max(most, len(alive))
            yield question, stored(question.id, "", choice="A")

    monkeypatch.setattr(books, "results", results)
    engine = Contrary(load_settings())
    assert len(list(stability(books, run, engine, sample=10))) == 10
    assert most < 20


def test_a_question_that_cannot_be_asked_alone_is_told_with_the_reason(books: MemoryLedger) -> None:
    run = open_run(books, make_questions(1), "old")
    commit(books, run, stored("q0", "", choice="A"))
    engine = SimulatedEngine(load_settings(None, ["simulated.reject_text=Question"]))
    engine.start()
    (flip,) = stability(books, run, engine, sample=1)
    assert flip
    assert (flip.in_batch, flip.alone) == ("A", "failed (simulated rejection)")


def test_a_circular_question_is_stable_only_where_every_rotation_comes_out_as_before(books: MemoryLedger) -> None:
    run = open_run(books, make_questions(1), "circular", mode=Mode.LETTER, circular=True)
    commit(books, run, stored("q0", "", choice="D", rotations=4, rotation_choices=("D",) * 4))
    engine = Contrary(load_settings())
    (flip,) = stability(books, run, engine, sample=1)
    assert flip
    assert (flip.in_batch, sorted(str(flip.alone).split())) == ("D D D D", ["A", "B", "C", "D"])


def test_stability_says_that_another_engine_than_the_run_s_is_asked(books: MemoryLedger) -> None:
    run = open_run(books, make_questions(1), "old")
    engine = SimulatedEngine(load_settings(None, ["engine=simulated"]))
    engine.start()
    then = {"mcqueue": version("mcqueue"), **engine.describe()}
    books.note_engine(run.run_id, EngineUsed(worker="gpu0", since=0.0, engine=then))
    assert engine_differences(books, run, engine) == ""
    books.note_engine(run.run_id, EngineUsed(worker="gpu0", since=0.0, engine=then | {"dtype": "float32"}))
    assert engine_differences(books, run, engine) == 'dtype (null, "float32")'


def test_a_judged_run_is_looked_at_again_with_its_judge_and_compared_by_grade(books: MemoryLedger) -> None:
    grade = Prompt(name="grade", text="{{ response }} {{ reference }}")
    judge = Judge(prompt=grade, server="http://127.0.0.1:1", model="strict")
    run = open_run(books, make_questions(2), "old", **GENERATES | {"mode": Mode.JUDGE, "judge": judge})
    commit(books, run, *(stored(f"q{n}", "", outcome=Outcome.CORRECT if n else Outcome.WRONG) for n in range(2)))
    asked: list[Judge] = []

    def found(wanted: Judge) -> Writes:
        asked.append(wanted)
        return strict

    model, strict = (Writes(load_settings(), text) for text in ("It is so.", '{"correct": false, "reason": ""}'))
    flips = [flip for flip in stability(books, run, model, 2, judge_engine=found) if flip]
    assert asked == [judge, judge]
    assert [(flip.question_id, flip.in_batch, flip.alone) for flip in flips] == [("q1", "correct", "wrong")]


@pytest.mark.parametrize(
    ("before", "alone", "told"),
    [
        ("It is so.", "It is so.", None),
        ("It is not.", "It is so.", ("'It is not.'", "'It is so.'")),
        (
            "Once upon a time, there was a queue",
            f"Once upon a time, there was a {'b' * 50}",
            ("…'a time, there was a queue'", f"…'a time, there was a {'b' * 40}'…"),
        ),
        ("It is so.", "It is so.\n\n", ("'It is so.'", "'It is so.\\n\\n'")),
        ("It is so.", "", ("'It is so.'", "''")),
    ],
)
def test_the_text_of_a_free_prompt_is_stable_only_if_all_of_it_comes_again(
    books: MemoryLedger, before: str, alone: str, told: tuple[str, str] | None
) -> None:
    """No choice is read from it: it was called unchanged, whatever came."""
    prompt = Question(id="q0", question="Tell me a story.", choices=())
    run = open_run(books, [prompt], "old", **GENERATES | {"mode": Mode.FREE})
    commit(books, run, stored("q0", before, outcome=Outcome.ANSWERED))

    (flip,) = stability(books, run, Writes(load_settings(), alone), sample=1)

    assert (flip and (flip.in_batch, flip.alone)) == told


def test_an_answer_without_a_key_to_grade_it_by_is_stable_only_if_the_same_text_comes_again(
    books: MemoryLedger,
) -> None:
    keyless = [each.model_copy(update={"answer": None}) for each in make_questions(2)]
    judge = Judge(prompt=Prompt(name="grade", text="{{ response }}"))
    run = open_run(books, keyless, "old", **GENERATES | {"mode": Mode.JUDGE, "judge": judge})
    commit(books, run, *(stored(f"q{n}", f"It is {n}.", outcome=Outcome.ANSWERED) for n in range(2)))

    flips = [flip for flip in stability(books, run, Writes(load_settings(), "It is 1."), sample=2) if flip]

    assert [(flip.question_id, flip.in_batch, flip.alone) for flip in flips] == [("q0", "'It is 0.'", "'It is 1.'")]


def test_settings_without_the_adapter_of_a_run_are_refused(books: MemoryLedger) -> None:
    run = open_run(books, make_questions(1), "old", adapter="law")
    refuse_lacking_adapter(Settings(adapters={"law": "/somewhere"}), run)
    with pytest.raises(SettingsError, match=r"old-\w+ is for the adapter 'law', but the settings have med\."):
        refuse_lacking_adapter(Settings(adapters={"med": "/somewhere"}), run)


def test_of_several_models_the_run_s_own_is_asked_again_and_another_is_refused(books: MemoryLedger) -> None:
    run = open_run(books, make_questions(1), "old", model="small")
    large, small, other = (Settings(engine="simulated", model=name) for name in ("large", "small", "other"))

    assert serving([large, small], run) is small
    assert serving([large, small], open_run(books, make_questions(1), model="Small")) is small
    with pytest.raises(SettingsError, match=r"old-\w+ is for small, but the settings serve large, other\."):
        serving([large, other], run)


def test_a_question_is_looked_at_again_with_the_passages_that_it_was_shown(books: MemoryLedger) -> None:
    rag = Retrieval(index="facts", index_digest="0" * 64, kind=IndexKind.BM25)
    template = Prompt(name="with context", text="{{ context }}\n{{ question }}")
    run = open_run(books, make_questions(1), "old", rag=rag, prompt=template)
    shown = (Passage(id="p", score=2.0, text="Sums are even."), Passage(id="x", score=1.0, text="No.", shown=False))
    commit(books, run, stored("q0", "", choice="A", passages=shown))
    question = books.result(run.run_id, "q0")[0]
    engine = Contrary(load_settings())

    list(stability(books, run, engine, sample=1))
    (given,) = request_tokens(run, question, shown, PromptEncoder(WordTokenizer()))

    assert engine.prompts == [given["text"]] == ["Sums are even.\nWhat is 0 plus 0?"]
