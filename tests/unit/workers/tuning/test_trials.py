"""How one setting is tried: which prompts, how often, and what ends a trial."""

from __future__ import annotations

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

from contract import Settings
from contract.errors import EngineError
from contract.prompts import turns_of
from contract.settings import load_settings
from contract.spec import ChatTemplate, FewShot
from contract.turns import Role
from tests.support import PATIENCE_S, build_prompt, make_question, make_questions, make_spec, wait_until
from tests.unit.workers.tuning.tuned import judged, question_of
from workers.engines import JudgeEngines
from workers.engines.base import Completion, Request, Text
from workers.engines.simulated import SimulatedEngine
from workers.scoring import Item
from workers.scoring.judge import grading_prompt
from workers.tuning import engine_process
from workers.tuning.output import trial_line
from workers.tuning.trials import Shape, marked, score_in_batches, score_repeatedly


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
    score_repeatedly(engine, items, Shape(8, 1), least_s=0.2)
    assert time.monotonic() - started >= 0.2
    prompts = [prompt for call in engine.heard for prompt in call]
    assert len(prompts) == len(set(prompts)) > 8
    asked = Counter(prompt.partition("Question:")[2] for prompt in prompts)
    assert set(asked.values()) == {len(engine.heard)}


def test_a_slow_engine_is_asked_every_question_once() -> None:
    engine = Hearing("simulated.call_ms=50")
    engine.start()
    score_repeatedly(engine, [Item(each, make_spec()) for each in make_questions(8)], Shape(8, 1), least_s=0.04)
    assert len(engine.heard) == 1


def test_an_engine_that_takes_no_time_at_all_is_not_asked_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("workers.tuning.trials.MOST_ASKED", 32)
    engine = Hearing()
    engine.start()
    score_repeatedly(engine, [Item(each, make_spec()) for each in make_questions(8)], Shape(8, 1), least_s=60.0)
    assert [len(call) for call in engine.heard] == [8] * 5


def test_how_fast_an_engine_refuses_every_question_is_no_result() -> None:
    engine = SimulatedEngine(load_settings(None, ["simulated.reject_text=Question"]))
    engine.start()
    with pytest.raises(EngineError, match="Every question failed"):
        score_in_batches(engine, [Item(each, make_spec()) for each in make_questions(4)], Shape(16, 2))


def test_why_a_question_fails_is_told_while_its_engine_warms_up_and_not_whenever_it_is_repeated(
    capfd: pytest.CaptureFixture[str],
) -> None:
    spec = judged(9)
    items = [Item(make_question(0), spec), Item(make_question(1, answer=None), spec)]
    with engine_process.engine_in_process(load_settings(None, ["engine=simulated", "model=x"]), 0.05) as measure:
        assert measure(items, Shape(16, 2)).failed > len(engine_process.WARM_UP)
    assert capfd.readouterr().err.count("question q0 cannot be read: no valid grade") == len(engine_process.WARM_UP)


def test_questions_that_an_engine_refuses_make_it_no_faster_and_are_told() -> None:
    engine = SimulatedEngine(load_settings(None, ["simulated.call_ms=50", "simulated.reject_text=0 plus 0"]))
    engine.start()
    found = score_in_batches(engine, [Item(each, make_spec()) for each in make_questions(4)], Shape(16, 2))
    assert 0 < found.questions_per_s * found.batch_s <= 3
    assert trial_line(found).endswith("; 1 question failed and does not count")


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
from workers.tuning.engine_process import engine_in_process
from workers.tuning.trials import Shape

if __name__ == "__main__":
    with engine_in_process(load_settings(None, ["engine=simulated", "model=x"]), 0) as measure:
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
