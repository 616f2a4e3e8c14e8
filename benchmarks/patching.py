"""Maps of patching with tiny-gpt, against one plain pass over the same prompt, on one thread.

    python benchmarks/patching.py [--rounds 5] [--tokens 20]

Prints medians of processor time and how many plain passes each map costs; n cells (of paths, twice n) patched one by
one would cost about n of them. Ends with status 1 above the budget.
"""

import argparse
import statistics
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import torch

import viz_model as vm

BUDGET_SECONDS = 2.0  # layers × positions, 20 tokens
CLEAN = "The blue bird saw a brave wolf by the mill, and then it went into the wood. The blue"


def ids_of(length: int) -> tuple[list[int], list[int]]:
    """Two prompts of exactly so many tokens, which differ in the second one and in the sixth."""
    tokenizer = vm.load("tiny-gpt").tokenizer
    clean = (tokenizer.encode(CLEAN) * (1 + length // 10))[:length]
    corrupted = [*clean]
    corrupted[1], corrupted[5] = clean[5], clean[1]
    return clean, corrupted


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--tokens", type=int, default=20)
    options = parser.parse_args()
    torch.set_num_threads(1)
    model, (clean, corrupted) = vm.load("tiny-gpt"), ids_of(options.tokens)
    answer = tuple(model.encode(" bird") + model.encode(" wolf"))

    def patched(sites):
        return lambda: vm.patch(model, clean, corrupted, sites, answer)

    @torch.inference_mode()
    def plain():
        model.transformer(torch.tensor([clean]))

    layers, heads = model.config.n_layers, model.config.n_heads
    measured = {
        "one plain pass": (1, plain),
        "layers × positions": (layers * options.tokens, patched("resid_pre")),
        "heads": (layers * heads, patched("heads")),
        "heads × positions": (layers * heads * options.tokens, patched("head_positions")),
        "paths into a key": (
            2 * (layers - 1) * heads,
            lambda: vm.patch_paths(model, clean, corrupted, (3, 0), "key", answer),
        ),
    }
    times = {name: [] for name in measured}
    for _ in range(options.rounds + 1):  # the first round warms up
        for name, (_, work) in measured.items():
            start = time.process_time()
            work()
            times[name].append(time.process_time() - start)
    seconds = {name: statistics.median(taken[1:]) for name, taken in times.items()}
    for name, (cells, _) in measured.items():
        passes = seconds[name] / seconds["one plain pass"]
        print(f"{name:20} {cells:5} cells  {1000 * seconds[name]:7.1f} ms = {passes:6.1f} plain passes")
    missed = options.tokens == 20 and seconds["layers × positions"] > BUDGET_SECONDS
    print(f"budget {BUDGET_SECONDS} s for layers × positions of 20 tokens: {'missed' if missed else 'kept'}")
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
