"""Looking again at a run: its texts by today's rules, its answers one at a time, its prompts token by token."""

from __future__ import annotations

import json
import weakref
from collections.abc import Iterator, Sequence
from importlib.metadata import version
from typing import Any

import pytest
from click.testing import CliRunner

from benchmarks.made_up import LETTERED
from contract import Failure, MemoryLedger, Mode, Outcome, Prompt, Question, Run, Settings, Verdict, load_settings
from contract.choice_order import arrangements
from contract.commands import INTERRUPTED
from contract.engine_info import EngineUsed
from contract.errors import InputError, RunConfigError, SettingsError
from contract.spec import IndexKind, Judge, Retrieval, Sampling
from contract.verdict import Passage
from tests.support import make_question, make_questions, open_run
from tests.unit.workers.ready_engine import ReadyEngine, WordTokenizer
from workers.cli import main
from workers.commands import recheck
from workers.engines.base import Completion, Request, ScoreRequest, Text
from workers.engines.encoding import PromptEncoder
from workers.engines.simulated import SimulatedEngine
from workers.recheck.rescoring import rescore
from workers.recheck.serving import refuse_lacking_adapter, serving
from workers.recheck.stability import answered, stability, unlike
from workers.recheck.tokens import as_asked, refuse_foreign_tokens, request_tokens
from workers.scoring.base import Reading
from workers.scoring.extract import rules_version
from workers.scoring.generate import read_text

NOTHING_READ = Reading(None, "none")
NOT_READ = "has no texts in which rules would read a choice"
GENERATES = {"mode": Mode.GENERATE, "sampling": Sampling(), "prompt": LETTERED}


def commit(books: MemoryLedger, run: Run, *verdicts: Verdict) -> None:
    books.commit(run.run_id, verdicts)


def stored(question_id: str, text: str, **more: Any) -> Verdict:
    """A verdict as rules that read nothing would have left it."""
    fields = {"question_id": question_id, "outcome": Outcome.UNANSWERED, "raw_text": text, "rule": "none"}
    return Verdict.model_validate(fields | {"prompt_tokens": 9} | more)


def test_stored_texts_are_read_by_todays_rules_into_a_run_of_their_own(books: MemoryLedger) -> None:
    run = open_run(books, make_questions(3), "old", **GENERATES)
    gone = stored("q2", "", outcome=Outcome.FAILED, error=Failure(type="RequestRejected", message="too long"))
    commit(books, run, stored("q0", "The answer is A."), stored("q1", "No idea."), gone)
    done = rescore(books, run.run_id)
    assert (done.questions, done.changed) == (3, 1)
    assert done.run.spec.rescored_from == run.run_id
    after = {question.id: verdict for question, verdict in books.results(done.run.run_id) if verdict}
    assert (after["q0"].outcome, after["q0"].choice, after["q0"].prompt_tokens) == (Outcome.CORRECT, "A", 9)
    assert after["q1"].outcome is Outcome.UNANSWERED
    assert after["q2"] == gone
    before = books.result(run.run_id, "q0")[1]
    assert before is not None
    assert before.outcome is Outcome.UNANSWERED


def test_a_text_that_the_rules_fail_on_fails_its_question_and_the_others_are_read(
    books: MemoryLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fragile(question: Question, text: str, *args: Any, **options: Any) -> Reading:
        if text == "!":
            raise IndexError("no such group")
        return read_text(question, text, *args, **options)

    run = open_run(books, make_questions(3), "old", **GENERATES)
    commit(books, run, stored("q0", "The answer is A."), stored("q1", "!", choice="B"), stored("q2", "No idea."))
    monkeypatch.setattr("workers.recheck.rescoring.read_text", fragile)

    done = rescore(books, run.run_id)

    after = {question.id: verdict for question, verdict in books.results(done.run.run_id) if verdict}
    assert after["q0"].choice == "A"
    assert (after["q1"].outcome, after["q1"].choice, after["q1"].raw_text) == (Outcome.FAILED, None, "!")
    assert after["q1"].error == Failure(
        type="IndexError", message="its text cannot be read by the current rules: no such group"
    )
    assert after["q2"].outcome is Outcome.UNANSWERED
    assert books.counts(done.run.run_id).finished


def test_a_rescored_run_knows_which_engines_wrote_its_texts(books: MemoryLedger) -> None:
    run = open_run(books, make_questions(1), "old", **GENERATES)
    books.note_engine(run.run_id, EngineUsed(worker="w0", since=1.0, engine={"engine": "vllm", "dtype": "float32"}))
    commit(books, run, stored("q0", "The answer is A."))

    again = [rescore(books, run.run_id).run.run_id for _ in range(2)]

    (wrote,), read = books.engines(run.run_id), books.engines(again[1])
    assert read == [wrote.model_copy(update={"engine": {**wrote.engine, "rules": rules_version()}})]


def test_rescoring_twice_changes_nothing_more(books: MemoryLedger) -> None:
    run = open_run(books, make_questions(1), "old", **GENERATES)
    commit(books, run, stored("q0", "The answer is A."))
    first, second = rescore(books, run.run_id), rescore(books, run.run_id)
    assert first.run.run_id == second.run.run_id
    assert books.counts(first.run.run_id).settled == 1


def test_failed_questions_that_were_asked_again_are_read_by_the_next_rescoring(books: MemoryLedger) -> None:
    run = open_run(books, make_questions(2), "old", **GENERATES)
    gone = stored("q1", "", outcome=Outcome.FAILED, error=Failure(type="EngineDead", message="out of memory"))
    commit(books, run, stored("q0", "The answer is A."), gone)
    before = rescore(books, run.run_id).run.run_id
    books.reopen_failed(run.run_id)
    commit(books, run, stored("q1", "The answer is B."))

    after = [rescore(books, run.run_id).run.run_id for _ in range(2)]

    outcomes = [[verdict and verdict.outcome for _, verdict in books.results(each)] for each in (before, *after)]
    assert outcomes == [[Outcome.CORRECT, Outcome.FAILED], *[[Outcome.CORRECT, Outcome.CORRECT]] * 2]
    assert after == [f"{before}-2"] * 2


def test_a_run_asked_anew_under_the_id_of_a_purged_one_is_not_given_the_readings_of_its_texts(
    books: MemoryLedger,
) -> None:
    run = open_run(books, make_questions(1), "old", **GENERATES)
    commit(books, run, stored("q0", "The answer is B."))
    rescore(books, run.run_id)
    books.purge(run.run_id)
    open_run(books, make_questions(1), "old", **GENERATES)
    commit(books, run, stored("q0", "The answer is A."))

    found = books.result(rescore(books, run.run_id).run.run_id, "q0")[1]

    assert found is not None
    assert (found.choice, found.raw_text) == ("A", "The answer is A.")


def test_rescoring_that_was_killed_is_finished_by_rescoring_again(
    books: MemoryLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = open_run(books, make_questions(2), "old", **GENERATES)
    commit(books, run, stored("q0", "The answer is A."), stored("q1", "No idea."))

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(books, "commit", killed)
    with pytest.raises(KeyboardInterrupt):
        rescore(books, run.run_id)
    monkeypatch.undo()
    (open_now,) = books.open_runs()
    done = rescore(books, run.run_id)
    assert done.run.run_id == open_now
    assert books.counts(open_now).finished
    assert [verdict and verdict.choice for _, verdict in books.results(open_now)] == ["A", None]


def test_other_rules_make_another_run_so_that_what_they_read_is_what_one_finds(
    books: MemoryLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = open_run(books, make_questions(1), "old", **GENERATES)
    commit(books, run, stored("q0", "The answer is A."))
    monkeypatch.setattr("workers.recheck.rescoring.rules_version", lambda: "yesterday")
    monkeypatch.setattr("workers.recheck.rescoring.read_text", lambda *_, **__: NOTHING_READ)
    before = rescore(books, run.run_id)
    monkeypatch.undo()
    after = rescore(books, run.run_id)
    assert before.run.run_id != after.run.run_id
    choices = [books.result(each.run.run_id, "q0")[1] for each in (before, after)]
    assert [verdict and verdict.choice for verdict in choices] == [None, "A"]
    assert after.run.spec.rules_version == rules_version()


def test_votes_are_counted_again(books: MemoryLedger) -> None:
    spec = {**GENERATES, "mode": Mode.VOTE, "sampling": Sampling(samples=3, temperature=0.5)}
    run = open_run(books, make_questions(1), "old", **spec)
    commit(books, run, stored("q0", json.dumps(["Answer: A", "Answer: B", "Answer: A"])))
    after = books.result(rescore(books, run.run_id).run.run_id, "q0")[1]
    assert after is not None
    assert after.choice == "A"
    assert after.confidence == pytest.approx(2 / 3)


def test_a_text_about_shuffled_choices_is_read_in_the_order_that_was_shown(books: MemoryLedger) -> None:
    run = open_run(books, make_questions(8), "old", shuffle=True, **GENERATES)
    commit(books, run, *(stored(f"q{n}", "Answer: A") for n in range(8)))
    found = list(books.results(rescore(books, run.run_id).run.run_id))
    meant = [arrangements(question, run.spec)[0].original("A") for question, _ in found]
    assert [verdict and verdict.choice for _, verdict in found] == meant
    assert len(found) == 8
    assert len(set(meant)) > 1


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        ({}, rf"\(mode likelihood\) {NOT_READ}"),
        ({**GENERATES, "mode": Mode.FREE}, rf"\(mode free\) {NOT_READ}"),
        ({"mode": Mode.LETTER, "prompt": LETTERED, "circular": True}, rf"\(mode letter\) {NOT_READ}"),
        ({**GENERATES, "circular": True}, r"stores the text of one rotation .*, but all of them decide\. .* --fresh"),
    ],
)
def test_a_run_without_all_texts_that_decided_is_refused(books: MemoryLedger, spec: dict[str, Any], told: str) -> None:
    run = open_run(books, make_questions(1), "old", **spec)
    commit(books, run, stored("q0", "A"))
    with pytest.raises(RunConfigError, match=told):
        rescore(books, run.run_id)


def test_the_grades_of_a_judge_are_not_read_again(books: MemoryLedger) -> None:
    judge = Judge(prompt=Prompt(name="grade", text="Grade: {{ response }}"))
    run = open_run(books, make_questions(1), "old", mode=Mode.JUDGE, sampling=Sampling(), judge=judge)
    commit(books, run, stored("q0", "It is four."))
    with pytest.raises(RunConfigError, match=r"are its judge's grades: .* To grade again, enqueue it with --fresh"):
        rescore(books, run.run_id)


def test_a_run_that_is_not_finished_is_refused(books: MemoryLedger) -> None:
    run = open_run(books, make_questions(1), "old", **GENERATES)
    with pytest.raises(RunConfigError, match="not finished"):
        rescore(books, run.run_id)


class Writes(ReadyEngine):
    """The same text after every prompt."""

    def __init__(self, settings: Settings, text: str) -> None:
        super().__init__(settings)
        self.text = text

    def generate(self, requests: Sequence[Request]) -> list[Completion]:
        return [Completion(texts=(Text(self.text, 3),)) for _ in requests]


class Contrary(ReadyEngine):
    """Chooses the last label, whoever asks."""

    calls: list[int]
    prompts: list[str]

    def generate(self, requests: Sequence[Request]) -> list[Completion]:
        self.calls.append(len(requests))
        self.prompts += [each.prompt for each in requests]
        return [Completion(logprobs=(-4.0, -3.0, -2.0, -1.0)) for each in requests if isinstance(each, ScoreRequest)]


def test_stability_asks_one_question_at_a_time_and_reports_what_flipped(books: MemoryLedger) -> None:
    run = open_run(books, make_questions(10), "old")
    commit(books, run, *(stored(f"q{n}", "", choice="D" if n % 2 else "A", margin=0.1) for n in range(10)))
    engine = Contrary(load_settings())
    engine.calls, engine.prompts = [], []
    found = list(stability(books, run.run_id, engine, sample=10))
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
    engine.calls, engine.prompts = [], []
    monkeypatch.setattr(recheck, "asked_of", lambda *_: (load_settings(), books, run))
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
    engine.calls, engine.prompts = [], []
    assert len(list(stability(books, run.run_id, engine, sample=10))) == 10
    assert most < 20


def test_a_question_that_cannot_be_asked_alone_is_told_with_the_reason(books: MemoryLedger) -> None:
    run = open_run(books, make_questions(1), "old")
    commit(books, run, stored("q0", "", choice="A"))
    engine = SimulatedEngine(load_settings(None, ["simulated.reject_text=Question"]))
    engine.start()
    (flip,) = stability(books, run.run_id, engine, sample=1)
    assert flip
    assert (flip.in_batch, flip.alone) == ("A", "failed (simulated rejection)")


def test_a_circular_question_is_stable_only_where_every_rotation_comes_out_as_before(books: MemoryLedger) -> None:
    run = open_run(books, make_questions(1), "circular", mode=Mode.LETTER, circular=True)
    commit(books, run, stored("q0", "", choice="D", rotations=4, rotation_choices=("D",) * 4))
    engine = Contrary(load_settings())
    engine.calls, engine.prompts = [], []
    (flip,) = stability(books, run.run_id, engine, sample=1)
    assert flip
    assert (flip.in_batch, sorted(str(flip.alone).split())) == ("D D D D", ["A", "B", "C", "D"])


def test_stability_says_that_another_engine_than_the_run_s_is_asked(books: MemoryLedger) -> None:
    run = open_run(books, make_questions(1), "old")
    engine = SimulatedEngine(load_settings(None, ["engine=simulated"]))
    engine.start()
    then = {"mcqueue": version("mcqueue"), **engine.describe()}
    books.note_engine(run.run_id, EngineUsed(worker="gpu0", since=0.0, engine=then))
    assert unlike(books, run.run_id, engine) == ""
    books.note_engine(run.run_id, EngineUsed(worker="gpu0", since=0.0, engine=then | {"dtype": "float32"}))
    assert unlike(books, run.run_id, engine) == 'dtype (null, "float32")'


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
    flips = [flip for flip in stability(books, run.run_id, model, 2, judge_engine=found) if flip]
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

    (flip,) = stability(books, run.run_id, Writes(load_settings(), alone), sample=1)

    assert (flip and (flip.in_batch, flip.alone)) == told


def test_an_answer_without_a_key_to_grade_it_by_is_stable_only_if_the_same_text_comes_again(
    books: MemoryLedger,
) -> None:
    keyless = [each.model_copy(update={"answer": None}) for each in make_questions(2)]
    judge = Judge(prompt=Prompt(name="grade", text="{{ response }}"))
    run = open_run(books, keyless, "old", **GENERATES | {"mode": Mode.JUDGE, "judge": judge})
    commit(books, run, *(stored(f"q{n}", f"It is {n}.", outcome=Outcome.ANSWERED) for n in range(2)))

    flips = [flip for flip in stability(books, run.run_id, Writes(load_settings(), "It is 1."), sample=2) if flip]

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


def test_tokens_are_those_that_the_engine_is_given(books: MemoryLedger) -> None:
    run = open_run(books, make_questions(1), "old")
    question = books.result(run.run_id, "q0")[0]
    (shown,) = request_tokens(run, question, (), PromptEncoder(WordTokenizer()))
    assert shown["text"] == "Question: What is 0 plus 0?\nAnswer:"
    assert shown["token_ids"][0] == WordTokenizer.bos_token_id
    assert [each["text"] for each in shown["continuations"]] == [" 0", " 1", " 2", " 3"]
    assert all(len(each["token_ids"]) == 1 for each in shown["continuations"])


def test_a_question_is_looked_at_again_with_the_passages_that_it_was_shown(books: MemoryLedger) -> None:
    rag = Retrieval(index="facts", index_digest="0" * 64, kind=IndexKind.BM25)
    template = Prompt(name="with context", text="{{ context }}\n{{ question }}")
    run = open_run(books, make_questions(1), "old", rag=rag, prompt=template)
    shown = (Passage(id="p", score=2.0, text="Sums are even."), Passage(id="x", score=1.0, text="No.", shown=False))
    commit(books, run, stored("q0", "", choice="A", passages=shown))
    question = books.result(run.run_id, "q0")[0]
    engine = Contrary(load_settings())
    engine.calls, engine.prompts = [], []

    list(stability(books, run.run_id, engine, sample=1))
    (given,) = request_tokens(run, question, shown, PromptEncoder(WordTokenizer()))

    assert engine.prompts == [given["text"]] == ["Sums are even.\nWhat is 0 plus 0?"]


def test_an_unsettled_question_is_shown_with_the_passages_that_it_will_be_asked_with(books: MemoryLedger) -> None:
    rag = Retrieval(index="facts", index_digest="0" * 64, kind=IndexKind.BM25)
    template = Prompt(name="with context", text="{{ context }}\n{{ question }}")
    run = open_run(books, make_questions(2), "old", rag=rag, prompt=template)
    with pytest.raises(RunConfigError, match=r"q0 of .* has no passages yet"):
        as_asked(books, run, "q0")
    books.attach(run.run_id, {"q0": [Passage(id="p", score=2.0, text="Sums are even.")], "q1": []})
    (given,) = request_tokens(run, *as_asked(books, run, "q0"), PromptEncoder(WordTokenizer()))
    assert given["text"] == "Sums are even.\nWhat is 0 plus 0?"
    assert as_asked(books, run, "q1")[1] == ()
    commit(books, run, stored("q0", "", choice="A"))
    assert as_asked(books, run, "q0")[1] == (), "what it was asked with counts"


@pytest.mark.parametrize(
    "overrides", [["engine=simulated"], ["engine=openai", "openai.url=http://127.0.0.1:1", "openai.model=gpt"]]
)
def test_tokens_of_another_model_are_not_shown_for_a_server_s_or_for_none(overrides: list[str]) -> None:
    with pytest.raises(SettingsError, match="cannot be shown"):
        refuse_foreign_tokens(load_settings(None, overrides))
    refuse_foreign_tokens(load_settings(None, []))
