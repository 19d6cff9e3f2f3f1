"""The same questions through lm-evaluation-harness and through mcqueue: do they agree, and which is faster?

Every set is asked by likelihood and by letter, or in the given mode. FILE is JSON Lines with `id`, `question`,
`choices` and `answer` (index or label; in `mc2`, a list of them). Both sides run vLLM as installed here, on the same
weights, with the engine arguments of the deploy file, and get the same prompts (checked, text by text). lm_eval has its
own virtual environment in the workdir, which borrows this one's packages; mcqueue is asked by its commands, through an
embedded server and `python -m workers up`.

**Agreement**, in float32 (and again, for information, in the bfloat16 of the timed runs). Per choice: the absolute
difference of the log-likelihoods, in nats, summed over the choice's tokens. Per question: whether both choose the same,
by the sum (`acc`) and by the sum per character (`acc_norm`, from the same sums); of `mutual-info`, by the sum less that
without the question (`acc_mutual_info`), of which the differences are then taken. Noise is the 99th percentile of the
differences in that comparison; a disagreement is a near-tie if, on both sides, the two choices in question differ by
less than twice the noise (either score may be off by it). On a CPU, vLLM computes the same for a prompt whatever it is
batched with, so only mcqueue's kernel for normalisation (`workers/engines/cpu_norm.py`) makes a difference there, in
the last bit of float32. The rows called control compare lm_eval in float32 with mcqueue in bfloat16, which shows that a
difference would be detected.

**Several right choices** (`mc2`): the probability of all of them together, in each question by lm_eval's own function
for `truthfulqa_mc2`, and by mcqueue's `calibration.key_probability`, whose mean must be the one in summary.json.

**Speed**, in bfloat16, of the first `--timed` questions of each set, in `--rounds` rounds; in each, every set and mode
goes first through lm_eval and then through mcqueue, each with a freshly booted engine. The median counts. Start-up is
excluded on both sides.

- lm_eval: from its log line "Running loglikelihood requests" until its progress bar of that name is full: tokenising,
  inference, and reading the log-probabilities. `--batch_size auto` passes all requests to vLLM at once. Excluded:
  reading the questions, building the prompts, and the metrics.
- mcqueue: from publishing the first message to the last verdict, by the verdicts' own timestamps
  (settled_at - latency_ms - queued_ms, and settled_at): the path through Redis and Celery, building the prompts,
  tokenising, inference, reading and judging. Excluded: reading the file and writing the questions to the ledger.

**Chat templates** (`--chat`; `--turns`: with examples as turns, and the description as the system message). lm_eval
removes the template's trailing white space from the prompt, and counts it towards each choice; its log-likelihood,
computed by the same vLLM, is subtracted again. The rows called as logged compare the original figures.

**Tokens** in the prefills. lm_eval: prompt and continuation of each of its requests, one per choice, counted with the
model's tokenizer. mcqueue: the verdicts' `prefill_tokens`, of which `cached` came from the prefix cache.
"""

from __future__ import annotations

import json
import statistics
import sys
from argparse import ArgumentTypeError, Namespace
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.command import Parser, command_line, existing_file, from_zero, positive, run, writable_folder
from benchmarks.jsonl import read_rows
from benchmarks.peer.agreement import Answers, Compared, apart, compare, control_of, logged
from benchmarks.peer.chat import flags, shown_texts, white_space
from benchmarks.peer.lm_eval import (
    LM_EVAL,
    METRICS,
    MODES,
    TASKS,
    Case,
    Shots,
    Side,
    ask_peer,
    make_peer,
    read_peer,
    write_task,
)
from benchmarks.peer.mc2 import marked, mc2_of
from benchmarks.record import bars, print_table, without, write
from benchmarks.stand import (
    USERS_DEPLOY,
    Stand,
    ask_and_export,
    emptied,
    host,
    lasted_s,
    set_words,
    stand,
)
from contract.errors import InputError
from contract.question import LABELS, Question
from contract.settings import load_settings
from contract.spec import ChatTemplate, RunSpec
from contract.verdict import Verdict
from workers.engines.packaged import resolve
from workers.engines.vllm import prepare_environment

#: Columns of every table of answers, and of their log-likelihoods.
HEAD = ("set", "mode", "dtype", "questions")
DIFFERENCES = ("choices", "mean difference", "99 % below", "max difference")
COUNTED = {
    "difference": "absolute difference of a choice's log-likelihood in nats, summed over its tokens",
    "control": "lm_eval in float32 against mcqueue in bfloat16: a difference that must be detected",
    "as logged": "with the chat template's trailing white space counted towards every choice, as lm_eval does",
    "near-tie": "on both sides the two choices differ by less than twice the 99th percentile of the differences",
    "lm_eval s": "from log line 'Running loglikelihood requests' until its progress bar is full; --batch_size auto",
    "mcqueue s": "from publishing the first message to the last verdict, by the verdicts' own timestamps",
    "lm_eval tokens": "tokens of prompt + continuation over all its requests, one per choice",
    "mcqueue tokens": "prefill_tokens of all verdicts",
}


@dataclass(frozen=True)
class Bench:
    """Paths and the extent of the comparison."""

    workdir: Path
    #: A folder with tokenizer.json, which the lm_eval side reads.
    model: Path
    deploy: Path
    limit: int | None
    timed: int
    rounds: int
    reuse: bool
    cases: list[Case]
    shots: Shots | None
    chat: ChatTemplate
    #: The command line, which says where the record is written.
    options: Namespace

    def prepare(self, case: Case, questions: Sequence[Mapping[str, Any]], folder: Path) -> None:
        """Write the case as a task of lm_eval."""
        after_description = "" if self.chat is ChatTemplate.TURNS else "\n\n"
        write_task(case, questions, folder, self.shots, after_description)


def main() -> None:
    bench = parse()
    prepare_environment(str(bench.model))  # both sides inherit what mcqueue's engine would set itself
    questions = {case.set: read_questions(case.file, bench.limit) for case in bench.cases}
    python = make_peer(bench.workdir / "venv")
    answers = compare_exactly(bench, python, questions)
    spaces = spaces_of(bench, answers)
    compared = [*apart(answers, spaces), *logged(answers, spaces)]
    found = [compare(each, questions[each.case.set]) for each in compared]
    record(bench, found, [], spaces)  # so that the long part is kept, whatever happens to the rest
    timed = [time_round(bench, python, number) for number in range(bench.rounds)]
    if timed:
        control = [control_of(exact, rough.ours) for exact, rough in zip(answers, timed[0], strict=True)]
        found += [compare(each, questions[each.case.set]) for each in [*timed[0], *control]]
    speed = [speed_row(of_case) for of_case in zip(*timed, strict=True)]
    show(found, speed)
    path = record(bench, found, speed, spaces)
    print(path, draw(path, speed) if speed else "")


def parse() -> Bench:
    """Return the Bench of the command line."""
    parser = Parser(__doc__)
    parser.add_argument("sets", nargs="+", type=cases_of, metavar="SET[:MODE]=FILE", help=f"MODE: {', '.join(TASKS)}")
    parser.option("--limit", positive, None, "first N questions of each set", metavar="N")
    parser.option("--timed", positive, 50, "first N of them in the timed runs", metavar="N")
    parser.option("--rounds", from_zero, 2, "timed rounds; 0: none")
    shown = "reuse the float32 answers of an earlier run in the workdir"
    parser.add_argument("--reuse", action="store_true", help=shown)
    parser.option("--config", existing_file, USERS_DEPLOY, "deploy file")
    parser.option(
        "--workdir", writable_folder, Path(".mcqueue/lm-eval"), "folder for lm_eval's environment and all answers"
    )
    parser.option("--shots", from_zero, 0, "solved examples before every question: the first ones of --examples")
    parser.add_argument(
        "--examples", type=existing_file, metavar="FILE", help="examples, in the format of a set's FILE"
    )
    parser.option("--description", str, "", "text before the examples", metavar="TEXT")
    shown = "use the model's chat template, with everything in one turn"
    parser.add_argument("--chat", dest="chat", action="store_const", const=ChatTemplate.ALWAYS, help=shown)
    shown = "use the model's chat template, with each example in its own turns"
    parser.add_argument("--turns", dest="chat", action="store_const", const=ChatTemplate.TURNS, help=shown)
    options = parser.parse_args()
    if options.chat and options.rounds:
        parser.error("--chat and --turns cannot be timed; add --rounds 0")
    if options.chat is ChatTemplate.ALWAYS and options.description:
        parser.error("lm_eval turns a description into a system message; use --turns")
    if bool(options.shots) != bool(options.examples):
        parser.error("--shots and --examples must be used together")
    if options.description and not options.shots:
        parser.error("--description is asked before examples only; add --shots and --examples")
    cases = [case for several in options.sets for case in several]
    if len({case.task for case in cases}) < len(cases):
        parser.error("two sets have the same name and mode")
    shots = None
    if options.shots:
        shots = Shots(options.shots, options.examples, read_questions(options.examples, None), options.description)
    workdir = options.workdir.resolve()
    model = Path(resolve(load_settings(options.config).hf_model_id))
    if not (model / "tokenizer.json").is_file():
        raise InputError(f"{options.config}: {model} is no folder with a tokenizer.json.", hint="Download the model.")
    return Bench(
        workdir=workdir,
        model=model,
        deploy=options.config,
        limit=options.limit,
        timed=options.timed,
        rounds=options.rounds,
        reuse=options.reuse,
        cases=cases,
        shots=shots,
        chat=options.chat or ChatTemplate.NEVER,
        options=options,
    )


def cases_of(text: str) -> list[Case]:
    """Parse a set, with a mode or in both, for argparse."""
    name, equals, file = text.partition("=")
    name, colon, mode = name.partition(":")
    if not equals or (colon and mode not in TASKS):
        raise ArgumentTypeError(f"{text!r} is not SET[:MODE]=FILE with a MODE of {', '.join(TASKS)}")
    return [Case(name, existing_file(file), each) for each in ([mode] if colon else MODES)]


def vllm_args(bench: Bench, dtype: str) -> dict[str, Any]:
    """Return the engine arguments of both sides."""
    return load_settings(bench.deploy).vllm_args | {"dtype": dtype}


def read_questions(file: Path, limit: int | None) -> list[dict[str, Any]]:
    """Return the rows as a task of lm_eval needs them: with the labels, the answer as an index, and the right choices.

    Of several right choices, the first is the answer.
    """
    found = []
    for number, row in enumerate(read_rows(file)[:limit], 1):
        if missing := {"id", "question", "choices", "answer"} - row.keys():
            raise InputError(f"{file}:{number}: lacks {' and '.join(sorted(missing))}.")
        if not isinstance(row["choices"], list):
            raise InputError(f"{file}:{number}: its choices are not a list.")
        labels = list(LABELS[: len(row["choices"])])
        answers = row["answer"] if isinstance(row["answer"], list) else [row["answer"]]
        right = [labels.index(each) if each in labels else each for each in answers]
        if not right or any(each not in range(len(labels)) for each in right):
            raise InputError(f"{file}:{number}: answer {row['answer']!r} is no index or label of its choices.")
        shown = {name: row[name] for name in ("id", "question", "choices")}
        answer = {"answer": right[0], "mc2_targets": marked(labels, right)}
        found.append({**shown, "labels": labels, **answer})
    return found


@contextmanager
def served(bench: Bench, dtype: str, folder: Path) -> Iterator[Stand]:
    """Run mcqueue as a user would, with its logs in `folder`."""
    with stand(bench.deploy, vllm_args={"dtype": dtype}) as at, host(at, folder):
        yield at


def ask_mcqueue(case: Case, bench: Bench, limit: int | None, at: Stand, folder: Path) -> Side:
    """Ask `case` with the producer's commands."""
    shots = bench.shots
    overrides = [f"chat_template={bench.chat}"]
    if shots:
        overrides += [f"few_shot.k={shots.k}", f"few_shot.file={shots.file}"]
        overrides += [f"description={json.dumps(shots.description)}"]
    limited = ["--limit", str(limit)] if limit else []
    config = f"configs/runs/{TASKS[case.mode].config}.yaml"
    asked = [str(case.file), "--config", config, "--fresh", *set_words(overrides), *limited]
    ask_and_export(at, asked, folder / case.task)
    return read_mcqueue(case, bench.model, folder)


def read_mcqueue(case: Case, model: Path, folder: Path) -> Side:
    """Return scores, prompts, times and tokens of the exported run of `case`."""
    (exported,) = (folder / case.task).iterdir()
    summary = json.loads((exported / "summary.json").read_text())
    spec = RunSpec.model_validate(summary["spec"])
    pairs = exported_pairs(exported / "results.jsonl")
    for question, verdict in pairs:  # the choice we read is the one that it scored
        scores = [verdict.choice_scores[label] for label in question.labels]
        assert question.labels[int(np.argmax(scores))] == verdict.choice
    return Side(
        scores={question.id: [each.choice_scores[label] for label in question.labels] for question, each in pairs},
        prompts=shown_texts([question for question, _ in pairs], spec, model),
        seconds=lasted_s([each for _, each in pairs]),
        tokens=sum(each.prefill_tokens for _, each in pairs),
        cached=sum(each.cached_tokens for _, each in pairs),
        mc2=mc2_of(pairs, summary) if TASKS[case.mode].process_results else {},
    )


def exported_pairs(results: Path) -> list[tuple[Question, Verdict]]:
    """Return the questions and verdicts that `producer export --format jsonl` wrote."""
    rows = read_rows(results)
    return [(Question.model_validate(row["question"]), Verdict.model_validate(row["verdict"])) for row in rows]


def spaces_of(bench: Bench, answers: Sequence[Answers]) -> dict[str, dict[str, float]]:
    """Return task → question id → log-likelihood of the chat template's trailing white space; empty without one."""
    if bench.chat is ChatTemplate.NEVER:
        return {}
    prompts = [(each.case.task, *of_one) for each in answers for of_one in each.theirs.prompts.items()]
    settings = load_settings(bench.deploy, ["vllm_args.dtype=float32"])
    found = white_space([text for _, _, text in prompts], settings)
    spaces: dict[str, dict[str, float]] = {case.task: {} for case in bench.cases}
    for (task, name, _), logprob in zip(prompts, found, strict=True):
        spaces[task][name] = logprob
    return spaces


def compare_exactly(bench: Bench, python: Path, questions: Mapping[str, list[dict[str, Any]]]) -> list[Answers]:
    """Ask every case in float32."""
    folder = bench.workdir / "exact"
    if not bench.reuse:
        emptied(folder)
        for case in bench.cases:
            bench.prepare(case, questions[case.set], folder)
        ask_peer(python, bench.model, vllm_args(bench, "float32"), bench.cases, folder, flags(bench.chat))
        with served(bench, "float32", folder) as at:
            for case in bench.cases:
                ask_mcqueue(case, bench, bench.limit, at, folder)
    for case in bench.cases:
        if not (folder / case.task).is_dir():
            raise InputError(f"{case.task}: {folder} holds no answers to it.", hint="Omit --reuse.")
    theirs = {case.task: read_peer(bench.model, case, folder) for case in bench.cases}
    ours = {case.task: read_mcqueue(case, bench.model, folder) for case in bench.cases}
    for case in bench.cases:
        if ours[case.task].scores.keys() != {each["id"] for each in questions[case.set]}:
            raise InputError(f"{case.task}: {folder} holds the answers to other questions.", hint="Omit --reuse.")
    return [Answers(case, "float32", theirs[case.task], ours[case.task]) for case in bench.cases]


def time_round(bench: Bench, python: Path, number: int) -> list[Answers]:
    """Ask every case in bfloat16, each with a run of lm_eval and then with a new worker."""
    print(f"timed round {number + 1} of {bench.rounds}", file=sys.stderr)
    limit = min(bench.timed, bench.limit or bench.timed)
    folder = emptied(bench.workdir / f"round-{number + 1}")
    found = []
    for case in bench.cases:
        bench.prepare(case, read_questions(case.file, limit), folder)
        theirs = ask_peer(python, bench.model, vllm_args(bench, "bfloat16"), [case], folder)[case.task]
        with served(bench, "bfloat16", folder) as at:
            found.append(Answers(case, "bfloat16", theirs, ask_mcqueue(case, bench, limit, at, folder)))
    return found


def speed_row(rounds: Sequence[Answers]) -> dict[str, Any]:
    """Return the medians over the rounds of a case, and the seconds of each round."""
    case = rounds[0].case
    theirs, ours = [each.theirs for each in rounds], [each.ours for each in rounds]
    questions = len(theirs[0].scores)
    seconds = [statistics.median(side.seconds for side in each) for each in (theirs, ours)]
    return {
        "set": case.set,
        "mode": case.mode,
        "questions": questions,
        "choices each": sum(map(len, theirs[0].scores.values())) / questions,
        "lm_eval s": [round(side.seconds, 2) for side in theirs],
        "mcqueue s": [round(side.seconds, 2) for side in ours],
        "lm_eval q/s": questions / seconds[0],
        "mcqueue q/s": questions / seconds[1],
        "times as fast": seconds[0] / seconds[1],
        "lm_eval tokens": theirs[0].tokens,
        "mcqueue tokens": ours[0].tokens,
        "cached": ours[0].cached,
        "tokens ratio": theirs[0].tokens / ours[0].tokens,
    }


def show(found: Sequence[Compared], speed: Sequence[Mapping[str, Any]]) -> None:
    """Print the tables and every disagreement."""
    rows = [row for row, _ in found]
    print_table("Log-likelihoods", rows, (*HEAD, "same prompt", *DIFFERENCES))
    for metric in METRICS:
        if shown := [each for each in rows if f"{metric} agree" in each]:
            columns = (f"{metric} {of}" for of in ("agree", "lm_eval", "mcqueue"))
            print_table(f"Answers by {metric}", shown, (*HEAD, *columns))
    if shown := [each for each in rows if "mc2 lm_eval" in each]:
        columns = (f"mc2 {of}" for of in ("lm_eval", "mcqueue", "max difference"))
        print_table("Probability of the right choices", shown, (*HEAD, "choices", "max difference", *columns))
    for each in [each for _, several in found for each in several]:
        print(json.dumps(each))
    if speed:
        print_table("Speed, bfloat16", [without(each, "choices") for each in speed])


def record(
    bench: Bench,
    found: Sequence[Compared],
    speed: Sequence[Mapping[str, Any]],
    spaces: Mapping[str, Mapping[str, float]],
) -> Path:
    """Write everything to the record."""
    hidden = {case.file: "FILE" for case in bench.cases} | ({bench.shots.file: "EXAMPLES"} if bench.shots else {})
    return write(
        "peers",
        [row for row, _ in found],
        bench.options,
        command=command_line(without=["--workdir"], hidden=hidden),
        model=load_settings(bench.deploy).hf_model_id,
        lm_eval=LM_EVAL.partition("==")[2],
        engine=vllm_args(bench, "as the rows say"),
        counted=COUNTED,
        white_space={task: [min(of_task.values()), max(of_task.values())] for task, of_task in spaces.items()},
        disagreements=[each for _, several in found for each in several],
        speed=list(speed),
    )


def draw(path: Path, speed: Sequence[Mapping[str, Any]]) -> Path | str:
    """Draw the speeds as bars next to the record `path`; return the chart's path, or why there is none."""
    ratios = {f"{each['set']}, {each['mode']}": each["times as fast"] for each in speed}
    return bars(path, "Times as fast as lm_eval", "ratio", ratios)


if __name__ == "__main__":
    run(main)
