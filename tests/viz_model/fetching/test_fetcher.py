"""The fetches of a server: begun, watched, waiting, cancelled, and what is said when they have ended."""

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


def test_a_fetch_is_watched_others_wait_and_it_is_cancelled(offered, index, shelf):
    offered()
    index.pause = 0.2
    fetcher = Fetcher()
    assert fetcher.latest is None
    job = fetcher.start(NAME, shelf)
    assert fetcher.latest is job
    assert fetcher.start(NAME, shelf) is job, "who asks for the same watches the same"
    next_one = fetcher.start("org/next", shelf)
    assert [one.of for one in fetcher.coming] == [NAME, "org/next"]
    assert not next_one.has_begun
    wait_until(lambda: job.progress.done > 0)
    assert job.progress.words == "downloading"
    fetcher.cancel("org/next")
    assert next_one.was_stopped
    assert job.is_under_way
    fetcher.cancel(NAME)
    assert not job.is_under_way
    assert job.was_stopped
    assert job.problem == ""
    assert [path.name for path in shelf.iterdir()] == [".lock"]
    assert fetcher.coming == ()
    fetcher.cancel(NAME)  # there is nothing to cancel


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
