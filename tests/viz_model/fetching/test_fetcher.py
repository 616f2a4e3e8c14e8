"""The one fetch of a server: begun, watched, cancelled, and what is said when it has ended."""

import time

import pytest

from tests.support.servers import NAME
from viz_model.errors import FetchError
from viz_model.fetching.fetcher import Fetcher


def wait_until(is_so, seconds=60):
    deadline = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_fetch_is_watched_alone_and_cancelled(offered, index, shelf):
    offered()
    index.pause = 0.2
    fetcher = Fetcher()
    assert fetcher.latest is None
    fetcher.start(NAME, shelf)
    assert fetcher.latest.is_under_way
    with pytest.raises(FetchError, match="small-model is being fetched"):
        fetcher.start(NAME, shelf)
    wait_until(lambda: fetcher.latest.progress.done > 0)
    assert fetcher.latest.progress.doing == "downloading"
    fetcher.cancel()
    assert not fetcher.latest.is_under_way
    assert fetcher.latest.problem == "The fetch of small-model was cancelled. Nothing of it was kept."
    assert [path.name for path in shelf.iterdir()] == [".lock"]
    fetcher.cancel()  # there is nothing to cancel


def test_what_went_wrong_is_said_and_it_can_be_started_again(offered, shelf):
    fetcher = Fetcher()
    with pytest.raises(FetchError, match="cannot be fetched"):
        fetcher.start("../elsewhere", shelf)
    assert fetcher.latest is None
    offered(sha256="0" * 64)
    for _ in range(2):
        fetcher.start(NAME, shelf)
        wait_until(lambda: not fetcher.latest.is_under_way)
        assert "is not the file that was published" in fetcher.latest.problem
