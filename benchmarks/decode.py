"""64 new tokens after 64 at GPT-2 small's shapes, greedy: ours with and without cache, and `transformers` with its.

    python benchmarks/decode.py [--rounds 3] [--prompt 64] [--new 64] [--threads 2]

The candidates take turns within a round, and the medians of their wall-clock time are compared; all three must
draw the same tokens from the same weights. Ends with status 1 when a budget is missed.
"""

import argparse
import statistics
import sys
import time
from pathlib import Path

import torch
from transformers import GPT2Config, GPT2LMHeadModel

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.reference.name_maps import gpt2_config, gpt2_weights, loaded
from viz_model.model import Model

BUDGETS = {("ours, cache", "ours, no cache"): 0.2, ("ours, cache", "transformers, cache"): 1.0}


def candidates(new: int):
    """name -> a function of ids (1,T) that gives the new ids."""
    torch.manual_seed(0)
    config = GPT2Config()
    theirs = GPT2LMHeadModel._from_config(config, attn_implementation="sdpa").eval()
    model = Model("GPT-2 small", loaded(gpt2_config(config), gpt2_weights(theirs)))

    def generated(ids, cache):
        steps = model.generate(ids[0].tolist(), max_new_tokens=new, temperature=0, cache=cache)
        return [step.token_id for step in steps]

    def by_transformers(ids):
        options = {"max_new_tokens": new, "min_new_tokens": new, "do_sample": False, "use_cache": True}
        found = theirs.generate(ids, attention_mask=torch.ones_like(ids), pad_token_id=0, **options)
        return found[0, ids.shape[1] :].tolist()

    return {
        "ours, cache": lambda ids: generated(ids, True),
        "ours, no cache": lambda ids: generated(ids, False),
        "transformers, cache": by_transformers,
    }


def measured(functions, ids, rounds: int) -> dict[str, float]:
    """name -> median seconds; every function runs once in each round. Raises SystemExit where tokens differ."""
    times = {name: [] for name in functions}
    for _ in range(rounds):
        drawn = {}
        for name, function in functions.items():
            start = time.perf_counter()
            drawn[name] = function(ids)
            times[name].append(time.perf_counter() - start)
        if any(tokens != drawn["ours, cache"] for tokens in drawn.values()):
            sys.exit(f"The candidates drew different tokens: {drawn}")
    return {name: statistics.median(values) for name, values in times.items()}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("rounds", 3), ("prompt", 64), ("new", 64), ("threads", torch.get_num_threads())):
        parser.add_argument(f"--{name}", type=int, default=default)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    functions = candidates(arguments.new)
    ids = torch.randint(50257, (1, arguments.prompt), generator=torch.Generator().manual_seed(0))
    with torch.inference_mode():
        for function in functions.values():  # the first passes warm up
            function(ids[:, :2])
        seconds = measured(functions, ids, arguments.rounds)
    print(f"{arguments.new} new tokens after {arguments.prompt}, {arguments.threads} threads, medians:")
    for name, value in seconds.items():
        print(f"  {name:20} {value:6.2f} s")
    missed = 0
    for (one, other), budget in BUDGETS.items():
        ratio = seconds[one] / seconds[other]
        missed += ratio > budget
        print(f"  {one} / {other}: {ratio:.2f} (at most {budget})")
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main())
