"""The settings of a server that is shared: what they mean, and that nonsense gets a sentence."""

import tomllib

import pytest

from tests.support.sources import ROOT
from viz_ui.sharing.settings import ACTS, SettingError, read, refuse_unnamed


def test_what_streamlit_run_begins_with():
    """An address that no other computer reaches; no watcher, which holds all visitors up while a new one comes."""
    server = tomllib.loads((ROOT / ".streamlit" / "config.toml").read_text())["server"]
    assert server["address"] == "localhost"
    assert server["fileWatcherType"] == "none"


def test_without_settings_a_server_is_for_its_own_computer_and_who_sits_there_may_do_everything():
    settings = read({})
    assert not settings.is_on
    assert all(map(settings.may, ACTS))
    assert settings.frame_ancestors == "frame-ancestors 'none'"
    assert settings.answers_to("localhost")
    assert not settings.answers_to("lab.example.edu")


def test_visitors_may_look_and_do_what_is_named_and_nothing_else():
    assert not any(map(read({"VIZ_SHARE": "lab.example.edu"}).may, ACTS))
    settings = read({"VIZ_SHARE": "lab.example.edu", "VIZ_VISITORS": "fetch, keep"})
    assert [act for act in ACTS if settings.may(act)] == ["fetch", "keep"]


@pytest.mark.parametrize(
    ("share", "names"),
    [
        ("lab.example.edu", {"lab.example.edu"}),
        (" Lab.Example.EDU,192.168.1.20  my_host", {"lab.example.edu", "192.168.1.20", "my_host"}),
        ("[FD00:0::2]", {"fd00::2"}),
        (" , ", set()),
    ],
)
def test_names_are_as_a_browser_writes_them(share, names):
    settings = read({"VIZ_SHARE": share})
    assert settings.names == names
    assert settings.is_on == bool(names)


def test_frames_are_written_as_a_policy_has_them():
    settings = read({"VIZ_FRAMES": "self https://*.example.edu, http://localhost:8000 file:"})
    assert settings.frame_ancestors == "frame-ancestors 'self' https://*.example.edu http://localhost:8000 file:"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("VIZ_SHARE", host) for host in ("http://lab", "lab:8501", "0.0.0.0", "::", "*", "a/c", "1.2.3", "-a", "ü")),
        *(("VIZ_VISITORS", acts) for acts in ("everything", "fetch remove all", "1")),
        *(("VIZ_FRAMES", frames) for frames in ("*", "lab.example.edu", "https://a;script-src *", "'none'", "https:")),
    ],
)
def test_nonsense_gets_a_sentence_that_names_the_variable(name, value):
    with pytest.raises(SettingError, match=rf"^{name} says .+\. "):
        read({"VIZ_SHARE": "lab.example.edu"} | {name: value})


def test_rights_of_visitors_where_there_are_none_get_a_sentence():
    with pytest.raises(SettingError, match="VIZ_SHARE names no host"):
        read({"VIZ_VISITORS": "fetch"})


@pytest.mark.parametrize("address", ["0.0.0.0", "::", "192.168.1.20", "", None])
def test_a_server_without_a_name_does_not_listen_for_others(address):
    with pytest.raises(SettingError, match="Set VIZ_SHARE"):
        refuse_unnamed(address, read({}))
    refuse_unnamed(address, read({"VIZ_SHARE": "lab.example.edu"}))


@pytest.mark.parametrize("address", ["localhost", "127.0.0.1", "::1"])
def test_a_server_for_its_own_computer_needs_no_name(address):
    refuse_unnamed(address, read({}))
