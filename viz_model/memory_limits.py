"""Limits of memory and disk: how much there is, how much of it a trace keeps, and what would not fit is refused.

A model that needs more than there is is refused before it is loaded or fetched.
"""

import os
import shutil
from pathlib import Path

from viz_model.errors import CheckpointError, FetchError, VizError

# Left free beside the weights: for the library that runs them and for a pass.
RESERVE = 256 * 1024**2

# Attention weights that a pass under edits had to write out stay in its trace up to this size; above, and in any other
# pass, they are derived from queries and keys.
WRITTEN_OUT_BYTES = 64 * 1024**2

# Of one layer, so many bytes of weights are derived together: what is small costs less in one piece, and what is
# larger than a processor's cache does not.
DERIVED_AT_ONCE_BYTES = 4 * 1024**2


def needed_bytes(numbers: int) -> int:
    """What the weights of a model take when they are loaded: four bytes a number (float32)."""
    return 4 * numbers


def available_bytes() -> int | None:
    """Memory that can be taken now; the whole memory where only that is known, None where not even that is."""
    amounts = [amount for amount in (_of_linux(), _of_container()) if amount is not None]
    return min(amounts) if amounts else total_bytes()


def total_bytes() -> int | None:
    """The memory of this machine, None where it does not tell."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):  # Windows has no sysconf
        return None


def refuse_what_cannot_fit(name: str, numbers: int) -> None:
    """Raises CheckpointError when a model of so many numbers needs more memory than there is."""
    needed, available = needed_bytes(numbers) + RESERVE, available_bytes()
    if available is not None and needed > available:
        raise CheckpointError(
            f"{name} needs about {needed / 1e9:.1f} GB of memory ({numbers:,} numbers of 4 bytes, and "
            f"{RESERVE / 1e9:.1f} GB to run it), but only {available / 1e9:.1f} GB are free here. Close other programs "
            "or choose a smaller model."
        )


def refuse_beyond_memory(what: str, needed: int) -> None:
    """Raises VizError when so many bytes are more than there are. What any computer has is not asked for."""
    available = available_bytes() if needed > RESERVE else None
    if available is not None and needed > available:
        raise VizError(
            f"{what} needs about {needed / 1e9:,.1f} GB of memory, but only {available / 1e9:.1f} GB are free here. "
            "Choose smaller sizes."
        )


def refuse_without_room(name: str, folder: Path, needed: int) -> None:
    """Raises FetchError when the disk of a folder has less than `needed` bytes free."""
    free = shutil.disk_usage(folder).free
    if needed > free:
        raise FetchError(
            f"Fetching {name} needs {needed / 1e9:.1f} GB on the disk, but only {free / 1e9:.1f} GB are free "
            "there. Make room and try again."
        )


def why_not_written(error: Exception) -> str:
    """Why a file could not be written, and what to do, as a sentence; of an OSError or of another library's error."""
    if "No space left" in str(error):
        return "There is no space left on the disk. Make room and try again."
    return f"{getattr(error, 'strerror', None) or error}. Look at the folder and try again."


def _of_linux() -> int | None:
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        amounts = dict(line.split(":", 1) for line in lines)
        return int(amounts["MemAvailable"].split()[0]) * 1024
    except (OSError, ValueError, KeyError, IndexError):
        return None


def _of_container() -> int | None:
    """What is left of the limit of a container (control groups, version 2)."""
    try:
        limit, used = (Path(f"/sys/fs/cgroup/memory.{name}").read_text().strip() for name in ("max", "current"))
        return None if limit == "max" else max(0, int(limit) - int(used))
    except (OSError, ValueError):
        return None
