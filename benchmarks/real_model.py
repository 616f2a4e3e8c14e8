"""A real model, from the moment that it is chosen: until it is ready, and until a trace of 64 tokens is there.

    python benchmarks/real_model.py [--model SmolLM2-135M-Instruct] [--rounds 3]

The model must have been fetched. Each round is a process of its own, on one thread, in which Streamlit, torch and
viz_model are imported, as in a running app, but the transformers library is not; the medians of its processor time
are compared with the budgets. Ends with status 1 when one is missed.
"""

import argparse
import json
import statistics
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BUDGETS = {"ready": 4.0, "trace of 64 tokens": 0.7}  # seconds
ROUND = """
import json, sys, time
import streamlit, torch, viz_model as vm
torch.set_num_threads(1)
start = time.process_time()
model = vm.load(sys.argv[1])
ready = time.process_time()
ids = (model.encode("The queen gave the girl a ring.") * 64)[:64]
model.trace(ids)  # the first pass of any model is slower
warm = time.process_time()
model.trace(ids)
print(json.dumps({"ready": ready - start, "trace of 64 tokens": time.process_time() - warm}))
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="SmolLM2-135M-Instruct")
    parser.add_argument("--rounds", type=int, default=3)
    chosen = parser.parse_args()
    command = [sys.executable, "-c", ROUND, chosen.model]
    rounds = []
    for _ in range(chosen.rounds):
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
        rounds.append(json.loads(done.stdout.splitlines()[-1]))
    medians = {what: statistics.median(seconds[what] for seconds in rounds) for what in BUDGETS}
    for what, seconds in medians.items():
        print(f"{what:20} {seconds:6.2f} s (budget {BUDGETS[what]} s)")
    return int(any(medians[what] > budget for what, budget in BUDGETS.items()))


if __name__ == "__main__":
    sys.exit(main())
