"""compose.yaml, the Dockerfile and configs/ promise things to each other and to the settings. No Docker is needed."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib
from importlib.metadata import Distribution
from pathlib import Path
from typing import Any, cast

import pytest
import yaml
from packaging.requirements import Requirement

from contract import variables
from contract.settings import PREFIX, Settings, load_settings
from demo.valkey import CONFIGURATION
from producer.runs.runconfig import load_run_config

ROOT = Path(__file__).resolve().parents[2]
DEPLOY_FILES = sorted((ROOT / "configs" / "deploy").glob("*.yaml"))

Service = dict[str, Any]
SERVICES = cast("dict[str, Service]", yaml.safe_load((ROOT / "compose.yaml").read_text())["services"])
DOCKERFILE = (ROOT / "Dockerfile").read_text()
WORKERS = ("worker-cpu", "worker-gpu")


def bare(value: str) -> str:
    """`value` as compose reads it where nobody set a variable: `${NAME:-default}` is its default."""
    return re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", value)


def stages() -> dict[str, str]:
    """The Dockerfile's stages by name, each with the lines of the stages it is built from."""
    found: dict[str, str] = {}
    for block in re.split(r"(?m)^(?=FROM )", DOCKERFILE)[1:]:
        parent, name = re.findall(r"FROM (\S+) AS (\S+)", block)[0]
        found[name] = found.get(parent, "") + block
    return found


def let_through() -> list[str]:
    """What .dockerignore leaves in the build's context; everything but that is ignored."""
    lines = (ROOT / ".dockerignore").read_text().splitlines()
    return [line[1:] for line in lines if line.startswith("!")]


def environment(service: Service) -> dict[str, str]:
    return {name: bare(value or "") for name, value in service.get("environment", {}).items()}


def host_paths(service: Service) -> list[str]:
    """What a service mounts from this repository; named volumes are not."""
    sources = [source for source, *_ in volumes(service)]
    return [each for each in sources if each.startswith(".")]


def volumes(service: Service) -> list[list[str]]:
    """What a service mounts: source, target, and whether only to read."""
    return [bare(each).split(":") for each in service.get("volumes", ())]


def redis_configuration() -> dict[str, str]:
    lines = (line.partition("#")[0].split(maxsplit=1) for line in (ROOT / "configs/redis.conf").read_text().split("\n"))
    return {line[0]: line[1].strip() for line in lines if line}


def seconds(text: str) -> float:
    """A compose duration of one unit."""
    number, unit = re.findall(r"^(\d+)(s|m)$", text)[0]
    return float(number) * {"s": 1, "m": 60}[unit]


@pytest.mark.parametrize("name", [name for name, service in SERVICES.items() if "build" in service])
def test_every_image_of_ours_is_a_target_of_the_dockerfile(name: str) -> None:
    service = SERVICES[name]
    assert service["build"]["target"] in stages()
    assert service["image"] == f"mcqueue:{service['build']['target']}"


@pytest.mark.parametrize("target", ["base", "cpu", "gpu"])
def test_no_image_runs_as_root_and_every_one_ends_on_sigterm(target: str) -> None:
    stage = stages()[target]
    users = re.findall(r"(?m)^USER (\S+)", stage)
    assert users[-1] == "1000:1000"
    assert re.findall(r"(?m)^STOPSIGNAL (\S+)", stage) == ["SIGTERM"]


@pytest.mark.parametrize("target", ["base", "cpu"])
def test_only_the_gpu_image_has_a_compiler(target: str) -> None:
    assert not re.search(r"g\+\+ |gcc|clang|build-essential", re.sub(r"(?m)^#.*", "", stages()[target]))


def test_the_cpu_image_does_without_a_compiler_at_run_time() -> None:
    assert "ENV TORCH_COMPILE_DISABLE=1" in stages()["cpu"]


def test_everything_copied_into_an_image_exists_and_is_let_through() -> None:
    for name in let_through():
        assert (ROOT / name).exists(), name
    copied = [word for line in re.findall(r"(?m)^COPY (.+)$", DOCKERFILE) for word in line.split()[:-1] if word != "."]
    assert copied
    for name in copied:
        assert (ROOT / name).is_file(), name
        assert any(name == each or name.startswith(f"{each}/") for each in let_through()), name


@pytest.mark.parametrize("target", ["base", "cpu", "gpu"])
def test_every_image_installs_the_source_that_it_copied(target: str) -> None:
    # Without that no worker booted in a container: it asks for its own version.
    lines = re.findall(r"(?m)^(?:COPY \. \.|RUN pip install .*--editable \.)", stages()[target])
    assert lines == ["COPY . .", "RUN pip install --no-deps --no-build-isolation --editable ."]


def test_what_an_image_is_built_from_is_enough_to_install_it(tmp_path: Path) -> None:
    context, installed = tmp_path / "context", tmp_path / "installed"
    for name in let_through():
        (context / name).parent.mkdir(parents=True, exist_ok=True)
        (shutil.copytree if (ROOT / name).is_dir() else shutil.copyfile)(ROOT / name, context / name)
    installed.mkdir()
    make = "import sys; from setuptools import build_meta as ours; ours.prepare_metadata_for_build_wheel(sys.argv[1])"
    subprocess.run(
        [sys.executable, "-Werror", "-c", make, installed], cwd=context, check=True, capture_output=True, timeout=120
    )
    [folder] = installed.glob("*.dist-info")
    ours = Distribution.at(folder)
    assert ours.metadata["Name"] == "mcqueue"
    [plugin] = ours.entry_points.select(group="vllm.general_plugins")
    assert (context / plugin.module.replace(".", "/")).with_suffix(".py").is_file()


def test_the_images_have_a_pinned_setuptools_that_can_install_the_source() -> None:
    pinned = dict(
        line.split("==") for line in (ROOT / "requirements/base.txt").read_text().splitlines() if "==" in line
    )
    [wanted] = map(Requirement, tomllib.loads((ROOT / "pyproject.toml").read_text())["build-system"]["requires"])
    assert pinned[wanted.name] in wanted.specifier


@pytest.mark.parametrize("name", WORKERS)
def test_a_worker_image_starts_the_launcher_and_says_when_it_is_ready(name: str) -> None:
    stage = stages()[SERVICES[name]["build"]["target"]]
    assert 'ENTRYPOINT ["python", "-m", "workers"]' in stage
    assert 'CMD ["up", ' in stage
    assert re.search(r"(?m)^HEALTHCHECK ", stage)


@pytest.mark.parametrize("name", SERVICES)
def test_every_mounted_file_exists(name: str) -> None:
    for path in host_paths(SERVICES[name]):
        assert (ROOT / path).exists(), f"{path}: Docker would make it, and root would own it"


def test_an_index_is_found_under_the_name_that_the_run_says() -> None:
    # In a container a run with retrieval found no index: nobody had mounted the folder.
    named = Path(load_run_config(ROOT / "configs/runs/rag.yaml").rag.index)
    for name in ("producer", *WORKERS):
        mounted = {target: (source, mode) for source, target, *mode in volumes(SERVICES[name])}
        assert re.findall(r"(?m)^WORKDIR (\S+)", stages()[SERVICES[name]["build"]["target"]]) == ["/app"]
        source, mode = mounted[f"/app/{named.parent}"]
        assert ROOT / source == ROOT / named.parent
        assert mode == ([] if name == "producer" else ["ro"]), "the producer builds it"


@pytest.mark.parametrize("name", WORKERS)
def test_the_indexes_that_a_worker_searches_can_be_named_without_touching_its_deploy_file(name: str) -> None:
    # No value of its own: an empty one would lie over the deploy file's.
    assert SERVICES[name]["environment"]["MCQUEUE_INDEXES"] is None


def test_redis_keeps_what_it_is_given() -> None:
    configuration = redis_configuration()
    assert configuration["appendonly"] == "yes"
    assert configuration["appendfsync"] == "everysec"
    assert configuration["maxmemory-policy"] == "noeviction"
    sources = dict(each.split(":")[:2] for each in SERVICES["redis"]["volumes"])
    assert sources["redis"] == "/data"
    assert sources["./configs/redis.conf"] in SERVICES["redis"]["command"]


def test_redis_in_a_container_is_configured_as_the_embedded_one() -> None:
    configuration = redis_configuration()
    for name, value in CONFIGURATION.items():
        assert configuration[name] == (" ".join(value) if isinstance(value, list) else value)


def test_redis_is_pinned_and_says_when_it_answers() -> None:
    assert re.fullmatch(r"[\w/]+:\d+\.\d+\.\d+", SERVICES["redis"]["image"])
    assert "cli ping" in SERVICES["redis"]["healthcheck"]["test"][1]


@pytest.mark.parametrize("name", SERVICES)
def test_nothing_is_published_beyond_loopback(name: str) -> None:
    for port in SERVICES[name].get("ports", ()):
        assert bare(port).startswith("127.0.0.1:")


@pytest.mark.parametrize("name", [name for name, service in SERVICES.items() if "build" in service])
def test_everything_waits_for_redis_and_finds_it(name: str) -> None:
    assert SERVICES[name]["depends_on"] == {"redis": {"condition": "service_healthy"}}
    assert environment(SERVICES[name])["MCQUEUE_REDIS_URL"] == "redis://redis:6379/0"


@pytest.mark.parametrize("name", ["prometheus", "grafana"])
def test_what_is_not_ours_is_pinned_and_started_by_a_profile_of_its_own(name: str) -> None:
    assert re.fullmatch(r"[\w/]+:v?\d+\.\d+\.\d+", SERVICES[name]["image"])
    assert SERVICES[name]["profiles"] == ["metrics"]


def test_prometheus_asks_the_workers_where_they_serve_their_metrics() -> None:
    scraped = yaml.safe_load((ROOT / "configs/prometheus/prometheus.yml").read_text())["scrape_configs"][0]
    port = Settings.model_fields["metrics_port"].default
    assert [each["url"] for each in scraped["http_sd_configs"]] == [f"http://{name}:{port}/targets" for name in WORKERS]
    for name in WORKERS:
        assert environment(SERVICES[name])["MCQUEUE_METRICS_ADDRESS"] == "0.0.0.0"


def test_flower_asks_for_a_password_and_only_shows() -> None:
    flower = environment(SERVICES["flower"])
    assert re.fullmatch(r"\S+:\S+", flower["FLOWER_BASIC_AUTH"])
    assert flower["FLOWER_READ_ONLY"] == "true"


@pytest.mark.parametrize("name", SERVICES)
def test_no_secret_is_an_argument(name: str) -> None:
    arguments = " ".join(SERVICES[name].get("entrypoint", []) + SERVICES[name].get("command", []))
    assert "://" not in arguments
    assert "auth" not in arguments


def test_the_gpu_worker_reserves_every_gpu() -> None:
    reserved = SERVICES["worker-gpu"]["deploy"]["resources"]["reservations"]["devices"]
    assert reserved == [{"driver": "nvidia", "count": "all", "capabilities": ["gpu"]}]
    assert "deploy" not in SERVICES["worker-cpu"]


@pytest.mark.parametrize("name", WORKERS)
def test_a_worker_is_given_longer_to_stop_than_it_takes_to_drain(name: str) -> None:
    settings = load_settings(ROOT / environment(SERVICES[name])["MCQUEUE_CONFIG"])
    assert seconds(SERVICES[name]["stop_grace_period"]) > settings.drain_timeout_s


@pytest.mark.parametrize("name", WORKERS)
def test_a_workers_models_outlive_its_container(name: str) -> None:
    assert "models:/models" in SERVICES[name]["volumes"]
    assert "XDG_CACHE_HOME=/models" in stages()[SERVICES[name]["build"]["target"]]


@pytest.mark.parametrize("name", SERVICES)
def test_every_variable_of_ours_is_a_known_setting(name: str) -> None:
    for variable in environment(SERVICES[name]):
        if variable.startswith(PREFIX) and variable not in variables.NO_SETTINGS:
            assert variable.removeprefix(PREFIX).split("__")[0].lower() in Settings.model_fields


@pytest.mark.parametrize("name", ["producer", *WORKERS])
def test_the_named_deploy_file_is_one_that_is_mounted(name: str) -> None:
    assert ROOT / environment(SERVICES[name])["MCQUEUE_CONFIG"] in DEPLOY_FILES
    assert "./configs:/app/configs:ro" in SERVICES[name]["volumes"]


def test_without_gpus_the_producer_asks_the_model_that_the_worker_serves() -> None:
    files = {environment(SERVICES[name])["MCQUEUE_CONFIG"] for name in ("producer", "worker-cpu")}
    assert len(files) == 1


def test_only_what_is_asked_for_starts_beside_redis_and_flower() -> None:
    assert {name for name, service in SERVICES.items() if "profiles" not in service} == {"redis", "flower"}


def test_one_variable_names_the_deploy_file_of_producer_and_workers_so_that_all_mean_the_same_model() -> None:
    for name in ("producer", *WORKERS):
        assert SERVICES[name]["environment"]["MCQUEUE_CONFIG"].startswith("${MCQUEUE_CONFIG:-")
