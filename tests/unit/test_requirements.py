"""requirements/: an environment's packages are all named, each with one exact version."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from scripts import python_version
from tests.support import ROOT

FILES = sorted((ROOT / "requirements").glob("*.txt"))
#: models.txt is left out: of its packages only the weights are wanted.
COMMON = ("base", "dev", "hf", "retrieval")
#: What the CPU build does without, or gets from elsewhere: see the head of cpu.txt.
NOT_FOR_CPUS = {"torch", "torchaudio", "torchcodec", "torchvision", "triton"}

#: What markers may ask for.
ENVIRONMENTS = [
    {"python_version": f"3.{minor}", "python_full_version": f"3.{minor}.0", "platform_machine": machine}
    for minor in range(python_version.OLDEST[1], python_version.NEWEST[1] + 1)
    for machine in ("x86_64", "aarch64")
]
everywhere = pytest.mark.parametrize("environment", ENVIRONMENTS, ids=lambda each: " ".join(each.values()))
for_both_builds = pytest.mark.parametrize("variant", ["cpu", "gpu"])


def requirements(path: Path) -> list[Requirement]:
    return [Requirement(line) for line in path.read_text().splitlines() if line and not line.startswith("#")]


def exact(requirement: Requirement) -> list[str]:
    return [each.version for each in requirement.specifier if each.operator == "==" and "*" not in each.version]


def pinned(variant: str, environment: dict[str, str]) -> dict[str, set[str]]:
    """The versions that the files of an environment name for each package."""
    versions: dict[str, set[str]] = {}
    for name in (*COMMON, variant):
        for each in requirements(ROOT / f"requirements/{name}.txt"):
            if each.marker is None or each.marker.evaluate(environment):
                versions.setdefault(canonicalize_name(each.name), set()).update(exact(each))
    return versions


@cache
def installed(name: str) -> tuple[str, list[Requirement]]:
    """The version of a package that is installed here, and what it needs; an empty version if none is."""
    try:
        return metadata.version(name), [Requirement(each) for each in metadata.requires(name) or ()]
    except metadata.PackageNotFoundError:
        return "", []


def needed(pins: dict[str, set[str]], environment: dict[str, str]) -> Iterator[tuple[str, Requirement]]:
    """What the pinned packages need in turn, as far as they are installed here, and which of them does."""
    waiting, seen = [(name, "") for name in pins], set()
    while waiting:
        name, extra = waiting.pop()
        version, its_needs = installed(name)
        if (name, extra) in seen or version not in pins.get(name, ()):
            continue
        seen.add((name, extra))
        for each in its_needs:
            if each.marker is None or each.marker.evaluate({**environment, "extra": extra}):
                yield name, each
                waiting += [(canonicalize_name(each.name), more) for more in ("", *each.extras)]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_package_has_one_exact_version(path: Path) -> None:
    assert [str(each) for each in requirements(path) if len(exact(each)) != 1] == []


@everywhere
@for_both_builds
def test_the_files_of_an_environment_do_not_contradict_each_other(variant: str, environment: dict[str, str]) -> None:
    pins = pinned(variant, environment)
    assert {name: versions for name, versions in pins.items() if len(versions) > 1} == {}


@everywhere
@for_both_builds
def test_what_a_pinned_package_needs_is_pinned_too_and_to_a_version_that_it_takes(
    variant: str, environment: dict[str, str]
) -> None:
    pins = pinned(variant, environment)
    elsewhere = NOT_FOR_CPUS if variant == "cpu" else set()
    wrong = [
        f"{package} needs {need}, pinned: {', '.join(pins.get(name, ())) or 'nothing'}"
        for package, need in needed(pins, environment)
        if (name := canonicalize_name(need.name)) not in elsewhere
        if not list(need.specifier.filter(pins.get(name, ()), prereleases=True))
    ]
    assert wrong == []
