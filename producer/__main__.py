"""`python -m producer`."""

import gc
import sys

gc.disable()  # loading modules makes no garbage, only work for whoever looks for it

try:
    from producer.cli import main
except KeyboardInterrupt:  # of somebody who thought better of it in the first half second
    sys.exit(130)

gc.freeze()  # they stay to the end: nobody need look at them again, on the way out least of all
gc.enable()
main(prog_name="python -m producer")
