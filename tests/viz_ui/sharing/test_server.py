"""A real server as another computer sees it, and what a visitor of a shared one is sent, over real connections."""

import socket
import urllib.error
import urllib.request
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from streamlit.proto.BackMsg_pb2 import BackMsg

from tests.support.browser import REPOSITORY, Server
from tests.support.visits import handshake, own_address, visiting

ADDRESS = own_address()
PAGES = sorted(path.parent.name for path in (REPOSITORY / "pages").glob("*/page.py"))


@pytest.fixture(scope="module")
def own_server(tmp_path_factory):
    """What `streamlit run app.py` starts, without any setting."""
    server = Server(REPOSITORY / "app.py", tmp_path_factory.mktemp("own") / "log")
    yield server
    server.stop()


@pytest.fixture(scope="module")
def private(tmp_path_factory):
    """A folder with somebody's config.json, and below it the fetched models: one that is damaged."""
    folder = tmp_path_factory.mktemp("private")
    (folder / "config.json").write_text('{"auths": {}, "credsStore": "x"}')
    (folder / "fetched" / "damaged-one").mkdir(parents=True)
    (folder / "fetched" / "damaged-one" / "config.json").write_text('{"auths": {}, "credsStore": "x"}')
    return folder


@pytest.fixture(scope="module")
def shared_server(tmp_path_factory, private):
    """As README.md opens it to a class: by the address of this machine."""
    server = Server(
        REPOSITORY / "app.py",
        tmp_path_factory.mktemp("shared") / "log",
        STREAMLIT_SERVER_ADDRESS="0.0.0.0",
        VIZ_SHARE=ADDRESS,
        VIZ_FETCHED=str(private / "fetched"),
    )
    yield server
    server.stop()


def port(server):
    return urlsplit(server.url).port


def test_another_computer_does_not_reach_a_server_that_is_not_shared(own_server):
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((ADDRESS, port(own_server)), timeout=10)
    socket.create_connection(("127.0.0.1", port(own_server)), timeout=10).close()


def test_another_computer_reaches_a_shared_one(shared_server):
    with urllib.request.urlopen(f"http://{ADDRESS}:{port(shared_server)}/", timeout=60) as reply:
        assert b"<title>" in reply.read()
        assert reply.headers["Content-Security-Policy"] == "frame-ancestors 'none'"


@pytest.mark.parametrize(
    ("host", "origin", "status"),
    [
        ("localhost:{port}", "http://localhost:{port}", 101),
        ("127.0.0.1:{port}", "http://127.0.0.1:{port}", 101),
        ("localhost:{port}", None, 403),
        ("localhost:{port}", "http://evil.example", 403),
        ("localhost:{port}", "http://localhost:1", 403),
        ("localhost:{port}", "null", 403),
        ("evil.example:{port}", "http://evil.example:{port}", 403),
        ("evil.example:{port}", "http://localhost:{port}", 403),
        (None, "http://localhost:{port}", 403),
    ],
)
def test_only_its_own_pages_connect_to_a_server(own_server, host, origin, status):
    headers = {"Host": host, "Origin": origin}
    sent = {name: value.format(port=port(own_server)) for name, value in headers.items() if value}
    # without a Host it is no request of HTTP/1.1, which is refused before it reaches the app
    assert handshake(own_server.url, sent) == (400 if host is None else status)


def test_only_pages_of_a_name_that_it_has_connect_to_a_shared_server(shared_server):
    def status(host, origin):
        return handshake(shared_server.url, {"Host": host, "Origin": origin}, ADDRESS)

    own = f"{ADDRESS}:{port(shared_server)}"
    assert status(own, f"http://{own}") == 101
    assert status(own, "http://evil.example") == 403
    assert status("evil.example", "http://evil.example") == 403


@pytest.mark.parametrize("query", ["", "?embed=true&model=tiny-bert"])
def test_the_first_page_has_its_folders_name_as_address_too(own_server, query):
    class Stay(urllib.request.HTTPRedirectHandler):
        def redirect_request(self, *_):
            return None

    with pytest.raises(urllib.error.HTTPError) as answer:
        urllib.request.build_opener(Stay).open(f"{own_server.url}/heads{query}", timeout=60)
    assert (answer.value.code, answer.value.headers["location"]) == (307, f"./{query}")


def texts(messages):
    """All letters of these messages."""
    return "\n".join(message.SerializeToString().decode("utf-8", "replace") for message in messages)


def places(private):
    """What no message to a visitor may hold: where things are on this disk, and what stands in a file of it."""
    return [str(REPOSITORY), str(private), f"{Path.home()}/", "site-packages", "credsStore", "damaged-one"]


def assert_silent(visit, private):
    for place in places(private):
        for message in visit.received:
            assert place.encode() not in message, (place, message[:2000])


def test_a_visitor_can_neither_open_nor_test_nor_name_a_folder(shared_server, private):
    """By a link, by a choice that the browser forges, or by a message that breaks the page."""
    url, answers = f"http://{ADDRESS}:{port(shared_server)}", set()
    for place in (str(private), "/no/such/place"):
        with visiting(url) as visit:
            first = visit.look_at("models", f"model={place}")
            assert first[0].new_session.main_script_path == "main.py"
            assert "This server is shared" in texts(first)
            forged = visit.look_at("models", widgets={box_of_models(first): place})
            visit.ask(BackMsg(load_git_info=True))  # which would name files of the repository
            broken = texts(visit.look_at("models", widgets={box_of_models(first): 7}))
            assert "redacted" in broken
            assert not any(b"git_info" in message for message in visit.received)
            # What the visitor typed comes back to them; nothing else names a place.
            visit.received = [message.replace(place.encode(), b"PLACE") for message in visit.received]
            assert_silent(visit, private)
            answers.add((warning(first).replace(place, "PLACE"), warning(forged).replace(place, "PLACE")))
    assert len(answers) == 1, answers


def box_of_models(messages):
    """The id of the widget in which a model is chosen."""
    [box] = [
        message.delta.new_element.selectbox
        for message in messages
        if message.delta.new_element.HasField("selectbox") and message.delta.new_element.selectbox.label == "Model"
    ]
    return box.id


def warning(messages):
    """What the sidebar says of a model that is not there."""
    return "".join(message.delta.new_element.alert.body for message in messages).replace("\\", "")


@pytest.mark.slow
def test_no_page_tells_a_visitor_where_something_is(shared_server, private):
    with visiting(f"http://{ADDRESS}:{port(shared_server)}") as visit:
        for page in PAGES:
            got = visit.look_at(page)
            assert len(got) > 10, page
        with urllib.request.urlopen(f"{shared_server.url}/_stcore/metrics", timeout=60) as reply:
            visit.received.append(reply.read())
        assert_silent(visit, private)
