"""The scripts of the components as modules: what they do without a page is tested by Node (*.test.js beside this)."""

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.browser import browser_required
from tests.support.sources import ROOT

HERE = Path(__file__).parent


def test_what_node_tests():
    node = shutil.which("node")
    if node is None:
        assert not browser_required(), "no node found"
        pytest.skip("no node found, which runs the tests of scripts")
    scripts = sorted(HERE.glob("*.test.js"))
    assert scripts
    result = subprocess.run(
        [node, "--test", *map(str, scripts)], cwd=ROOT, capture_output=True, text=True, timeout=300, check=False
    )
    assert result.returncode == 0, result.stdout + result.stderr
