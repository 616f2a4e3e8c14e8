"""Names of heads as they are kept: all comes back, and what holds no names is refused."""

import copy
import json
import math

import pytest

import viz_model as vm
from tests.support.small_models import small_model
from viz_model.heads.names import HeadName, HeadNames
from viz_model.heads.windows import repeats

PREVIOUS = HeadName(("previous token",), "previous token", 0.75, 0.5, 0.875)
THREE = HeadName(("k before",), "3 before", 0.5, math.nan, math.nan)
MIXED = HeadName(("first token", "itself"), "first token and itself", 0.25, 0.125, 0.375)
NAMES = HeadNames("of a text", 9, 400, ((PREVIOUS, THREE), (MIXED, MIXED)))


def test_all_that_is_kept_comes_back():
    written = json.loads(json.dumps(NAMES.to_json()))
    back = HeadNames.from_json(written, (2, 2))
    assert back.to_json() == NAMES.to_json()
    assert (back.text, back.windows, back.tokens) == ("of a text", 9, 400)
    assert back.name(0, 0) == NAMES.name(0, 0)
    assert math.isnan(back.name(0, 1).low)
    assert [str(back.name(*place)) for place in ((0, 0), (0, 1), (1, 1))] == [
        "previous token (75.0%)",
        "3 before (50.0%)",
        "mixed (25.0%)",
    ]


def test_the_names_of_a_report_are_kept_head_by_head():
    model = vm.Model("small", small_model())
    report = vm.head_report(model, repeats(model, 9, 8))
    kept = HeadNames.from_json(report.kept_names("of repeats").to_json(), (2, 4))
    assert (kept.windows, kept.tokens) == (9, 9 * 16)
    for place, name in report.names.items():
        assert kept.name(*place).patterns == name.patterns
        assert kept.name(*place).words == name.words
        assert (kept.name(*place).share, kept.name(*place).high) == pytest.approx((name.share, name.high), abs=1e-5)


def changed(*path, to):
    content = copy.deepcopy(NAMES.to_json())
    inner = content
    for step in path[:-1]:
        inner = inner[step]
    inner[path[-1]] = to
    return content


@pytest.mark.parametrize(
    "content",
    [
        None,
        [],
        "names",
        {},
        changed("text", to=""),
        changed("text", to="x" * 10_000),
        changed("windows", to="9"),
        changed("tokens", to=None),
        changed("names", to=[]),
        changed("names", to=3),
        changed("names", 0, to=[]),
        changed("names", 0, 1, to=None),
        changed("names", 0, 1, "patterns", to=["no such pattern"]),
        changed("names", 0, 1, "patterns", to=[]),
        changed("names", 0, 1, "patterns", to=[["a list"]]),
        changed("names", 0, 1, "explaining", to=7),
        changed("names", 0, 1, "share", to=2.0),
        changed("names", 0, 1, "share", to="half"),
        changed("names", 0, 1, "high", to=-1.0),
    ],
)
def test_what_holds_no_names_is_refused(content):
    with pytest.raises(vm.VizError, match=r"names of .*heads.* Work them out again\."):
        HeadNames.from_json(content, (2, 2))
