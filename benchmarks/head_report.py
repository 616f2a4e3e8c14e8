"""How long a report of all heads of tiny-gpt over 32,768 tokens takes, on one thread, beside the passes alone.

    python benchmarks/head_report.py [--model tiny-gpt] [--windows 128]

The seconds are those that the processor worked, so that a busy machine changes little; wall-clock time stands beside
them. Ends with status 1 when the budget of 30 seconds is missed.
"""

import argparse
import resource
import sys
import time
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import viz_model as vm
from viz_model.training.held_out import held_out_text

BUDGET = 30.0


def timed(work) -> tuple[object, float, float]:
    """What it gives, and its seconds: of the processor, and on the wall."""
    processor, wall = time.process_time(), time.perf_counter()
    result = work()
    return result, time.process_time() - processor, time.perf_counter() - wall


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="tiny-gpt")
    parser.add_argument("--windows", type=int, default=128)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    model = vm.load(arguments.model)
    text, _ = held_out_text(model, arguments.model)
    vm.head_report(model, text, windows=8)  # the first passes warm up
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    report, seconds, wall = timed(lambda: vm.head_report(model, text, windows=arguments.windows))
    memory = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    _, table, table_wall = timed(lambda: (report.scores, report.names))

    @torch.inference_mode()
    def passes():
        for window in report.windows:
            model.transformer.hidden(torch.tensor([window.read.ids]))

    _, alone, alone_wall = timed(passes)
    print(f"{report}, one thread; seconds of the processor (on the wall):")
    print(f"  the report              {seconds:6.2f} ({wall:.2f})")
    print(f"  its table and names     {table:6.2f} ({table_wall:.2f})")
    print(f"  the passes alone        {alone:6.2f} ({alone_wall:.2f})")
    print(f"  memory beyond a report of 8 windows: {memory:.0f} MB")
    total = seconds + table
    print(f"  together {total:.2f} (at most {BUDGET:g})")
    return int(total > BUDGET)


if __name__ == "__main__":
    sys.exit(main())
