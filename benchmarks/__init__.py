"""Programs that measure. Each prints a table and writes <name>.json with machine, versions and the command.

Into results/benchmarks, which git ignores; `--out benchmarks/recorded` is for the record. What they share: `command`
(options), `record` (table, file, picture), `stand` (server, workers, the producer's commands), `asking` (whose
questions), `waiting`, `jsonl`. `lm_eval`, `cpu_truth`, `rubbish`, `fuzz_messages` and `faults/` belong to single ones.
"""
