"""The catalogue: what can be loaded by name, and what can be fetched, with its facts; nothing is loaded for it."""

import math
import os
import re
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from viz_model.checkpoints.files import CONFIG_FILE, TOKENIZER_FILE, read_config
from viz_model.errors import CheckpointError, VizError
from viz_model.fetching import OFFERS, read_source
from viz_model.hub import facts
from viz_model.hub.headers import stored_tensors
from viz_model.paths import ROOT
from viz_model.transformer.facts import ModelFacts

# The models that ship with the project, the one for a first visit first.
BUNDLED = ("tiny-gpt", "tiny-bert", "tiny-llama", "tiny-seq2seq", "induction")

PRECISIONS = {"F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16"}

STATES = ("bundled", "own", "fetched", "to fetch")


@dataclass(frozen=True)
class Entry:
    """One model of the catalogue.

    folder: None for a model that is to be fetched, of which `download` bytes come over the network. size: bytes of
    its weights on disk, stored_as: in which precision they are there. config: its facts, by the names of
    TransformerConfig. Without a tokenizer it reads ids only.
    """

    name: str
    state: str
    folder: Path | None
    config: ModelFacts
    parameters: int
    size: int
    has_tokenizer: bool
    licence: str
    source: str
    download: int = 0
    stored_as: str = "float32"

    @property
    def family(self) -> str:
        return self.config.family


@dataclass(frozen=True)
class Damaged:
    """A folder that should hold a model and does not; `problem` says what is wrong with it."""

    folder: Path
    problem: str


def list_models(folder: Path, fetched: Path) -> tuple[list[Entry], list[Damaged]]:
    """What is in these two folders, the bundled models first, and what is still to be fetched; and what is damaged."""
    folders = [path for path in sorted(_folders_in(folder), key=_order) if path != fetched]
    found = [_described(path, _version(path)) for path in folders + sorted(_folders_in(fetched), key=_order)]
    entries = [one for one in found if isinstance(one, Entry)]
    here = {entry.name for entry in entries}
    entries += [_to_fetch(offer) for offer in OFFERS.values() if offer.name not in here]
    return entries, [one for one in found if isinstance(one, Damaged)]


def describe(folder: Path) -> Entry:
    """The facts of a model in a folder, or of a GGUF file.

    Raises CheckpointError with the file that is missing or damaged.
    """
    with readable(folder):
        facts.refuse_adapter_alone(folder)
        if facts.is_hub(folder):
            config, has_tokenizer = facts.read_facts(folder), facts.has_tokenizer(folder)
        else:
            config, has_tokenizer = read_config(folder), (folder / TOKENIZER_FILE).exists()
        source, state = read_source(folder), "bundled" if _is_bundled(folder) else "own"
        numbers = _numbers(folder)
        return Entry(
            name=source.name if source else folder.name,
            state="fetched" if source else state,
            folder=folder,
            config=config,
            parameters=source.parameters if source else numbers.total(),
            size=sum(path.stat().st_size for path in weight_files(folder)),
            has_tokenizer=has_tokenizer,
            licence=source.licence if source else "MIT" if state == "bundled" else "licence not stated",
            source=source.source if source else f"checkpoints/{folder.name}" if state == "bundled" else str(folder),
            stored_as=_precision(numbers),
        )


def _is_bundled(folder: Path) -> bool:
    """Whether it came with the project: a folder of one's own may have the same name."""
    return folder.name in BUNDLED and folder.resolve().parent == (ROOT / "checkpoints").resolve()


@contextmanager
def readable(folder: Path) -> Iterator[None]:
    """Raises CheckpointError where a folder or a file of it may not be looked at, or goes meanwhile."""
    try:
        yield
    except OSError as error:
        raise CheckpointError(
            f"{folder} cannot be read: {error.strerror or error}. Make it readable, or choose another folder."
        ) from error


def weight_files(folder: Path) -> list[Path]:
    """The files with the weights: safetensors, in parts where they are; else GGUF."""
    if folder.is_file():
        return [folder]
    return sorted(folder.glob("*.safetensors")) or sorted(folder.glob("*.gguf"))


def count_numbers(folder: Path) -> int:
    """How many numbers the weights of a folder are, by the headers of its files; 0 where these do not tell.

    Raises CheckpointError when a file is missing, damaged or cut off.
    """
    return _numbers(folder).total()


def stored_as(folder: Path) -> str:
    """The precision of most of the weights on disk: "float16", "bfloat16", "float32", or GGUF blocks such as "Q4_1"."""
    return _precision(_numbers(folder))


def rounded_to(folder: Path) -> str:
    """The kind of GGUF blocks from which the weights of a fetched folder were made, such as "Q4_1"; "" for none.

    A fetch turns GGUF into safetensors of float32, so the files themselves no longer tell. Its source does.
    """
    source = read_source(folder)
    if source is None or "gguf" not in source.source.lower():
        return ""
    found = re.search(r"(?<![A-Za-z0-9])I?Q\d\w*", source.source, re.IGNORECASE)
    return found[0].upper() if found else ""


def _precision(numbers: Counter) -> str:
    most = max(numbers, key=numbers.get, default="GGUF")
    return PRECISIONS.get(most, most)


def _numbers(folder: Path) -> Counter:
    """How many numbers there are of each kind."""
    found = Counter()
    for kind, shape in stored_tensors(folder).values():
        if "F" in kind or "Q" in kind:  # F32, BF16; of GGUF also Q4_1 and its kin. The others are no weights
            found[kind] += math.prod(shape)
    return found


def _folders_in(folder: Path) -> list[Path]:
    try:
        # os.path: a link to where nobody may look is no folder, and no error
        return [path for path in folder.iterdir() if os.path.isdir(path) and not path.name.startswith(".")]
    except OSError:
        return []


def _order(folder: Path) -> tuple[int, str]:
    """Bundled models first, as they stand above; then by name."""
    name = folder.name
    return BUNDLED.index(name) if name in BUNDLED else len(BUNDLED), name.lower()


def _version(folder: Path) -> tuple[tuple, ...]:
    """Each file of a folder, and when it last changed in any way, be it what it says or who may read it."""
    found = []
    with suppress(OSError):  # what may not be looked at, or goes meanwhile, is told apart by what is known of it
        found.append(_last_change("", folder.stat()))
        with os.scandir(folder) as entries:
            found += [_last_change(entry.name, entry.stat()) for entry in entries]
    return tuple(sorted(found))


def _last_change(name: str, about: os.stat_result) -> tuple:
    return name, about.st_ctime_ns, about.st_mtime_ns, about.st_size  # Windows knows no time of the first kind


@lru_cache(maxsize=256)  # every run of every page asks what there is
def _described(folder: Path, version: tuple) -> Entry | Damaged | None:
    """The facts of a folder, or what is wrong with it; None for a folder that holds nothing of a model.

    version: see `_version`; with another one, the files are read again.
    """
    try:
        if not any(_is_of_model(path) for path in folder.iterdir()):
            return None
        entry = describe(folder)
    except VizError as error:
        return Damaged(folder, str(error))
    except Exception as error:  # whatever a reader makes of a file: one bad folder must not hide the others
        return Damaged(folder, f"The folder {folder} cannot be read ({type(error).__name__}: {error}). Remove it.")
    return entry if entry.size else Damaged(folder, f"There are no weights in {folder}. Restore or remove it.")


def _is_of_model(path: Path) -> bool:
    return path.name == CONFIG_FILE or path.suffix in (".safetensors", ".gguf")


def _to_fetch(offer) -> Entry:
    return Entry(
        name=offer.name,
        state="to fetch",
        folder=None,
        config=offer.facts,
        parameters=offer.parameters,
        size=offer.size,
        has_tokenizer=True,
        licence=offer.licence,
        source=f"{offer.package}: {offer.origin}",
        download=offer.package.size,
    )
