"""Visitors without a browser: sessions of Streamlit's protocol over a WebSocket, with the page Heads.

A visitor opens a link, chooses heads and types prompts by the messages that a browser would send, and takes from what
the server sends the picture that must follow:

    visitor = Visitor(Look("Once upon a time", layer=2, head=5))
    seconds = await visitor.come(server.url)
    seconds = await visitor.choose_head(3, 1)
    check(visitor.pictures)                    # each is what was asked for, down to the numbers
    await visitor.leave()

Times are from the message that asks to the message that holds the picture's numbers.
"""

import asyncio
import json
import time
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cache
from urllib.parse import urlencode

import numpy as np
from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from websockets.asyncio.client import connect

import viz_model as vm
from tests.support.blobs import received
from viz_ui.components.shared.packing import EXACT_CELLS, unpack
from viz_ui.look.text import labels

WAIT_SECONDS = 600
EXACT, HALF = 1e-5, 1e-3  # a sum of another order of its terms; float16, in which large matrices travel


@dataclass(frozen=True)
class Look:
    """What somebody looks at: the weights of one head over a prompt."""

    prompt: str
    layer: int = 0
    head: int = 0
    model: str = "tiny-gpt"

    @property
    def title(self) -> str:
        """What stands over the matrix."""
        return f"Layer {self.layer}, head {self.head}: weights"

    @property
    def tokens(self) -> list[str]:
        """What stands beside its rows."""
        return _tokens(self.model, self.prompt)


@dataclass(frozen=True)
class Picture:
    """What came: the component's message, and how many seconds after it was asked for."""

    look: Look
    seconds: float
    blob: bytes


class Visitor:
    """One tab, as the server sees it. pictures: what was asked for and came, the last one at the end."""

    def __init__(self, look: Look):
        self.look, self.pictures = look, list[Picture]()
        self._own = {tuple(look.tokens)}  # of every prompt of theirs
        self._picks, self._page = 0, ""
        self._at_rest = asyncio.Event()  # whether all of the page is there
        self._ids: dict[str, tuple[str, str]] = {}  # by the key of a widget: its id, and that of its fragment
        self._awaited: asyncio.Future[tuple[float, bytes]] | None = None

    async def come(self, url: str) -> float:
        """Open the link to what they look at; gives the seconds until it is there, as all that asks does."""
        start, look = time.perf_counter(), self.look
        address = f"ws{url.removeprefix('http')}/_stcore/stream"
        self._socket = await connect(address, origin=url, subprotocols=["streamlit"], max_size=None, compression=None)
        self._reading = asyncio.create_task(self._read())
        link = urlencode({"model": look.model, "prompt": look.prompt, "head": f"{look.layer}.{look.head}"})
        return await self._ask(look, self._rerun(query_string=link), start)

    async def choose_head(self, layer: int, head: int) -> float:
        """Click another head in the grid, which is there once all of the page is."""
        await self._at_rest.wait()
        self._picks += 1
        widget, fragment = self._ids["head_grid"]
        message = self._rerun(fragment_id=fragment)
        event = message.rerun_script.widget_states.widgets.add(id=f"$$STREAMLIT_INTERNAL_KEY_{widget}__events")
        event.json_trigger_value = json.dumps([{"event": "pick", "value": [layer, head, self._picks]}])
        return await self._ask(replace(self.look, layer=layer, head=head), message, time.perf_counter())

    async def type_prompt(self, prompt: str) -> float:
        """Type another prompt and press Ctrl+Enter."""
        look = replace(self.look, prompt=prompt)
        self._own.add(tuple(look.tokens))
        await self._at_rest.wait()
        message = self._rerun()
        message.rerun_script.widget_states.widgets.add(id=self._ids["prompt"][0], string_value=prompt)
        return await self._ask(look, message, time.perf_counter())

    async def leave(self) -> None:
        """Close the tab."""
        self._reading.cancel()
        await self._socket.close()

    def _rerun(self, **state) -> BackMsg:
        message = BackMsg()
        message.rerun_script.page_script_hash = self._page
        for name, value in state.items():
            setattr(message.rerun_script, name, value)
        return message

    async def _ask(self, look: Look, message: BackMsg, start: float) -> float:
        self.look, self._awaited = look, asyncio.get_running_loop().create_future()
        await self._socket.send(message.SerializeToString())
        came, blob = await asyncio.wait_for(self._awaited, WAIT_SECONDS)
        self.pictures.append(Picture(look, came - start, blob))
        return came - start

    async def _read(self) -> None:
        try:
            async for frame in self._socket:
                message = ForwardMsg.FromString(frame)
                if message.HasField("navigation"):
                    self._page = message.navigation.page_script_hash
                elif message.HasField("new_session"):
                    self._at_rest.clear()
                elif message.HasField("script_finished"):
                    self._at_rest.set()
                elif message.delta.HasField("new_element"):
                    self._take(message.delta)
        except Exception as error:
            if not self._awaited.done():
                self._awaited.set_exception(error)

    def _take(self, delta) -> None:
        kind = delta.new_element.WhichOneof("type")
        element = getattr(delta.new_element, kind)
        if kind == "exception":
            raise AssertionError(f"the app shows an exception: {element.message}")
        if identity := getattr(element, "id", ""):
            self._ids[identity.rpartition("-")[2]] = identity, delta.fragment_id
        if kind != "bidi_component" or element.component_name != "viz.panels":
            return
        header, _ = unpack(element.bytes)
        assert tuple(header["labels"][0]) in self._own, f"somebody else's tokens: {' '.join(header['labels'][0])}"
        is_it = (header["items"][0]["title"], header["labels"][0]) == (self.look.title, self.look.tokens)
        if is_it and not self._awaited.done():
            self._awaited.set_result((time.perf_counter(), element.bytes))


def check(pictures: Iterable[Picture]) -> int:
    """Compare the weights of each picture with those of a pass that is made here; gives how many were compared.

    Raises AssertionError for a picture with other numbers, or where two looks have the same: then no comparison tells
    whose picture it is.
    """
    by_numbers: dict[bytes, Look] = {}
    for picture in pictures:
        look = picture.look
        [(weights, allowed)] = received(picture.blob).values()
        wanted = np.where(allowed, _pass(look.model, look.prompt).weights(look.layer, look.head).numpy(), 0)
        tolerance = EXACT if wanted.size <= EXACT_CELLS else HALF
        assert np.abs(weights - wanted).max() <= tolerance, f"other weights than those of {look}"
        assert by_numbers.setdefault(wanted.round(4).tobytes(), look) == look, f"{look} cannot be told from another"
    return len(pictures)


_loaded = cache(vm.load)


@cache
def _tokens(model: str, prompt: str) -> list[str]:
    return labels(_loaded(model).pieces(prompt))


@cache
def _pass(model: str, prompt: str) -> vm.Trace:
    return _loaded(model).trace(prompt)
