"""The commands of `python -m workers`, which `cli` imports when they are used."""
