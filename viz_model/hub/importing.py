"""The transformers library, imported in about three quarters of the time: for what is asked of it here."""

import gc
import importlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager

# What the library imports as soon as it is installed, to quantize, to train detectors and to draft; up to two seconds.
UNASKED = ("bitsandbytes", "scipy", "sklearn", "torchao")


@contextmanager
def undisturbed() -> Iterator[None]:
    """Within it no garbage is collected: a hundred thousand new objects would be walked through again and again."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def import_library() -> None:
    """Import the library; the packages in `UNASKED` are hidden from it meanwhile, and for it they are not installed.

    There is no cleaner way: the library asks `importlib.util.find_spec` for each of them while it is imported, keeps
    the answer for good, and has no setting that would say no. None in `sys.modules` is how Python itself marks a module
    as one that cannot be imported (its reference, "The module cache"), and here it is taken back at once.

    Who needs these with the library in the same process imports `transformers` first. Nothing is hidden from a library
    that is there already, if only in part: it may have found them, and would stumble over what is gone.
    """
    hidden = [] if "transformers" in sys.modules else [name for name in UNASKED if name not in sys.modules]
    sys.modules.update(dict.fromkeys(hidden))  # None there: importing it is an ImportError, and it cannot be found
    try:
        importlib.import_module("transformers.modeling_utils")
        importlib.import_module("transformers.generation")
    finally:
        for package in hidden:
            del sys.modules[package]
