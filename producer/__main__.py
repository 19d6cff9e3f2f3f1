"""`python -m producer`."""

import gc

gc.disable()  # loading modules makes no garbage, only work for whoever looks for it

from producer.cli import main  # noqa: E402 - see above

gc.freeze()  # they stay to the end: nobody need look at them again, on the way out least of all
gc.enable()
main(prog_name="python -m producer")
