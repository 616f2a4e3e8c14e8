"""How a component's script and style reach the browser: all of them in one file that it keeps.

Streamlit sends a component's script with every message, unless the project is an installed package, whose files it then
serves without a version and unkept. So `app.py` gives the files out itself, under an address that changes with what
any of them says:

    components/<version>.json      {"panels/panels.js": "import … from \"./matrix_panel.js\"; …", "colours.css": …, …}

and a message carries only `entry.js`, a few lines that fetch them and make modules of those that the component imports.
One file, for a browser that was never here has a hundred of Streamlit's own to fetch at the same time, and each of ours
stood in line behind them. What a browser has is never old, so it never asks again. docs/streamlit.md has the figures.
"""

from __future__ import annotations

import hashlib
import importlib
import json
from collections.abc import Callable
from pathlib import Path

import streamlit as st
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from streamlit import config

from viz_ui.look.colours import colour_css

_FOLDER = Path(__file__).resolve().parents[1]
_SUFFIXES = (".js", ".css")
_KEPT = {"Cache-Control": "public, max-age=31536000, immutable"}
_STYLES_OF_ALL = ("colours.css", "shared/shared.css")


def _read_files() -> dict[str, str]:
    """Every script and style by its path below `components`, and the colours, which Python knows."""
    found = sorted(path for path in _FOLDER.rglob("*") if path.suffix in _SUFFIXES)
    files = {path.relative_to(_FOLDER).as_posix(): path.read_text(encoding="utf-8") for path in found}
    return files | {"colours.css": colour_css()}


def _in_one(files: dict[str, str]) -> bytes:
    """The file that holds them all, the same on every machine."""
    return json.dumps(files, ensure_ascii=False, sort_keys=True, separators=(",", ":")).encode()


def version_of(files: dict[str, str]) -> str:
    """A name for these names and contents."""
    return hashlib.sha256(_in_one(files)).hexdigest()[:16]


_FILES = _read_files()
_ENTRY = _FILES.pop("shared/entry.js")
VERSION = version_of(_FILES)
_CONTENT = _in_one(_FILES)


def component(name: str, *, html: str, script: str, styles: tuple[str, ...]) -> Callable:
    """A component whose script and styles are files of this folder: call it as what Streamlit's `component` gives.

    The script's default export is called with each message. The styles of all components stand before its own.
    """
    missing = {script, *styles} - _FILES.keys()
    if missing:
        raise FileNotFoundError(f"There is no {', '.join(sorted(missing))} in {_FOLDER}.")
    where = {"version": VERSION, "script": script, "styles": (*_STYLES_OF_ALL, *styles)}
    entry = f"const COMPONENT = {json.dumps(where)};\n{_ENTRY}"
    return st.components.v2.component(name, html=html, js=entry)


def components_route() -> Route:
    """The route under which `st.App` gives the files out."""
    return Route(below_base_path("/components/{version}.json"), _give_out)


def below_base_path(path: str) -> str:
    """An address of the app where a server gives it out below a path of its own (`server.baseUrlPath`)."""
    base = config.get_option("server.baseUrlPath").strip("/")
    return f"/{base}{path}" if base else path


async def _give_out(request: Request) -> Response:
    now = importlib.import_module(__name__)  # Streamlit imports it anew where somebody edits a file as the server runs
    if request.path_params["version"] != now.VERSION:
        return PlainTextResponse("No such files of components: reload the page.", 404)
    return Response(now._CONTENT, media_type="application/json", headers=_KEPT)
