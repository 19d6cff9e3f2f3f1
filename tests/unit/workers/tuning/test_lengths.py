"""The questions by which tuning measures, and the context that they need."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from contract import MemoryLedger, Mode, Outcome, Question, Verdict
from contract.errors import InputError, RequestRejected
from contract.settings import load_settings
from contract.spec import ExampleSelection, FewShot, IndexKind, Prompt, Retrieval, RunSpec, Sampling
from contract.verdict import Passage
from tests.support import make_question, make_questions, make_spec, open_run
from tests.unit.workers.tuning.tuned import judged, question_of
from workers.engines.encoding import Encoded, PromptEncoder
from workers.engines.prefill_plan import make_plan
from workers.scoring import Item, requests_of
from workers.tuning import sample
from workers.tuning.lengths import COMPLAINT_TOKENS, lengths
from workers.tuning.sample import Effort, items_of, most_context, to_measure, tune_by
from workers.tuning.search import Tuned
from workers.tuning.trials import Shape, Trial


class Words:
    """A tokenizer whose tokens are words."""

    chat_template = None

    def __call__(self, texts: list[str], **_: bool) -> dict[str, list[list[int]]]:
        return {"input_ids": [list(range(len(text.split()))) for text in texts]}


ENCODER = PromptEncoder(Words())


def test_lengths_are_those_of_prompt_and_longest_choice() -> None:
    found = lengths([Item(question_of(10), make_spec())], ENCODER)
    assert found.longest == len(["Question:"]) + 10 + len(["Answer:"]) + 1


def test_lengths_of_a_mode_that_writes_have_room_for_all_of_the_text() -> None:
    spec = make_spec(mode=Mode.GENERATE, sampling=Sampling(max_tokens=100), prompt=make_spec().prompt)
    assert lengths([Item(question_of(10), spec)], ENCODER).longest == 12 + 100


def test_a_tuned_context_fails_no_question_for_being_among_the_longest() -> None:
    many = [question_of(10) for _ in range(97)] + [question_of(500) for _ in range(3)]
    found = lengths([Item(each, make_spec()) for each in many], ENCODER)
    assert (found.median, found.p95, found.longest) == (13, 13, 503)
    assert (found.context, found.beyond) == (512, 0)


def test_a_context_has_room_for_what_marks_the_prompts_of_a_trial() -> None:
    full = [Item(question_of(61), make_spec())]
    found = lengths(full, ENCODER)
    assert (found.longest, found.context) == (64, 128)


def test_a_context_grows_no_larger_than_the_model_s_and_says_what_it_does_not_hold() -> None:
    many = [question_of(10) for _ in range(97)] + [question_of(500) for _ in range(3)]
    found = lengths([Item(each, make_spec()) for each in many], ENCODER, most=500)
    assert (found.longest, found.context, found.beyond) == (503, 500, 3)


@pytest.mark.parametrize(("given", "context"), [(0, 512), (256, 512), (2048, 2048)])
def test_a_run_of_short_prompts_does_not_take_a_deploy_file_s_context_from_other_runs(given: int, context: int) -> None:
    """The file that was tuned by a run of short prompts failed the next one, with passages."""
    found = lengths([Item(question_of(500), make_spec())], ENCODER, most=4096, given=given)
    assert (found.context, found.given, found.beyond) == (context, given, 0)


def test_settings_are_tried_and_chosen_with_the_context_of_the_deploy_file(monkeypatch: pytest.MonkeyPatch) -> None:
    books = MemoryLedger()
    run = open_run(books, make_questions(3))
    best, said = Trial(Shape(16, 2), {}, questions_per_s=12.5, batch_s=0.8), list[str]()
    monkeypatch.setattr(sample, "resolve", str)
    monkeypatch.setattr(sample, "prepare_environment", lambda *_: None)
    monkeypatch.setattr(sample, "tokenizer_of", lambda *_: Words())
    monkeypatch.setattr(sample, "positions_of", lambda *_: 4096)
    monkeypatch.setattr(sample, "tune", lambda _, items, needs, *__: Tuned(needs, [best], best, 0.4, len(items)))
    settings = load_settings(None, ["vllm_args.max_model_len=2048"])

    found = tune_by(settings, run, books, Effort(limit_s=1800, sample=None, seed=0), said.append)

    assert found.chosen()["vllm_args"] == {"max_model_len": 2048}
    assert "trying settings for 1800 s; Ctrl-C stops early and keeps the best so far" in said


def test_a_question_that_just_fits_is_not_told_to_be_too_long() -> None:
    """Its last token, which vLLM does not read, was counted besides the one that vLLM writes in its place."""
    item = Item(question_of(10), make_spec())
    (request,) = requests_of(item)
    (encoded,) = ENCODER.encode([request])
    assert isinstance(encoded, Encoded)
    plans = [make_plan(request, encoded, limit, caches=True) for limit in (12, 13)]
    assert [isinstance(each, RequestRejected) for each in plans] == [True, False]
    assert [lengths([item], ENCODER, most=limit).beyond for limit in (12, 13)] == [1, 0]


@pytest.mark.parametrize(
    ("given", "closed_book", "retrieved"), [([], 512, 512), ([256], 512, 256), ([1024], 1024, 1024)]
)
def test_passages_do_not_make_the_context_larger_than_a_deploy_file_has_it(
    tmp_path: Path, given: list[int], closed_book: int, retrieved: int
) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "llama", "max_position_embeddings": 512}')
    settings = load_settings(None, [f"vllm_args.max_model_len={each}" for each in given])
    books, rag = MemoryLedger(), Retrieval(index="facts", index_digest="0" * 64, kind=IndexKind.BM25)
    runs = open_run(books, make_questions(2), "closed"), open_run(books, make_questions(2), "open", rag=rag)
    assert [most_context(settings, run, str(tmp_path)) for run in runs] == [closed_book, retrieved]


def test_a_model_of_a_kind_that_transformers_does_not_know_has_the_context_of_the_deploy_file(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "of its own"}')
    run = open_run(MemoryLedger(), make_questions(2), "closed")
    assert most_context(load_settings(None, ["vllm_args.max_model_len=512"]), run, str(tmp_path)) == 512
    assert most_context(load_settings(None, []), run, str(tmp_path)) is None


def test_lengths_count_no_passages_that_max_context_tokens_leaves_out() -> None:
    rag = Retrieval(index="facts", index_digest="0" * 64, kind=IndexKind.BM25, max_context_tokens=25)
    template = Prompt(name="with context", text="{{ context }}\n{{ question }}")
    passages = tuple(Passage(id=f"p{n}", score=1.0, text="word " * 10) for n in range(50))
    item = Item(question_of(10), make_spec(rag=rag, prompt=template), passages)
    assert lengths([item], ENCODER).longest == 2 * 10 + 10 + 1


def test_of_many_questions_those_with_the_longest_prompts_are_measured_whatever_makes_them_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("workers.tuning.sample.MEASURED", 5)
    template = Prompt(name="with context", text="{{ context }}\n{{ question }}")
    solved = (make_question(-1, subject="law", question="word " * 500), make_question(-2, subject="art"))
    few_shot = FewShot(k=1, selection=ExampleSelection.SUBJECT, pool=solved)
    many = [make_question(at, subject="art", question="word " * 9) for at in range(300)]
    by_context, by_example = make_question(9000, context="word " * 500), make_question(9001, subject="law")

    def measured(question: Question, spec: RunSpec) -> list[Question]:
        return to_measure([*many, question], spec, random.Random(0))

    assert by_context in measured(by_context, make_spec(prompt=template, use_context_field=True))
    assert by_context not in measured(by_context, make_spec(prompt=template))
    assert by_example in measured(by_example, make_spec(few_shot=few_shot))
    assert measured(by_context, make_spec(prompt=Prompt(name="broken", text="{{ question.none.at_all }}")))


def test_nothing_can_be_tuned_by_no_question() -> None:
    with pytest.raises(InputError, match="no question"):
        lengths([], ENCODER)


def test_lengths_of_a_judged_run_hold_the_grading_with_the_answer_and_every_grade_asked_for() -> None:
    found = lengths([Item(question_of(10), judged(100))], ENCODER)
    shown = len(["Grade", "against:", "20"])
    assert found.longest == shown + 100 + 3 * 50 + 2 * COMPLAINT_TOKENS


def test_lengths_of_a_run_judged_elsewhere_are_those_of_its_answers() -> None:
    spec = judged(100, server="http://127.0.0.1:1", model="m")
    assert lengths([Item(question_of(10), spec)], ENCODER).longest == 12 + 100


def test_questions_are_tried_with_the_passages_that_were_retrieved_for_them() -> None:
    books, questions = MemoryLedger(), make_questions(3)
    run = open_run(books, questions, rag=Retrieval(index="facts", index_digest="0" * 64, kind=IndexKind.BM25))
    with pytest.raises(InputError, match="has no passages yet"):
        list(items_of(run, questions, books))
    shown = (Passage(id="p", score=1.0, text="It is iron."),)
    books.attach(run.run_id, {questions[0].id: shown})
    without_room = tuple(each.model_copy(update={"shown": False}) for each in shown)
    books.commit(run.run_id, [Verdict(question_id=questions[1].id, outcome=Outcome.UNANSWERED, passages=without_room)])
    found = list(items_of(run, questions, books))
    assert [(each.question.id, each.passages) for each in found] == [(each.id, shown) for each in questions[:2]]


def test_questions_for_which_nothing_was_found_are_tried_without_passages() -> None:
    """A run of which none had any was told that its passages were not retrieved yet, whatever workers did."""
    books, questions = MemoryLedger(), make_questions(3)
    run = open_run(books, questions, rag=Retrieval(index="facts", index_digest="0" * 64, kind=IndexKind.BM25))
    books.attach(run.run_id, {questions[0].id: ()})
    books.commit(run.run_id, [Verdict(question_id=questions[1].id, outcome=Outcome.UNANSWERED)])
    found = list(items_of(run, questions, books))
    assert [(each.question.id, each.passages) for each in found] == [(each.id, ()) for each in questions[:2]]
