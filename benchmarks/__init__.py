"""Programs that measure. Each prints a table and writes <name>.json with machine and versions.

Into results/benchmarks, which git ignores, where it takes `--out`; `--out benchmarks/recorded` is for the record.
"""
