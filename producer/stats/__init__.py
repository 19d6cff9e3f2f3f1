"""What a run, or a pair of runs, came to: pure functions and counters that see each question once."""

from producer.stats.bootstrap import Interval, cluster_interval, macro
from producer.stats.calibration import Calibration
from producer.stats.outcomes import Tally, tally
from producer.stats.paired import Pairs
from producer.stats.proportion import Share, share

__all__ = ["Calibration", "Interval", "Pairs", "Share", "Tally", "cluster_interval", "macro", "share", "tally"]
