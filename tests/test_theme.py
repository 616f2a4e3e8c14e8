"""The theme as Streamlit takes it: there, a misspelt option or a ninth colour goes wrong in silence."""

import tomllib

import plotly.colors
import pytest
from streamlit import config

from tests.support.sources import ROOT
from viz_ui.look.colours import ROLES

CONFIG = tomllib.loads((ROOT / ".streamlit/config.toml").read_text())
THEMES = ("light", "dark")


def options(table, prefix=""):
    for name, value in table.items():
        if isinstance(value, dict):
            yield from options(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}"


@pytest.mark.parametrize("name", list(options(CONFIG)))
def test_streamlit_knows_the_option(name):
    assert name in config.get_config_options()


@pytest.mark.parametrize("theme", THEMES)
def test_weights_are_drawn_in_cividis(theme):
    colours = [colour.lower() for colour in CONFIG["theme"][theme]["chartSequentialColors"]]
    assert colours == plotly.colors.sequential.Cividis


@pytest.mark.parametrize("theme", THEMES)
def test_ten_different_categories(theme):
    colours = CONFIG["theme"][theme]["chartCategoricalColors"]
    assert len(colours) == len(set(colours)) == 10  # with eight, Plotly falls back to colours of its own


@pytest.mark.parametrize(("theme", "variant"), [("light", "hue"), ("dark", "on_dark")])
def test_charts_begin_with_the_hues_of_query_key_and_value(theme, variant):
    roles = [getattr(ROLES[name], variant) for name in ("query", "key", "value")]
    assert CONFIG["theme"][theme]["chartCategoricalColors"][:3] == roles


def test_the_primary_colour_is_that_of_the_weights():
    assert CONFIG["theme"]["light"]["primaryColor"] == ROLES["weights"].hue
