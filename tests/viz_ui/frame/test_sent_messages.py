"""What a run after a fragment's is told of the messages that the browser has: tests/browser sees that pages bear it."""

from types import SimpleNamespace

import pytest
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from streamlit.runtime.app_session import AppSession
from streamlit.runtime.forward_msg_queue import ForwardMsgQueue
from streamlit.runtime.scriptrunner_utils.script_run_context import ScriptRunContext

from viz_ui.frame import sent_messages
from viz_ui.frame.sent_messages import note_sent, pass_on_sent


@pytest.fixture
def run(monkeypatch):
    """A run with the queue of its session, and a browser that has one message of before."""
    queue = ForwardMsgQueue()
    context = SimpleNamespace(_enqueue=queue.enqueue, cached_message_hashes=frozenset({"before"}), session_id="one")
    session = SimpleNamespace(_browser_queue=queue)
    monkeypatch.setattr(sent_messages, "get_script_run_ctx", lambda: context)
    server = SimpleNamespace(get_app_session={"one": session}.get)
    monkeypatch.setattr(sent_messages, "get_instance", lambda: server)
    return context, queue


def message(name, place, cacheable=True):
    made = ForwardMsg(hash=name)
    made.delta.new_element.text.body = name
    made.metadata.delta_path.append(place)
    made.metadata.cacheable = cacheable
    return made


def test_the_next_run_knows_the_large_messages_that_have_left_the_server(run):
    context, queue = run
    note_sent()
    note_sent()  # a page with two fragments: they are noted once all the same
    for one in (message("large", 0), message("small", 1, cacheable=False)):
        context._enqueue(one)
    assert [sent.hash for sent in queue.flush()] == ["large", "small"]
    pass_on_sent()
    assert context.cached_message_hashes == {"before", "large"}


def test_a_message_that_still_waits_is_sent_again(run):
    """A reference would take its place in the queue, and the browser would have neither."""
    context, queue = run
    note_sent()
    context._enqueue(message("large", 0))
    pass_on_sent()
    assert context.cached_message_hashes == {"before"}
    assert not queue.is_empty()


def test_a_run_that_was_not_noted_or_has_no_session_passes_nothing_on(run, monkeypatch):
    context, _ = run
    pass_on_sent()
    note_sent()
    context._enqueue(message("large", 0))
    context.session_id = "gone"
    pass_on_sent()
    assert context.cached_message_hashes == {"before"}
    monkeypatch.setattr(sent_messages, "get_script_run_ctx", lambda: None)
    note_sent()
    pass_on_sent()


def test_streamlit_still_has_what_is_reached_into():
    assert "_enqueue" in ScriptRunContext.__dataclass_fields__
    assert "cached_message_hashes" in ScriptRunContext.__dataclass_fields__
    assert "_browser_queue" in AppSession.__init__.__code__.co_names
