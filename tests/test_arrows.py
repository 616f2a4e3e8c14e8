"""Arrows run one way: pages -> viz_ui and viz_model; a component knows no model, the model no screen."""

import subprocess
import sys

import pytest

from tests.support.sources import ROOT, declared, imports

OWN = {"app", "pages", "viz_model", "viz_ui"}
MAXIMUM_LINES = 330
FORBIDDEN = {  # folder -> packages that no file below it may import
    "viz_model": {"streamlit", "plotly", "viz_ui", "pages", "app"},
    "viz_ui": {"pages", "app"},
    "viz_ui/components": {"viz_model", "pages", "app"},
    "pages": {"app"},
}


def sources(folder, *suffixes):
    return sorted(path for path in (ROOT / folder).rglob("*") if path.suffix in suffixes)


@pytest.mark.parametrize("folder", FORBIDDEN)
def test_no_import_against_the_arrows(folder):
    found = [
        f"{path.relative_to(ROOT)}:{line} imports {package}"
        for path in sources(folder, ".py")
        for line, package in imports(path)
        if package in FORBIDDEN[folder]
    ]
    assert not found, "\n".join(found)


def test_every_import_is_declared():
    known = declared("requirements.txt") | declared("requirements-dev.txt") | OWN | sys.stdlib_module_names
    files = [ROOT / "app.py", *(path for folder in sorted(OWN - {"app"}) for path in sources(folder, ".py"))]
    found = [
        f"{path.relative_to(ROOT)}:{line} imports {package}, which no requirements file names"
        for path in files
        for line, package in imports(path)
        if package not in known
    ]
    assert not found, "\n".join(found)


def test_files_stay_readable_in_one_sitting():
    lengths = {
        str(path.relative_to(ROOT)): len(path.read_text().splitlines())
        for folder in ("viz_model", "viz_ui", "pages")
        for path in sources(folder, ".py", ".js", ".css")
    }
    assert lengths, "no sources found"
    long = {name: length for name, length in lengths.items() if length > MAXIMUM_LINES}
    assert not long, f"over {MAXIMUM_LINES} lines, each wants to be two: {long}"


def run_python(code):
    return subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=120, check=False
    )


def test_the_model_layer_brings_no_screen_and_no_hub_along():
    code = "import viz_model, sys; print(*{'streamlit', 'plotly', 'transformers'} & sys.modules.keys())"
    result = run_python(code)
    assert result.returncode == 0, result.stderr
    assert result.stdout.strip() == ""


START_WITHOUT_DEVELOPMENT_TOOLS = """
import sys
sys.modules.update(dict.fromkeys({names!r}))  # None there makes an import raise ModuleNotFoundError
from streamlit.testing.v1 import AppTest
app = AppTest.from_file("viz_ui/frame/main.py", default_timeout=60).run()
assert not app.exception, app.exception
assert len(app.main) > 0, "the first screen is empty"
app.switch_page("../../pages/models/page.py").run()
assert not app.exception, app.exception
brought = {{"transformers", "huggingface_hub", "gguf"}} & sys.modules.keys()
assert not brought, f"a first start waits for {{brought}}"
"""


def test_the_app_starts_with_requirements_txt_alone():
    names = sorted(declared("requirements-dev.txt") - declared("requirements.txt"))
    result = run_python(START_WITHOUT_DEVELOPMENT_TOOLS.format(names=names))
    assert result.returncode == 0, result.stderr
