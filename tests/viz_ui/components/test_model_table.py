"""The table of models: what it is given, and which events count."""

import pytest

from viz_ui.components.model_table import Act, ModelRow, checked_act, pack_table
from viz_ui.components.shared.packing import unpack

COLUMNS = (("L", "Layers"), ("H", "Heads"))
ROWS = [
    ModelRow(
        "<b>one</b>", "a line", "here", ["4", "8"], [Act("look", "Look at it"), Act("remove", "Remove", "Remove it?")]
    ),
    ModelRow("two", "", "", ["–", "…"], [Act("look", "Chosen", done=True), Act("cancel", "Cancel")], chosen=True),
]


def test_what_the_script_gets():
    head, rest = unpack(pack_table(COLUMNS, ROWS))
    assert rest == b""
    assert head["columns"] == [["L", "Layers"], ["H", "Heads"]]
    first, second = head["rows"]
    assert (first["name"], first["cells"], first["chosen"]) == ("<b>one</b>", ["4", "8"], False)
    assert first["acts"][1] == {
        "name": "remove",
        "words": "Remove",
        "sure": "Remove it?",
        "primary": False,
        "done": False,
    }
    assert second["chosen"]


def test_a_row_has_one_cell_a_column():
    with pytest.raises(ValueError, match="two has 1 cells for 2 columns"):
        pack_table(COLUMNS, [ModelRow("two", "", "", ["1"])])


@pytest.mark.parametrize(
    "event",
    [
        *(None, "look", ["look"], ["look", "two"], ["remove", "../.."], ["look", "<b>one</b>", "x"]),
        *([["look"], "two"], {"look": "two"}, [1, 2]),
    ],
)
def test_only_buttons_that_are_there_count(event):
    assert checked_act(event, ROWS) is None


def test_a_button_that_is_there():
    assert checked_act(["remove", "<b>one</b>"], ROWS) == ("remove", "<b>one</b>")
