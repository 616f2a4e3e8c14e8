"""Arrows run one way: pages -> viz_ui -> viz_model; a component knows no model, the model no screen.

In viz_model and viz_ui a file may import from its own folder and from those of the steps below it.
"""

import ast
import json
import subprocess
import sys
from collections import defaultdict
from graphlib import CycleError, TopologicalSorter

import pytest

from tests.support.sources import ROOT, declared, imported_modules, imports

OWN = {"app", "pages", "viz_model", "viz_ui"}
STEPS = {  # from the ground up
    "viz_model": (
        {"errors", "paths"},
        {"arguments", "garbage", "jobs", "latest", "memory_limits", "unfinished"},
        {"transformer"},
        {"attribution"},
        {"model"},
        {"flash", "heads", "hub", "masking", "shapes"},
        {"circuit", "fetching", "intervention", "layouts", "positions", "quantization"},
        {"checkpoints"},
        {"training"},
        {"misconceptions"},
    ),
    "viz_ui": ({"look", "sharing"}, {"components"}, {"frame"}, {"parts"}),
}
LLAMA = {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "vocab_size": 67, "hidden_size": 32,
         "intermediate_size": 48, "num_hidden_layers": 1, "num_attention_heads": 2}  # fmt: skip
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


def test_no_test_file_leans_on_another():
    """What two of them need is in tests/support."""
    found = [
        f"{path.relative_to(ROOT)}:{line} imports {module}"
        for path in sources("tests", ".py")
        for line, module in sorted(imported_modules(path))
        if module.startswith("tests.") and ".test_" in module
    ]
    assert not found, "\n".join(found)


def own_modules():
    """(path, line, module) of every import of a module of this project by another one."""
    for folder in sorted(OWN - {"app"}):
        for path in sources(folder, ".py"):
            for line, module in sorted(imported_modules(path)):
                if module.partition(".")[0] in OWN:
                    yield path.relative_to(ROOT), line, module


@pytest.mark.parametrize("package", STEPS)
def test_no_folder_imports_from_its_own_step_or_from_one_above(package):
    step = {folder: number for number, folders in enumerate(STEPS[package]) for folder in folders}
    against = []
    for path, line, module in own_modules():
        parts = module.split(".")
        if path.parts[0] == parts[0] == package and len(path.parts) > 2 and len(parts) > 1:
            here, there = path.parts[1], parts[1]
            if here != there and step[there] >= step[here]:
                against.append(f"{path}:{line} imports {module}")
    assert not against, "\n".join(against)
    assert {path.name for path in (ROOT / package).iterdir() if (path / "__init__.py").exists()} <= step.keys()


def test_no_modules_import_each_other_in_a_circle():
    arrows = defaultdict(set)
    for path, _, module in own_modules():
        name = ".".join(path.with_suffix("").parts).removesuffix(".__init__")
        if module != name and not name.startswith(f"{module}."):  # a folder's list of names is no arrow of its files
            arrows[name].add(module)
    assert len(arrows) > 150
    try:
        TopologicalSorter(arrows).prepare()
    except CycleError as error:
        pytest.fail(" -> ".join(error.args[1]))


def test_no_page_imports_from_another_one():
    across = [
        f"{path}:{line} imports {module}"
        for path, line, module in own_modules()
        if path.parts[0] == "pages" and module.startswith("pages.") and path.parts[1] != module.split(".")[1]
    ]
    assert not across, "\n".join(across)


def test_nobody_asks_what_a_model_is_but_by_its_facts():
    """`ModelFacts` and `Host` say it. What the library's own objects have, the folder hub may have to look up."""
    asked = []
    for folder in sorted(OWN - {"app"}):
        for path in sources(folder, ".py"):
            name = str(path.relative_to(ROOT))
            if name.startswith("viz_model/hub/"):
                continue
            for node in ast.walk(ast.parse(path.read_text())):
                named = isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.args
                if named and node.func.id in ("getattr", "hasattr", "isinstance"):
                    what = ast.unparse(node)
                    of_model = any(word in ast.unparse(node.args[0]) for word in ("config", "tokenizer", "transformer"))
                    kinds = {"TransformerConfig", "HubConfig", "HubTransformer", "HubModel", "Model"}
                    by_kind = node.func.id == "isinstance" and any(kind in what for kind in kinds)
                    if (node.func.id in ("getattr", "hasattr") and of_model) or by_kind:
                        asked.append(f"{name}:{node.lineno}: {what}")
    assert not asked, "\n".join(asked)


def test_no_class_name_stands_for_two_things():
    places = defaultdict(list)
    for folder in sorted(OWN - {"app"}):
        for path in sources(folder, ".py"):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.ClassDef):
                    places[node.name].append(f"{path.relative_to(ROOT)}:{node.lineno}")
    twice = {name: where for name, where in places.items() if len(where) > 1}
    assert not twice, twice


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


FRESH = """
import json, sys
sys.modules.update(dict.fromkeys({tools!r}))  # None there makes an import raise ModuleNotFoundError

def brought():
    return [name for name in ("streamlit", "plotly", "transformers", "huggingface_hub", "gguf") if name in sys.modules]

told = {{}}
import viz_model
told["the model layer"] = brought()
from pathlib import Path
from viz_model import hub
told["family"] = hub.read_facts(Path({folder!r})).family
told["facts"] = brought()
from streamlit.testing.v1 import AppTest
app = AppTest.from_file("viz_ui/frame/main.py", default_timeout=60).run()
assert not app.exception, app.exception
assert len(app.main) > 0, "the first screen is empty"
app.switch_page("../../pages/models/page.py").run()
assert not app.exception, app.exception
told["the app"] = brought()
print("told", json.dumps(told))
"""


@pytest.fixture(scope="module")
def fresh(tmp_path_factory):
    """What a new process, with requirements.txt alone, has imported after each step of it; its output."""
    folder = tmp_path_factory.mktemp("model of the library")
    (folder / "config.json").write_text(json.dumps(LLAMA))
    tools = declared("requirements-dev.txt") | declared("tests/reference/requirements.txt")
    tools = sorted(name.replace("-", "_") for name in tools - declared("requirements.txt"))
    code = FRESH.format(tools=tools, folder=str(folder))
    return subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=120, check=False
    )


def told_by(fresh):
    lines = [line.removeprefix("told ") for line in fresh.stdout.splitlines() if line.startswith("told ")]
    assert lines, fresh.stderr
    return json.loads(lines[0])


def test_the_model_layer_brings_no_screen_and_no_hub_along(fresh):
    assert told_by(fresh)["the model layer"] == []


def test_reading_facts_brings_no_library_along(fresh):
    assert told_by(fresh)["family"] == "Llama"
    assert told_by(fresh)["facts"] == []


def test_the_app_starts_with_requirements_txt_alone(fresh):
    """And a first start waits for no library of models."""
    assert set(told_by(fresh)["the app"]) <= {"streamlit", "plotly"}
    assert fresh.returncode == 0, fresh.stderr
