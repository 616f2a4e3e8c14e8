"""Is a head one human concept? What one head does, measured on several texts."""

import math
from collections.abc import Sequence
from itertools import product

from viz_model.errors import VizError
from viz_model.heads.measures import head_measures
from viz_model.model.trace import Trace

MEASURES = ("previous", "first", "itself", "again")
NAMED = 0.3  # the mean weight from which a pattern is said to be what a head does


def pattern_scores(trace: Trace, layer: int, head: int) -> dict[str, float]:
    """Mean weights of a head over the queries of a pass.

    previous, first, itself: as `measures.head_measures`. again: on the token after an earlier copy of the query's own
    token, over the queries that have one (Olsson et al. 2022, "In-context Learning and Induction Heads"); NaN where no
    token comes again. Raises VizError for cross-attention, whose queries and keys are places of two texts, and for
    one token, which is all that it can read.
    """
    if trace.part == "cross":
        raise VizError(
            "Cross-attention reads another text, where no token is “previous” or “itself”. Choose encoder "
            "or decoder in the sidebar."
        )
    if trace.length == 1:
        raise VizError("The only token of this text can read only itself, whatever the head does. Type a longer text.")
    weights = trace.weights(layer, head)
    measured = {name: float(value) for name, value in head_measures(weights).items()}
    after = _after_earlier_copies(trace.ids)
    shares = [float(weights[query, keys].sum()) for query, keys in after.items()]
    measured["again"] = sum(shares) / len(shares) if shares else float("nan")
    return {name: measured[name] for name in MEASURES}


def strongest_pattern(scores: dict[str, float]) -> str | None:
    """The one of `MEASURES` with the largest mean weight; None where that is less than `NAMED`."""
    known = {name: value for name, value in scores.items() if not math.isnan(value)}
    most = max(known, key=known.get)
    return most if known[most] >= NAMED else None


def most_changing_head(traces: Sequence[Trace]) -> tuple[int, int] | None:
    """(layer, head) of the head whose strongest pattern differs from text to text and varies most; None for none.

    Only heads that have a pattern on every text are compared. traces: of one model, all of one part.
    """
    found, places = None, product(range(traces[0].n_layers), range(traces[0].config.n_heads))
    for layer, head in places:
        scores = [pattern_scores(trace, layer, head) for trace in traces]
        patterns = {strongest_pattern(each) for each in scores}
        if len(patterns) < 2 or None in patterns:
            continue
        spread = max(max(values) - min(values) for values in ([each[name] for each in scores] for name in patterns))
        if found is None or spread > found[0]:
            found = spread, (layer, head)
    return found and found[1]


def _after_earlier_copies(ids: Sequence[int]) -> dict[int, list[int]]:
    """Query -> the keys that come right after an earlier token of the same id, and before the query."""
    found = {}
    for query, token in enumerate(ids):
        keys = [place + 1 for place in range(query - 1) if ids[place] == token]
        if keys:
            found[query] = keys
    return found
