"""A visit of the app without a browser: a WebSocket as a browser opens it, and every message that comes through it."""

import socket
from contextlib import contextmanager
from urllib.parse import urlsplit

from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from websockets.sync.client import connect

STREAM = "/_stcore/stream"
SECONDS = 120  # for an answer, on a busy machine


def own_address() -> str:
    """An address of this machine by which it reaches itself as another one would: not the one that localhost is."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # nothing is sent
            return probe.getsockname()[0]
        except OSError:  # no network at all
            return "127.0.0.2"


def handshake(url: str, headers: dict[str, str], address: str | None = None) -> int:
    """The status that answers a WebSocket handshake with these headers and no others; 101 is yes."""
    parts = urlsplit(url)
    lines = [f"GET {STREAM} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items())]
    lines += ["Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13"]
    lines += ["Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==", "", ""]
    with socket.create_connection((address or parts.hostname, parts.port), SECONDS) as connection:
        connection.sendall("\r\n".join(lines).encode())
        return int(connection.recv(1024).split()[1])


class Visit:
    """One visitor's connection; `received` is what came through it, message by message."""

    def __init__(self, connection):
        self._connection, self.received = connection, []

    def ask(self, message: BackMsg) -> None:
        self._connection.send(message.SerializeToString())

    def look_at(self, page: str = "", query: str = "", widgets: dict | None = None) -> list[ForwardMsg]:
        """Run a page, with this address and these values of widgets by their ids; gives what came until its end."""
        asked = BackMsg()
        asked.rerun_script.page_name, asked.rerun_script.query_string = page, query
        for name, value in (widgets or {}).items():
            state = asked.rerun_script.widget_states.widgets.add(id=name)
            setattr(state, "string_value" if isinstance(value, str) else "int_value", value)
        self.ask(asked)
        return self.until("script_finished")

    def until(self, kind: str) -> list[ForwardMsg]:
        """What comes until a message of this kind."""
        got = []
        while not got or got[-1].WhichOneof("type") != kind:
            self.received.append(self._connection.recv(SECONDS))
            got.append(ForwardMsg.FromString(self.received[-1]))
        return got


@contextmanager
def visiting(url: str, host: str | None = None):
    """A visit of the server at this URL; host: its name, where another one than in the URL."""
    parts = urlsplit(url)
    address = f"ws://{host or parts.hostname}:{parts.port}{STREAM}"
    origin = f"http://{host or parts.hostname}:{parts.port}"
    options = {"origin": origin, "subprotocols": ["streamlit"], "proxy": None, "compression": None, "max_size": None}
    with connect(address, open_timeout=SECONDS, **options) as connection:
        yield Visit(connection)
