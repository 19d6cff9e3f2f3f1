"""Prompts as turns of a chat: what the model's template makes of them, and what it must not lose."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from dataclasses import replace
from functools import cache
from pathlib import Path
from shutil import copyfile
from typing import Any

import pytest

from contract import Mode, Prompt, RunSpec, load_settings
from contract.errors import RequestRejected
from contract.ledger import Run
from contract.mode import Normalization
from contract.prompts import turns_of
from contract.spec import Chat, ChatTemplate, FewShot, Sampling
from contract.turns import Role, Turn, messages, one_turn
from tests.support import build_prompt, make_question, make_questions, make_spec
from tests.unit.workers.ready_engine import LETTERED
from workers.budget import in_calls
from workers.engines.base import GenerateRequest, Request, ScoreRequest
from workers.engines.encoding import Encoded, PromptEncoder
from workers.engines.packaged import prepare
from workers.engines.vllm import VllmEngine
from workers.recheck.tokens import request_tokens
from workers.scoring import MODES, Item

QUESTION = make_question(50)
POOL = tuple(make_questions(3))
#: What a chat template may be like, each with its own marks.
EACH = "{% for m in messages %}[{{ m.role }}]\n{{ m.content }} [end]{% endfor %}"
BEGIN = "{% if add_generation_prompt %}[assistant]\n{% endif %}"
TAKES_SYSTEM = EACH + BEGIN
OWN_SYSTEM = "{% if messages[0].role != 'system' %}[system]\nI am Bot. [end]{% endif %}" + EACH + BEGIN
TRIMS = TAKES_SYSTEM.replace("m.content", "m.content | trim")
WRITES_BOS = "{{ bos_token }}" + TAKES_SYSTEM
REFUSES_SYSTEM = (
    "{% if messages[0].role == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}" + EACH + BEGIN
)
WANTS_ALTERNATION = (
    "{% for m in messages %}{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}"
    "{{ raise_exception('Roles must alternate user/assistant/user/...') }}{% endif %}{% endfor %}" + EACH + BEGIN
)
DROPS_SYSTEM = EACH.replace("in messages", "in messages if m.role != 'system'") + BEGIN
LAST_TURN_ONLY = "[user] {{ messages[-1].content }} [end]" + BEGIN
DROPS_REASONS = TAKES_SYSTEM.replace("m.content", "m.content.split('because')[0]")
NAMES_THE_DAY = "[system]\nToday is {{ strftime_now('%d %B %Y') }}. [end]" + EACH + BEGIN
#: For models that also see images: a turn is a list of parts.
TAKES_PARTS = TAKES_SYSTEM.replace(
    "{{ m.content }}", "{% for part in m.content if part.type == 'text' %}{{ part.text }}{% endfor %}"
)
BROKEN = "{{ messages[0].content.nothing.here }}"


@cache
def tokenizer(template: str | None = None) -> Any:
    """The packaged model's, with its own template or another one."""
    from transformers import AutoTokenizer, PreTrainedTokenizerFast

    folder = prepare("smollm2-135m-instruct")
    if template is None:
        return AutoTokenizer.from_pretrained(folder)
    return PreTrainedTokenizerFast(
        tokenizer_file=str(Path(folder) / "tokenizer.json"),
        bos_token="<|im_start|>",
        eos_token="<|im_end|>",
        chat_template=template,
    )


def in_turns(mode: Mode = Mode.LETTER, **more: Any) -> RunSpec:
    """Two examples, and what the system says, unless `more` says otherwise."""
    sampling = {"sampling": Sampling()} if mode.writes else {}
    given = {"prompt": LETTERED, "few_shot": FewShot(k=2, pool=POOL), "description": "Add up.", **sampling, **more}
    return make_spec(mode=mode, chat_template=ChatTemplate.TURNS, **given)


def requests_of(spec: RunSpec) -> list[Request]:
    return MODES[spec.mode].ask(QUESTION, turns_of(QUESTION, spec), spec)


def encoded(template: str | None, spec: RunSpec) -> Encoded | RequestRejected:
    (request,) = requests_of(spec)
    return PromptEncoder(tokenizer(template)).encode([request])[0]


def taken(found: Encoded | RequestRejected) -> Encoded:
    assert isinstance(found, Encoded), found
    return found


def shown(template: str | None, spec: RunSpec) -> str:
    return taken(encoded(template, spec)).text


def refused(template: str, spec: RunSpec) -> str:
    found = encoded(template, spec)
    assert isinstance(found, RequestRejected), found
    return str(found)


def test_a_template_that_names_the_day_names_the_same_on_every_day() -> None:
    spec = make_spec(mode=Mode.LETTER, prompt=LETTERED, chat_template=ChatTemplate.AUTO)
    assert shown(NAMES_THE_DAY, spec).startswith("[system]\nToday is 26 July 2024. [end][user]\n")


def test_the_system_describes_the_user_asks_and_the_model_answers() -> None:
    assert turns_of(QUESTION, in_turns(Mode.LIKELIHOOD, prompt=Prompt(name="q", text="{{ question }}"))) == (
        Turn(Role.SYSTEM, "Add up."),
        Turn(Role.USER, "What is 0 plus 0?"),
        Turn(Role.ASSISTANT, "0"),
        Turn(Role.USER, "What is 1 plus 1?"),
        Turn(Role.ASSISTANT, "3"),
        Turn(Role.USER, "What is 50 plus 50?"),
    )


def test_what_is_read_of_turns_names_who_speaks() -> None:
    spec = in_turns(prompt=Prompt(name="q", text="{{ question }} {{ choices | map(attribute='text') | join('/') }}"))
    assert build_prompt(QUESTION, spec) == (
        "‹system›\nAdd up.\n\n‹user›\nWhat is 0 plus 0? 0/1/2/3\n\n‹assistant›\nA\n\n"
        "‹user›\nWhat is 1 plus 1? 2/3/4/5\n\n‹assistant›\nB\n\n‹user›\nWhat is 50 plus 50? 100/101/102/103"
    )


def test_without_examples_and_description_there_is_one_turn() -> None:
    spec = in_turns(few_shot=None, description="")
    assert turns_of(QUESTION, spec) == turns_of(QUESTION, make_spec(mode=Mode.LETTER, prompt=LETTERED))


def test_a_description_that_is_empty_for_a_subject_is_no_turn() -> None:
    spec = in_turns(description="{% if subject == 'law' %}On law.{% endif %}", few_shot=None)
    assert [turn.role for turn in turns_of(QUESTION, spec)] == [Role.USER]
    lawful = turns_of(make_question(50, subject="law"), spec)
    assert lawful[0] == Turn(Role.SYSTEM, "On law.")


def test_reasoning_before_an_answer_is_in_the_models_turn() -> None:
    pool = tuple(make_question(number, metadata={"cot": f"Twice {number}."}) for number in range(2))
    spec = in_turns(Mode.GENERATE, few_shot=FewShot(k=1, rationale="cot", pool=pool))
    assert turns_of(QUESTION, spec)[2] == Turn(Role.ASSISTANT, "Twice 0.\nAnswer: A")


@pytest.mark.parametrize("few_shot", [None, FewShot(k=2, pool=POOL)], ids=["alone", "with examples"])
@pytest.mark.parametrize("description", ["", "Add up."])
@pytest.mark.parametrize("mode", [Mode.LETTER, Mode.LIKELIHOOD, Mode.GENERATE])
@pytest.mark.parametrize("template", [None, TAKES_SYSTEM, OWN_SYSTEM, WRITES_BOS], ids=["the model's own", *"TOW"])
def test_the_token_ids_are_those_that_the_models_own_template_makes_of_the_turns(
    template: str | None, mode: Mode, description: str, few_shot: FewShot | None
) -> None:
    spec = in_turns(mode, description=description, few_shot=few_shot)
    there, turns = tokenizer(template), turns_of(QUESTION, spec)
    found = taken(encoded(template, spec))
    assert found.prompt == there.apply_chat_template(messages(turns), add_generation_prompt=True, return_dict=False)
    begins = there.apply_chat_template(messages(turns), add_generation_prompt=True, tokenize=False)
    assert found.text == begins
    for continuation, tail in zip(found.continuations, found.tails, strict=True):
        assert continuation == continuation.strip()
        assert found.prompt + tail == there(begins + continuation, add_special_tokens=False)["input_ids"]


@pytest.mark.parametrize("mode", [Mode.LETTER, Mode.LIKELIHOOD, Mode.GENERATE])
def test_a_space_at_a_templates_end_is_in_the_token_that_it_is_part_of(mode: Mode) -> None:
    ends_in_space = TAKES_SYSTEM.replace("[assistant]\n", "[assistant] ")
    spec, there = in_turns(mode), tokenizer(ends_in_space)
    found = taken(encoded(ends_in_space, spec))
    begins = there.apply_chat_template(messages(turns_of(QUESTION, spec)), add_generation_prompt=True, tokenize=False)
    assert begins.endswith("[assistant] ")
    assert found.text == begins
    for continuation, tail in zip(found.continuations, found.tails, strict=True):
        assert found.prompt + tail == there(begins + continuation, add_special_tokens=False)["input_ids"]
        # This tokenizer makes one token of a space and a letter, none of a space and a digit.
        assert there.decode(tail) == (continuation if continuation.isdigit() else f" {continuation}")


def test_an_answer_begins_as_those_of_the_examples_begin() -> None:
    found = taken(encoded(TAKES_SYSTEM, in_turns()))
    assert found.continuations == ("A", "B", "C", "D")
    assert "[assistant]\nA [end]" in found.text
    assert found.text.endswith("Answer: [end][assistant]\n")


LLAMA_2 = (
    "{% for m in messages %}{% if m.role == 'user' %}{{ bos_token + '[INST] ' + m.content.strip() + ' [/INST]' }}"
    "{% elif m.role == 'assistant' %}{{ ' ' + m.content.strip() + ' ' + eos_token }}{% endif %}{% endfor %}"
)
VICUNA = (
    "{% for m in messages %}{{ 'USER: ' + m.content + '\n' if m.role == 'user' else 'ASSISTANT: ' + m.content + '\n' }}"
    "{% endfor %}{% if add_generation_prompt %}ASSISTANT:{% endif %}"
)
#: As Qwen 3 has it: the last turn shows that nothing was thought.
THINKS = (
    "{% for m in messages %}[{{ m.role }}]\n{% if m.role == 'assistant' and loop.last %}<think>\n\n</think>\n\n"
    "{% endif %}{{ m.content }} [end]{% endfor %}" + BEGIN
)


@pytest.mark.parametrize("chat", [ChatTemplate.TURNS, ChatTemplate.ALWAYS])
@pytest.mark.parametrize("template", [LLAMA_2, VICUNA], ids=["Llama 2", "Vicuna"])
def test_a_label_is_the_token_that_it_is_in_the_examples_where_the_template_puts_a_space_before_it(
    template: str, chat: ChatTemplate
) -> None:
    spec = in_turns(description="").model_copy(update={"chat_template": chat})
    found, there = taken(encoded(template, spec)), tokenizer(template)
    assert found.continuations == (" A", " B", " C", " D")
    assert found.text == there.apply_chat_template(
        messages(turns_of(QUESTION, spec)), add_generation_prompt=True, tokenize=False
    )
    label = there.convert_tokens_to_ids("ĠA")
    assert found.tails[0] == [label]
    if chat is ChatTemplate.TURNS:
        assert found.prompt.count(label) == 1, "the answer of the first example"


@pytest.mark.parametrize("template", [None, LLAMA_2, VICUNA], ids=["ChatML", "Llama 2", "Vicuna"])
@pytest.mark.parametrize("chat", [ChatTemplate.AUTO, ChatTemplate.ALWAYS, ChatTemplate.NEVER])
def test_without_its_question_a_choice_has_the_tokens_that_it_has_behind_it(
    chat: ChatTemplate, template: str | None
) -> None:
    """By mutual information, its sum there is subtracted; " Paris" is another token than "Paris"."""
    spec = make_spec(normalization=Normalization.MUTUAL_INFO, chat_template=chat)
    asked = MODES[Mode.LIKELIHOOD].ask(make_question(1, choices=("Paris", "Rome")), one_turn("Which?"), spec)
    with_question, without = map(taken, PromptEncoder(tokenizer(template)).encode(asked))
    assert without.tails == with_question.tails
    assert (without.text, len(without.prompt)) == ("", 1)


@pytest.mark.parametrize("template", [None, TAKES_SYSTEM, OWN_SYSTEM, TRIMS, WANTS_ALTERNATION, THINKS])
def test_nothing_is_put_before_a_label_where_the_template_puts_nothing_there(template: str | None) -> None:
    assert taken(encoded(template, in_turns(description=""))).continuations == ("A", "B", "C", "D")


def test_a_template_that_takes_no_answers_of_the_model_scores_labels_all_the_same() -> None:
    takes_none = (
        "{% for m in messages %}{% if m.role != 'user' %}{{ raise_exception('user only') }}{% endif %}{% endfor %}"
        + EACH
    )
    assert taken(encoded(takes_none, in_turns(description="", few_shot=None))).continuations == ("A", "B", "C", "D")


def test_a_model_that_has_a_system_prompt_of_its_own_keeps_it_where_the_run_has_none() -> None:
    assert shown(OWN_SYSTEM, in_turns()).startswith("[system]\nAdd up. [end][user]")
    assert shown(OWN_SYSTEM, in_turns(description="")).startswith("[system]\nI am Bot. [end][user]")


def test_a_template_that_trims_turns_loses_nothing() -> None:
    spaced = in_turns(prompt=Prompt(name="q", text="  {{ question }} {{ choices | length }} "))
    assert "[user]\nWhat is 50 plus 50? 4 [end]" in shown(TRIMS, spaced)


@pytest.mark.parametrize("mode", [Mode.LETTER, Mode.GENERATE])
def test_a_template_that_takes_a_list_of_parts_is_given_one(mode: Mode) -> None:
    spec = in_turns(mode)
    assert taken(encoded(TAKES_PARTS, spec)) == taken(encoded(TAKES_SYSTEM, spec))


def test_a_template_that_writes_bos_itself_has_one() -> None:
    found = taken(encoded(WRITES_BOS, in_turns()))
    assert found.prompt[0] == tokenizer(WRITES_BOS).bos_token_id
    assert found.prompt.count(found.prompt[0]) == 1


@pytest.mark.parametrize(
    ("template", "says"),
    [
        (
            REFUSES_SYSTEM,
            "does not accept these turns (system, user, assistant, user, assistant, user): System role not",
        ),
        (WANTS_ALTERNATION, "does not accept these turns (system, user, assistant, user, assistant, user): Roles must"),
        (DROPS_SYSTEM, "drops a turn of the system, or changes its text"),
        (LAST_TURN_ONLY, "drops a turn of the system, or changes its text"),
        (BROKEN, "does not accept these turns"),
        ("{% macro again() %}{{ again() }}{% endmacro %}{{ again() }}", "does not accept these turns"),
    ],
    ids=["refuses system", "wants alternation", "drops system", "last turn only", "broken", "calls itself"],
)
def test_a_template_that_does_not_take_the_turns_refuses_the_question_with_the_remedy(template: str, says: str) -> None:
    message = refused(template, in_turns())
    assert says in message
    assert message.endswith("Set chat_template: always, which merges them into one turn.")


@pytest.mark.parametrize("template", [REFUSES_SYSTEM, WANTS_ALTERNATION, DROPS_SYSTEM])
def test_the_remedy_helps_and_so_does_leaving_out_the_description(template: str) -> None:
    assert "[user]\nWhat is 0 plus 0?" in shown(template, in_turns(description=""))
    always = in_turns().model_copy(update={"chat_template": ChatTemplate.ALWAYS})
    assert shown(template, always).startswith("[user]\nAdd up.\n\nWhat is 0 plus 0?")


def test_a_template_that_cuts_what_the_model_said_is_told_by_whose_turn_it_is() -> None:
    pool = tuple(make_question(number, metadata={"cot": f"So, because {number}."}) for number in range(2))
    spec = in_turns(Mode.GENERATE, few_shot=FewShot(k=1, rationale="cot", pool=pool))
    assert "drops a turn of the assistant" in refused(DROPS_REASONS, spec)


def test_a_single_turn_that_the_template_loses_is_refused_too() -> None:
    request = ScoreRequest(one_turn("Which?"), (" A",), Chat(ChatTemplate.AUTO))
    (found,) = PromptEncoder(tokenizer("[user] Hello! [end]" + BEGIN)).encode([request])
    assert isinstance(found, RequestRejected)
    assert str(found).endswith("Set chat_template: never.")


def test_turns_of_a_model_without_a_chat_template_are_refused() -> None:
    bare = copy(tokenizer(TAKES_SYSTEM))
    bare.chat_template = None
    (found,) = PromptEncoder(bare).encode(requests_of(in_turns()))
    assert isinstance(found, RequestRejected)
    assert str(found) == "The model has no chat template. Set chat_template: never."


def test_the_questions_of_a_call_are_counted_with_what_the_template_puts_around_every_turn() -> None:
    engine = VllmEngine(load_settings())
    engine.encoder = PromptEncoder(tokenizer())
    (request,) = requests_of(in_turns())
    found = taken(encoded(None, in_turns()))
    tokens = len(found.prompt) + sum(map(len, found.tails))
    assert engine.count_prompt_tokens([request]) == [tokens]
    items = [Item(QUESTION, in_turns())] * 2
    assert [len(items[part]) for part in in_calls(items, engine, 2 * tokens)] == [2]
    assert [len(items[part]) for part in in_calls(items, engine, 2 * tokens - 1)] == [1, 1]


#: As Qwen 3 has it: reasoning is switched off by writing an empty one.
SWITCHED = TAKES_SYSTEM.replace(
    "[assistant]\n{% endif %}",
    "[assistant]\n{% if enable_thinking is defined and enable_thinking is false %}<think></think>\n{% endif %}"
    "{% endif %}",
)
#: Tags that `transformers` adds to the template language.
OWN_TAGS = "{% for m in messages %}{% break %}{% endfor %}{% generation %}{% endgeneration %}"
UNTHINKING: dict[str, Any] = {"chat_template_kwargs": {"enable_thinking": False}}


@pytest.mark.parametrize("mode", [Mode.LETTER, Mode.LIKELIHOOD, Mode.GENERATE])
def test_variables_of_the_template_are_what_the_run_says(mode: Mode) -> None:
    there, spec = tokenizer(SWITCHED), in_turns(mode, **UNTHINKING)
    found = taken(encoded(SWITCHED, spec))
    assert found.text == shown(SWITCHED, in_turns(mode)) + "<think></think>\n"
    assert found.prompt == there.apply_chat_template(
        messages(turns_of(QUESTION, spec)), add_generation_prompt=True, return_dict=False, enable_thinking=False
    )
    for continuation, tail in zip(found.continuations, found.tails, strict=True):
        assert found.prompt + tail == there(found.text + continuation, add_special_tokens=False)["input_ids"]


def test_runs_with_and_without_reasoning_may_share_a_call() -> None:
    runs = in_turns(**UNTHINKING), in_turns()
    both = PromptEncoder(tokenizer(SWITCHED)).encode([request for run in runs for request in requests_of(run)])
    assert [each.text.endswith("</think>\n") for each in both if isinstance(each, Encoded)] == [True, False]


def test_a_variable_of_the_template_may_change_the_space_before_a_label() -> None:
    spaced = "{% for m in messages %}{{ m.role }}:{{ ' ' * gap }}{{ m.content }}\n{% endfor %}"
    spaced += "{% if add_generation_prompt %}assistant:{% endif %}"
    for gap in (1, 0):
        found = taken(encoded(spaced, in_turns(description="", chat_template_kwargs={"gap": gap})))
        assert found.continuations[0] == " " * gap + "A"


@pytest.mark.parametrize(
    ("template", "there"),
    [
        (SWITCHED, "enable_thinking"),
        (TAKES_SYSTEM, "none that can be set"),
        (WRITES_BOS + OWN_TAGS + "{{ day }}", "day"),
    ],
    ids=["a switch", "none", "tags of its own"],
)
def test_a_variable_that_the_template_does_not_have_is_refused(template: str, there: str) -> None:
    message = refused(template, in_turns(chat_template_kwargs={"enable_thinkin": False}))
    assert message == (
        f"chat_template_kwargs: the model's chat template has no variable 'enable_thinkin'. It has {there}."
    )


@pytest.mark.parametrize("name", ["chat_template", "tokenize", "conversation", "tools"])
def test_a_parameter_of_the_renderer_is_no_variable_of_the_template(name: str) -> None:
    endless = "{% macro again() %}{{ again() }}{% endmacro %}{{ again() }}"
    message = refused(TAKES_SYSTEM, in_turns(chat_template_kwargs={name: endless}))
    assert message.startswith(f"chat_template_kwargs: the model's chat template has no variable '{name}'.")


@pytest.mark.parametrize("chat", [ChatTemplate.AUTO, ChatTemplate.ALWAYS])
def test_variables_for_a_model_without_a_chat_template_are_refused(chat: ChatTemplate) -> None:
    bare = copy(tokenizer(TAKES_SYSTEM))
    bare.chat_template = None
    spec = make_spec(mode=Mode.LETTER, prompt=LETTERED, chat_template=chat, **UNTHINKING)
    (found,) = PromptEncoder(bare).encode(requests_of(spec))
    assert str(found) == (
        "The model has no chat template. Set chat_template: never, and leave chat_template_kwargs out."
    )


def mistrals_own(tmp_path: Path) -> Any:
    """What vLLM chooses for a folder as Mistral publishes them."""
    from mistral_common.tokens import tokenizers
    from vllm.tokenizers import get_tokenizer

    data = Path(tokenizers.__file__).parents[2] / "data"
    copyfile(data / "mistral_instruct_tokenizer_240323.model.v3", tmp_path / "tokenizer.model.v3")
    (tmp_path / "consolidated.safetensors").touch()
    return get_tokenizer(str(tmp_path))


def deepseeks_own(_: Path) -> Any:
    """What vLLM makes of the tokenizer of DeepSeek V3.2, whose chats are put together by code."""
    from transformers import PreTrainedTokenizerFast
    from vllm.tokenizers.deepseek_v32 import get_deepseek_v32_tokenizer

    file = Path(prepare("smollm2-135m-instruct")) / "tokenizer.json"
    return get_deepseek_v32_tokenizer(PreTrainedTokenizerFast(tokenizer_file=str(file)))


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of what vLLM imports
@pytest.mark.parametrize("its_own", [mistrals_own, deepseeks_own])
@pytest.mark.parametrize("chat", [ChatTemplate.AUTO, ChatTemplate.ALWAYS])
def test_a_chat_model_without_a_template_is_not_silently_asked_outside_a_chat(
    its_own: Callable[[Path], Any], chat: ChatTemplate, tmp_path: Path
) -> None:
    encoder = PromptEncoder(its_own(tmp_path))
    asked = GenerateRequest(one_turn("Which?"), Sampling(), chat=Chat(chat))
    refused, plain = encoder.encode([asked, replace(asked, chat=Chat(ChatTemplate.NEVER))])
    assert isinstance(refused, RequestRejected)
    assert str(refused) == (
        "vLLM's own code, not a chat template, puts this model's chats together. "
        "Set chat_template: never or, if the model has a template too, vllm_args.tokenizer_mode: hf."
    )
    assert isinstance(plain, Encoded)


def test_how_much_to_reason_is_a_matter_of_the_chat_template_for_a_model_in_the_worker() -> None:
    message = refused(SWITCHED, in_turns(Mode.GENERATE, sampling=Sampling(reasoning_effort="low")))
    assert message == (
        "sampling.reasoning_effort is for models on a server. "
        "Here it is a variable of the chat template, if at all: chat_template_kwargs.reasoning_effort."
    )


def test_tokens_shows_the_text_that_the_template_made_and_the_continuations_as_they_follow_it() -> None:
    spec = in_turns()
    run = Run(run_id="r", spec=spec, source="made up", questions=1, chance=0.25, created_at=0.0)
    encoder = PromptEncoder(tokenizer())
    (asked,) = request_tokens(run, QUESTION, (), encoder)
    assert asked["text"] == shown(None, spec)
    assert [each["text"] for each in asked["continuations"]] == ["A", "B", "C", "D"]
