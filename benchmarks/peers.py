"""A traced pass and decoding beside the peers, at the shapes of GPT-2 small with the same random weights for all.

    python benchmarks/peers.py [--rounds 5] [--lengths 64 256 1024] [--threads 1 2] [--small]

What is timed is what the app calls: `model.trace` of a model of our own and of one through a folder that the library
`transformers` wrote, and `model.generate`. Beside them: `transformers` with torch's kernel (SDPA) and with its plain
attention (eager, whose weights are asked for), TransformerLens and nnsight, which keep what a trace keeps, and the HTML
of BertViz. A peer that is not installed is named; all come with

    pip install --no-deps -r tests/reference/requirements.txt -r benchmarks/requirements.txt

Each candidate is timed in pairs with SDPA, in turns before and after it, and the median of the pairs' ratios is
printed, so that a busy machine is slow for both. With one thread the processor's time is counted, with all of them the
clock. All candidates must give the same numbers to 1e-4, and write the same tokens. Ends with status 1 where they do
not, or where a goal is not met. --small: small shapes, one round and one thread, for the numbers alone: there is no
goal, and it takes some seconds.
"""

import argparse
import copy
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
import transformers
from torch import Tensor
from transformers import GPT2Config, GPT2LMHeadModel

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import viz_model as vm
from tests.reference.name_maps import gpt2_config, gpt2_weights, loaded
from viz_model.model import Model
from viz_model.transformer.memory_order import order_for_decoding

OWN, FOLDER, SDPA, EAGER = "model.trace", "model.trace, of a folder", "transformers SDPA", "transformers eager"
LAST, LENS, NNSIGHT = "transformers SDPA, last logits alone", "TransformerLens", "nnsight"
CACHED, UNCACHED, FOLDER_CACHED, LIBRARY = "cache", "no cache", "cache, of a folder", "transformers, its cache"
NEAR = 1e-4

TIME_GOALS = {OWN: 0.60, FOLDER: 0.65}  # of the time of SDPA
BYTE_GOALS = {64: 13, 256: 51, 1024: 203}  # MB that a trace holds, by its tokens
DECODING_GOALS = {
    (CACHED, UNCACHED): 0.2,
    (CACHED, LIBRARY): 0.9,
    (FOLDER_CACHED, LIBRARY): 0.9,
}
SMALL = {
    "n_layer": 2,
    "n_head": 4,
    "n_embd": 64,
    "vocab_size": 200,
    "n_positions": 64,
    "bos_token_id": 0,
    "eos_token_id": 0,
}
Run = Callable[[Tensor], dict]


@dataclass(frozen=True)
class Shapes:
    """What is measured: rounds, tokens of a pass, tokens decoded after as many, tokens in BertViz, threads."""

    config: GPT2Config
    rounds: int
    lengths: Sequence[int]
    decoded: int
    pictures: Sequence[int]
    threads: Sequence[int]
    has_goals: bool


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--lengths", type=int, nargs="+", default=[64, 256, 1024])
    parser.add_argument("--threads", type=int, nargs="+", default=sorted({1, os.cpu_count() or 1}))
    parser.add_argument("--small", action="store_true")
    asked = parser.parse_args()
    if asked.small:
        shapes = Shapes(GPT2Config(**SMALL), 1, (8, 16), 4, (8,), (1,), has_goals=False)
    else:
        shapes = Shapes(
            GPT2Config(), asked.rounds, asked.lengths, 64, (32, 64, 128, 256), asked.threads, has_goals=True
        )
    torch.set_num_threads(1)
    missed = 0
    transformers.utils.logging.disable_progress_bar()
    with TemporaryDirectory() as folder, torch.inference_mode():
        library = made(shapes.config, "sdpa")
        library.save_pretrained(folder)
        own = Model("own", loaded(gpt2_config(shapes.config), gpt2_weights(library)))
        order_for_decoding(own.transformer)  # as every model that is loaded
        of_folder = vm.load(folder)
        passes = passes_of(shapes.config, library, own, of_folder)
        for length in shapes.lengths:
            kept = checked_passes(passes, ids_of(shapes, length))
            missed += say_bytes(length, kept, shapes.has_goals)
        check_weights(own, of_folder, passes[EAGER], ids_of(shapes, min(shapes.lengths)))
        for count in shapes.threads:
            torch.set_num_threads(count)
            for length in shapes.lengths:
                missed += say_passes(passes, shapes, length, count)
            missed += say_decoding(decoders_of(shapes.decoded, library, own, of_folder), shapes, count)
        say_pictures(passes[EAGER], shapes)
    return int(missed > 0)


def made(config: GPT2Config, attention: str) -> GPT2LMHeadModel:
    torch.manual_seed(0)  # the same weights for each
    own = copy.deepcopy(config)  # the attention is written into it
    return GPT2LMHeadModel._from_config(own, attn_implementation=attention).eval().requires_grad_(False)


def ids_of(shapes: Shapes, length: int) -> Tensor:
    """(1,T)"""
    return torch.randint(shapes.config.vocab_size, (1, length), generator=torch.Generator().manual_seed(0))


def passes_of(config: GPT2Config, library: GPT2LMHeadModel, own: Model, of_folder: Model) -> dict[str, Run]:
    """name -> a pass over ids (1,T), which gives what it kept: "logits" of the last token (V,), and whatever else."""

    def traced(model: Model) -> Run:
        def run(ids: Tensor) -> dict:
            trace = model.trace(ids[0].tolist())
            return {**trace.tensors, "logits": trace.logits}

        return run

    def of_library(model: GPT2LMHeadModel, **options) -> Run:
        def run(ids: Tensor) -> dict:
            given = model(ids, use_cache=False, **options)
            return {"logits": given.logits[0, -1], "kept": (given.attentions, given.hidden_states, given.logits)}

        return run

    plain = made(config, "eager")
    passes = {
        OWN: traced(own),
        FOLDER: traced(of_folder),
        LAST: of_library(library, logits_to_keep=1),
        EAGER: of_library(plain, output_attentions=True, output_hidden_states=True),
        SDPA: of_library(library),
    }
    for name, peer in ((LENS, transformer_lens), (NNSIGHT, nnsight)):
        try:
            passes[name] = peer(config)
        except ImportError as error:
            print(f"{name} is not installed ({error}).")
    return passes


def transformer_lens(config: GPT2Config) -> Run:
    """Its cache holds every tensor of a pass."""
    from transformer_lens.model_bridge.sources import build_bridge_from_module

    module = made(config, "eager")
    bridge = build_bridge_from_module(module, "GPT2LMHeadModel", hf_config=module.config)

    def run(ids: Tensor) -> dict:
        logits, cache = bridge.run_with_cache(ids)
        return {"logits": logits[0, -1], "kept": tuple(cache.values())}

    return run


def nnsight(config: GPT2Config) -> Run:
    """It keeps what it is told: Q, K and V, what is mixed of them, and the stream, as a trace does."""
    from nnsight import NNsight, save

    watched = NNsight(made(config, "sdpa"))

    def run(ids: Tensor) -> dict:
        with watched.trace(ids, use_cache=False):
            kept = save([])
            for block in watched.transformer.h:
                kept.extend((block.input, block.attn.c_attn.output, block.attn.c_proj.input, block.ln_2.input))
            logits = save(watched.lm_head.output)
        return {"logits": logits[0, -1], "kept": tuple(kept)}

    return run


def tensors_in(kept: object) -> Iterable[Tensor]:
    if isinstance(kept, Tensor):
        yield kept
    elif isinstance(kept, dict | tuple | list):
        for one in kept.values() if isinstance(kept, dict) else kept:
            yield from tensors_in(one)


def megabytes(kept: dict) -> float:
    """Of all tensors that are kept; what stands there under several names counts once."""
    storages = [tensor.untyped_storage() for tensor in tensors_in(kept)]
    return sum({storage.data_ptr(): storage.nbytes() for storage in storages}.values()) / 1e6


def checked_passes(passes: dict[str, Run], ids: Tensor) -> dict[str, float]:
    """MB that each keeps. Ends the program where the logits of one are not those of SDPA."""
    wanted, kept = passes[SDPA](ids)["logits"], {}
    for name, run in passes.items():
        found = run(ids)
        refuse_difference(f"the logits of {name}", found["logits"], wanted)
        kept[name] = megabytes(found)
        if not kept[name]:
            sys.exit(f"{name} kept nothing.")
    return kept


def refuse_difference(what: str, found: Tensor, wanted: Tensor) -> None:
    far = (found - wanted).abs().max().item() if found.shape == wanted.shape else float("nan")
    if not far <= NEAR:
        sys.exit(f"{what} differ by {far:.2g} from what they must be; at most {NEAR:g} is rounding.")


def check_weights(own: Model, of_folder: Model, eager: Run, ids: Tensor) -> None:
    """Every head's weights and scores, kept or derived, against those of the library's plain attention."""
    attentions = eager(ids)["kept"][0]
    for model in (own, of_folder):
        for options in ({}, {"stored_weights_bytes": 0}):
            trace = model.trace(ids[0].tolist(), **options)
            for layer, wanted in zip(range(trace.n_layers), attentions, strict=True):
                for head, weights in zip(range(trace.config.n_heads), wanted[0], strict=True):
                    what = f"the weights of layer {layer}, head {head}"
                    refuse_difference(what, trace.weights(layer, head), weights)
                    allowed = trace.scores(layer, head).masked_fill(~trace.mask(layer), -torch.inf)
                    refuse_difference(f"softmaxed scores of {what}", allowed.softmax(-1), weights)


def verdict(value: float, goal: float | None) -> str:
    return "" if goal is None else f"goal {goal:g}: {'met' if value <= goal else 'not met'}"


def on(threads: int) -> str:
    return "one thread" if threads == 1 else f"{threads} threads"


def say_bytes(length: int, kept: dict[str, float], has_goals: bool) -> int:
    print(f"\nT = {length}: MB kept, each tensor once")
    missed = 0
    for name, size in kept.items():
        said = verdict(round(size), BYTE_GOALS.get(length) if has_goals and name in (OWN, FOLDER) else None)
        missed += said.endswith("not met")
        print(f"    {name:40} {size:8.2f}   {said}", flush=True)
    return missed


def clock(threads: int) -> Callable[[], float]:
    return time.process_time if threads == 1 else time.perf_counter


def taken(run: Callable[[], object], now: Callable[[], float]) -> float:
    start = now()
    run()
    return now() - start


def say_passes(passes: dict[str, Run], shapes: Shapes, length: int, threads: int) -> int:
    """Each in pairs with SDPA, in turns before and after it."""
    ids, now, missed = ids_of(shapes, length), clock(threads), 0
    print(f"\nT = {length}, {on(threads)}: of the time of SDPA, and ms")
    for name in (name for name in passes if name != SDPA):
        pairs = []
        for turn in range(shapes.rounds + shapes.has_goals):  # the first warms up
            order = (name, SDPA) if turn % 2 else (SDPA, name)
            both = {each: taken(lambda each=each: passes[each](ids), now) for each in order}
            pairs.append((both[name], both[SDPA]))
        pairs = pairs[shapes.has_goals :]
        ratio = statistics.median(ours / theirs for ours, theirs in pairs)
        goal = TIME_GOALS.get(name) if shapes.has_goals else None
        said = verdict(round(ratio, 2), goal)
        missed += said.endswith("not met")
        ours, theirs = (1000 * statistics.median(times) for times in zip(*pairs, strict=True))
        print(f"    {name:40} {ratio:5.2f}   {ours:6.0f} / {theirs:6.0f}   {said}", flush=True)
    return missed


def decoders_of(new: int, library: GPT2LMHeadModel, own: Model, of_folder: Model) -> dict[str, Callable]:
    """name -> a function of ids (1,T) that gives the new ids, the likeliest each time."""

    def ours(model: Model, cache: bool) -> Callable[[Tensor], list[int]]:
        def run(ids: Tensor) -> list[int]:
            steps = model.generate(ids[0].tolist(), max_new_tokens=new, temperature=0, cache=cache)
            return [step.token_id for step in steps]

        return run

    def by_library(ids: Tensor) -> list[int]:
        options = {"max_new_tokens": new, "min_new_tokens": new, "do_sample": False, "use_cache": True}
        found = library.generate(ids, attention_mask=torch.ones_like(ids), pad_token_id=0, **options)
        return found[0, ids.shape[1] :].tolist()

    return {
        CACHED: ours(own, True),
        FOLDER_CACHED: ours(of_folder, True),
        LIBRARY: by_library,
        UNCACHED: ours(own, False),
    }


def say_decoding(decoders: dict[str, Callable], shapes: Shapes, threads: int) -> int:
    """All in each round, forwards and backwards in turns; the median of the rounds' ratios."""
    ids, now, missed = ids_of(shapes, shapes.decoded), clock(threads), 0
    rounds: list[dict[str, float]] = []
    for turn in range(min(3, shapes.rounds)):
        drawn, times = {}, {}
        for name in (list, reversed)[turn % 2](list(decoders)):
            start = now()
            drawn[name] = decoders[name](ids)
            times[name] = now() - start
        if any(tokens != drawn[CACHED] for tokens in drawn.values()) or len(drawn[CACHED]) != shapes.decoded:
            sys.exit(f"The candidates wrote different tokens: {drawn}")
        rounds.append(times)
    print(f"\n{shapes.decoded} tokens after {shapes.decoded}, {on(threads)}")
    for name in decoders:
        print(f"    {name:40} {1000 * statistics.median(times[name] for times in rounds):8.0f} ms")
    for (one, other), goal in DECODING_GOALS.items():
        ratio = statistics.median(times[one] / times[other] for times in rounds)
        said = verdict(round(ratio, 2), goal if shapes.has_goals else None)
        missed += said.endswith("not met")
        print(f"    {f'{one} / {other}':40} {ratio:8.2f}   {said}", flush=True)
    return missed


def say_pictures(eager: Run, shapes: Shapes) -> None:
    """The HTML of all heads that BertViz writes. What our page sends, `head_change.py` measures."""
    try:
        from bertviz import head_view
    except ImportError as error:
        print(f"\nBertViz is not installed ({error}).")
        return
    print("\nBertViz, all heads of all layers as HTML")
    for length in shapes.pictures:
        attentions = eager(ids_of(shapes, length))["kept"][0]
        page = head_view(attentions, [f"token{place}" for place in range(length)], html_action="return")
        print(f"    {length:4} tokens {len(page.data) / 1e6:8.2f} MB", flush=True)


if __name__ == "__main__":
    sys.exit(main())
