"""Models behind OpenAI's protocol that do not take every parameter: which they are is found out, and told."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from contract import MemoryLedger, Outcome, Prompt, Run, load_settings
from contract.mode import Mode
from contract.spec import Chat, ChatTemplate, Judge, Sampling
from contract.turns import one_turn
from contract.verdict import Failure
from tests.support import make_questions, make_spec, open_run
from tests.unit.workers.engines.openai.reasoner import Reasoner
from tests.unit.workers.engines.openai.server import LETTERS, WRITE, Script, checked, error_of, serving, started
from tests.unit.workers.engines.openai.strict import FORMS, Form, Strict, fastapi
from tests.unit.workers.messages.batches import batch_of, message
from tests.unit.workers.stages.support import at_once, scorer
from tests.unit.workers.writer import Writer
from workers.engines import JudgeEngines
from workers.engines.base import GenerateRequest
from workers.engines.openai.engine import OpenAiEngine
from workers.pipeline import score_batch
from workers.scoring import Item

pytestmark = pytest.mark.usefixtures("short_pauses")


def asked_for(**sampling: Any) -> GenerateRequest:
    """A request for a text that leaves room for the reasoning."""
    return GenerateRequest(one_turn("Write."), Sampling(**{"max_tokens": 500, **sampling}), 5, Chat(ChatTemplate.AUTO))


def error_for(engine: OpenAiEngine, **sampling: Any) -> Failure:
    (completion,) = engine.generate([asked_for(**sampling)])
    return error_of(completion)


def run_of(books: MemoryLedger, max_tokens: int) -> Run:
    sampling = Sampling(max_tokens=max_tokens)
    return open_run(
        books,
        make_questions(2),
        model="grader",
        mode=Mode.GENERATE,
        sampling=sampling,
        chat_template=ChatTemplate.AUTO,
    )


@pytest.mark.parametrize("codes", [True, False])
@pytest.mark.parametrize("reasons", [0, 64])
def test_a_worker_boots_on_a_reasoning_model_asks_it_as_it_wants_to_be_asked_and_counts_hidden_reasoning(
    codes: bool, reasons: int
) -> None:
    script = Reasoner(codes=codes, reasons=reasons)
    with started(script) as engine:
        assert engine.describe()["offers"] == {"chat": True}
        (completion,) = engine.generate([asked_for()])
    assert [(text.text, text.tokens) for text in completion.texts] == [("The answer is B.", reasons + 9)]
    (seen,) = script.asked
    assert seen.keys() == {"path", "model", "messages", "max_completion_tokens", "n", "seed"}
    assert (seen["max_completion_tokens"], seen["n"], seen["seed"]) == (500, 1, 5)


def test_what_a_model_does_not_take_is_described_and_warned_of_once_at_boot(caplog: pytest.LogCaptureFixture) -> None:
    with started(Reasoner()) as engine:
        described = engine.describe()
        engine.generate([asked_for()] * 3)
    assert described["left_to_model"] == ["temperature", "top_p"]
    assert described["renamed"] == {"max_tokens": "max_completion_tokens"}
    (said,) = [each.message for each in caplog.records if each.levelname == "WARNING"]
    assert "grader does not take the usual temperature and top_p: it uses its own, and results say so (a run" in said
    assert "it counts hidden reasoning towards sampling.max_tokens (max_completion_tokens): give runs a large" in said


def test_a_server_that_takes_everything_is_described_and_warned_of_in_nothing(caplog: pytest.LogCaptureFixture) -> None:
    with started(Script()) as engine:
        assert engine.describe().keys() == {"engine", "server", "model", "offers"}
    assert not [each.message for each in caplog.records if each.levelname == "WARNING"]


def test_a_temperature_that_the_model_takes_is_told_also_if_it_takes_no_other() -> None:
    script = Reasoner()
    with started(script) as engine:
        (completion,) = engine.generate([asked_for(temperature=1)])
    assert completion.error is None
    assert [each["temperature"] for each in script.asked] == [1]


def test_the_default_temperature_is_left_out_where_none_is_taken() -> None:
    script = Reasoner(takes_no={"max_tokens", "temperature", "top_p"})
    with started(script) as engine:
        (completion,) = engine.generate([asked_for(temperature=1)])
    assert completion.error is None
    assert all("temperature" not in each for each in script.asked)


@pytest.mark.parametrize(
    ("sampling", "says", "advice"),
    [
        ({"temperature": 0.7}, "'temperature' does not support 0.7 with this model", "Set sampling.temperature to 1"),
        ({"top_p": 0.5}, "'top_p' is not supported with this model", "Set sampling.top_p to 1."),
        ({"stop": ("\n",)}, "'stop' is not supported with this model", "Leave sampling.stop out."),
    ],
)
def test_a_value_that_a_run_chose_and_the_model_does_not_take_fails_with_the_remedy(
    sampling: dict[str, Any], says: str, advice: str
) -> None:
    script = Reasoner()
    with started(script) as engine:
        error = error_for(engine, **sampling)
    assert type(error) is Failure, "asked again, it would be refused again"
    assert says in error.message
    assert advice in error.message


def test_a_refusal_for_another_reason_has_no_remedy_of_a_run() -> None:
    script = Script()
    with started(script) as engine:
        script.unsupported, script.answers_small = {"temperature": "invalid_value"}, True
        error = error_for(engine)
    assert "not temperature" in error.message
    assert "sampling." not in error.message


def test_a_seed_that_is_not_taken_is_left_out_of_all_questions_at_once() -> None:
    script = Reasoner(takes_no={"max_tokens", "seed"}, takes_only={})
    with started(script) as engine:
        assert engine.describe()["left_to_model"] == ["seed"]
        engine.generate([asked_for(), asked_for()])
    assert len(script.asked) == 2
    assert all("seed" not in each for each in script.asked)


def test_what_was_taken_at_boot_is_not_left_out_later_as_the_results_would_not_say_so() -> None:
    script = Reasoner()
    with started(script) as engine:
        script.takes_no.add("seed")
        error = error_for(engine)
    assert "'seed' is not supported with this model" in error.message


@pytest.mark.parametrize(
    ("form", "kind"), [*((form, "extra_forbidden") for form in FORMS), (fastapi, "value_error.extra")]
)
def test_what_a_server_does_not_know_is_left_out_of_all_questions_at_once(form: Form, kind: str) -> None:
    script = Strict(form=form, kind=kind, unknown={"seed", "top_p", "n"})
    with started(script) as engine:
        assert engine.describe()["left_to_model"] == ["seed", "top_p"]
        completions = engine.generate([asked_for(), asked_for()])
    assert [each.error for each in completions] == [None, None]
    assert [each.keys() & script.unknown for each in script.asked] == [set(), set()]


def test_a_limit_of_tokens_that_a_server_does_not_know_is_given_by_its_other_name() -> None:
    script = Strict(unknown={"max_tokens"})
    with started(script) as engine:
        (completion,) = engine.generate([asked_for()])
    assert completion.error is None
    assert [each["max_completion_tokens"] for each in script.asked] == [500]


def test_a_value_that_a_run_chose_and_the_server_does_not_know_fails_with_the_remedy() -> None:
    script = Strict(unknown={"seed", "stop"})
    with started(script) as engine:
        error = error_for(engine, stop=("\n",))
    assert type(error) is Failure, "asked again, it would be refused again"
    assert "Extra inputs are not permitted" in error.message
    assert "Leave sampling.stop out." in error.message


@pytest.mark.parametrize("elsewhere", [["body", "messages", 0, "name"], ["query", "seed"], ["body"]])
def test_a_refusal_of_something_else_as_well_teaches_nothing(elsewhere: list[str | int]) -> None:
    script = Strict(unknown=set())
    with started(script) as engine:
        script.unknown, script.elsewhere, script.answers_small = {"n"}, elsewhere, True
        error = error_for(engine)
    assert "Extra inputs are not permitted" in error.message
    assert len(script.asked) == 2, "that one, and one to see whether everybody is refused"


def test_a_vote_of_a_model_that_writes_one_text_at_a_time_is_asked_for_text_by_text() -> None:
    script = Reasoner(takes_only={"temperature": 1, "n": 1})
    with started(script) as engine:
        (completion,) = engine.generate([asked_for(samples=3, temperature=1)])
        assert "n" not in engine.describe()["left_to_model"]
    assert len(completion.texts) == 3
    assert [each["seed"] for each in script.asked if each.get("n", 1) == 1] == [5, 6, 7]


def test_how_much_to_reason_is_sent_only_if_a_run_says_it_and_a_value_that_is_refused_is_not_replaced() -> None:
    script = Reasoner()
    with started(script) as engine:
        for effort in ("low", ""):
            (completion,) = engine.generate([asked_for(reasoning_effort=effort)])
            assert completion.error is None
        assert [each.get("reasoning_effort") for each in script.asked[-2:]] == ["low", None]
        script.unsupported["reasoning_effort"] = "unsupported_value"
        refused = error_for(engine, reasoning_effort="huge")
    assert refused.message.endswith(
        "Set reasoning_effort, in sampling or of the judge, to what the model takes, or leave it out."
    )


def test_outside_a_chat_nothing_can_say_how_much_to_reason() -> None:
    with started(Script()) as engine:
        plain = replace(asked_for(reasoning_effort="low"), chat=Chat())
        (completion,) = engine.generate([plain])
    assert "no effect outside a chat: set chat_template: always" in error_of(completion).message


@pytest.mark.parametrize("chat", [ChatTemplate.NEVER, ChatTemplate.AUTO])
def test_modes_that_need_log_probabilities_say_at_once_which_modes_there_are(chat: ChatTemplate) -> None:
    with started(Reasoner()) as engine:
        (completion,) = engine.generate([LETTERS._replace(chat=Chat(chat))])
    assert error_of(completion).message.endswith(
        "/v1 returns no log-probabilities for grader: only modes that generate text can be used, such as mode: generate"
    )


def test_log_probabilities_that_are_there_in_plain_completions_only_are_looked_for_there() -> None:
    with started(Script(thought="<think> </think>", most_top=0)) as engine:
        in_chat, plain = engine.generate([LETTERS._replace(chat=Chat(ChatTemplate.AUTO)), LETTERS])
    assert "returns no log-probabilities in chat completions: set chat_template: never" in error_of(in_chat).message
    assert plain.error is None


@pytest.mark.parametrize("refuses_short", [True, False])
def test_a_limit_that_the_reasoning_used_up_leaves_its_question_unanswered_and_truncated_and_not_asked_again(
    refuses_short: bool,
) -> None:
    script, books = Reasoner(refuses_short=refuses_short), MemoryLedger()
    run = run_of(books, max_tokens=9)
    with started(script) as engine:
        scorer(books, engine, engine.settings, stopping=at_once).run(batch_of(message(run, "q0", "q1")))
    verdicts = [verdict for _, verdict in books.results(run.run_id) if verdict]
    assert [(each.outcome, each.truncated, each.raw_text) for each in verdicts] == [(Outcome.UNANSWERED, True, "")] * 2
    assert [each.completion_tokens for each in verdicts] == [0 if refuses_short else 9] * 2
    assert len(script.asked) == 2


def test_reasoning_that_a_server_counts_in_the_total_only_counts_as_well() -> None:
    script = Script()
    with started(script) as engine:
        details = {"reasoning_tokens": 386}
        usage = {"prompt_tokens": 12, "completion_tokens": 1, "total_tokens": 399, "completion_tokens_details": details}
        script.bodies = [{"choices": [{"message": {"content": "B"}}], "usage": usage}]
        (completion,) = engine.generate([WRITE])
    assert completion.texts[0].tokens == 387


def test_a_total_without_the_prompts_tokens_says_nothing_of_the_text() -> None:
    script = Script()
    with started(script) as engine:
        script.bodies = [{"choices": [{"message": {"content": "B"}}], "usage": {"total_tokens": 30}}]
        (completion,) = engine.generate([WRITE])
    assert completion.texts[0].tokens == 0


def test_a_run_in_mode_generate_is_answered_and_the_ledger_knows_what_was_left_to_the_model() -> None:
    books = MemoryLedger()
    run = run_of(books, max_tokens=500)
    with started(Reasoner()) as engine:
        scorer(books, engine, engine.settings, stopping=at_once).run(batch_of(message(run, "q0", "q1")))
    assert [each.choice for _, each in books.results(run.run_id) if each] == ["B"] * 2
    (used,) = books.engines(run.run_id)
    assert used.engine["left_to_model"] == ["temperature", "top_p"]


def test_a_reasoning_model_that_grades_itself_is_asked_as_it_wants_to_be_asked() -> None:
    script = Reasoner(text='{"correct": true, "reason": "fine"}')
    judge = Judge(prompt=Prompt(name="grade", text="Grade: {{ response }}"), max_tokens=500)
    sampling = Sampling(max_tokens=500)
    spec = make_spec(mode=Mode.JUDGE, sampling=sampling, judge=judge, chat_template=ChatTemplate.AUTO)
    with started(script) as engine:
        (verdict,) = score_batch([Item(make_questions(1)[0], spec)], engine)
    assert verdict.outcome is Outcome.CORRECT


def test_check_warns_of_what_the_model_does_not_take() -> None:
    with serving(Reasoner()) as url:
        found = checked(url)
    assert found.level == "warning"
    assert (
        "chat completions: no log-probabilities, so only modes that generate text can be used; it does" in found.found
    )
    assert "does not take the usual temperature and top_p" in found.found


def test_a_judge_whose_reasoning_used_up_its_limit_is_told_with_the_servers_words() -> None:
    with serving(Reasoner()) as url:
        judge = Judge(prompt=Prompt(name="g", text="{{ response }}"), server=url, model="grader", max_tokens=9)
        spec = make_spec(mode=Mode.JUDGE, sampling=Sampling(), judge=judge)
        judges = JudgeEngines(load_settings(None, []))
        own = Writer(lambda _: ["It is four."])
        (verdict,) = score_batch([Item(make_questions(1)[0], spec)], own, judges.engine_of)
        judges.close()
    assert verdict.outcome is Outcome.FAILED
    assert verdict.error is not None
    assert "Please try again with higher max_tokens" in verdict.error.message
