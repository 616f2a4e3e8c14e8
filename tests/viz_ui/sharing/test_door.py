"""Who comes in through the door, and what goes out: the middleware around an app that notes what reached it."""

import asyncio
from pathlib import Path

import pytest
from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg

from tests.support.waiting import apart
from viz_ui.sharing import door
from viz_ui.sharing.settings import read

OWN, SHARED = read({}), read({"VIZ_SHARE": "lab.example.edu 192.168.1.20 fd00::2", "VIZ_FRAMES": "self"})
HERE, ELSEWHERE = ("127.0.0.1", 5000), ("203.0.113.7", 5000)


def through(settings, kind, headers, client=HERE, received=(), sent=(), path="/"):
    """What the app behind the door got, and what came back; it sends `sent` when it has got all of `received`."""
    got, back, waiting = [], [], iter(received)

    async def app(scope, receive, send):
        got.extend([await receive() for _ in received] or [scope["type"]])
        for message in sent:
            await send(message)

    async def receive():
        return next(waiting, {"type": "websocket.disconnect", "code": 1000})

    async def send(message):
        back.append(message)

    scope = {"type": kind, "method": "GET", "path": path, "client": client, "query_string": b""}
    scope["headers"] = [(name.lower().encode(), value.encode()) for name, value in headers]
    apart(asyncio.run, door.Door(app, settings)(scope, receive, send))
    return got, back


def is_let_in(settings, kind, *headers, client=HERE):
    got, back = through(settings, kind, headers, client)
    if got:
        return True
    assert back[0]["type"] == ("websocket.close" if kind == "websocket" else "http.response.start")
    assert back[0].get("code", back[0].get("status")) in (1008, 403)
    return False


@pytest.mark.parametrize(
    ("host", "is_own"),
    [
        ("localhost:8501", True),
        ("LOCALHOST", True),
        ("127.0.0.1:1", True),
        ("[::1]:8501", True),
        ("evil.example", False),
        ("localhost.evil.example", False),
        ("localhost@evil.example", False),
        ("evil.example:8501", False),
        ("192.168.1.20:8501", False),
        ("127.0.0.1.", False),
        ("", False),
    ],
)
def test_a_page_asked_for_by_another_name_is_refused(host, is_own):
    assert is_let_in(OWN, "http", ("Host", host)) == is_own
    assert is_let_in(OWN, "websocket", ("Host", host), ("Origin", f"http://{host}")) == is_own


@pytest.mark.parametrize("path", ["/_stcore/upload_file/a/b", "/base/_stcore/upload_file/a/b"])
def test_no_file_is_taken(path):
    got, [start, _] = through(OWN, "http", [("Host", "localhost")], path=path)
    assert got == []
    assert start["status"] == 403


def test_two_names_or_none_are_refused():
    assert not is_let_in(OWN, "http")
    assert not is_let_in(OWN, "http", ("Host", "localhost"), ("Host", "evil.example"))


@pytest.mark.parametrize("host", ["lab.example.edu", "192.168.1.20:8501", "[fd00::2]:8501", "localhost:8501"])
def test_a_shared_server_answers_to_its_names(host):
    assert is_let_in(SHARED, "http", ("Host", host), client=ELSEWHERE)
    assert is_let_in(SHARED, "websocket", ("Host", host), ("Origin", f"https://{host}"), client=ELSEWHERE)
    assert not is_let_in(SHARED, "http", ("Host", f"evil-{host}"), client=ELSEWHERE)


@pytest.mark.parametrize("origin", ["http://evil.example", "http://localhost:3000", "null", "", "file://", "localhost"])
def test_a_page_of_another_origin_is_refused(origin):
    headers = ("Host", "localhost:8501"), ("Origin", origin)
    assert not is_let_in(OWN, "websocket", *headers)
    assert not is_let_in(OWN, "http", *headers)


def test_a_connection_without_an_origin_is_refused_and_a_page_has_none():
    assert not is_let_in(OWN, "websocket", ("Host", "localhost:8501"))
    assert not is_let_in(SHARED, "websocket", ("Host", "lab.example.edu"))
    assert is_let_in(OWN, "http", ("Host", "localhost:8501"))


@pytest.mark.parametrize("client", [ELSEWHERE, ("2001:db8::1", 1), ("::ffff:203.0.113.7", 1), ("nonsense", 1)])
def test_another_computer_is_refused_by_what_it_calls_from(client):
    """Whatever name it gives: also where something else than `streamlit run` made the server listen for others."""
    assert not is_let_in(OWN, "http", ("Host", "localhost:8501"), client=client)
    assert not is_let_in(OWN, "websocket", ("Host", "localhost"), ("Origin", "http://localhost"), client=client)


@pytest.mark.parametrize("client", [HERE, ("::1", 1), ("::ffff:127.0.0.1", 1), None])
def test_this_computer_is_let_in(client):
    assert is_let_in(OWN, "http", ("Host", "localhost:8501"), client=client)


@pytest.mark.parametrize(("settings", "frames"), [(OWN, "'none'"), (SHARED, "'self'")])
@pytest.mark.parametrize("host", ["localhost", "evil.example"])
def test_every_answer_says_who_may_frame_it(settings, frames, host):
    start = {"type": "http.response.start", "status": 200, "headers": []}
    _, back = through(settings, "http", [("Host", host)], sent=[start, {"type": "http.response.body", "body": b""}])
    headers = dict(back[0]["headers"])
    assert headers[b"content-security-policy"] == f"frame-ancestors {frames}".encode()


def operation(payload):
    asked = BackMsg()
    getattr(asked.backend_operation_request, payload).SetInParent()
    return asked


@pytest.mark.parametrize(
    ("asked", "is_answered"),
    [
        (BackMsg(stop_script=True), True),
        (BackMsg(app_heartbeat=True), True),
        (operation("deferred_file"), True),
        (operation("dataframe_chunk"), True),
        (BackMsg(load_git_info=True), False),
        (BackMsg(clear_cache=True), False),
        (BackMsg(set_run_on_save=True), False),
        (BackMsg(debug_shutdown_runtime=True), False),
        (operation("install_skills"), False),
        (operation("dismiss_skills_nudge"), False),
        (BackMsg(), False),
    ],
)
def test_a_browser_may_ask_only_what_a_page_needs(asked, is_answered):
    message, end = ({"type": "websocket.receive", "bytes": asked.SerializeToString()}, {"type": "websocket.disconnect"})
    headers = ("Host", "localhost"), ("Origin", "http://localhost")
    got, _ = through(OWN, "websocket", headers, received=[message, end] if is_answered else [message])
    assert (message in got) == is_answered


def test_what_is_no_message_is_left_to_streamlit():
    message = {"type": "websocket.receive", "bytes": b"\xff\xff\xff"}
    headers = ("Host", "localhost"), ("Origin", "http://localhost")
    assert through(OWN, "websocket", headers, received=[message])[0] == [message]


def test_no_browser_is_told_where_the_main_script_is():
    root, told = Path(__file__).resolve().parents[3], ForwardMsg()
    told.new_session.main_script_path = str(root / "viz_ui" / "frame" / "main.py")
    told.new_session.main_script_hash = "abc"
    headers = ("Host", "localhost"), ("Origin", "http://localhost")
    _, [back] = through(OWN, "websocket", headers, sent=[{"type": "websocket.send", "bytes": told.SerializeToString()}])
    assert str(root).encode() not in back["bytes"]
    kept = ForwardMsg.FromString(back["bytes"]).new_session
    assert (kept.main_script_path, kept.main_script_hash) == ("main.py", "abc")
