"""Benchmark programs. Each prints a table and writes <name>.json with the machine, the versions and the command.

The files go to results/benchmarks, which git ignores; `--out benchmarks/recorded` is for the figures in the
documentation. Shared modules: `command` (options), `record` (table, file, chart), `stand` (server, workers, producer
commands), `asking` (question source), `sides` (what is compared, in turn), `raw` (vLLM alone), `made_up` (questions and
runs), `waiting`, `jsonl`. `peer/`, `faults/`, `cpu_truth`, `random_model`, `timed_executor`, `rubbish`, `layout_files`
and `fuzz_messages` belong to individual programs.
"""
