"""Dashboard, rules and exporters speak of the same metrics."""

from __future__ import annotations

import json
import re
import subprocess
from typing import Any, cast

import pytest
import yaml

from tests.metric_names import OURS, VLLM
from tests.support import ROOT, needed_program

PROMETHEUS = ROOT / "configs" / "prometheus"
DASHBOARD = json.loads((ROOT / "configs/grafana/dashboards/mcqueue.json").read_text())
RULES: list[dict[str, Any]] = yaml.safe_load((PROMETHEUS / "rules.yml").read_text())["groups"][0]["rules"]
PANELS = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]
RECORDED = {rule["record"] for rule in RULES if "record" in rule}
SHOWN = [target["expr"] for panel in PANELS for target in panel["targets"]]
EXPRESSIONS = SHOWN + [rule["expr"] for rule in RULES]
NAMES = re.compile(r"\b(?:mcqueue|vllm)[\w:]+")


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_every_query_asks_for_metrics_that_are_exported_or_recorded(expression: str) -> None:
    found = set(NAMES.findall(expression))
    assert found, "a query of nothing of ours"
    assert found <= OURS | VLLM | RECORDED


def test_everything_that_an_operator_asks_for_is_on_the_dashboard() -> None:
    shown = " ".join(EXPRESSIONS)
    for name in OURS:
        base = re.sub(r"_(bucket|sum|count|total)$", "", name)
        rarely = {"mcqueue_batch_seconds", "mcqueue_engine_boot_seconds", "mcqueue_batch_size_limit"}
        told_elsewhere = {"mcqueue_gpu_memory_total_bytes", "mcqueue_memory_total_bytes", "mcqueue_prompt_tokens"}
        assert base in shown or base in rarely | told_elsewhere | {"mcqueue_worker_info"}, base


@pytest.mark.parametrize("expression", SHOWN)
def test_a_panel_shows_the_chosen_queue_alone(expression: str) -> None:
    selectors = re.findall(r"\b(?:mcqueue|vllm)[\w:]+(?:{([^}]*)})?", expression)
    assert selectors
    assert all('queue=~"$queue"' in each for each in selectors)


def test_panels_have_a_place_a_unit_and_a_title_of_their_own() -> None:
    places = [tuple(cast("dict[str, int]", panel["gridPos"]).values()) for panel in PANELS]
    assert len(set(places)) == len(PANELS)
    assert len({panel["title"] for panel in PANELS}) == len(PANELS)
    assert all(panel["fieldConfig"]["defaults"]["unit"] for panel in PANELS)


def test_every_alert_says_what_to_do() -> None:
    for rule in RULES:
        assert "record" in rule or {"summary", "remedy"} <= rule["annotations"].keys()


def test_promtool_accepts_configuration_and_rules() -> None:
    promtool = needed_program("promtool")
    for what in (["config", "prometheus.yml"], ["rules", "rules.yml"]):
        done = subprocess.run([promtool, "check", *what], cwd=PROMETHEUS, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr


def test_alerts_fire_when_they_should_and_not_before() -> None:
    promtool = needed_program("promtool")
    done = subprocess.run(
        [promtool, "test", "rules", str(ROOT / "tests/data/prometheus_rules.yml")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
