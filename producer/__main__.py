"""Entry point of `python -m producer`."""

import gc
import sys

gc.disable()  # importing modules creates no garbage, so collecting during imports only costs time

try:
    from producer.cli import main
except KeyboardInterrupt:  # Ctrl-C during the first half second, while modules are still loading
    sys.exit(130)

gc.freeze()  # modules live until exit, so the collector need not scan them again, least of all at shutdown
gc.enable()
gc.set_threshold(50_000, 10, 10)  # by default it looks at every few questions, which are freed without it
main(prog_name="python -m producer")
