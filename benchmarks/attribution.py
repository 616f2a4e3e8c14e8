"""Why a score is what it is: the terms of one cell, and those relative to the mean of its row.

    python benchmarks/attribution.py [--rounds 5]

At the shapes of tiny-gpt with 64 tokens, of GPT-2 small and of SmolLM2-135M (both with random weights) with 1,024; one
thread, the last layer, whose components are the most. Prints median milliseconds of the processor. Ends with status 1
above a budget.
"""

import argparse
import statistics
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from transformers import LlamaConfig, LlamaForCausalLM

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import viz_model as vm
from viz_model.model import Model
from viz_model.transformer import Transformer, TransformerConfig

BUDGETS = {64: {None: 100, "row": 300}, 1024: {None: 300, "row": 1000}}  # milliseconds, by T and compared with what
GPT2_SMALL = {"n_layers": 12, "n_heads": 12, "d_model": 768, "vocab_size": 50257, "context_length": 1024}
SMOLLM2 = {
    "hidden_size": 576, "num_hidden_layers": 30, "num_attention_heads": 9, "num_key_value_heads": 3,
    "intermediate_size": 1536, "vocab_size": 49152, "tie_word_embeddings": True, "max_position_embeddings": 8192,
    "bos_token_id": 1, "eos_token_id": 2,
}  # fmt: skip


def models(folder: Path):
    """(name, T, model) of each."""
    yield "tiny-gpt", 64, vm.load("tiny-gpt")
    yield "GPT-2 small", 1024, Model("gpt2", Transformer(TransformerConfig(**GPT2_SMALL)).eval())
    LlamaForCausalLM(LlamaConfig(**SMOLLM2)).save_pretrained(folder)
    yield "SmolLM2-135M", 1024, vm.load(folder)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    torch.set_num_threads(1)
    missed = 0
    with TemporaryDirectory() as folder:
        for name, length, model in models(Path(folder)):
            ids = torch.randint(3, model.config.vocab_size, (length,), generator=torch.Generator().manual_seed(0))
            trace, layer, query = model.trace(ids.tolist()), model.config.n_layers - 1, length - 1
            for than, budget in BUDGETS[length].items():
                taken = []
                for head in range(rounds + 1):  # the first warms up
                    start = time.process_time()
                    found = trace.score_terms(layer, head % model.config.n_heads, query, query // 2, than)
                    taken.append((time.process_time() - start) * 1000)
                middle = statistics.median(taken[1:])
                what = "one cell" if than is None else "relative to its row"
                sizes = " × ".join(map(str, found.terms.shape))
                print(
                    f"{name}, {length} tokens, {what}, {sizes} terms: {middle:.0f} ms, budget {budget} ms", flush=True
                )
                missed += middle > budget
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main())
