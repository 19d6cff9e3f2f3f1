"""Who answered a run, said where engines of one name may answer otherwise."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from contract import MemoryLedger, Outcome, Run, Verdict
from contract.engine_info import EngineUsed, differing
from contract.fleet import WorkerRecord, WorkerState
from contract.keys import route
from contract.mode import Mode, Normalization
from contract.spec import Sampling
from producer.broker import MemoryBroker
from producer.engine_differences import Engines, engine_lines, not_those_running, sampling_lines
from producer.export.results import export
from tests.support import make_questions, open_run
from tests.unit.producer.conftest import Producer, settle_whole

ENGINE = {"engine": "vllm", "weights": "aa", "dtype": "bfloat16", "max_num_seqs": 64}


def test_a_run_that_engines_of_other_weights_answered_says_so_and_its_summary_by_whom_and_when(tmp_path: Path) -> None:
    books = MemoryLedger()
    run = open_run(books, make_questions(2))
    books.note_engine(run.run_id, EngineUsed(worker="gpu0@a", since=0.0, engine=ENGINE))
    books.note_engine(run.run_id, EngineUsed(worker="gpu1@a", since=60.0, engine=ENGINE | {"max_num_seqs": 256}))
    assert engine_lines(run, books.engines(run.run_id)) == []

    books.note_engine(run.run_id, EngineUsed(worker="gpu0@a", since=86_400.0, engine=ENGINE | {"weights": "bb"}))
    (what, by_whom) = engine_lines(run, books.engines(run.run_id))
    assert what == ("engines", 'not identical: they differ in weights ("aa", "bb")')
    assert "lists the engine of each of gpu0@a, gpu1@a over time" in by_whom[1]
    found = export(books, run.run_id, tmp_path).content["environment"]["answered_by"]
    assert [(each["worker"], each["since"], each["engine"]["weights"]) for each in found] == [
        ("gpu0@a", "1970-01-01T00:00:00.000Z", "aa"),
        ("gpu1@a", "1970-01-01T00:01:00.000Z", "aa"),
        ("gpu0@a", "1970-01-02T00:00:00.000Z", "bb"),
    ]


def test_a_fleet_of_several_kinds_of_gpu_is_one_but_not_if_their_caches_hold_other_numbers() -> None:
    a100, h100 = ({**ENGINE, "gpu": gpu, "attention_backend": "auto", "kv_cache_dtype": "bfloat16"} for gpu in "ah")
    assert differing([a100, h100]) == {}
    assert differing([a100, h100 | {"kv_cache_dtype": "fp8"}]) == {"kv_cache_dtype": ['"bfloat16"', '"fp8"']}


def test_engines_of_the_same_weights_differ_where_one_of_them_stretches_its_context() -> None:
    """`compare` said of two runs that they differ in nothing, where YaRN had moved every score by some nats."""
    yarn = {"hf_overrides": {"rope_scaling": {"factor": 4.0, "rope_type": "yarn"}}}
    assert differing([ENGINE, ENGINE | {"overrides": yarn}]) == {"overrides": ["null", json.dumps(yarn)]}


def test_engines_of_the_same_weights_differ_where_text_becomes_other_tokens() -> None:
    one, other = (ENGINE | {"tokenizer": digest} for digest in ("aa", "bb"))
    assert differing([one, other]) == {"tokenizer": ['"aa"', '"bb"']}
    assert differing([one, ENGINE]) == {}, "nothing is known of the second"


def test_a_run_whose_workers_were_upgraded_half_way_says_that_its_texts_were_read_by_two_sets_of_rules() -> None:
    """The version of the package is the same after a `git pull`; only the rules that read texts had changed."""
    books = MemoryLedger()
    run = open_run(books, make_questions(2), mode=Mode.GENERATE, sampling=Sampling())
    for rules in ("aaaaaaaa", "bbbbbbbb"):
        books.note_engine(run.run_id, EngineUsed(worker="gpu0@a", since=0.0, engine=ENGINE | {"rules": rules}))

    (_, what), _, (_, again) = engine_lines(run, books.engines(run.run_id))

    assert what == 'not identical: they differ in rules ("aaaaaaaa", "bbbbbbbb")'
    assert again.startswith(f"python -m workers rescore {run.run_id} ")
    by_label = {key: value for key, value in ENGINE.items() if key != "rules"}
    assert differing([ENGINE | {"rules": "aaaaaaaa"}, by_label]) == {}, "no rules read labels, or older workers' texts"


def test_a_circular_run_that_two_sets_of_rules_read_is_not_sent_to_a_command_that_refuses_it() -> None:
    books = MemoryLedger()
    run = open_run(books, make_questions(2), mode=Mode.GENERATE, sampling=Sampling(), circular=True)
    used = [
        EngineUsed(worker="gpu0@a", since=0.0, engine=ENGINE | {"rules": rules}) for rules in ("aaaaaaaa", "bbbbbbbb")
    ]
    assert "they differ in rules" in engine_lines(run, used)[0][1]
    assert "rescore" not in str(engine_lines(run, used))


def test_that_two_models_have_two_tokenizers_is_no_difference_of_their_engines() -> None:
    """It was told of every comparison of two models."""
    books = MemoryLedger()
    runs = [open_run(books, make_questions(2), model, model=model) for model in ("small", "large")]
    for run in runs:
        engine = ENGINE | {"weights": run.spec.model, "tokenizer": run.spec.model}
        books.note_engine(run.run_id, EngineUsed(worker="w", since=0.0, engine=engine))

    assert not Engines.of(books, *runs)

    books.note_engine(runs[1].run_id, EngineUsed(worker="w", since=9.0, engine=engine | {"tokenizer": "other"}))
    assert list(Engines.of(books, *runs).within_b) == ["tokenizer"], "one model has one"


def test_status_says_while_a_run_goes_on_that_its_engines_are_not_alike(
    producer: Producer, run_id: str, ledger: MemoryLedger
) -> None:
    for dtype in ("float32", "bfloat16"):
        assert "not identical" not in producer("status", run_id).stdout
        ledger.note_engine(run_id, EngineUsed(worker=dtype, since=0.0, engine={"dtype": dtype}))
    assert 'not identical: they differ in dtype ("float32", "bfloat16")' in producer("status", run_id).stdout


def serving(run: Run, **engine: Any) -> WorkerRecord:
    """A live worker of the run's model, with this in its engine."""
    queue, model = route(run.spec)[-1], run.spec.model
    return WorkerRecord(name="gpu0@a", model=model, state=WorkerState.READY, queue=queue, engine=ENGINE | engine)


def test_a_settled_run_that_is_enqueued_again_beside_other_weights_says_that_its_answers_are_not_of_these(
    producer: Producer, five: Path, ledger: MemoryLedger, broker: MemoryBroker
) -> None:
    """It was printed as if the new weights had answered so."""
    run = ledger.run(producer.json("enqueue", five)["run_id"])
    ledger.note_engine(run.run_id, EngineUsed(worker="gpu0@a", since=0.0, engine=ENGINE | {"mcqueue": "0.1.0"}))
    settle_whole(ledger, run.run_id)
    broker.live = [serving(run)]
    assert "engines" not in producer("enqueue", five).stdout
    assert producer.json("enqueue", five)["other_engines"] == {}

    broker.live = [serving(run, weights="bb")]

    told = " ".join(producer("enqueue", five).stdout.split())
    assert 'engines those that run now differ from those that answered, in weights ("aa", "bb"); --fresh asks' in told
    assert producer.json("enqueue", five)["other_engines"] == {"weights": ["aa", "bb"]}
    taken_over = producer("enqueue", five, "--run", "again", "--reuse", run.run_id).stdout
    assert "--fresh instead of --reuse asks all questions again" in taken_over
    assert "engines" not in producer("enqueue", five, "--fresh").stdout, "nobody has answered this one"


def test_engines_that_run_now_are_not_others_if_one_of_them_is_like_those_that_answered() -> None:
    run = open_run(MemoryLedger(), make_questions(2))
    used = [EngineUsed(worker="gpu0@a", since=0.0, engine=ENGINE)]
    other = serving(run, weights="bb")

    assert not_those_running(run, used, [other, serving(run)]) == {}
    assert not_those_running(run, used, []) == {}
    assert not_those_running(run, [], [other]) == {}
    assert not_those_running(run, used, [other.model_copy(update={"engine": {}})]) == {}, "it boots"
    assert not_those_running(run, used, [other.model_copy(update={"queue": "score.else"})]) == {}
    assert not_those_running(run, used, [other]) == {"weights": ['"aa"', '"bb"']}


@pytest.mark.parametrize(("dtype", "told"), [("bfloat16", True), ("float16", True), ("float32", False)])
def test_mutual_information_computed_in_16_bits_is_told_beside_the_results(dtype: str, told: bool) -> None:
    books = MemoryLedger()
    for normalization in (Normalization.MUTUAL_INFO, Normalization.NONE):
        run = open_run(books, make_questions(1), mode=Mode.LIKELIHOOD, normalization=normalization)
        books.note_engine(run.run_id, EngineUsed(worker="gpu0@a", since=0.0, engine={**ENGINE, "dtype": dtype}))
        said = dict(engine_lines(run, books.engines(run.run_id))).get("precision", "")
        assert (f"computed in {dtype}" in said) is (told and normalization is Normalization.MUTUAL_INFO)


def written(ledger: MemoryLedger, left_to_model: list[str], **sampling: Any) -> Run:
    """A settled run whose engine could not pass these parameters on."""
    run = open_run(ledger, make_questions(1), mode=Mode.GENERATE, sampling=Sampling(**sampling))
    engine = {"engine": "openai", "left_to_model": left_to_model}
    ledger.note_engine(run.run_id, EngineUsed(worker="gpu0@a", since=0.0, engine=engine))
    ledger.commit(run.run_id, [Verdict(question_id="q0", outcome=Outcome.UNANSWERED, truncated=True)])
    return run


@pytest.mark.parametrize(
    ("left_to_model", "temperature", "values"),
    [
        (["temperature", "top_p"], 0, "temperature 0"),
        (["seed", "temperature"], 0, "a seed or temperature 0"),
        (["seed", "temperature"], 1, "a seed"),
    ],
)
def test_a_value_of_the_run_that_the_model_did_not_sample_with_is_told_beside_the_results(
    producer: Producer, ledger: MemoryLedger, left_to_model: list[str], temperature: float, values: str
) -> None:
    run = written(ledger, left_to_model, temperature=temperature)
    told = f"the model does not take {values}: it used its own, and may answer differently if asked again"
    for command in (["watch", "--export"], ["export"], ["status"], ["show"]):
        question = ["q0"] if command == ["show"] else []
        lines = [" ".join(line.split()) for line in producer(*command, run.run_id, *question).stdout.splitlines()]
        assert f"sampling {told}" in lines
    producer("report", run.run_id)
    assert told in (Path("results") / run.run_id / "report.html").read_text(encoding="utf-8")
    (used,) = json.loads((Path("results") / run.run_id / "summary.json").read_text())["environment"]["answered_by"]
    assert used["engine"]["left_to_model"] == left_to_model


@pytest.mark.parametrize(
    ("left_to_model", "temperature"), [([], 0), (["temperature", "top_p"], 1), (["temperature"], 0.7)]
)
def test_nothing_is_told_where_the_model_sampled_as_the_run_says_or_not_at_all(
    ledger: MemoryLedger, left_to_model: list[str], temperature: float
) -> None:
    run = written(ledger, left_to_model, temperature=temperature)
    assert sampling_lines(run, ledger.engines(run.run_id)) == []


def test_a_text_that_was_cut_off_before_it_began_is_told_with_the_setting_to_raise(
    producer: Producer, ledger: MemoryLedger
) -> None:
    run = written(ledger, [])
    early = "raise sampling.max_tokens if that was before the answer (hidden reasoning counts)"
    assert f"1 of 1: the text was cut off at max_tokens; {early}" in producer("export", run.run_id).stdout
    shown = producer("show", run.run_id, "q0").stdout
    assert "yes, before the text began: raise sampling.max_tokens (hidden reasoning counts)" in shown


def test_a_text_that_filled_the_context_is_told_with_the_setting_that_limits_it(
    producer: Producer, ledger: MemoryLedger
) -> None:
    run = open_run(ledger, make_questions(1), mode=Mode.GENERATE, sampling=Sampling(max_tokens=500))
    full = Verdict(question_id="q0", outcome=Outcome.UNANSWERED, truncated=True, context_full=True, raw_text="Well,")
    ledger.commit(run.run_id, [full])
    ended = producer("export", run.run_id).stdout
    assert "1 of 1: the text was cut off before max_tokens, as the model's context was full; raise vllm_args." in ended
    assert "sampling.max_tokens" not in ended
    shown = producer("show", run.run_id, "q0").stdout
    assert "yes, before max_tokens: the model's context was full (vllm_args.max_model_len)" in shown


@pytest.mark.parametrize(("adapter", "reloaded"), [("", {}), ("law", {"adapters": ['"11"', '"33"']})])
def test_only_the_adapter_that_a_run_uses_makes_another_engine(adapter: str, reloaded: dict[str, list[str]]) -> None:
    """Any that was loaded beside it did: base model and all other adapters seemed to have changed."""
    run = open_run(MemoryLedger(), make_questions(2), adapter=adapter)
    used = [EngineUsed(worker="gpu0@a", since=0.0, engine=ENGINE | {"adapters": {"law": "11"}})]

    assert not_those_running(run, used, [serving(run, adapters={"law": "11", "art": "22"})]) == {}
    assert not_those_running(run, used, [serving(run, adapters={"law": "33"})]) == reloaded
