"""How a component's script and style reach the browser: as files that it keeps.

Streamlit sends a component's script with every message, unless the project is an installed package, whose files it then
serves without a version and unkept. So `app.py` gives out the files itself, under an address that changes with what
any of them says:

    components/<version>/panels/panels.js      which imports ./matrix_panel.js, ../shared/cells.js, ...
    components/<version>/colours.css+shared/shared.css+panels/panels.css      the styles of one component, joined

and a message carries only `entry.js`, a few lines that fetch both. What a browser has is never old, so it never asks
again. docs/streamlit.md has the figures.
"""

from __future__ import annotations

import hashlib
import importlib
import json
from collections.abc import Callable
from pathlib import Path, PurePosixPath

import streamlit as st
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from streamlit import config

from viz_ui.look.colours import colour_css

_FOLDER = Path(__file__).resolve().parents[1]
_MEDIA_TYPES = {".js": "text/javascript", ".css": "text/css"}
_KEPT = {"Cache-Control": "public, max-age=31536000, immutable"}
_STYLES_OF_ALL = ("colours.css", "shared/shared.css")


def _read_files() -> dict[str, bytes]:
    """Every script and style by its path below `components`, and the colours, which Python knows."""
    found = sorted(path for path in _FOLDER.rglob("*") if path.suffix in _MEDIA_TYPES)
    files = {path.relative_to(_FOLDER).as_posix(): path.read_bytes() for path in found}
    return files | {"colours.css": colour_css().encode()}


def version_of(files: dict[str, bytes]) -> str:
    """A name for these names and contents, the same on every machine."""
    parts = (part for name in sorted(files) for part in (name.encode(), files[name]))
    return hashlib.sha256(b"\0".join(parts)).hexdigest()[:16]


_FILES = _read_files()
_ENTRY = _FILES.pop("shared/entry.js").decode()
VERSION = version_of(_FILES)


def component(name: str, *, html: str, script: str, styles: tuple[str, ...]) -> Callable:
    """A component whose script and styles are files of this folder: call it as what Streamlit's `component` gives.

    The script's default export is called with each message. The styles of all components stand before its own.
    """
    missing = {script, *styles} - _FILES.keys()
    if missing:
        raise FileNotFoundError(f"There is no {', '.join(sorted(missing))} in {_FOLDER}.")
    where = {"version": VERSION, "script": script, "styles": "+".join((*_STYLES_OF_ALL, *styles))}
    entry = f"const COMPONENT = {json.dumps(where)};\n{_ENTRY}"
    return st.components.v2.component(name, html=html, js=entry)


def components_route() -> Route:
    """The route under which `st.App` gives the files out."""
    return Route(below_base_path("/components/{version}/{names:path}"), _give_out)


def below_base_path(path: str) -> str:
    """An address of the app where a server gives it out below a path of its own (`server.baseUrlPath`)."""
    base = config.get_option("server.baseUrlPath").strip("/")
    return f"/{base}{path}" if base else path


async def _give_out(request: Request) -> Response:
    now = importlib.import_module(__name__)  # Streamlit imports it anew where somebody edits a file as the server runs
    names = request.path_params["names"].split("+")
    if request.path_params["version"] != now.VERSION or not now._FILES.keys() >= set(names):
        return PlainTextResponse("No such file of a component: reload the page.", 404)
    content = b"\n".join(now._FILES[name] for name in names)
    return Response(content, media_type=_MEDIA_TYPES[PurePosixPath(names[-1]).suffix], headers=_KEPT)
