"""What a visitor held is given back when they leave, and nothing of those who stay."""

import asyncio
import json
import subprocess
import sys
from types import SimpleNamespace

import pytest
import streamlit as st
from streamlit.runtime import RuntimeState
from streamlit.runtime.state import SessionState
from streamlit.runtime.state.common import WidgetMetadata

import viz_model
from tests.support.browser import REPOSITORY
from tests.support.waiting import apart
from viz_model import garbage, jobs
from viz_model.hub import importing
from viz_ui.frame import upkeep


class Sessions:
    """A server, as far as it is asked: which sessions are active, and which were closed."""

    def __init__(self):
        self.active, self.closed = set(), []

    @property
    def state(self):
        return RuntimeState.ONE_OR_MORE_SESSIONS_CONNECTED if self.active else RuntimeState.NO_SESSIONS_CONNECTED

    def is_active_session(self, name):
        return name in self.active

    def close_session(self, name):
        self.closed.append(name)


@pytest.fixture
def server(monkeypatch):
    """A server with what it did: `closed` sessions, and how often it was `cleared` and garbage `collected`."""
    server = Sessions()
    server.cleared, server.collected = [], []
    monkeypatch.setattr(upkeep, "get_instance", lambda: server)
    monkeypatch.setattr(upkeep, "GRACE_SECONDS", 0.02)
    monkeypatch.setattr(upkeep, "_collected", 0.0)
    monkeypatch.setattr(upkeep, "_leaving", [])
    monkeypatch.setattr(st.cache_resource, "clear", lambda: server.cleared.append(True))
    monkeypatch.setattr(garbage, "collect", lambda: server.collected.append(True))
    return server


def session(name):
    """One that holds something in its state, and in the callback of a widget."""
    state = SessionState()
    state["view"] = "large"
    metadata = WidgetMetadata("widget", str, str, "string_value", callback=lambda: "large")
    state._new_widget_state.set_widget_metadata(metadata)
    return SimpleNamespace(id=name, session_state=state)


def held(one):
    return {*one.session_state._new_session_state, *one.session_state._new_widget_state.widget_metadata}


async def after_grace(*leaving, seconds=0.15):
    for one in leaving:
        upkeep._leave(one)
    await asyncio.sleep(seconds)


def test_a_session_that_nobody_came_back_to_is_closed_and_empty(server):
    one = session("one")
    apart(asyncio.run, after_grace(one))
    assert (server.closed, held(one)) == (["one"], set())
    assert (len(server.cleared), len(server.collected)) == (1, 1)


def test_who_came_back_in_time_keeps_all(server):
    one = session("one")
    server.active = {"one"}
    apart(asyncio.run, after_grace(one))
    assert (server.closed, held(one), server.cleared) == ([], {"view", "widget"}, [])


def test_what_visitors_share_stays_while_one_is_there(server):
    server.active = {"another"}
    apart(asyncio.run, after_grace(session("one")))
    assert (server.closed, server.cleared, len(server.collected)) == (["one"], [], 1)


def test_a_class_that_leaves_at_once_is_collected_once(server):
    apart(asyncio.run, after_grace(*(session(f"{n}") for n in range(30))))
    assert len(server.closed) == 30
    assert len(server.collected) <= 2  # the first, which may not have known of the others, and the last


def test_what_is_shared_stays_until_a_job_has_ended(server, monkeypatch):
    monkeypatch.setattr(jobs, "are_under_way", lambda: True)

    async def leave_and_end():
        await after_grace(session("one"))
        assert server.cleared == []
        monkeypatch.setattr(jobs, "are_under_way", lambda: False)
        while not server.cleared:
            await asyncio.sleep(0.01)

    apart(asyncio.run, leave_and_end())
    assert server.cleared


def test_the_own_visit_of_the_server_ends_without_a_session(server):
    apart(asyncio.run, after_grace(None))
    assert (server.closed, len(server.collected)) == ([], 1)


def test_a_page_without_a_server_leaves_nothing_to_do(server):
    apart(upkeep._leave, session("one"))
    assert upkeep._leaving == []


@pytest.mark.parametrize("is_ours", [True, False])
def test_the_library_is_imported_ahead_where_a_model_needs_it(monkeypatch, is_ours):
    imported = []
    entry = SimpleNamespace(folder=REPOSITORY, config=SimpleNamespace(is_skeleton=is_ours))
    to_fetch = SimpleNamespace(folder=None, config=SimpleNamespace(is_skeleton=False))
    monkeypatch.setattr(viz_model, "catalogue", lambda: [to_fetch, entry])
    monkeypatch.setattr(importing, "import_library", lambda: imported.append(True))
    upkeep._import_library()
    assert bool(imported) != is_ours


@pytest.mark.slow
def test_a_real_server_holds_nothing_of_visitors_who_have_left():
    done = subprocess.run(
        [sys.executable, "-m", "tests.support.visited_server"], cwd=REPOSITORY, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["there"]["views"] >= 3
    assert found["there"]["traces"] >= 3
    assert found["left"] == {}
