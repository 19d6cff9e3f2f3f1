"""Statistics of a run, or of a pair of runs: pure functions, and counters that see each question once."""

from producer.stats.calibration import Calibration
from producer.stats.clusters import Contexts
from producer.stats.outcomes import Outcomes, Tally
from producer.stats.paired import Pairs
from producer.stats.positions import Positions
from producer.stats.proportion import Interval, Mean, Share, share
from producer.stats.retrieval import RetrievalTally
from producer.stats.subjects import SubjectMean, cluster_interval, macro, mean_interval

__all__ = [
    "Calibration",
    "Contexts",
    "Interval",
    "Mean",
    "Outcomes",
    "Pairs",
    "Positions",
    "RetrievalTally",
    "Share",
    "SubjectMean",
    "Tally",
    "cluster_interval",
    "macro",
    "mean_interval",
    "share",
]
