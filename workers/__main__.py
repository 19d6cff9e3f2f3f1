"""`python -m workers`."""

import sys

try:
    from workers.cli import main
except KeyboardInterrupt:
    sys.exit(130)

main(prog_name="python -m workers")
