"""`python -m workers`."""

from workers.cli import main

main(prog_name="python -m workers")
