"""What holds for all tests.

With `requirements.txt` alone, the test files that need more are skipped, each with the name of what is missing, and
all tests run in one process. With pytest-xdist each core has a worker, which is given one file after the other: what a
file, a page or a server has opened is opened once. The browser's files come first, for they are the longest.
"""

import importlib.util
import os
import random
from functools import cache
from pathlib import Path

import pytest

from tests.support.sources import declared, imports

pytest_plugins = ["pytester"]
if importlib.util.find_spec("hypothesis"):
    from hypothesis import settings

    settings.register_profile("project", deadline=None)  # a busy machine is no fault of what is tested
    settings.load_profile("project")
os.environ.setdefault(
    "OMP_NUM_THREADS", "1"
)  # each core has a worker, and a server: threads would wait for one another
MOST_WORKERS = 4  # each of them takes 2 GB, with its server and its browser


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


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config):
    """A worker for each core; none where single files are asked for, which are done before workers have begun."""
    if all(Path(arg.partition("::")[0]).is_file() for arg in config.args):
        return 0
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return min(cores, MOST_WORKERS)


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


@cache
def missing_packages():
    """Names of the packages in requirements-dev.txt that are not installed."""
    return {name for name in declared("requirements-dev.txt") if importlib.util.find_spec(name) is None}


class ModuleWithoutTools(pytest.Module):
    """A test file that cannot be imported here."""

    missing = ()

    def collect(self):
        pytest.skip(f"needs {', '.join(self.missing)}: pip install -r requirements-dev.txt")


def pytest_pycollect_makemodule(module_path, parent):
    if not missing_packages():
        return None  # pytest makes an ordinary module
    missing = sorted(missing_packages() & {package for _, package in imports(module_path)})
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
    items.sort(key=lambda item: item.get_closest_marker("browser") is None)
    if seed := config.getoption("--shuffle"):
        items[:] = shuffled(items, random.Random(seed))


def shuffled(items, generator):
    """The files in another order, and in each file its tests: what a file has opened is still opened once."""
    files = {}
    for item in items:
        files.setdefault(item.path, []).append(item)
    groups = list(files.values())
    generator.shuffle(groups)
    for group in groups:
        generator.shuffle(group)
    return [item for group in groups for item in group]
