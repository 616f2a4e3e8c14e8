"""Garbage: memory that Python and the C library hold on to after the program has let go of it."""

import ctypes
import gc
from contextlib import suppress


def collect() -> None:
    """Find what nobody holds any more, and give it back to the machine; takes about a tenth of a second."""
    gc.unfreeze()
    gc.collect()
    gc.freeze()
    with suppress(OSError, AttributeError, TypeError):  # only the C library of GNU keeps freed memory, and has this
        ctypes.CDLL(None).malloc_trim(0)


def freeze() -> None:
    """Take what is there now for no garbage, until the next `collect`.

    A server that looks for garbage after every answer would else walk through all of torch each time (about 90 ms).
    """
    gc.freeze()
