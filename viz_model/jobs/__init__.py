"""Jobs: work that runs beside a page, in a thread or in a process of its own."""

from viz_model.jobs.job import Job, Progress, Tell, untold
from viz_model.jobs.turns import Turns, Visitor

__all__ = ["Job", "Progress", "Tell", "Turns", "Visitor", "untold"]
