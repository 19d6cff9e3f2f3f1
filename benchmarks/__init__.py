"""Programs that measure. Each prints a table and writes benchmarks/recorded/<name>.json with machine, versions."""
