"""What holds for all tests.

With `requirements.txt` alone, the test files that need more are skipped, each with the name of what is missing, and
all tests run in one process. With pytest-xdist there are two workers more than there are cores, for a browser test
waits half of its time: with three workers, two cores are busy for 69 % of it. Each is given one file after the other:
what a file, a page or a server has opened is opened once.
"""

import gc
import importlib.metadata
import importlib.util
import os
import random
from functools import cache
from itertools import islice
from pathlib import Path

import pytest

from tests.support.sources import declared, imports

pytest_plugins = ["pytester"]
if importlib.util.find_spec("hypothesis"):
    from hypothesis import settings

    settings.register_profile("project", deadline=None)  # a busy machine is no fault of what is tested
    settings.register_profile("quick", deadline=None, max_examples=33)  # of a hundred; see tests/support/properties.py
os.environ.setdefault(
    "OMP_NUM_THREADS", "1"
)  # each core has a worker, and a server: threads would wait for one another
MOST_WORKERS = 4  # each of them takes 2 GB, with its server and its browser
FILES_BETWEEN = 6  # two that need a browser


def pytest_addoption(parser):
    if importlib.util.find_spec("xdist") is None:  # what pyproject.toml asks of it is passed over
        for option in ("--numprocesses", "--dist"):
            parser.addoption(option, help="says nothing without pytest-xdist")
        parser.addoption("--no-loadscope-reorder", action="store_true", help="says nothing without pytest-xdist")
    parser.addoption(
        "--real-models",
        action="store_true",
        help="also test with real models, which are fetched (180 MB)",
    )
    parser.addoption("--slow", action="store_true", help="also run the tests that are marked slow, minutes of them")
    parser.addoption(
        "--shuffle",
        metavar="SEED",
        help="run the files, and the tests of each, in an order that this text draws; the same one draws it again",
    )


def pytest_configure(config):
    if importlib.util.find_spec("hypothesis"):
        settings.load_profile("project" if config.getoption("--slow") else "quick")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config):
    """Two more than there are cores; none where single files are asked for: these are done before workers begin."""
    if all(Path(arg.partition("::")[0]).is_file() for arg in config.args):
        return 0
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return min(cores + 2, MOST_WORKERS)


@pytest.fixture(scope="session")
def real_model(request, tmp_path_factory):
    """A function: the name of a real model that can be fetched -> its folder, where no other test looks."""
    if not request.config.getoption("--real-models"):
        pytest.skip("needs --real-models, which fetches them (180 MB)")
    from filelock import FileLock

    from viz_model.fetching import fetch

    base = tmp_path_factory.getbasetemp()
    shelf = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "fetched"  # one for all workers

    def fetched(name):
        with FileLock(f"{shelf}.lock"):  # `fetch` itself refuses to wait for another one
            return fetch(name, shelf)

    return fetched


INSTALL = {  # what brings the packages that tests need
    "requirements-dev.txt": "pip install -r requirements-dev.txt",
    "tests/reference/requirements.txt": "pip install --no-deps -r tests/reference/requirements.txt",
}


@cache
def missing_packages():
    """The packages for tests that are not installed, by the names that imports give them, and how they are."""
    installed = {distribution.name.replace("-", "_").lower() for distribution in importlib.metadata.distributions()}
    return {
        name: command
        for requirements, command in INSTALL.items()
        for package in declared(requirements)
        if (name := package.replace("-", "_")) not in installed
    }


class ModuleWithoutTools(pytest.Module):
    """A test file that cannot be imported here."""

    missing = ()

    def collect(self):
        commands = sorted({missing_packages()[name] for name in self.missing})
        pytest.skip(f"needs {', '.join(self.missing)}: {' && '.join(commands)}")


def pytest_pycollect_makemodule(module_path, parent):
    if not missing_packages():
        return None  # pytest makes an ordinary module
    missing = sorted(missing_packages().keys() & {package for _, package in imports(module_path)})
    if not missing:
        return None
    module = ModuleWithoutTools.from_parent(parent, path=module_path)
    module.missing = missing
    return module


def pytest_collection_modifyitems(config, items):
    if not config.getoption("--slow"):
        slow = [item for item in items if item.get_closest_marker("slow")]
        config.hook.pytest_deselected(items=slow)
        items[:] = [item for item in items if item not in slow]
    files = {}
    for item in items:
        files.setdefault(item.path, []).append(item)
    seed = config.getoption("--shuffle")
    order = shuffled(files, random.Random(seed)) if seed else mixed(files)
    items[:] = [item for tests in order for item in tests]


def pytest_collection_finish():
    """Python looks for garbage again and again, and need not look through all that was imported."""
    gc.freeze()


def mixed(files):
    """The tests of a file that needs a browser, then those of some others, and so on.

    Browser tests wait, others compute: side by side they use the cores best. No long file is left for the end, when
    all but one worker have nothing more to do.
    """
    in_browser = [tests for tests in files.values() if tests[0].get_closest_marker("browser")]
    others = iter([tests for tests in files.values() if not tests[0].get_closest_marker("browser")])
    for tests in in_browser:
        yield tests
        yield from islice(others, FILES_BETWEEN)
    yield from others


def shuffled(files, generator):
    """The files in another order, and in each file its tests: what a file has opened is still opened once."""
    order = list(files.values())
    generator.shuffle(order)
    for tests in order:
        generator.shuffle(tests)
    return order
