"""The child process of a live training: reads a plan from stdin, tells snapshots on stdout, ends when stdin does."""

import os
import pickle
import sys
import threading

import torch

from viz_model.errors import VizError
from viz_model.training.live import train


def main() -> None:
    torch.set_num_threads(1)
    if hasattr(os, "nice"):
        os.nice(5)  # whoever clicks meanwhile comes first
    told = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # what a library prints must not mix with what is told
    plan = pickle.load(sys.stdin.buffer)
    stopped = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.buffer.read(), stopped.set()), daemon=True).start()

    def tell(message: object) -> None:
        pickle.dump(message, told)
        told.flush()

    try:
        train(plan, tell, stopped.is_set)
    except VizError as error:
        tell(str(error))
    except BrokenPipeError:
        pass  # nobody listens any more


if __name__ == "__main__":
    main()
    os._exit(0)  # a thread that still waits for stdin must not hold the exit up
