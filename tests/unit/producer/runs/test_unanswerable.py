"""A run that the live workers could answer no question of is refused before it is sent."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from contract.fleet import WorkerRecord
from contract.keys import score_queue
from tests.support import build_test_index
from tests.unit.producer.conftest import Producer, WriteRows, live_worker

MODEL = "smollm2-135m-instruct"
#: A server that hides its model's log-probabilities, and one that only continues texts.
REASONER = {"engine": "openai", "server": "http://s/v1", "model": "o9", "offers": {"chat": True}}
PLAIN = {"engine": "openai", "server": "http://s/v1", "model": "b", "offers": {"plain": True, "plain_top": 5}}
#: One that writes the same text at any temperature.
GREEDY = {**PLAIN, "offers": {"plain": True, "only_greedy": True}}
BARE = {"engine": "vllm", "chat_template_variables": None}
SWITCHED = {"engine": "vllm", "chat_template_variables": ["enable_thinking"]}
UNSWITCHED: dict[str, Any] = {"engine": "vllm", "chat_template_variables": []}


#: One that lists next tokens and echoes nothing, as llama.cpp's, and one that echoes outside a chat only.
LISTING = {**PLAIN, "offers": {"chat": True, "chat_top": 984, "plain": True, "plain_top": 990}}
ECHOING = {**PLAIN, "offers": {**LISTING["offers"], "plain_echo": True}}  # type: ignore[dict-item]

SHORT = {"engine": "vllm", "max_model_len": 2048}
LONG = {"engine": "vllm", "max_model_len": 8192}


def live(*engines: dict[str, Any]) -> list[WorkerRecord]:
    return [live_worker(score_queue(MODEL), f"gpu{at}", engine=engine) for at, engine in enumerate(engines)]


@pytest.mark.parametrize(
    ("engine", "settings", "says"),
    [
        (
            REASONER,
            "mode: letter",
            "http://s/v1 (o9) returns no log-probabilities, which mode letter needs. Set",
        ),
        (REASONER, "{mode: generate, chat_template: never}", "offers only chat completions. Set chat_template: auto."),
        (PLAIN, "{mode: letter, chat_template: always}", "offers no chat completions. Set chat_template: never."),
        (
            GREEDY,
            "{mode: vote, sampling: {samples: 3, temperature: 0.7}}",
            "http://s/v1 (b) writes the same text at any temperature. Set mode: generate and sampling.temperature: 0",
        ),
        (BARE, "{mode: letter, chat_template: always}", "the model has no chat template. Set chat_template: never."),
        (BARE, "{mode: generate, chat_template_kwargs: {x: 1}}", "never, and leave chat_template_kwargs out."),
        (SWITCHED, "{mode: generate, chat_template_kwargs: {x: 1}}", "no variable 'x'. It has enable_thinking."),
        (UNSWITCHED, "{mode: generate, chat_template_kwargs: {x: 1}}", "no variable 'x'. It has none that can be set."),
    ],
)
def test_a_run_that_no_live_worker_can_answer_is_refused_with_the_remedy_and_not_written(
    producer: Producer, five: Path, tmp_path: Path, engine: dict[str, Any], settings: str, says: str
) -> None:
    producer.session.broker.live += live(engine, engine)  # type: ignore[attr-defined]
    (tmp_path / "run.yaml").write_text(settings)
    message = producer("enqueue", five, "--config", tmp_path / "run.yaml", exit_code=1).stderr
    assert "gpu0 could answer no question: " in message
    assert says in message
    assert list(producer.session.ledger.run_ids()) == []


@pytest.mark.parametrize(
    ("engines", "settings"),
    [
        ((), "mode: letter"),
        ((REASONER, PLAIN), "mode: letter"),
        ((REASONER,), "mode: generate"),
        (({"engine": "vllm"},), "{mode: generate, chat_template_kwargs: {x: 1}}"),
        ((SWITCHED,), "{mode: generate, chat_template_kwargs: {enable_thinking: false}}"),
        ((BARE,), "mode: generate"),
        ((GREEDY,), "mode: generate"),
    ],
    ids=[
        "nobody there",
        "one of two can",
        "written",
        "an older worker",
        "a known variable",
        "auto without one",
        "greedily, as it is asked to",
    ],
)
def test_a_run_that_a_worker_may_answer_is_sent(
    producer: Producer, five: Path, tmp_path: Path, engines: tuple[dict[str, Any], ...], settings: str
) -> None:
    producer.session.broker.live += live(*engines)  # type: ignore[attr-defined]
    (tmp_path / "run.yaml").write_text(settings)
    assert "5 questions sent" in producer("enqueue", five, "--config", tmp_path / "run.yaml").stdout


@pytest.mark.parametrize(("adapters", "has"), [([], "none"), (["law", "tax"], "law, tax")])
def test_a_run_with_an_adapter_that_no_live_worker_has_is_refused_with_those_they_have(
    producer: Producer, five: Path, adapters: list[str], has: str
) -> None:
    (worker,) = live({"engine": "simulated"})
    producer.session.broker.live.append(worker.model_copy(update={"adapters": adapters}))  # type: ignore[attr-defined]
    message = producer("enqueue", five, "--set", "adapter=medicine", exit_code=1).stderr
    assert f"could answer no question: the run asks for the adapter 'medicine', and it has {has}. Correct" in message
    assert list(producer.session.ledger.run_ids()) == []


@pytest.mark.parametrize("adapters", [["medicine"], None], ids=["it has it", "an older worker"])
def test_a_run_whose_adapter_a_live_worker_may_have_is_sent_without_a_warning(
    producer: Producer, five: Path, adapters: list[str] | None
) -> None:
    (worker,) = live({"engine": "simulated"})
    producer.session.broker.live.append(worker.model_copy(update={"adapters": adapters}))  # type: ignore[attr-defined]
    result = producer("enqueue", five, "--set", "adapter=medicine")
    assert "5 questions sent" in result.stdout
    assert "adapter" not in result.stderr


def test_an_adapter_that_the_settings_do_not_have_is_pointed_out_where_no_worker_can_be_asked(
    producer: Producer, five: Path, tmp_path: Path
) -> None:
    (tmp_path / "deploy.yaml").write_text("adapters: {law: adapters/law}")
    (tmp_path / "suite.yaml").write_text(f"{{name: s, entries: [{{name: a, file: {five}, set: {{adapter: lew}}}}]}}")
    warning = "adapter: 'lew' is not among the `adapters` of these settings (law), and no running worker was asked"
    for command in (("enqueue", five), ("enqueue", five, "--dry-run"), ("suite", tmp_path / "suite.yaml")):
        words = ("--deploy", "deploy.yaml", *command, *(("--set", "adapter=lew") if five in command else ()))
        assert warning in producer(*words).stderr
    assert "adapter" not in producer("--deploy", "deploy.yaml", "enqueue", five, "--set", "adapter=law").stderr


def test_a_model_that_neither_the_settings_name_nor_a_live_worker_serves_is_pointed_out(
    producer: Producer, five: Path
) -> None:
    (worker,) = live({"engine": "simulated"})
    elsewhere = worker.model_copy(update={"model": "another", "queue": score_queue("another")})
    producer.session.broker.live.append(elsewhere)  # type: ignore[attr-defined]
    warning = f"model: 'smolm2' is not among those of these settings ({MODEL}): the questions wait until"
    for options in ((), ("--dry-run",)):
        assert warning in producer("enqueue", five, "--model", "smolm2", *options).stderr
    for served in ("another", MODEL.upper()):
        assert "model:" not in producer("enqueue", five, "--model", served).stderr


@pytest.mark.parametrize(
    ("engines", "most", "own", "is_sent"),
    [
        ((SHORT, SHORT), 2048, False, False),
        ((SHORT, LONG), 2048, False, True),
        ((SHORT,), 2047, False, True),
        ((SHORT,), 2048, True, True),
    ],
    ids=["no room", "room in one", "perhaps room", "own contexts need none"],
)
def test_a_run_whose_answers_leave_no_room_for_what_is_retrieved_is_refused(
    producer: Producer,
    five: Path,
    tmp_path: Path,
    engines: tuple[dict[str, Any], ...],
    most: int,
    *,
    own: bool,
    is_sent: bool,
) -> None:
    producer.session.broker.live += live(*engines)  # type: ignore[attr-defined]
    rag = {"enabled": True, "index": str(build_test_index(tmp_path / "facts", ["Iron."])), "use_context_field": own}
    asked = {"mode": "generate", "sampling": {"max_tokens": most}, "rag": rag}
    (tmp_path / "run.yaml").write_text(json.dumps(asked))
    result = producer("enqueue", five, "--config", tmp_path / "run.yaml", exit_code=0 if is_sent else 1)
    assert ("5 questions sent" in result.stdout) == is_sent
    why = "sampling.max_tokens (2,048) fills its context of 2,048 tokens, and no passage can be shown. Lower sampling."
    assert (f"gpu0 could answer no question: {why}" in result.stderr) != is_sent


@pytest.mark.parametrize(("most", "warns"), [(2047, False), (2048, True)])
def test_texts_that_may_fill_the_context_of_a_running_worker_are_pointed_out(
    producer: Producer, five: Path, most: int, *, warns: bool
) -> None:
    producer.session.broker.live += live(LONG, SHORT, {"engine": "simulated"})  # type: ignore[attr-defined]
    result = producer("enqueue", five, "--set", "mode=generate", "--set", f"sampling.max_tokens={most}")
    assert "5 questions sent" in result.stdout
    warning = "sampling.max_tokens: 2,048 tokens are the whole context of 2,048 that a running worker has: texts end"
    assert (warning in result.stderr) == warns


def test_a_run_that_is_there_is_resumed_whoever_serves_it_now(producer: Producer, five: Path) -> None:
    producer("enqueue", five, "--set", "mode=letter")
    producer.session.broker.live += live(REASONER)  # type: ignore[attr-defined]
    assert "resumed" in producer("enqueue", five, "--set", "mode=letter").stdout


def test_a_suite_is_refused_as_a_whole(producer: Producer, write_rows: WriteRows, tmp_path: Path) -> None:
    write_rows({"id": "e", "question": "Sure?", "choices": ["no", "yes"], "answer": "B"}, name="a.jsonl")
    (tmp_path / "run.yaml").write_text("mode: letter")
    (tmp_path / "suite.yaml").write_text(
        f"{{name: s, models: [other, {MODEL}], config: run.yaml, entries: [{{name: a, file: a.jsonl}}]}}"
    )
    producer.session.broker.live += live(REASONER)  # type: ignore[attr-defined]
    assert "gpu0 could answer no question" in producer("suite", tmp_path / "suite.yaml", exit_code=1).stderr
    assert list(producer.session.ledger.run_ids()) == []


@pytest.mark.parametrize(
    ("engines", "settings", "warns"),
    [
        ((LISTING,), "mode: likelihood", True),
        (({"engine": "vllm"}, LISTING), "mode: likelihood", True),
        ((ECHOING,), "{mode: likelihood, chat_template: always}", True),
        ((ECHOING,), "mode: likelihood", False),
        ((LISTING,), "mode: letter", False),
        (({"engine": "vllm"},), "mode: likelihood", False),
    ],
)
def test_enqueue_warns_where_a_server_gives_no_log_probabilities_of_longer_choices(
    producer: Producer, five: Path, tmp_path: Path, engines: tuple[dict[str, Any], ...], settings: str, warns: bool
) -> None:
    producer.session.broker.live += live(*engines)  # type: ignore[attr-defined]
    (tmp_path / "run.yaml").write_text(settings)
    done = producer("enqueue", five, "--config", tmp_path / "run.yaml")
    assert "5 questions sent" in done.stdout
    said = "mode: http://s/v1 (b) gives log-probabilities of single next tokens only, so questions with a longer choice"
    assert (said in done.stderr) is warns
