"""Every head of a model switched off in turn, and how many passes of the prompt that takes the time of.

    python benchmarks/ablation.py [--model SmolLM2-135M-Instruct]

Of tiny-gpt at 15 tokens, and of the model that is named, if it has been fetched, at 32. Layers before the switched-off
head are skipped; what that saves is measured by the same work without skipping. A pass is one of `model.transformer`
over the prompt. All on one thread, in seconds of the processor. Ends with status 1 when a budget is missed.
"""

import argparse
import sys
import time
from collections.abc import Callable

import torch

import viz_model as vm
from viz_model.errors import VizError

TEXT = "The queen gave the girl a ring, and the girl gave it to the king. "
BUDGETS = {"tiny-gpt": (15, 0.5), "SmolLM2-135M-Instruct": (32, 15.0)}  # tokens, seconds
TOKENS, ROUNDS = 32, 3


def seconds(work: Callable[[], object], rounds: int = ROUNDS) -> float:
    """The shortest of some rounds."""
    found = []
    for _ in range(rounds):
        start = time.process_time()
        work()
        found.append(time.process_time() - start)
    return min(found)


def measure(name: str) -> bool:
    """Print a line for the heads, one for everything that the page Switch off measures; gives whether it is in time."""
    model = vm.load(name)
    tokens, budget = BUDGETS.get(name, (TOKENS, float("inf")))
    ids = (model.encode(TEXT) * tokens)[:tokens]
    trace, rows = model.trace(ids), torch.tensor([ids])
    rounds = ROUNDS if model.transformer.n_parameters() < 20_000_000 else 1
    with torch.inference_mode():
        one = seconds(lambda: model.transformer(rows))
    heads = trace.n_layers * trace.config.n_heads
    took = seconds(lambda: vm.ablate(model, trace), rounds)
    with_loss = seconds(lambda: vm.ablate(model, trace, with_loss=True), rounds)
    model.transformer.skips_blocks = False
    whole = seconds(lambda: vm.ablate(model, trace), rounds)
    print(
        f"{name}, {tokens} tokens, {heads} heads: {took:6.2f} s (budget {budget} s) = {took / one:5.1f} passes of "
        f"{one * 1e3:.1f} ms, {took / one / heads:.2f} a head; without skipping {whole / one:5.1f}; with the loss "
        f"{with_loss / one:5.1f}"
    )
    return took <= budget


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="SmolLM2-135M-Instruct")
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    in_time = measure("tiny-gpt")
    try:
        in_time = measure(chosen.model) and in_time
    except VizError as error:
        print(f"{chosen.model} was not measured: {error}")
    return int(not in_time)


if __name__ == "__main__":
    sys.exit(main())
