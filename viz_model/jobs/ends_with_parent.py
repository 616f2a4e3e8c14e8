"""Runs a module or a file as `python` does, and ends when its stdin does: with the program that started it.

    python -P ends_with_parent.py pip download …      as python -m pip download …
    python -P ends_with_parent.py /path/to/script.py …

Whoever started it holds the other end of its stdin and never writes. That end closes even where that program is
killed, so that nothing goes on for somebody who is not there any more.
"""

import os
import runpy
import sys
import threading

ENDED_WITH_ITS_PARENT = 70


def _end_with(stdin: int) -> None:
    while os.read(stdin, 1):
        pass
    os._exit(ENDED_WITH_ITS_PARENT)


def main() -> None:
    held = os.dup(0)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)  # what is run reads nothing
    os.close(nothing)
    threading.Thread(target=_end_with, args=(held,), daemon=True).start()
    del sys.argv[0]
    if sys.argv[0].endswith(".py"):
        runpy.run_path(sys.argv[0], run_name="__main__")
    else:
        sys.path.insert(0, os.getcwd())
        runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
