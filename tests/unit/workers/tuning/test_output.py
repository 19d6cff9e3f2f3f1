"""What tuning writes down: the deploy file, its head, and the trials beside it."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from contract import MemoryLedger
from contract.errors import SettingsError
from contract.settings import load_fleet, load_settings
from tests.support import SIMULATED_MODEL, make_questions, open_run
from tests.unit.producer.conftest import room_per_file
from tests.unit.workers.tuning.tuned import NEEDS
from workers.tuning.lengths import Lengths
from workers.tuning.output import draw_trials, refuse_unwritable, table, write_deploy_file, write_record
from workers.tuning.search import Tuned
from workers.tuning.trials import Shape, Trial


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
    assert "# Warning: max_model_len 64 fits this run; longer prompts" in text
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
    assert "fits this run" not in head


def test_a_file_that_keeps_its_context_warns_of_none(tmp_path: Path) -> None:
    needs = replace(NEEDS, context=2048, given=2048)
    best = Trial(Shape(16, 2), {}, questions_per_s=12.5, batch_s=0.8)
    found = Tuned(needs, [best], best, batch_timeout_s=0.4, asked=64)
    write_deploy_file(tmp_path / "tuned.yaml", None, (), open_run(MemoryLedger(), make_questions(2)), found)
    head, *settings = (tmp_path / "tuned.yaml").read_text().partition("batch_size: ")
    assert "max_model_len" not in head
    assert "max_model_len: 2048" in "".join(settings)


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


def test_an_older_deploy_file_is_whole_where_the_disk_is_full(tmp_path: Path) -> None:
    """It was cut short, and with it the settings that workers started with."""
    best = Trial(Shape(64, 4), {}, questions_per_s=12.5, batch_s=0.8)
    found = Tuned(NEEDS, [best], best, batch_timeout_s=0.4, asked=64)
    run = open_run(MemoryLedger(), make_questions(2))
    older = {name: f"older {name}" for name in ("tuned.yaml", "tuned.json", "tuned.png")}
    for name, text in older.items():
        (tmp_path / name).write_text(text)
    with room_per_file(100):
        with pytest.raises(SettingsError, match=r"tuned\.yaml: cannot be written: File too large\. Choose another"):
            write_deploy_file(tmp_path / "tuned.yaml", None, (), run, found)
        with pytest.raises(SettingsError, match=r"tuned\.json: cannot be written: File too large"):
            write_record(tmp_path / "tuned.json", load_settings(None, []), run, found)
        with pytest.raises(SettingsError, match=r"tuned\.png: cannot be written: File too large"):
            draw_trials(tmp_path / "tuned.png", found)
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == older


def test_a_link_to_a_deploy_file_stays_one(tmp_path: Path) -> None:
    best = Trial(Shape(64, 4), {}, questions_per_s=12.5, batch_s=0.8)
    found = Tuned(NEEDS, [best], best, batch_timeout_s=0.4, asked=64)
    (tmp_path / "kept").mkdir()
    (tmp_path / "tuned.yaml").symlink_to(tmp_path / "kept" / "x.yaml")
    refuse_unwritable(tmp_path / "tuned.yaml")
    write_deploy_file(tmp_path / "tuned.yaml", None, (), open_run(MemoryLedger(), make_questions(2)), found)
    assert (tmp_path / "tuned.yaml").is_symlink()
    assert load_settings(tmp_path / "kept" / "x.yaml").batch_size == 64


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
    lines = table(Tuned(NEEDS, trials, trials[1], 0.1, asked=64))
    assert re.fullmatch(r" *batch +in_flight +max_num_seqs +questions/s .* batch_s", lines[0])
    assert [line.rstrip() for line in lines] == lines, "no column is empty"
    sizes = {"max_num_seqs": 512, "max_num_batched_tokens": 16384}
    widest = Trial(Shape(256, 64), sizes, questions_per_s=1234.56, tokens_per_s=123456.78, batch_s=123.45)
    assert len(table(Tuned(NEEDS, [*trials, widest], trials[1], 0.1, asked=64))[0]) <= 80
    failed = Trial(Shape(16, 2), {"max_num_seqs": 128}, failure="no memory")
    assert table(Tuned(NEEDS, [*trials, failed], trials[1], 0.1, asked=64))[0].endswith("  failure")
