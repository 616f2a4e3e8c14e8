"""What the curves and the targets send to the browser, and what they believe of what comes back."""

import pytest

from viz_ui.components.shared.packing import unpack
from viz_ui.components.tokens.token_targets import TokenTarget, checked_position, pack_targets
from viz_ui.components.training_curves import Line, Plot, checked_step, pack_curves

LOSS = Plot("loss", 4.0, (Line("training", "stream", (None, 3.0, 2.0)),), ("uniform guess", 3.5))
NONSENSE = [None, {}, "1", 1.5, True, [], [1], [1, 2, 3], [1, "2"], [True, 1], [1, True], [1, 0], [-2, 1], [3, 1]]


def test_curves_and_their_snapshot():
    choices = {"at": (0, 10, 20), "most": 30, "running": True}
    header, body = unpack(pack_curves([LOSS], step=-1, answered=4, **choices))
    assert not body
    assert (header["step"], header["at"], header["most"], header["running"], header["answered"]) == (
        2,
        [0, 10, 20],
        30,
        True,
        4,
    )
    [plot] = header["plots"]
    assert plot["lines"][0]["values"] == [None, 3.0, 2.0]
    assert plot["level"] == ["uniform guess", 3.5]
    assert unpack(pack_curves([LOSS], step=1, **choices))[0]["step"] == 1
    for step in (-2, 3):
        with pytest.raises(ValueError, match="no snapshot"):
            pack_curves([LOSS], step=step, **choices)
    with pytest.raises(ValueError, match="has 3 values"):
        pack_curves([LOSS], at=(0,), most=30, step=0, running=False)


@pytest.mark.parametrize("value", NONSENSE, ids=repr)
def test_a_step_that_cannot_be_is_passed_over(value):
    assert checked_step(value, 3) is None


def test_a_step_of_the_reader():
    assert checked_step([-1, 7], 3) == (-1, 7)
    assert checked_step([2, 1], 3) == (2, 1)


def test_targets_and_their_position():
    row = [TokenTarget("0 a", "1 b", loss=2.0, rank=3, best="c"), TokenTarget("1 b")]
    header, body = unpack(pack_targets(row, blind=8.4, position=1))
    assert not body
    assert (header["blind"], header["position"]) == (8.4, 1)
    assert header["row"][0] == {"read": "0 a", "target": "1 b", "loss": 2.0, "rank": 3, "best": "c", "hidden": False}
    assert header["row"][1]["target"] is None
    with pytest.raises(ValueError, match="no position 2"):
        pack_targets(row, blind=8.4, position=2)
    assert checked_position([1, 4], 2) == (1, 4)
    nonsense = (None, 1, "1", [1], [2, 1], [-1, 1], [True, 1], [1.0, 1], [1, 0], [1, 2, 3])
    assert [checked_position(value, 2) for value in nonsense] == [None] * len(nonsense)
