"""Circuits of all heads from the weights alone: copying scores, and the composition of all pairs of heads.

    python benchmarks/circuits.py [--rounds 3]

At the shapes of tiny-gpt, and of GPT-2 small and SmolLM2-135M with random weights; one thread. Prints median seconds of
the processor, and how many passes over 64 tokens take as long. Ends with status 1 above a budget.
"""

import argparse
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import viz_model as vm
from viz_model.model import Model
from viz_model.transformer import Transformer, TransformerConfig

BUDGET = 15.0  # seconds, of each, for SmolLM2: as long as an ablation of all its heads
GPT2_SMALL = {"n_layers": 12, "n_heads": 12, "d_model": 768, "vocab_size": 50257, "context_length": 1024}
SMOLLM2 = {
    "n_layers": 30, "n_heads": 9, "n_kv_heads": 3, "d_model": 576, "d_ff": 1536, "vocab_size": 49152,
    "context_length": 8192, "position": "rotary", "norm": "rms", "activation": "swiglu", "bias": False,
}  # fmt: skip
LENGTH = 64


def models():
    yield vm.load("tiny-gpt")
    yield Model("GPT-2 small", Transformer(TransformerConfig(**GPT2_SMALL)).eval())
    yield Model("SmolLM2-135M", Transformer(TransformerConfig(**SMOLLM2)).eval())


def works_of(circuits) -> dict[str, Callable[[], object]]:
    return {
        "copying scores": circuits.measure_copying,
        "composition in queries": lambda: circuits.measure_composition("query"),
        "composition in values": lambda: circuits.measure_composition("value"),
    }


def seconds(work: Callable[[], object], rounds: int) -> float:
    """The median; the first round warms up."""
    taken = []
    for _ in range(rounds + 1):
        start = time.process_time()
        work()
        taken.append(time.process_time() - start)
    return statistics.median(taken[1:])


@torch.inference_mode()
def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    rounds = parser.parse_args().rounds
    torch.set_num_threads(1)
    slowest = 0.0
    for model in models():
        circuits, ids = vm.circuits(model), torch.arange(LENGTH)[None] % model.config.vocab_size
        a_pass = seconds(lambda model=model, ids=ids: model.transformer(ids), rounds)
        for name, work in works_of(circuits).items():
            taken = seconds(work, rounds)
            slowest = max(slowest, taken)
            print(f"{model.name}, {name}: {taken:.2f} s, {taken / a_pass:.0f} passes over {LENGTH} tokens", flush=True)
    print(f"slowest {slowest:.1f} s, budget {BUDGET:.0f} s")
    return int(slowest > BUDGET)


if __name__ == "__main__":
    sys.exit(main())
