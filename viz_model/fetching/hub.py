"""A model of the Hugging Face Hub: which of its files are needed, fetched by `huggingface_hub`, checked."""

import hashlib
import json
import re
import shutil
from dataclasses import dataclass
from pathlib import Path

from viz_model.errors import FetchError
from viz_model.fetching.wheel import check_file
from viz_model.jobs import Tell
from viz_model.jobs.child import ChildFailed, run
from viz_model.memory_limits import needed_bytes, refuse_without_room, total_bytes

# ORG/NAME, or ORG/NAME/FILE.gguf for one file of a model that is kept in GGUF.
_PART = r"[A-Za-z0-9_][\w.-]*"
HUB_ID = re.compile(rf"({_PART}/{_PART})(?:/({_PART}\.gguf))?")

WEIGHTS = re.compile(r"model\.safetensors|model\.safetensors\.index\.json|model-\d+-of-\d+\.safetensors")
OTHERS = re.compile(
    r"(config|generation_config|tokenizer|tokenizer_config|special_tokens_map|added_tokens|vocab|heads)\.json|"
    r"vocab\.txt|merges\.txt|tokenizer\.tiktoken|chat_template\.jinja|[\w.-]+\.(model|spm)|LICEN[CS]E[\w.]*|README\.md"
)
ASK_HUB = Path(__file__).with_name("ask_hub.py")


@dataclass(frozen=True)
class File:
    """A file of the Hub: its bytes, and its SHA-256 or, where it is small, the SHA-1 that git gives it."""

    name: str
    size: int
    sha256: str | None
    git: str | None


def fetch_from_hub(hub_id: str, model_folder: Path, tell: Tell) -> tuple[str, str]:
    """Fetch a model into `model_folder`; gives its licence and its revision.

    Only what a model is made of: weights as safetensors or GGUF, its configuration, its tokenizer. Raises FetchError
    when there is no such model, when its weights are kept as pickles only, and when a file is not what the Hub says.
    """
    name, gguf = HUB_ID.fullmatch(hub_id).groups()
    asked = json.loads(_ask(["plan", name], model_folder, tell, "asking the Hub"))
    files = wanted_files(name, [File(**file) for file in asked["files"]], gguf)
    _refuse_too_large(name, asked["parameters"])
    total = sum(file.size for file in files)
    refuse_without_room(name, model_folder, total)
    names = [file.name for file in files]
    _ask(["download", name, asked["revision"], str(model_folder), *names], model_folder, tell, "downloading", total)
    shutil.rmtree(model_folder / ".cache", ignore_errors=True)
    for file in files:
        _check(model_folder / file.name, file, tell)
    return asked["licence"], asked["revision"]


def wanted_files(name: str, files: list[File], gguf: str | None) -> list[File]:
    """The files to fetch; raises FetchError when there are no weights that may be read."""
    by_name = {file.name: file for file in files}
    ggufs = sorted(file.name for file in files if file.name.endswith(".gguf"))
    if gguf:
        if gguf not in by_name:
            raise FetchError(f"{name} has no file {gguf}. Its GGUF files: {', '.join(ggufs[:8]) or 'none'}.")
        return [by_name[gguf], *(file for file in files if re.fullmatch(r"LICEN[CS]E[\w.]*|README\.md", file.name))]
    weights = [file for file in files if WEIGHTS.fullmatch(file.name)]
    if "model.safetensors" in by_name:  # the whole; then it is not read in parts
        weights = [by_name["model.safetensors"]]
    if not weights:
        if ggufs:
            raise FetchError(
                f"{name} keeps its weights as GGUF. Say which file: {name}/{ggufs[0]}"
                + (f", or one of {', '.join(ggufs[1:8])}." if ggufs[1:] else ".")
            )
        raise FetchError(
            f"{name} has no weights as safetensors or GGUF. Pickled weights (.bin, .pt) are not read here, "
            "because a pickle can run any code. Choose another model."
        )
    if "config.json" not in by_name:
        raise FetchError(
            f"{name} has no config.json, so it is not a model of the transformers library. Choose another model."
        )
    return [*weights, *(file for file in files if OTHERS.fullmatch(file.name))]


def _refuse_too_large(name: str, parameters: int | None) -> None:
    total = total_bytes()
    if parameters and total and needed_bytes(parameters) > total:
        raise FetchError(
            f"{name} has {parameters:,} parameters and needs {needed_bytes(parameters) / 1e9:.0f} GB of memory, but "
            f"this machine has {total / 1e9:.0f} GB. Choose a smaller model."
        )


def _ask(words: list[str], folder: Path, tell: Tell, doing: str, total: int | None = None) -> str:
    try:
        return run([str(ASK_HUB), *words], tell, doing, folder=folder, grows=folder if total else None, total=total)
    except ChildFailed as failure:
        raise FetchError(str(failure).splitlines()[-1]) from failure


def _check(path: Path, file: File, tell: Tell) -> None:
    if file.sha256:
        check_file(path, file.size, file.sha256, tell)
        return
    content = path.read_bytes()
    git = hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()  # how git names a file
    if len(content) != file.size or git != file.git:
        raise FetchError(f"{file.name} is not the file that the Hub describes, so it was not used. Try again.")
