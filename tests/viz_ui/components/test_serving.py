"""Scripts and styles reach a browser as one file, under an address that changes with what they say."""

import asyncio
import json
import re
from pathlib import Path, PurePosixPath

import pytest
from starlette.applications import Starlette
from streamlit import config

from tests.support.waiting import apart
from viz_ui.components.shared import serving

SCRIPTS = sorted(name for name in serving._FILES if name.endswith(".js"))
IMPORT = re.compile(r'^import [^;]* from "([^"]+)";', re.MULTILINE)


def get(path, base=""):
    """(status, headers, content) of what a server with that base path answers."""
    before = config.get_option("server.baseUrlPath")
    config.set_option("server.baseUrlPath", base)
    try:
        app = Starlette(routes=[serving.components_route()])
    finally:
        config.set_option("server.baseUrlPath", before)
    scope = {"type": "http", "method": "GET", "path": path, "root_path": "", "query_string": b"", "headers": []}
    messages = []

    async def receive():
        return {"type": "http.request"}

    async def send(message):
        messages.append(message)

    apart(asyncio.run, app(scope, receive, send))
    start, body = messages
    return start["status"], {k.decode(): v.decode() for k, v in start["headers"]}, body["body"]


@pytest.mark.parametrize("base", ["", "vis", "/a/b/"])
def test_a_browser_gets_all_in_one_file_and_keeps_it(base):
    prefix = f"/{base.strip('/')}" if base else ""
    status, headers, content = get(f"{prefix}/components/{serving.VERSION}.json", base)
    assert status == 200
    assert headers["content-type"].startswith("application/json")
    assert "immutable" in headers["cache-control"]
    files = json.loads(content)
    folder = Path(serving.__file__).parents[1]
    there = {path.relative_to(folder).as_posix(): path.read_text("utf-8") for path in folder.rglob("*.[jc]s*")}
    del there["shared/entry.js"]  # which fetches them
    assert {name: files[name] for name in there} == there
    assert files.keys() - there == {"colours.css"}
    assert "--query:" in files["colours.css"]


@pytest.mark.parametrize(
    "path", ["panels/panels.js", "{version}", "{version}/../../README.md", "0123456789abcdef.json", "{version}.json/x"]
)
def test_nothing_else_is_given_out(path):
    assert get("/components/" + path.format(version=serving.VERSION))[0] == 404


def test_another_content_is_another_version():
    copy = dict(reversed(serving._FILES.items()))
    assert serving.version_of(copy) == serving.VERSION
    copy["shared/cells.js"] += "\n"
    assert serving.version_of(copy) != serving.VERSION


@pytest.mark.parametrize("script", SCRIPTS)
def test_every_import_leads_to_a_file_that_is_served(script):
    text = serving._FILES[script]
    found = IMPORT.findall(text)
    assert len(found) == len(re.findall(r"^import\b", text, re.MULTILINE)), "an import that this test cannot read"
    for target in found:
        assert target.startswith("."), f"{script} imports {target}, which no browser finds"
        path = PurePosixPath("/components", script).parent
        for part in PurePosixPath(target).parts:
            path = path.parent if part == ".." else path / part
        assert str(path.relative_to("/components")) in serving._FILES, f"{script} imports {target}"


def test_a_component_of_a_missing_file_is_refused_at_once():
    with pytest.raises(FileNotFoundError, match=r"panels/none\.js"):
        serving.component("viz.none", html="", script="panels/none.js", styles=())
