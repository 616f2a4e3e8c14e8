"""Jobs: work that runs beside a page, in a thread or in a process of its own."""

from viz_model.jobs.job import Job, Progress, Tell, are_under_way, untold
from viz_model.jobs.queue import MEASURING, PASSES, PLACES, TRAINING, Turns, Visitor

__all__ = [
    "MEASURING",
    "PASSES",
    "PLACES",
    "TRAINING",
    "Job",
    "Progress",
    "Tell",
    "Turns",
    "Visitor",
    "are_under_way",
    "untold",
]
