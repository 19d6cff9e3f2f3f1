"""What a worker counts, and the page it is read from."""

from __future__ import annotations

import json
import socket
import subprocess
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, NoReturn, cast
from unittest.mock import Mock

import psutil
import pytest
from prometheus_client import CollectorRegistry, Counter, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from contract import Outcome, Settings, Verdict
from contract.errors import LedgerError
from demo.valkey import free_port
from tests.support import PATIENCE_S, needed_program
from workers.messages.batch import Batch, HeldMessage, Settlement
from workers.monitoring.exporter import Exporter, _Quiet
from workers.monitoring.hardware import Gpu, Hardware, Host
from workers.monitoring.metrics import BATCH_BUCKETS, HardwareMetrics, WorkerMetrics

SETTINGS = Settings(engine="simulated", model="small", batch_size=16)


def read(registry: CollectorRegistry, name: str, **labels: str) -> float | None:
    return registry.get_sample_value(name, labels)


def held(settlement: Settlement, *, redelivered: bool = False) -> HeldMessage:
    request = SimpleNamespace(delivery_info={"redelivered": redelivered})
    return HeldMessage(request, "run", ["q"], 0.0, 6, 1, 0.0, settlement)


def verdict(number: int, outcome: Outcome = Outcome.CORRECT, **changes: object) -> Verdict:
    fields = {"question_id": f"q{number}", "outcome": outcome, "latency_ms": 200.0, "queued_ms": 50.0}
    return Verdict.model_validate(fields | changes)


@pytest.fixture
def metrics() -> WorkerMetrics:
    return WorkerMetrics(SETTINGS, "gpu0@host", "score.small", "0")


def test_settled_questions_are_counted_by_outcome_with_their_tokens(metrics: WorkerMetrics) -> None:
    tokens: dict[str, Any] = {"prompt_tokens": 10, "prefill_tokens": 40, "cached_tokens": 30, "completion_tokens": 2}
    metrics.committed([verdict(1, **tokens), verdict(2, Outcome.FAILED, attempts=3), verdict(3, **tokens)])
    metrics.committed([])
    found = metrics.registry
    assert read(found, "mcqueue_questions_total", outcome="correct") == 2
    assert read(found, "mcqueue_questions_total", outcome="failed") == 1
    assert read(found, "mcqueue_questions_total", outcome="wrong") == 0, (
        "there before the first one, so rates are right"
    )
    assert read(found, "mcqueue_prompt_tokens_total") == 20
    assert read(found, "mcqueue_prefill_tokens_total") == 80
    assert read(found, "mcqueue_cached_tokens_total") == 60
    assert read(found, "mcqueue_completion_tokens_total") == 4
    assert read(found, "mcqueue_question_retries_total") == 2


@pytest.mark.parametrize(("questions", "bucket"), [(1, "1"), (3, "4"), (16, "16"), (256, "256"), (257, "+Inf")])
def test_a_call_is_timed_under_the_bucket_of_its_size(metrics: WorkerMetrics, questions: int, bucket: str) -> None:
    metrics.generated(questions, 0.2, 0.05)
    assert read(metrics.registry, "mcqueue_generate_seconds_count", questions_le=bucket) == 1
    assert read(metrics.registry, "mcqueue_generate_seconds_sum", questions_le=bucket) == pytest.approx(0.2)
    assert read(metrics.registry, "mcqueue_queued_seconds_sum") == 0.05


def test_without_batching_a_message_is_a_full_batch() -> None:
    alone = Settings(engine="simulated", model="small", enable_batching=False, question_batch_size=8)
    metrics = WorkerMetrics(alone, "gpu0@host", "score.small", "0")
    metrics.batch_ended(Batch(1, [held(Settlement.ACKNOWLEDGE)], questions=8, flush="size", waited_s=0.0, begun=8))
    assert read(metrics.registry, "mcqueue_batch_fill_ratio_sum") == 1.0


def test_a_batch_is_counted_with_size_fill_flush_and_what_became_of_its_messages(metrics: WorkerMetrics) -> None:
    messages = [held(Settlement.ACKNOWLEDGE), held(Settlement.REQUEUE), held(Settlement.REQUEUE, redelivered=True)]
    metrics.batch_ended(Batch(1, messages, questions=12, flush="timeout", waited_s=0.4, begun=9))
    found = metrics.registry
    assert read(found, "mcqueue_batches_total", flush="timeout") == 1
    assert read(found, "mcqueue_batches_total", flush="size") == 0
    assert read(found, "mcqueue_batch_questions_bucket", le="8.0") == 0
    assert read(found, "mcqueue_batch_questions_bucket", le="16.0") == 1
    assert read(found, "mcqueue_batch_fill_ratio_sum") == 9 / 16, "what was put off fills nothing"
    assert read(found, "mcqueue_batch_wait_seconds_sum") == 0.4
    assert read(found, "mcqueue_messages_returned_total") == 2
    assert read(found, "mcqueue_messages_redelivered_total") == 1


def test_a_batch_of_which_nothing_was_begun_is_none_but_its_messages_are_counted(metrics: WorkerMetrics) -> None:
    """Each redelivery of a paused run's messages was a full batch of no time."""
    metrics.batch_ended(
        Batch(1, [held(Settlement.REQUEUE, redelivered=True)], questions=16, flush="size", waited_s=0.1)
    )
    found = metrics.registry
    assert read(found, "mcqueue_batches_total", flush="size") == 0
    assert read(found, "mcqueue_batch_questions_count") == 0
    assert read(found, "mcqueue_batch_seconds_count") == 0
    assert (read(found, "mcqueue_messages_returned_total"), read(found, "mcqueue_messages_redelivered_total")) == (1, 1)


def test_the_histogram_of_batch_sizes_has_the_buckets_that_operators_know() -> None:
    assert BATCH_BUCKETS == (1, 2, 4, 8, 16, 32, 64, 128, 256)


def test_a_clock_that_is_set_makes_no_batch_long(metrics: WorkerMetrics, monkeypatch: pytest.MonkeyPatch) -> None:
    batch = Batch(1, [held(Settlement.ACKNOWLEDGE)], questions=1, flush="size", waited_s=0.0, begun=1)
    monkeypatch.setattr(time, "time", lambda: batch.started_at + 3600)
    metrics.batch_ended(batch)
    took_s = read(metrics.registry, "mcqueue_batch_seconds_sum")
    assert took_s is not None
    assert 0 < took_s < 3600


def test_a_clock_that_is_set_makes_no_lease_old(metrics: WorkerMetrics, monkeypatch: pytest.MonkeyPatch) -> None:
    later = time.time() + 3600
    monkeypatch.setattr(time, "time", lambda: later)
    assert 0 <= (metrics.registry.get_sample_value("mcqueue_lease_age_seconds") or 0.0) < PATIENCE_S


def test_boots_go_on_counting_over_processes(metrics: WorkerMetrics) -> None:
    metrics.booted_before(3)
    assert read(metrics.registry, "mcqueue_engine_boots_total") == 3, "else three would be counted again afterwards"
    metrics.booted(3.5)
    assert read(metrics.registry, "mcqueue_engine_boots_total") == 4
    assert read(metrics.registry, "mcqueue_engine_boot_seconds") == 3.5


class _Machine:
    """Two GPUs, of which the second one does not tell its temperature."""

    def gpus(self) -> list[Gpu]:
        return [Gpu("0", 0.93, 70_000, 80_000, 61.0), Gpu("1", 0.5, 1, 2, None)]

    def host(self) -> Host:
        return Host(0.25, 1000, 2000, None)


def test_gpus_are_told_apart_and_what_nobody_knows_is_left_out() -> None:
    registry = CollectorRegistry()
    registry.register(HardwareMetrics(cast(Hardware, _Machine())))
    assert read(registry, "mcqueue_gpu_utilization_ratio", gpu="0") == 0.93
    assert read(registry, "mcqueue_gpu_memory_total_bytes", gpu="1") == 2
    assert read(registry, "mcqueue_gpu_temperature_celsius", gpu="1") is None
    assert read(registry, "mcqueue_cpu_utilization_ratio") == 0.25
    assert read(registry, "mcqueue_cpu_temperature_celsius") is None


def test_a_machine_without_the_named_gpu_tells_of_none() -> None:
    hardware = Hardware(["4711"])
    assert hardware.gpus() == []
    busy = hardware.busy()
    assert busy is not None
    assert 0.0 <= busy <= 1.0
    assert hardware.host().memory_used_bytes > 1_000_000


def test_a_worker_that_uses_its_containers_whole_quota_is_busy_however_many_cores_it_sees(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A quota of one and a half cores, of which the process uses 1.2 for ten seconds."""
    clock, used_s = iter([100.0, 110.0]), iter([5.0, 17.0])
    monkeypatch.setattr("workers.monitoring.hardware.time.monotonic", lambda: next(clock))
    monkeypatch.setattr("workers.monitoring.hardware._cpu_seconds", lambda _: next(used_s))
    monkeypatch.setattr("workers.monitoring.hardware.usable_cores", lambda: 1.5)
    assert Hardware().busy() == pytest.approx(0.8)


def test_a_machine_that_does_not_list_a_worker_s_children_is_no_reason_for_no_metrics(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refused(*_: object, **__: object) -> list[psutil.Process]:
        raise psutil.AccessDenied

    monkeypatch.setattr(psutil.Process, "children", refused)
    host = Hardware().host()
    assert host.memory_used_bytes > 1_000_000, "its own"


def has_ipv6() -> bool:
    try:
        with socket.create_server(("::1", 0), family=socket.AF_INET6):
            return True
    except OSError:
        return False


@pytest.fixture
def exporters() -> Iterator[list[Exporter]]:
    made: list[Exporter] = []
    yield made
    for each in made:
        each.close()


def fetch(place: str, path: str) -> str:
    with urllib.request.urlopen(f"http://{place}{path}", timeout=PATIENCE_S) as answer:
        return str(answer.read().decode())


def refusal(place: str, path: str) -> int:
    """Return the status with which the page is refused."""
    with pytest.raises(urllib.error.HTTPError) as refused:
        fetch(place, path)
    refused.value.close()
    return refused.value.code


def test_workers_on_one_machine_take_ports_next_to_each_other(exporters: list[Exporter]) -> None:
    first, places = free_port(), []
    for number in range(3):
        registry = CollectorRegistry()
        Counter("mine", "Which one.", ["number"], registry=registry).labels(str(number)).inc()
        exporters.append(Exporter([registry], targets=list))
        places.append(exporters[-1].start("127.0.0.1", first, "me"))
    assert len(set(places)) == 3
    assert all(int(place.removeprefix("127.0.0.1:")) >= first for place in places)
    for number, place in enumerate(places):
        assert f'mine_total{{number="{number}"}} 1.0' in fetch(place, "/metrics")


def test_a_worker_that_comes_again_has_the_port_that_is_known_though_old_connections_linger_there(
    exporters: list[Exporter],
) -> None:
    port = free_port()
    exporters += [Exporter([], targets=list) for _ in range(2)]
    place = exporters[0].start("127.0.0.1", port, "me")
    assert fetch(place, "/health") == "ok\n", "the server ends the connection, and so it is its port that waits"
    exporters[0].close()
    assert exporters[1].start("127.0.0.1", port, "me") == place
    assert fetch(place, "/health") == "ok\n"


def test_others_are_sent_where_they_can_go(exporters: list[Exporter]) -> None:
    exporters += [Exporter([], targets=list) for _ in range(3)]
    port = free_port()
    assert exporters[0].start("0.0.0.0", port, "10.0.0.5").startswith("10.0.0.5:")
    assert exporters[1].start("0.0.0.0", port, "fd00::5").startswith("[fd00::5]:")
    assert exporters[2].start("127.0.0.1", port, "10.0.0.5").startswith("127.0.0.1:"), "nobody else can"


@pytest.mark.skipif(not has_ipv6(), reason="this machine has no IPv6 loopback address")
def test_metrics_are_served_at_an_ipv6_address(exporters: list[Exporter]) -> None:
    exporters += [Exporter([], targets=list) for _ in range(2)]
    port = free_port()
    places = [each.start("::1", port, "me") for each in exporters]
    assert [fetch(place, "/health") for place in places] == ["ok\n"] * 2
    assert places[0].startswith("[::1]:")
    assert places[0] != places[1]


def test_no_name_server_keeps_a_boot_waiting(exporters: list[Exporter], monkeypatch: pytest.MonkeyPatch) -> None:
    lookup = Mock(return_value="somewhere")
    monkeypatch.setattr("socket.getfqdn", lookup)
    exporters.append(Exporter([], targets=list))
    assert fetch(exporters[0].start("127.0.0.1", free_port(), "me"), "/health") == "ok\n"
    lookup.assert_not_called()


def test_without_a_free_port_a_worker_goes_on_without_metrics(
    exporters: list[Exporter], caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("workers.monitoring.exporter.PORTS", 1)
    exporters += [Exporter([], targets=list) for _ in range(2)]
    port = free_port()
    exporters[0].start("127.0.0.1", port, "me")
    assert exporters[1].start("127.0.0.1", port, "me") == ""
    assert f"no metrics: no free port from {port} to {port} at metrics_address 127.0.0.1" in caplog.text


def test_at_an_address_of_another_machine_a_worker_goes_on_without_metrics_and_names_the_setting(
    exporters: list[Exporter], caplog: pytest.LogCaptureFixture
) -> None:
    exporters.append(Exporter([], targets=list))
    assert exporters[0].start("198.51.100.1", 9400, "me") == ""
    assert "no metrics: they cannot be served at metrics_address 198.51.100.1: " in caplog.text


def test_the_page_holds_what_libraries_count_in_this_process(exporters: list[Exporter]) -> None:
    exporters.append(Exporter([], targets=list))
    page = fetch(exporters[0].start("127.0.0.1", free_port(), "me"), "/metrics")
    assert "process_resident_memory_bytes" in page


def test_a_connection_without_a_request_does_not_keep_a_thread(
    exporters: list[Exporter], monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    assert _Quiet.timeout is not None
    monkeypatch.setattr(_Quiet, "timeout", 0.05)
    exporters.append(Exporter([], targets=list))
    host, _, port = exporters[0].start("127.0.0.1", free_port(), "me").partition(":")
    with socket.create_connection((host, int(port)), timeout=PATIENCE_S) as idle:
        assert idle.recv(1) == b"", "it is closed"
    assert fetch(f"{host}:{port}", "/health") == "ok\n"
    assert "Traceback" not in capfd.readouterr().err


def test_targets_are_json_and_an_error_of_redis_is_no_empty_list(exporters: list[Exporter]) -> None:
    def away() -> list[dict[str, object]]:
        raise LedgerError("Redis is away.")

    targets = [{"targets": ["host:9400"], "labels": {"worker": "w"}}]
    exporters += [Exporter([], targets=lambda: targets), Exporter([], targets=away)]
    places = [each.start("127.0.0.1", free_port(), "me") for each in exporters]
    assert json.loads(fetch(places[0], "/targets")) == targets
    assert (refusal(places[1], "/targets"), refusal(places[0], "/else")) == (503, 404)


def test_a_worker_is_ready_while_it_takes_messages_and_healthy_all_along(exporters: list[Exporter]) -> None:
    ready = [False]
    exporters.append(Exporter([], targets=list, ready=lambda: ready[0]))
    place = exporters[0].start("127.0.0.1", free_port(), "me")
    assert fetch(place, "/health") == "ok\n"
    assert refusal(place, "/ready") == 503
    ready[0] = True
    assert fetch(place, "/ready") == "ok\n"


def test_names_and_texts_follow_prometheus_conventions(metrics: WorkerMetrics) -> None:
    metrics.registry.register(HardwareMetrics(cast(Hardware, _Machine())))
    page = generate_latest(metrics.registry)
    families = list(text_string_to_metric_families(page.decode()))
    assert all(each.name.startswith("mcqueue_") and each.documentation.endswith(".") for each in families)
    command = [needed_program("promtool"), "check", "metrics"]
    lint = subprocess.run(command, input=page, capture_output=True, check=False)
    assert (lint.returncode, lint.stderr.decode()) == (0, "")


def test_a_worker_that_may_have_no_thread_for_its_metrics_works_without_them(
    exporters: list[Exporter], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It neither booted nor ended, as it waited for that thread, so its launcher did not start it again."""

    def refuse(*_: object) -> NoReturn:
        raise RuntimeError("can't start new thread")

    exporters.append(Exporter([], targets=list))
    with monkeypatch.context() as full:
        full.setattr(threading.Thread, "start", refuse)
        assert exporters[0].start("127.0.0.1", free_port(), "host") == ""
    assert [each.message for each in caplog.records] == ["no metrics: can't start new thread"]
    ending = threading.Thread(target=exporters.pop().close, daemon=True)
    ending.start()
    ending.join(PATIENCE_S)
    assert not ending.is_alive()
