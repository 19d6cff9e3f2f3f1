"""configs/kubernetes: manifests are what Kubernetes and KEDA take, and what they name exists. No cluster is needed."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import click
import kubernetes_validate
import pytest
import yaml

from contract import keys, variables
from contract.priority import Priority
from contract.settings import PREFIX, load_fleet, load_settings
from demo.valkey import CONFIGURATION
from producer.cli import main as producer
from producer.options import CANCELLED, SOME_FAILED
from producer.runs.runconfig import load_run_config
from tests.keda import ScaledObject, ScaledObjectSpec, TriggerAuthentication
from tests.support import ROOT
from tests.unit.test_compose import SERVICES, stages
from workers.cli import main as workers
from workers.gpus.groups import Device
from workers.host.diagnostics import check_batching
from workers.host.machine import Machine
from workers.host.placement import SettingsSources, plan_host
from workers.host.remote_control import GRACE_S

FOLDER = ROOT / "configs" / "kubernetes"
SETTINGS = FOLDER / "settings"
KUSTOMIZATION = yaml.safe_load((FOLDER / "kustomization.yaml").read_text())
#: Of the schemas' two flavours the strict one: it knows no field that Kubernetes does not.
KUBERNETES = "1.37"
#: Applied by hand: what needs KEDA, and jobs, which are made anew each time.
BY_HAND = ("keda.yaml", "index.yaml", "enqueue.yaml")

Manifest = dict[str, Any]


def manifests() -> Iterator[tuple[str, Manifest]]:
    for name in (*KUSTOMIZATION["resources"], *BY_HAND):
        for manifest in yaml.safe_load_all((FOLDER / name).read_text()):
            yield name, cast(Manifest, manifest)


ALL = list(manifests())
KEDA = [(name, each) for name, each in ALL if each["apiVersion"].startswith("keda.sh/")]
PODS = {
    f"{name}: {each['kind']}": each["spec"]["template"]["spec"]
    for name, each in ALL
    if each["kind"] in {"Deployment", "StatefulSet", "Job"}
}
CONTAINERS = {f"{place}: {each['name']}": (pod, each) for place, pod in PODS.items() for each in pod["containers"]}
OURS = {place: found for place, found in CONTAINERS.items() if "mcqueue" in found[1]["image"]}


def named(kind: str) -> dict[str, Manifest]:
    return {each["metadata"]["name"]: each for _, each in ALL if each["kind"] == kind}


def label(found: tuple[str, Manifest]) -> str:
    return f"{found[0]}: {found[1]['kind']}"


@pytest.mark.parametrize("found", [each for each in ALL if each not in KEDA], ids=label)
def test_a_manifest_is_what_kubernetes_takes(found: tuple[str, Manifest]) -> None:
    kubernetes_validate.validate(found[1], KUBERNETES, strict=True)


def test_a_field_that_kubernetes_does_not_know_is_noticed() -> None:
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate({**named("Service")["redis"], "spek": {}}, KUBERNETES, strict=True)


def test_what_is_for_keda_is_what_keda_takes() -> None:
    kinds = {each.__name__: each for each in (ScaledObject, TriggerAuthentication)}
    assert {each["kind"] for _, each in KEDA} == kinds.keys()
    for _, each in KEDA:
        kinds[each["kind"]].model_validate(each)
    behaviour = scaled().advanced.horizontalPodAutoscalerConfig["behavior"]
    autoscaler = {"scaleTargetRef": scaled().scaleTargetRef.model_dump(), "maxReplicas": 1, "behavior": behaviour}
    made = {"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": {"name": "x"}}
    kubernetes_validate.validate({**made, "spec": autoscaler}, KUBERNETES, strict=True)


def scaled() -> ScaledObjectSpec:
    return ScaledObject.model_validate(named("ScaledObject")["worker"]).spec


def test_keda_counts_the_lists_that_the_model_is_sent_and_finds_what_it_names() -> None:
    queue = keys.score_queue(load_settings(SETTINGS / "worker.yaml").served_model)
    lists = dict(zip(keys.PRIORITY_STEPS, keys.broker_lists(queue), strict=True))
    expected = {priority.name.lower(): lists[priority] for priority in Priority} | {"runs": keys.open_runs()}
    spec = scaled()
    assert {each.name: each.metadata.listName for each in spec.triggers} == expected
    assert set(re.findall(r"[a-z]+(?!\()\b", spec.advanced.scalingModifiers.formula)) - {"min"} == expected.keys()
    assert spec.scaleTargetRef.name in named(spec.scaleTargetRef.kind)
    service = named("Service")["redis"]
    place = f"redis.{KUSTOMIZATION['namespace']}.svc.cluster.local:{service['spec']['ports'][0]['port']}"
    assert {each.metadata.address for each in spec.triggers} == {place}
    assert {each.authenticationRef.name for each in spec.triggers} <= named("TriggerAuthentication").keys()


def test_every_file_is_applied_and_every_name_of_the_kustomization_exists() -> None:
    assert {*KUSTOMIZATION["resources"], *BY_HAND, "kustomization.yaml"} == {
        file.name for file in FOLDER.glob("*.yaml")
    }
    (generated,) = KUSTOMIZATION["configMapGenerator"]
    assert {FOLDER / each for each in generated["files"]} == set(SETTINGS.iterdir())
    explained = (FOLDER / "kustomization.yaml").read_text()
    assert all(f"configs/kubernetes/{name}" in explained for name in BY_HAND)
    assert KUSTOMIZATION["namespace"] in named("Namespace")
    assert (
        {each["name"].partition("-")[2] for each in KUSTOMIZATION["images"]}
        == {"base", "cpu", "gpu"}
        <= stages().keys()
    )


def secrets() -> set[str]:
    (generated,) = KUSTOMIZATION["secretGenerator"]
    assert generated["name"] == "secrets"
    lines = [line for name in generated["envs"] for line in (FOLDER / name).read_text().split()]
    return {line.partition("=")[0] for line in lines}


@pytest.mark.parametrize("place", CONTAINERS)
def test_a_container_names_what_exists(place: str) -> None:
    pod, container = CONTAINERS[place]
    for variable in container.get("env", ()):
        reference = variable.get("valueFrom", {}).get("secretKeyRef")
        assert reference is None or (reference["name"] == "secrets" and reference["key"] in secrets()), variable
    owner = next(each for _, each in ALL if each.get("spec", {}).get("template", {}).get("spec") == pod)
    claimed = {each["metadata"]["name"] for each in owner["spec"].get("volumeClaimTemplates", ())}
    volumes = {each["name"]: each for each in pod.get("volumes", ())}
    assert {each["name"] for each in container["volumeMounts"]} == volumes.keys() | claimed
    for volume in volumes.values():
        if "configMap" in volume:
            assert volume["configMap"]["name"] in {*named("ConfigMap"), "settings"}
        if "persistentVolumeClaim" in volume:
            assert volume["persistentVolumeClaim"]["claimName"] in named("PersistentVolumeClaim")
    ports = {each["name"]: each["containerPort"] for each in container.get("ports", ())}
    for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
        if "httpGet" in container.get(probe, {}):
            assert container[probe]["httpGet"]["port"] in ports


@pytest.mark.parametrize("name", named("Service"))
def test_a_service_finds_its_pods_and_their_port(name: str) -> None:
    service = named("Service")[name]["spec"]
    owner = next(
        each["spec"]["template"]
        for _, each in ALL
        if each["kind"] in {"Deployment", "StatefulSet"} and each["metadata"]["name"] == name
    )
    assert service["selector"] == owner["metadata"]["labels"]
    (offered,) = owner["spec"]["containers"][0]["ports"]
    assert [(each["targetPort"], each["port"]) for each in service["ports"]] == [
        (offered["name"], offered["containerPort"])
    ]


def words(container: Manifest) -> list[str]:
    """The command line of a container of ours: its own, or its image's entrypoint with its arguments."""
    if "command" in container:
        return [*container["command"], *container.get("args", ())]
    target = re.split(r"[-:]", container["image"])[-1]
    entrypoint = re.findall(r"(?m)^ENTRYPOINT (\[.+\])", stages()[target])[-1]
    return [*json.loads(entrypoint), *container.get("args", ())]


def parse(arguments: list[str]) -> click.Context:
    """`python -m producer|workers …` through our own parser, with nothing carried out. Raises click.UsageError."""
    python, option, package, *rest = arguments
    assert (python, option) == ("python", "-m")
    group: click.Group = {"producer": producer, "workers": workers}[package]
    context = group.make_context(package, rest)
    name, *own = [*context._protected_args, *context.args]
    command = group.get_command(context, name)
    assert command is not None, name
    return command.make_context(name, own, parent=context)


@pytest.mark.parametrize("place", OURS)
def test_every_command_is_one_of_ours(place: str) -> None:
    _, container = OURS[place]
    hook = container.get("lifecycle", {}).get("preStop", {}).get("exec", {}).get("command")
    if hook:
        assert hook[:2] == ["sh", "-c"]
        assert parse(hook[2].replace('"', "").removeprefix("exec ").split()).params["names"] == ("@$(hostname)",)
    if container["name"] == "flower":
        assert words(container) == SERVICES["flower"]["entrypoint"]
    else:
        parse(words(container))


@pytest.mark.parametrize("arguments", ["python -m workers pu", "python -m producer enqueue x --confg y"])
def test_a_command_that_is_none_is_noticed(arguments: str) -> None:
    with pytest.raises((click.UsageError, AssertionError)):
        parse(arguments.split())


@pytest.mark.parametrize("place", OURS)
def test_every_variable_of_ours_is_a_known_setting_and_names_a_file_that_is_mounted(place: str) -> None:
    _, container = OURS[place]
    given = {each["name"]: each.get("value", "") for each in container.get("env", ())}
    for name in given:
        if name.startswith(PREFIX) and name not in variables.NO_SETTINGS:
            assert name.removeprefix(PREFIX).lower() == "redis_url"
    mounted = [given[name] for name in ("MCQUEUE_CONFIG",) if name in given]
    mounted += [each for each in container.get("args", ()) if each.startswith("/etc/mcqueue/")]
    for path in mounted:
        assert (SETTINGS / Path(path).name).is_file()
        assert {"name": "settings", "mountPath": "/etc/mcqueue", "readOnly": True} in container["volumeMounts"]


@pytest.mark.parametrize("place", PODS)
def test_no_pod_runs_as_root_or_takes_a_services_variables_for_settings(place: str) -> None:
    pod = PODS[place]
    assert pod["enableServiceLinks"] is False
    assert pod["securityContext"]["runAsNonRoot"] is True
    for container in pod["containers"]:
        assert container["securityContext"]["allowPrivilegeEscalation"] is False
        assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
        assert "memory" in container["resources"]["limits"]


@pytest.mark.parametrize("name", ["worker", "retrieval"])
def test_a_pod_of_workers_has_longer_to_stop_than_its_hook_and_is_asked_where_it_answers(name: str) -> None:
    (settings,) = load_fleet(SETTINGS / f"{name}.yaml")
    manifest = next(each for _, each in ALL if each["kind"] != "Service" and each["metadata"].get("name") == name)
    pod = manifest["spec"]["template"]["spec"]
    assert pod["terminationGracePeriodSeconds"] >= settings.drain_timeout_s + GRACE_S + 30
    (container,) = pod["containers"]
    assert [each["containerPort"] for each in container["ports"]] == [settings.metrics_port]
    assert settings.metrics_address == "0.0.0.0"
    assert container["readinessProbe"]["httpGet"]["path"] == "/ready"
    alive = container["livenessProbe"]
    assert alive["httpGet"]["path"] == "/health"
    assert alive["periodSeconds"] * alive["failureThreshold"] > 2 * 60, "a launcher may pause, and Python imports"


def test_a_worker_pod_has_the_gpus_that_its_one_engine_uses() -> None:
    (settings,) = load_fleet(SETTINGS / "worker.yaml")
    pod = named("StatefulSet")["worker"]["spec"]["template"]["spec"]
    gpus = pod["containers"][0]["resources"]["limits"]["nvidia.com/gpu"]
    assert gpus == settings.gpus_per_worker
    devices = [Device(str(number), f"GPU-{number}") for number in range(gpus)]
    plans, warnings = plan_host([settings], Machine(devices, [0]), SettingsSources())
    assert (len(plans), warnings) == (1, [])
    assert {finding.level for finding in check_batching(settings)} == {"ok"}


def test_the_index_is_where_job_workers_and_producer_look() -> None:
    (settings,) = load_fleet(SETTINGS / "retrieval.yaml")
    (place,) = settings.indexes
    index, asked = (CONTAINERS[f"{name}.yaml: Job: {name}"][1] for name in ("index", "enqueue"))
    assert parse(words(index)).params["out"] == place
    assert yaml.safe_load((SETTINGS / "run.yaml").read_text())["rag"]["index"] == str(place)
    load_run_config(SETTINGS / "run.yaml", ["rag.enabled=false"])
    mounts = [each["mountPath"] for each in asked["volumeMounts"]]
    assert {str(place.parent), str(parse(words(asked)).params["out"])} <= set(mounts)


def test_a_job_is_not_repeated_where_that_changes_nothing() -> None:
    job = next(each for name, each in ALL if name == "enqueue.yaml")
    (rule,) = job["spec"]["podFailurePolicy"]["rules"]
    assert rule["onExitCodes"]["values"] == [2, SOME_FAILED, CANCELLED]


def test_redis_is_configured_as_the_embedded_one_and_has_its_disk_where_it_writes() -> None:
    lines = named("ConfigMap")["redis"]["data"]["redis.conf"].splitlines()
    configuration = dict(line.split(maxsplit=1) for line in lines)
    for name, value in CONFIGURATION.items():
        assert configuration[name] == (" ".join(value) if isinstance(value, list) else value)
    (container,) = named("StatefulSet")["redis"]["spec"]["template"]["spec"]["containers"]
    assert {each["name"]: each["mountPath"] for each in container["volumeMounts"]}["data"] == configuration["dir"]
    assert container["image"] == SERVICES["redis"]["image"]


def test_redis_refuses_writes_before_the_kernel_kills_it_even_while_its_file_is_rewritten() -> None:
    (maxmemory,) = re.findall(r"(?m)^maxmemory (\d+)gb$", named("ConfigMap")["redis"]["data"]["redis.conf"])
    (container,) = named("StatefulSet")["redis"]["spec"]["template"]["spec"]["containers"]
    (limit,) = re.findall(r"^(\d+)Gi$", container["resources"]["limits"]["memory"])
    assert 2 * int(maxmemory) <= int(limit), "a fork may need every page twice"


def test_no_secret_is_shipped_and_none_is_an_argument() -> None:
    for line in (FOLDER / "secrets.env").read_text().split():
        value = line.partition("=")[2]
        assert not value or "CHANGE-ME" in value
    for _, container in CONTAINERS.values():
        assert "://" not in " ".join([*container.get("command", ()), *container.get("args", ())])
