"""The fetches of a server: begun, watched, waiting, cancelled, and what is said when they have ended."""

import pytest

from tests.support.servers import NAME
from tests.support.waiting import until
from viz_model.errors import FetchError
from viz_model.fetching.fetcher import Fetcher


def test_a_fetch_is_watched_others_wait_and_it_is_cancelled(offered, index, shelf):
    offered()
    index.may_end.clear()
    fetcher = Fetcher()
    assert fetcher.latest is None
    job = fetcher.start(NAME, shelf)
    assert fetcher.latest is job
    assert fetcher.start(NAME, shelf) is job, "who asks for the same watches the same"
    next_one = fetcher.start("org/next", shelf)
    assert [one.of for one in fetcher.coming] == [NAME, "org/next"]
    assert not next_one.has_begun
    until(lambda: job.progress.done > 0)
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
        until(lambda: not fetcher.latest.is_under_way)
        assert "is not the file that was published" in fetcher.latest.problem
