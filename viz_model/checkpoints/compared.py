"""When each family of models was last compared with its own library, and how far they were apart: measured by tests."""

import json
from dataclasses import dataclass

from viz_model import checkpoints

COMPARED_FILE = "compared.json"


@dataclass(frozen=True)
class Compared:
    """A family: its largest difference (of logits and weights, absolute) in so many cases, on a day (YYYY-MM-DD)."""

    family: str
    date: str
    largest_difference: float
    cases: int
    library: str


def read_compared() -> list[Compared]:
    """What the tests wrote, by family; nothing where they wrote nothing, or where the file is damaged."""
    try:
        families = json.loads((checkpoints.FOLDER / COMPARED_FILE).read_text("utf-8"))
        return [
            Compared(
                family,
                str(told["date"]),
                float(told["largest_difference"]),
                int(told["cases"]),
                f"transformers {told['transformers']}",
            )
            for family, told in sorted(families.items(), key=lambda item: item[0].lower())
        ]
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return []
