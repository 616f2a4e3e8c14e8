"""Matrices of an experiment: drawn beside each other, and each opened large and saved."""

from collections.abc import Callable, Mapping, Sequence

from viz_ui.components.panels import Matrix, panels
from viz_ui.frame.view import View
from viz_ui.parts.open_matrix import named, note_opened, open_noted_matrix


def draw_matrices(
    view: View,
    claim: str,
    matrices: Sequence[Matrix],
    *,
    width: int,
    selected: tuple[int | None, int | None] | None = None,
    on_pick: Callable[[dict], None] | None = None,
    of: Mapping[str, str] | None = None,
) -> None:
    """claim: what the experiment is called, in keys and in the names of files. of: see `Named`; by matrices' names."""
    panels(matrices, key=claim, selected=selected, matrix_width=width, on_pick=on_pick, on_open=note_opened)
    names = {
        matrix.name: named(view, matrix.title, f"{claim}_{matrix.name}", of=(of or {}).get(matrix.name, ""))
        for matrix in matrices
    }
    open_noted_matrix(view, {matrix.name: matrix for matrix in matrices}, names=names)
