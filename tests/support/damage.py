"""Damage that files meet: no right to read them, a full disk."""

import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

NOBODY = 65534


@contextmanager
def unreadable(path: Path) -> Iterator[None]:
    """Meanwhile nobody may read this file, or look into this folder; what is beside it can be read as before.

    Whoever is root may read all, so that meanwhile the tests are another user.
    """
    mode, is_root = path.stat().st_mode, os.geteuid() == 0
    opened = [(folder, folder.stat().st_mode) for folder in path.parents if is_root and folder.stat().st_mode & 5 != 5]
    for folder, of_folder in opened:
        folder.chmod(of_folder | 0o055)
    path.chmod(0)
    if is_root:
        os.seteuid(NOBODY)
    try:
        yield
    finally:
        if is_root:
            os.seteuid(0)
        path.chmod(mode)
        for folder, of_folder in reversed(opened):
            folder.chmod(of_folder)


@contextmanager
def full_disk(most: int = 4096) -> Iterator[None]:
    """Meanwhile no file can have more than so many bytes: writing one fails in the kernel, whoever writes."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
