"""Measured numbers are written by one rule (`viz_ui.look.text.number`), never with a fixed count of digits."""

import re

from tests.support.sources import ROOT

FIXED = re.compile(r"\{[^{}\n]*:,?\.\d+[feg%]\}")
# What is no measured number: file -> what is written there.
ALLOWED = {
    "pages/shapes/opened_tensor.py": ("found.minimum", "found.maximum"),  # ids
    "pages/shapes/any_model.py": ("width / heads",),
    "pages/layouts/depth_figure.py": ("width**0.5",),
    "pages/training/watched.py": ("training.seconds",),
    "pages/positions/rotation.py": ("base",),
    "pages/quantization/choice.py": ("8 * codes / quantized.n_weights",),  # whole bits of a code
    "pages/misconceptions/bars.py": ("value",),  # in narrow bars, and in full on hover
    "pages/shape_reference/symbols.py": ("rotation.scale",),
    "viz_ui/frame/loaded_models.py": ("offer.package.size / 1e6",),
    "viz_ui/frame/forms.py": ("value",),  # an address
    "viz_ui/look/figures.py": ("value_at(place, low, high, law)",),  # ticks of a colour bar
    "viz_ui/look/growth_figure.py": ("crossing",),
    "viz_ui/look/text.py": ("rounded", "mantissa"),  # the rule itself
}


def fixed_formats(source: str) -> list[str]:
    return [match[0][1:].partition(":")[0] for match in FIXED.finditer(source)]


def test_a_fixed_format_is_found():
    assert fixed_formats('f"{x.mean():.2f} of {n:,} at {p:.0%}" "%{y:.4f}"') == ["x.mean()", "p", "y"]


def test_no_page_writes_a_measured_number_in_a_fixed_format():
    found = {}
    for path in (path for folder in ("pages", "viz_ui") for path in (ROOT / folder).rglob("*.py")):
        name = str(path.relative_to(ROOT))
        if strange := [text for text in fixed_formats(path.read_text()) if text not in ALLOWED.get(name, ())]:
            found[name] = strange
    assert not found
