"""configs/hpc: what job scripts ask of a scheduler fits what they do. tests/integration/test_recipes.py runs them."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from contract.settings import load_fleet
from producer.runs.runconfig import load_run_config
from tests.support import ROOT, needed_program

FOLDER = ROOT / "configs" / "hpc"
JOBS = {"slurm.sh": "#SBATCH", "pbs.sh": "#PBS"}
#: What exporting and ending the server may take after the workers drained.
EXPORT_S = 30


def text(name: str) -> str:
    return (FOLDER / name).read_text()


@pytest.mark.parametrize("file", sorted(FOLDER.iterdir()), ids=lambda file: file.name)
def test_a_script_has_no_fault_that_shellcheck_knows(file: Path) -> None:
    checked = [needed_program("shellcheck"), "--external-sources", str(file)]
    done = subprocess.run(checked, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(("name", "sign"), JOBS.items())
def test_a_scheduler_reads_every_option_of_its_script(name: str, sign: str) -> None:
    lines = text(name).splitlines()
    first_command = next(i for i, line in enumerate(lines) if line and not line.startswith("#"))
    assert any(line.startswith(f"{sign} -") for line in lines)
    assert not any(line.startswith(sign) for line in lines[first_command:]), "options behind a command are ignored"


def defaults() -> dict[str, str]:
    return dict(re.findall(r"(?m)^([A-Z_]+)=\$\{\1:-(.+)\}$", text("job.sh")))


def test_what_is_taken_by_default_is_there() -> None:
    load_run_config(ROOT / defaults()["RUN_CONFIG"], [])
    assert (ROOT / defaults()["QUESTIONS"]).is_file()


def test_workers_drain_and_results_are_written_within_the_warning() -> None:
    (settings,) = load_fleet(ROOT / defaults()["DEPLOY"])
    (slurm,) = re.findall(r"--signal=B:TERM@(\d+)", text("slurm.sh"))
    (pbs,) = re.findall(r"walltime_s - (\d+)", text("pbs.sh"))
    assert int(slurm) == int(pbs) >= settings.drain_timeout_s + EXPORT_S


def test_pbs_is_watched_by_the_walltime_that_it_was_asked_for() -> None:
    (hours,) = re.findall(r"walltime=(\d+):00:00", text("pbs.sh"))
    assert f"$(({int(hours)} * 3600))" in text("pbs.sh")
