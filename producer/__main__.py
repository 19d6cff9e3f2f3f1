"""`python -m producer`."""

from producer.cli import main

main(prog_name="python -m producer")
