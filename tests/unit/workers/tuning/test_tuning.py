"""What tuning tries, what it takes for the best, and what it writes down."""

from __future__ import annotations

import json
import random
import re
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
import yaml

from contract import MemoryLedger, Mode, Outcome, Question, Settings, Verdict
from contract.errors import EngineError, InputError, ModelNotFound, SettingsError
from contract.prompts import turns_of
from contract.settings import load_fleet, load_settings
from contract.spec import (
    ChatTemplate,
    ExampleSelection,
    FewShot,
    IndexKind,
    Judge,
    Prompt,
    Retrieval,
    RunSpec,
    Sampling,
)
from contract.turns import Role
from contract.verdict import Passage
from tests.support import (
    PATIENCE_S,
    SIMULATED_MODEL,
    build_prompt,
    make_question,
    make_questions,
    make_spec,
    open_run,
    wait_until,
)
from workers.engines import JudgeEngines
from workers.engines.base import Completion, Request, Text
from workers.engines.encoding import PromptEncoder
from workers.engines.simulated import SimulatedEngine
from workers.scoring import Item
from workers.scoring.judge import grading_prompt
from workers.tuning import engine_process
from workers.tuning.lengths import COMPLAINT_TOKENS, Lengths, lengths
from workers.tuning.output import draw_trials, refuse_unwritable, table, write_deploy_file, write_record
from workers.tuning.sample import items_of, most_context, to_measure
from workers.tuning.search import Tuned, best_of, tune
from workers.tuning.trials import Shape, Trial, long_enough, marked, score_in_batches


class Words:
    """A tokenizer whose tokens are words."""

    chat_template = None

    def __call__(self, texts: list[str], **_: bool) -> dict[str, list[list[int]]]:
        return {"input_ids": [list(range(len(text.split()))) for text in texts]}


ENCODER = PromptEncoder(Words())
NEEDS = Lengths(questions=20, median=9, p95=10, longest=12, context=64, beyond=0)


def judged(max_tokens: int, **judge: str) -> RunSpec:
    """Answers of that length, and grades of 50 tokens, asked for three times at most."""
    grade = Prompt(name="grade", text="Grade {{ response }} against: {{ reference }}")
    grading = Judge.model_validate({"prompt": grade, "max_tokens": 50, "retries": 2, **judge})
    return make_spec(mode=Mode.JUDGE, sampling=Sampling(max_tokens=max_tokens), judge=grading)


def question_of(words: int) -> Question:
    return make_question(words, question="word " * words)


def test_lengths_are_those_of_prompt_and_longest_choice_and_the_token_that_vllm_always_writes() -> None:
    found = lengths([Item(question_of(10), make_spec())], ENCODER)
    assert found.longest == len(["Question:"]) + 10 + len(["Answer:"]) + 1 + 1


def test_lengths_of_a_mode_that_writes_have_room_for_all_of_the_text() -> None:
    spec = make_spec(mode=Mode.GENERATE, sampling=Sampling(max_tokens=100), prompt=make_spec().prompt)
    assert lengths([Item(question_of(10), spec)], ENCODER).longest == 12 + 100


def test_a_tuned_context_fails_no_question_for_being_among_the_longest() -> None:
    many = [question_of(10) for _ in range(97)] + [question_of(500) for _ in range(3)]
    found = lengths([Item(each, make_spec()) for each in many], ENCODER)
    assert (found.median, found.p95, found.longest) == (14, 14, 504)
    assert (found.context, found.beyond) == (512, 0)


def test_a_context_has_room_for_what_marks_the_prompts_of_a_trial() -> None:
    full = [Item(question_of(60), make_spec())]
    found = lengths(full, ENCODER)
    assert (found.longest, found.context) == (64, 128)


def test_a_context_grows_no_larger_than_the_model_s_and_says_what_it_does_not_hold() -> None:
    many = [question_of(10) for _ in range(97)] + [question_of(500) for _ in range(3)]
    found = lengths([Item(each, make_spec()) for each in many], ENCODER, most=500)
    assert (found.longest, found.context, found.beyond) == (504, 500, 3)


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
    assert lengths([item], ENCODER).longest == 2 * 10 + 10 + 1 + 1


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


def test_what_is_faster_by_noise_alone_does_not_replace_an_earlier_setting() -> None:
    trials = [Trial(Shape(size, 2), {}, speed) for size, speed in ((16, 100.0), (32, 101.0), (64, 110.0), (128, 111.0))]
    assert best_of(trials).shape.batch_size == 64


def test_a_setting_that_failed_is_never_the_best() -> None:
    assert best_of([Trial(Shape(16, 2), {}, failure="no memory"), Trial(Shape(32, 2), {}, 5.0)]).shape.batch_size == 32


def test_a_trial_counts_every_question_once_and_fails_with_the_engine() -> None:
    items = [Item(question, make_spec()) for question in make_questions(40)]
    engine = SimulatedEngine(load_settings(None, ["simulated.call_ms=1"]))
    with pytest.raises(EngineError):
        score_in_batches(engine, items, Shape(16, 2))
    engine.start()
    found = score_in_batches(engine, items, Shape(16, 2))
    assert found.questions_per_s > 0
    assert found.batch_s >= 0.001


class Hearing(SimulatedEngine):
    """Keeps the prompts that it is asked, call by call."""

    def __init__(self, *settings: str) -> None:
        super().__init__(load_settings(None, list(settings)))
        self.heard: list[list[str]] = []

    def generate(self, requests: Sequence[Request]) -> list[Completion]:
        self.heard.append([each.prompt for each in requests])
        return super().generate(requests)


def test_a_fast_engine_is_asked_again_until_a_trial_has_lasted_each_time_behind_another_beginning() -> None:
    engine = Hearing("simulated.call_ms=5")
    engine.start()
    items = [Item(question, make_spec()) for question in make_questions(8)]
    started = time.monotonic()
    long_enough(engine, items, Shape(8, 1), least_s=0.2)
    assert time.monotonic() - started >= 0.2
    prompts = [prompt for call in engine.heard for prompt in call]
    assert len(prompts) == len(set(prompts)) > 8
    asked = Counter(prompt.partition("Question:")[2] for prompt in prompts)
    assert set(asked.values()) == {len(engine.heard)}


def test_a_slow_engine_is_asked_every_question_once() -> None:
    engine = Hearing("simulated.call_ms=50")
    engine.start()
    long_enough(engine, [Item(each, make_spec()) for each in make_questions(8)], Shape(8, 1), least_s=0.04)
    assert len(engine.heard) == 1


def test_an_engine_that_takes_no_time_at_all_is_not_asked_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("workers.tuning.trials.MOST_ASKED", 32)
    engine = Hearing()
    engine.start()
    long_enough(engine, [Item(each, make_spec()) for each in make_questions(8)], Shape(8, 1), least_s=60.0)
    assert [len(call) for call in engine.heard] == [8] * 5


def test_how_fast_an_engine_refuses_every_question_is_no_result() -> None:
    engine = SimulatedEngine(load_settings(None, ["simulated.reject_text=Question"]))
    engine.start()
    with pytest.raises(EngineError, match="Every question failed"):
        score_in_batches(engine, [Item(each, make_spec()) for each in make_questions(4)], Shape(16, 2))


def test_questions_that_an_engine_refuses_make_it_no_faster() -> None:
    engine = SimulatedEngine(load_settings(None, ["simulated.call_ms=50", "simulated.reject_text=0 plus 0"]))
    engine.start()
    found = score_in_batches(engine, [Item(each, make_spec()) for each in make_questions(4)], Shape(16, 2))
    assert 0 < found.questions_per_s * found.batch_s <= 3


def test_a_question_that_its_judge_never_grades_does_not_end_a_trial() -> None:
    class Wordy(SimulatedEngine):
        """Writes, and the JSON that it is asked for only about the first question's reference."""

        def generate(self, requests: Sequence[Request]) -> list[Completion]:
            graded = ["against: 0" in each.prompt for each in requests]
            return [
                Completion(texts=(Text('{"correct": true, "reason": ""}' if good else "Well.", 3),)) for good in graded
            ]

    engine = Wordy(load_settings(None, []))
    engine.start()
    items = [Item(question, judged(100)) for question in make_questions(4)]
    assert score_in_batches(engine, items, Shape(16, 2)).questions_per_s > 0


def test_lengths_of_a_judged_run_hold_the_grading_with_the_answer_and_every_grade_asked_for() -> None:
    found = lengths([Item(question_of(10), judged(100))], ENCODER)
    shown = len(["Grade", "against:", "20"])
    assert found.longest == shown + 100 + 3 * 50 + 2 * COMPLAINT_TOKENS


def test_lengths_of_a_run_judged_elsewhere_are_those_of_its_answers() -> None:
    spec = judged(100, server="http://127.0.0.1:1", model="m")
    assert lengths([Item(question_of(10), spec)], ENCODER).longest == 12 + 100


def test_trials_have_prompts_of_their_own_so_that_none_reads_anothers_from_the_cache() -> None:
    question, spec = question_of(1), make_spec()
    assert build_prompt(question, marked(spec, "Trial 1.")) == f"Trial 1.\n\n{build_prompt(question, spec)}"
    described = make_spec(description="On sums.")
    assert build_prompt(question, marked(described, "Trial 1.")) == f"Trial 1.\n{build_prompt(question, described)}"


def test_a_trial_marks_a_prompt_once_and_not_before_each_example() -> None:
    shots = FewShot(k=2, pool=tuple(make_question(n) for n in (7, 8)))
    assert build_prompt(question_of(1), marked(make_spec(few_shot=shots), "Trial 1.")).count("Trial 1.") == 1


def test_a_trial_adds_no_turn_of_the_system_to_a_chat_that_has_none() -> None:
    turns = turns_of(question_of(1), marked(make_spec(chat_template=ChatTemplate.TURNS), "Trial 1."))
    assert [(each.role, each.text[:9]) for each in turns] == [(Role.USER, "Trial 1.\n")]


def test_a_trial_marks_the_prompts_of_a_judge_too_as_the_answers_are_the_same_in_every_trial() -> None:
    judge = marked(judged(100), "Trial 1.").judge
    assert judge is not None
    assert grading_prompt(question_of(1), judge, "Iron.").startswith("Trial 1.\nGrade Iron.")


def test_a_trial_overlaps_batches_for_an_engine_with_room_as_a_worker_does() -> None:
    class Roomy(SimulatedEngine):
        """Answers its first call only when a second one has come."""

        calls = 0
        second = threading.Event()

        def generate(self, requests: Sequence[Request]) -> list[Completion]:
            self.calls += 1
            if self.calls == 1:
                self.room_came()
                assert self.second.wait(PATIENCE_S), "nobody came"
            self.second.set()
            return super().generate(requests)

    engine = Roomy(load_settings(None, []))
    engine.start()
    items = [Item(question, make_spec()) for question in make_questions(40)]
    assert score_in_batches(engine, items, Shape(16, 1)).questions_per_s > 0
    assert engine.calls == 3


def test_who_interrupts_gets_the_best_of_the_trials_so_far() -> None:
    heard: list[Trial] = []

    def interrupt(trial: Trial) -> None:
        heard.append(trial)
        if len(heard) == 2:
            raise KeyboardInterrupt

    settings = load_settings(None, ["engine=simulated", f"model={SIMULATED_MODEL}"])
    items = [Item(each, make_spec()) for each in make_questions(20)]

    found = tune(settings, items, NEEDS, limit_s=6.0, on_trial=interrupt)

    assert found.trials == heard
    assert found.best in heard


def test_time_that_is_over_ends_the_trials_but_for_the_first() -> None:
    settings = load_settings(None, ["engine=simulated"])
    found = tune(settings, [Item(each, make_spec()) for each in make_questions(20)], NEEDS, limit_s=0.0)
    assert [each.shape for each in found.trials] == [Shape(settings.batch_size, settings.batches_in_flight)]
    assert found.chosen()["vllm_args"]["max_model_len"] == 64


def test_an_engine_that_does_not_boot_is_told_and_not_a_result() -> None:
    settings = load_settings(None, ["engine=simulated", "simulated.crash_text=Question"])
    with pytest.raises(EngineError, match="No setting could be tried: EngineError: simulated fault"):
        tune(settings, [Item(each, make_spec()) for each in make_questions(20)], NEEDS, limit_s=0.0)


def test_a_setting_that_a_person_must_mend_is_told_as_such_and_not_as_a_want_of_memory() -> None:
    settings = load_settings(None, ["hf_model_id=nowhere"])
    with pytest.raises(ModelNotFound, match="'nowhere' is neither a folder"):
        tune(settings, [Item(each, make_spec()) for each in make_questions(20)], NEEDS, limit_s=0.0)


def test_the_deploy_file_has_the_base_with_what_won_and_says_how_it_was_found(tmp_path: Path) -> None:
    base = tmp_path / "base.yaml"
    base.write_text("hf_model_id: some/model\nbatch_size: 32\nvllm_args:\n  dtype: bfloat16\n")
    best = Trial(Shape(64, 4), {"max_num_seqs": 128}, questions_per_s=12.5, batch_s=0.8)
    found = Tuned(NEEDS, [Trial(Shape(32, 2), {}, 10.0), best], best, batch_timeout_s=0.4, asked=64)
    run = open_run(MemoryLedger(), make_questions(2))
    given = ["vllm_args.seed=3", "redis_url=redis://u:secret@h/0"]
    write_deploy_file(tmp_path / "tuned.yaml", base, given, run, found)
    text = (tmp_path / "tuned.yaml").read_text()
    assert text.startswith(f"# python -m workers tune {run.run_id}, ")
    assert "12.50" in text.split("hf_model_id")[0]
    assert yaml.safe_load(text) == {
        "hf_model_id": "some/model",
        "batch_size": 64,
        "batches_in_flight": 4,
        "batch_timeout": 0.4,
        "vllm_args": {"dtype": "bfloat16", "seed": 3, "max_num_seqs": 128, "max_model_len": 64},
    }
    assert load_settings(tmp_path / "tuned.yaml").batch_size == 64


def test_of_several_models_the_one_that_was_tuned_gets_what_won_and_the_others_stay(tmp_path: Path) -> None:
    base = tmp_path / "base.yaml"
    base.write_text(
        "batch_timeout: 1.0\nmodels:\n- {hf_model_id: some/Large, batch_size: 8}\n"
        f"- {{hf_model_id: some/other, model: {SIMULATED_MODEL}, batch_size: 16, vllm_args: {{dtype: float32}}}}\n"
    )
    best = Trial(Shape(64, 4), {"max_num_seqs": 128}, questions_per_s=12.5, batch_s=0.8)
    found = Tuned(NEEDS, [best], best, batch_timeout_s=0.4, asked=64)
    run = open_run(MemoryLedger(), make_questions(2))
    write_deploy_file(tmp_path / "tuned.yaml", base, [f"model={SIMULATED_MODEL}", "max_attempts=2"], run, found)
    large, tuned = load_fleet(tmp_path / "tuned.yaml")
    assert (large.batch_size, large.batch_timeout, large.vllm_args, large.max_attempts) == (8, 1.0, {}, 2)
    assert (tuned.batch_size, tuned.batch_timeout, tuned.max_attempts) == (64, 0.4, 2)
    assert tuned.vllm_args == {"dtype": "float32", "max_num_seqs": 128, "max_model_len": 64}


def test_of_several_models_the_tuned_one_is_known_in_any_spelling_and_indexes_stay_common(tmp_path: Path) -> None:
    """What won was lost where a run spelled the model otherwise; indexes in each entry cannot be loaded."""
    base = tmp_path / "base.yaml"
    base.write_text(f"models:\n- {{hf_model_id: some/other}}\n- {{model: {SIMULATED_MODEL}}}\n")
    best = Trial(Shape(64, 4), {}, questions_per_s=12.5, batch_s=0.8)
    found = Tuned(NEEDS, [best], best, batch_timeout_s=0.4, asked=64)
    run = open_run(MemoryLedger(), make_questions(2), model=SIMULATED_MODEL.title())
    write_deploy_file(tmp_path / "tuned.yaml", base, ["indexes=[facts]"], run, found)
    other, tuned = load_fleet(tmp_path / "tuned.yaml")
    assert (tuned.batch_size, tuned.batches_in_flight) == (64, 4)
    assert [str(each) for each in tuned.indexes] == [str(each) for each in other.indexes] == ["facts"]


def test_the_deploy_file_that_the_environment_names_is_the_base(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "base.yaml").write_text("hf_model_id: some/model\n")
    monkeypatch.setenv("MCQUEUE_CONFIG", str(tmp_path / "base.yaml"))
    best = Trial(Shape(64, 4), {}, questions_per_s=12.5, batch_s=0.8)
    found = Tuned(NEEDS, [best], best, batch_timeout_s=0.4, asked=64)
    write_deploy_file(tmp_path / "tuned.yaml", None, (), open_run(MemoryLedger(), make_questions(2)), found)
    assert yaml.safe_load((tmp_path / "tuned.yaml").read_text())["hf_model_id"] == "some/model"


def test_the_deploy_file_has_nothing_of_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MCQUEUE_MODELS", '[{"model": "mine", "openai": {"api_key": "secret"}}]')
    monkeypatch.setenv("MCQUEUE_MAX_ATTEMPTS", "2")
    best = Trial(Shape(64, 4), {}, questions_per_s=12.5, batch_s=0.8)
    found = Tuned(NEEDS, [best], best, batch_timeout_s=0.4, asked=64)
    write_deploy_file(tmp_path / "tuned.yaml", None, (), open_run(MemoryLedger(), make_questions(2)), found)
    assert yaml.safe_load((tmp_path / "tuned.yaml").read_text()) == found.chosen()


def test_the_deploy_file_has_no_key_that_models_on_the_command_line_hold(tmp_path: Path) -> None:
    base = tmp_path / "base.yaml"
    base.write_text("batch_timeout: 1.0\nmodels: [{model: other}]\n")
    models = f'models=[{{"model": "{SIMULATED_MODEL}", "openai": {{"api_key": "secret"}}}}, {{"model": "small"}}]'
    best = Trial(Shape(64, 4), {}, questions_per_s=12.5, batch_s=0.8)
    found = Tuned(NEEDS, [best], best, batch_timeout_s=0.4, asked=64)
    write_deploy_file(tmp_path / "tuned.yaml", base, [models], open_run(MemoryLedger(), make_questions(2)), found)
    written = yaml.safe_load((tmp_path / "tuned.yaml").read_text())
    assert written["models"] == [{"model": SIMULATED_MODEL, **found.chosen()}, {"model": "small"}]


def test_the_deploy_file_has_all_of_a_server_on_the_command_line_but_its_key(tmp_path: Path) -> None:
    server = {"url": "http://127.0.0.1:8000", "model": "theirs", "concurrency": 9}
    entry = {"model": SIMULATED_MODEL, "engine": "openai", "openai": {**server, "api_key": "secret"}}
    best = Trial(Shape(64, 4), {}, questions_per_s=12.5, batch_s=0.8)
    found = Tuned(NEEDS, [best], best, batch_timeout_s=0.4, asked=64)
    run = open_run(MemoryLedger(), make_questions(2))
    for given in (
        [f"models={json.dumps([entry])}", "judge_api_key=secret", "redis_url=redis://:secret@host"],
        ["engine=openai", "http.api_key=secret", f"openai={json.dumps(entry['openai'])}"],
    ):
        write_deploy_file(tmp_path / "tuned.yaml", None, given, run, found)
        assert "secret" not in (tmp_path / "tuned.yaml").read_text()
        (tuned,) = load_fleet(tmp_path / "tuned.yaml")
        assert tuned.engine == "openai"
        assert tuned.openai.model_dump(include=set(server)) == server


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


def test_what_was_tried_lies_beside_the_deploy_file_with_where_it_was_measured(tmp_path: Path) -> None:
    best = Trial(Shape(64, 4), {"max_num_seqs": 128}, questions_per_s=12.5, batch_s=0.8)
    trials = [Trial(Shape(32, 2), {}, 10.0), best, Trial(Shape(64, 4), {"max_num_seqs": 512}, failure="no memory")]
    found = Tuned(NEEDS, trials, best, batch_timeout_s=0.4, asked=64)
    run = open_run(MemoryLedger(), make_questions(2))
    write_record(tmp_path / "tuned.json", load_settings(None, []), run, found)
    record = json.loads((tmp_path / "tuned.json").read_text())
    assert record["chosen"]["batch_size"] == 64
    assert {"command", "measured_at", "machine", "versions"} <= record.keys()
    assert [each["failure"] for each in record["trials"]] == ["", "", "no memory"]
    assert draw_trials(tmp_path / "tuned.png", found)
    assert (tmp_path / "tuned.png").stat().st_size > 1000


def test_a_file_that_fails_the_longest_questions_says_so_in_its_head(tmp_path: Path) -> None:
    needs = Lengths(questions=100, median=9, p95=14, longest=504, context=64, beyond=3)
    best = Trial(Shape(16, 2), {}, questions_per_s=12.5, batch_s=0.8)
    found = Tuned(needs, [best], best, batch_timeout_s=0.4, asked=64)
    write_deploy_file(tmp_path / "tuned.yaml", None, (), open_run(MemoryLedger(), make_questions(2)), found)
    head = (tmp_path / "tuned.yaml").read_text()
    assert "# Warning: max_model_len 64 is too small for 3 of 100 questions: they would fail, or be shown fewer" in head


def test_a_file_by_one_trial_of_too_few_questions_says_that_nothing_was_compared(tmp_path: Path) -> None:
    best = Trial(Shape(32, 4), {}, questions_per_s=0.08, batch_s=38.0)
    run = open_run(MemoryLedger(), make_questions(3))
    write_deploy_file(tmp_path / "tuned.yaml", None, (), run, Tuned(NEEDS, [best], best, batch_timeout_s=1.0, asked=3))
    head = (tmp_path / "tuned.yaml").read_text()
    assert "# Warning: only one setting was measured, so there is no comparison" in head
    assert "# Warning: a trial had 3 questions, too few to fill a batch of 32" in head


def test_a_file_says_where_the_best_batch_was_the_largest_that_could_be_tried(tmp_path: Path) -> None:
    run = open_run(MemoryLedger(), make_questions(3))
    best = Trial(Shape(32, 2), {}, questions_per_s=9.0, batch_s=3.0)
    trials = [Trial(Shape(16, 2), {}, questions_per_s=8.0), best]
    for asked, minds in ((32, True), (63, True), (64, False)):
        found = Tuned(NEEDS, trials, best, batch_timeout_s=1.0, asked=asked)
        write_deploy_file(tmp_path / "tuned.yaml", None, (), run, found)
        head = (tmp_path / "tuned.yaml").read_text()
        assert (f"# Warning: the best batch size, 32, is the largest that {asked} questions can fill" in head) is minds


def test_a_deploy_file_that_cannot_be_written_is_told_before_the_trials(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    for name in ("file/tuned.yaml", "."):
        with pytest.raises(SettingsError, match=r"cannot be written: .*Choose another --out"):
            refuse_unwritable(tmp_path / name)
    for name in ("file", "tuned.yaml"):
        refuse_unwritable(tmp_path / name)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
    assert (tmp_path / "file").read_text() == "mine"
    with pytest.raises(SettingsError, match=r"--out is empty\. Name a \.yaml file"):
        refuse_unwritable(Path())


@pytest.mark.parametrize("name", ["tuned.json", "tuned.png"])
def test_a_deploy_file_in_the_place_of_the_trials_is_refused(tmp_path: Path, name: str) -> None:
    """The trials were written over the deploy file, minutes later."""
    with pytest.raises(SettingsError, match=f"{name}: the trials would overwrite it. Name a .yaml file; tuned.json"):
        refuse_unwritable(tmp_path / name)


def test_trials_that_cannot_be_written_beside_the_deploy_file_are_told_before_them(tmp_path: Path) -> None:
    (tmp_path / "tuned.png").mkdir()
    with pytest.raises(SettingsError, match=r"tuned\.png: cannot be written: Is a directory"):
        refuse_unwritable(tmp_path / "tuned.yaml")


def test_the_table_has_what_was_set_before_what_came_of_it_also_where_later_trials_set_more() -> None:
    trials = [Trial(Shape(16, 2), {}, 5.0, 50.0, 0.1), Trial(Shape(16, 2), {"max_num_seqs": 64}, 6.0, 60.0, 0.1)]
    head, *_ = table(Tuned(NEEDS, trials, trials[1], 0.1, asked=64))
    assert re.fullmatch(r" *batch_size +batches_in_flight +max_num_seqs +questions_per_s .* failure", head)


def test_judges_on_other_servers_are_connected_to_once_per_engine_and_closed_with_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Judges(JudgeEngines):
        living = 0
        made = 0

        def __init__(self, settings: Settings) -> None:
            super().__init__(settings)
            Judges.living, Judges.made = Judges.living + 1, Judges.made + 1

        def close(self) -> None:
            super().close()
            Judges.living -= 1

    monkeypatch.setattr(engine_process, "JudgeEngines", Judges)
    for name in ("_engine", "_judges", "_trouble", "_is_warm"):
        monkeypatch.setattr(engine_process, name, vars(engine_process)[name])
    engine_process._boot(load_settings(None, ["engine=simulated"]))
    for _ in range(2):
        engine_process._measure([Item(each, make_spec()) for each in make_questions(4)], Shape(2, 2), 0.0)
    assert Judges.living == 1
    engine_process._close()
    assert (Judges.living, Judges.made) == (0, 1)


TRIAL = """
import multiprocessing, time
from contextlib import suppress
from contract.settings import load_settings
from workers.tuning.engine_process import engine_apart
from workers.tuning.trials import Shape

if __name__ == "__main__":
    with engine_apart(load_settings(None, ["engine=simulated", "model=x"]), 0) as measure:
        with suppress(Exception):
            measure([], Shape(1, 1))
        (engine,) = multiprocessing.active_children()
        print(engine.pid, flush=True)
        time.sleep(600)
"""


def test_the_engine_of_a_killed_tune_ends_too_and_keeps_no_memory(tmp_path: Path) -> None:
    script = tmp_path / "trial.py"
    script.write_text(TRIAL)
    command = [sys.executable, str(script)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as trial:
        assert trial.stdout is not None
        engine = psutil.Process(int(trial.stdout.readline()))
        trial.kill()
    try:
        wait_until(lambda: not engine.is_running() or engine.status() == psutil.STATUS_ZOMBIE, "its engine to end")
    finally:
        with suppress(psutil.NoSuchProcess):
            engine.kill()
