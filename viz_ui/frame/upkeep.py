"""What the server does of itself: it is its own first visitor, and it gives memory back when visitors have left.

Streamlit imports a script's modules, and compiles it, when somebody comes. And it keeps the session of a tab that was
closed until the next visitor comes, however long that takes; what visitors share it keeps for good.
"""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import streamlit as st
from streamlit.runtime import RuntimeState, get_instance
from streamlit.runtime.app_session import AppSession
from streamlit.runtime.scriptrunner import get_script_run_ctx

GRACE_SECONDS = 30  # in which a laptop that lost its network for a moment finds all as it was
REST_SECONDS = 10  # between two collections, where visitors leave one after the other

_leaving: list[AppSession | None] = []  # in their time of grace
_collected = 0.0


@asynccontextmanager
async def upkeep(_app: st.App) -> AsyncIterator[None]:
    """The life of the server, for `st.App`: what it begins with and visitors would wait for."""
    readiness = asyncio.create_task(_get_ready())
    yield
    readiness.cancel()


async def _get_ready() -> None:
    """Run the script once, so that all modules and the first model are there; then import the library, if it is needed.

    To import it takes two seconds of Python, in which all others are slowed down.
    """
    await get_instance().does_script_run_without_error()
    await asyncio.get_running_loop().run_in_executor(None, _import_library)


def _import_library() -> None:
    from viz_model import catalogue
    from viz_model.hub.importing import import_library, undisturbed

    if any(entry.folder and not entry.config.is_skeleton for entry in catalogue()):
        with undisturbed():
            import_library()


def _leave(session: AppSession | None) -> None:
    """A tab was closed, or lost its connection; called in the server's loop."""
    with suppress(RuntimeError):  # no loop is running: the page was opened by a test
        asyncio.get_running_loop().call_later(GRACE_SECONDS, _end, session)
        _leaving.append(session)


@st.cache_resource(scope="session", show_spinner=False, on_release=_leave)
def note_session() -> AppSession | None:
    """To be called by every run, so that it is known who leaves; None is the server's own visit."""
    return get_instance().get_app_session(get_script_run_ctx().session_id)


def _end(session: AppSession | None) -> None:
    """Close a session for which nobody came back."""
    server = get_instance()
    if session is not None and not server.is_active_session(session.id):
        server.close_session(session.id)
        # The server's loop holds the session that it served last until it serves another one. So its state is made
        # anew; `clear` would leave the callbacks of its widgets, and what they know.
        session.session_state.__init__()
    _leaving.remove(session)
    if not _leaving or time.monotonic() - _collected > REST_SECONDS:
        _give_back()


def _give_back() -> None:
    """Let go of what all visitors share where there are none, and collect garbage."""
    global _collected
    from viz_model import garbage, jobs  # not when the server begins: the modules of the script come with its first run

    loop, nobody = asyncio.get_running_loop(), get_instance().state == RuntimeState.NO_SESSIONS_CONNECTED
    _collected = time.monotonic()
    if nobody and jobs.are_under_way():  # a fetch goes on when who asked for it has left
        loop.call_later(GRACE_SECONDS, _give_back)
    elif nobody:
        st.cache_resource.clear()
    loop.run_in_executor(None, garbage.collect)
