"""What whoever looks may do here, besides looking at the models that there are."""

import logging
import re

import viz_model as vm
from viz_model.checkpoints import short
from viz_ui.sharing.settings import ACTS, sharing

_PLACE = re.compile(r"(?<![\w:/.)])~?/[\w.]|\b[A-Za-z]:\\")  # a path from the root of a disk


class NotForVisitors(vm.VizError):
    """Something that only who started this server may do."""


def may(act: str) -> bool:
    """Whether whoever looks may do this, one of `ACTS`."""
    return sharing().may(act)


def refuse(act: str) -> None:
    """Raises NotForVisitors where whoever looks may not do this; called where it is done, for a visitor can forge what
    their browser sends."""
    if not may(act):
        raise NotForVisitors(why_not(act))


def why_not(*acts: str) -> str:
    """In one sentence, which of these acts are not for visitors; "" where all of them may be done."""
    words = [ACTS[act] for act in acts if not may(act)]
    if not words:
        return ""
    listed = f"{', '.join(words[:-1])} or {words[-1]}" if len(words) > 1 else words[0]
    return f"This server is shared, and its visitors may not {listed}. Whoever started the server can allow it."


def told(problem: str) -> str:
    """A problem as whoever looks may read it: of visitors nobody needs to know where something is on this disk."""
    problem = short(problem)
    if not sharing().is_on or not _PLACE.search(problem):
        return problem
    logging.getLogger(__name__).warning("%s", problem)
    return "That did not work. Whoever runs this server can read the reason in its log."
