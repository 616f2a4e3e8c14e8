"""A forward pass at GPT-2 small's shapes: ours with and without capture, and `transformers`' own.

    python benchmarks/forward.py [--rounds 9] [--lengths 64 256 1024]

One thread; the candidates take turns within a round, and the medians of their processor time are compared
(time spent waiting for a busy machine is nobody's fault). Ends with status 1 when a budget is missed.
"""

import argparse
import statistics
import sys
import time
from pathlib import Path

import torch
from transformers import GPT2Config, GPT2LMHeadModel

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from viz_model.transformer import Transformer, TransformerConfig
from viz_model.transformer.hooks import capture

CAPTURED = ("*.attn.q", "*.attn.k", "*.attn.v", "*.resid_*")
BUDGETS = {  # (one, other) -> the ratio allowed at each length; None: at every length
    ("captured", "plain"): {None: 1.05},
    ("captured", "transformers sdpa"): {None: 0.65},
    ("captured", "transformers eager"): {64: 0.65, 1024: 0.45},
}


def candidates():
    """name -> a function of ids (1,T) that runs one whole pass."""
    config = GPT2Config()
    ours = Transformer(
        TransformerConfig(
            n_layers=config.n_layer,
            n_heads=config.n_head,
            d_model=config.n_embd,
            vocab_size=config.vocab_size,
            context_length=config.n_positions,
        )
    ).eval()
    sdpa, eager = (GPT2LMHeadModel._from_config(config, attn_implementation=name).eval() for name in ("sdpa", "eager"))

    def captured(ids):
        with capture(*CAPTURED):
            return ours(ids)

    return {
        "plain": ours,
        "captured": captured,
        "transformers sdpa": sdpa,
        "transformers eager": lambda ids: eager(ids, output_attentions=True),
    }


def medians(functions, ids, rounds):
    """name -> median milliseconds; every function runs once in each round, the first round warms up."""
    times = {name: [] for name in functions}
    for _ in range(rounds + 1):
        for name, function in functions.items():
            start = time.process_time()
            function(ids)
            times[name].append((time.process_time() - start) * 1000)
    return {name: statistics.median(taken[1:]) for name, taken in times.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--lengths", type=int, nargs="+", default=[64, 256, 1024])
    options = parser.parse_args()
    torch.set_num_threads(1)
    functions, missed = candidates(), 0
    with torch.inference_mode():
        for length in options.lengths:
            ids = torch.randint(50257, (1, length))
            taken = medians(functions, ids, options.rounds)
            print(f"T = {length}: " + ", ".join(f"{name} {ms:.0f} ms" for name, ms in taken.items()))
            for (one, other), allowed in BUDGETS.items():
                ratio, budget = taken[one] / taken[other], allowed.get(length, allowed.get(None))
                verdict = "" if budget is None else f"  budget {budget:.2f}" + " missed" * (ratio > budget)
                missed += verdict.endswith("missed")
                print(f"    {one + ' / ' + other:32} {ratio:.2f}{verdict}", flush=True)
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main())
