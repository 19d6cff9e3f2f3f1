"""The whole path against the engine alone: enqueue, queue, worker, ledger beside one `LLM.generate` over all prompts.

All sides have the same model, engine arguments, prompts (except for one side, the very same token ids) and sampling,
and are up at the same time; every round asks every side in turn, every other round in reverse order, and the ratios are
taken within a round. The median over the rounds counts. Every mode has fresh processes: earlier calls change how the C
library allocates memory in the offline class, which generates texts a tenth faster once it has computed
log-likelihoods. Of processes that do the same, some are 3 % faster than others from start to end, so `--boots` takes
rounds from that many pairs of processes for each mode.

| side | seconds |
|---|---|
| raw | `vllm.LLM.generate` over all prompts at once, token ids ready: no reading, no tokenising, no verdicts |
| raw, choices in full | the same with a prompt per choice, including the question: the usual way to get `likelihood` \
from vLLM's own interface |
| one at a time | the same `LLM`, one request after another (the first `--alone` questions; compared by questions/s) |
| mcqueue | from the call that enqueues the file to the last verdict in the ledger: reading, validating, writing, \
publishing, gathering, prompts, tokenising, inference, reading, committing |

`letter`: one prefill per question with the log-probabilities of the labels. `likelihood`: raw gets the very prefills
that mcqueue planned, which are fewer and shorter than a prompt per choice, and computes those with `prompt_logprobs` in
full, as vLLM does. `generate`: greedy text to its own end, at most 48 tokens.
Every prompt begins with the number of its round, so that no side finds an earlier round's prompts in its cache.
Use whole batches, and several of them: a last batch that is not full waits for `batch_timeout`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import Any

from benchmarks.asking import add_modes, add_questions, chosen_model, pin, shared_gpu, source_of, speed_settings
from benchmarks.command import Parser, from_zero, positive, run
from benchmarks.raw import Raw, beside_raw
from benchmarks.record import print_table, without, write
from benchmarks.sides import Bench, Times, draw_ratios, questions_of, row
from benchmarks.stand import stand, worker


def main() -> None:
    parser = Parser(__doc__)
    add_questions(parser)
    parser.option("--alone", from_zero, 8, "questions asked one at a time; 0: none")
    parser.option("--boots", positive, 1, "fresh pairs of processes per mode")
    parser.option("--rounds", positive, 5, "rounds that count with each pair, after a warm-up round")
    add_modes(parser)
    parser.option("--dtype", str, None, "data type of the model, instead of the deploy file's")
    parser.add_argument(
        "--two-sides", action="store_true", help="omit `raw, choices in full`, to get more rounds per hour"
    )
    options = parser.parse_args()
    source = source_of(options)
    dtype = {"dtype": options.dtype} if options.dtype else {}
    with stand(options.config, **chosen_model(options), vllm_args={**shared_gpu(2), **dtype}) as at:
        count = questions_of(at, source, options.limit)
        alone, in_full = min(options.alone, count), not options.two_sides
        bench = Bench(at, source, count, options.rounds, alone, in_full)
        more: dict[str, Any] = {"deploy": str(options.config), "settings": speed_settings(at.settings)}
        for rows in against_raw(bench, options.modes, options.boots):
            path = write("whole_path", rows, options, **more)  # each time, so that nothing of a long run is lost
    print_table("whole path", [without(each, "rounds") for each in rows])
    print(path, draw_ratios(path, rows))


def against_raw(bench: Bench, modes: Sequence[str], boots: int) -> Iterator[list[dict[str, Any]]]:
    """Yield a row per mode, over all boots so far, after each boot."""
    pin(bench.at)
    times: dict[str, Times] = {mode: {} for mode in modes}
    for boot in range(boots):
        for mode in modes:
            with closing(Raw(bench)) as raw, worker(bench.at):
                for name, seconds in beside_raw(bench, raw, mode, boot).items():
                    times[mode].setdefault(name, []).extend(seconds)
        yield [row(mode, bench.limit, of_mode, base="mcqueue") for mode, of_mode in times.items()]


if __name__ == "__main__":
    run(main)
