"""The door: every request of a browser comes through here, and every answer goes out through it.

Who comes in calls the server by a name that it has, and a page that opens a connection is the server's own. Else a page
of anybody's could, in the browser of somebody who is let in, talk to this server: its owner lets a name of theirs stand
for this server's address ("DNS rebinding": Jackson et al. 2007, "Protecting Browsers from DNS Rebinding Attacks", §5),
or opens a WebSocket, which browsers allow across origins (RFC 6455, §10.2).

What goes out says nothing of the server's disk. Streamlit itself tells every browser the path of the main script, and
on request the state of the git repository around it.
"""

import os
import re
from ipaddress import ip_address
from pathlib import Path
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from starlette.websockets import WebSocketClose
from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg

from viz_ui.sharing.settings import Sharing

_ROOT = os.fsencode(Path(__file__).resolve().parents[2])
# Of what a browser may ask, what a page needs. The others clear what all visitors share, tell of the server's files, or
# write to its disk.
_ANSWERED = {"rerun_script", "stop_script", "app_heartbeat"}
_ANSWERED_OPERATIONS = {"deferred_file", "dataframe_chunk"}  # a download, and more rows of a long table
_HOST = re.compile(r"(\[[0-9a-f:]+\]|[a-z0-9._-]+)(:\d+)?")  # RFC 9110, §7.2
_UPLOADS = "/_stcore/upload_file/"  # Streamlit keeps what any visitor sends there in memory
_REFUSED_BY_POLICY = 1008  # RFC 6455, §7.4.1


class Door:
    """ASGI middleware: lets in whom `sharing` names, and adds to each answer who may frame it."""

    def __init__(self, app: ASGIApp, sharing: Sharing):
        self._app, self._sharing = app, sharing

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            return await self._app(scope, receive, send)
        problem = why_refused(scope, self._sharing)
        if scope["type"] == "http":
            answer = PlainTextResponse(problem, 403) if problem else self._app
            return await answer(scope, receive, self._with_headers(send))
        if problem:
            return await WebSocketClose(_REFUSED_BY_POLICY, problem)(scope, receive, send)
        return await self._app(scope, _answered(receive), _without_places(send))

    def _with_headers(self, send: Send) -> Send:
        async def sent(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers.append("Content-Security-Policy", self._sharing.frame_ancestors)
                headers["X-Content-Type-Options"] = "nosniff"
            await send(message)

        return sent


def why_refused(scope: Scope, sharing: Sharing) -> str:
    """Why this request is not let in, as a sentence; "" where it is."""
    if not sharing.is_on and not _is_of_this_computer(scope):
        return "This server is for its own computer alone. Whoever started it can share it: README.md says how."
    headers = Headers(scope=scope)
    hosts, origins = headers.getlist("host"), headers.getlist("origin")
    if len(hosts) != 1 or not sharing.answers_to(_name(hosts[0])):
        return "This server has another name. Whoever started it can add this one to VIZ_SHARE."
    if scope["type"] == "websocket" and not origins:
        return "A connection without an Origin is no browser's, and is not answered."
    if any(_authority(origin) != hosts[0].lower() for origin in origins):
        return "A page of another origin may not use this server."
    if _UPLOADS in scope["path"]:
        return "No page of this app takes a file."
    return ""


def _is_of_this_computer(scope: Scope) -> bool:
    client = scope.get("client")
    if client is None:  # a socket in the file system, which no other computer reaches
        return True
    try:
        ip = ip_address(client[0])
    except ValueError:
        return False
    return (getattr(ip, "ipv4_mapped", None) or ip).is_loopback


def _name(host: str) -> str:
    """The name in a Host header, which may have a port; "" where it is none."""
    found = _HOST.fullmatch(host.lower())
    return found[1].strip("[]") if found else ""


def _authority(origin: str) -> str:
    """Name and port of an Origin header; "" of what no page of a server sends, such as "null"."""
    try:
        parts = urlsplit(origin)
        return parts.netloc.lower() if parts.scheme in ("http", "https") else ""
    except ValueError:
        return ""


def _answered(receive: Receive) -> Receive:
    """Only what a page needs reaches the app."""

    async def received() -> Message:
        while True:
            message = await receive()
            if message["type"] != "websocket.receive" or _is_answered(message.get("bytes")):
                return message

    return received


def _is_answered(content: bytes | None) -> bool:
    try:
        asked = BackMsg.FromString(content or b"")
    except Exception:  # whatever it is, it is no message of Streamlit's, which closes the connection
        return True
    kind = asked.WhichOneof("type")
    if kind == "backend_operation_request":
        return asked.backend_operation_request.WhichOneof("payload") in _ANSWERED_OPERATIONS
    return content is None or kind in _ANSWERED


def _without_places(send: Send) -> Send:
    """What is sent to a browser, without the place of the main script."""

    async def sent(message: Message) -> None:
        content = message.get("bytes")
        if content and _ROOT in content:
            message = message | {"bytes": without_script_path(content)}
        await send(message)

    return sent


def without_script_path(content: bytes) -> bytes:
    """A message of Streamlit, without the place of the main script where it begins a run."""
    told = ForwardMsg.FromString(content)
    if told.WhichOneof("type") == "new_session":
        told.new_session.main_script_path = Path(told.new_session.main_script_path).name
    return told.SerializeToString()
