"""Seconds and memory of attention on this machine: scores and weights written out, and torch's fused kernel.

    python -m viz_model.flash.timing '{"heads": 8, "groups": 8, "width": 32, "causal": true}'

is a process of its own, so that nothing else that runs here is measured and a long run can be ended; it writes a line
of JSON for the machine, and then one for each length. Nothing is kept: every number is measured when asked for.
"""

import json
import platform
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.profiler import ProfilerActivity, profile

from viz_model.memory_limits import available_bytes
from viz_model.transformer.attention import attention_weights, mix, raw_scores
from viz_model.transformer.masks import named

LENGTHS = tuple(2**n for n in range(6, 18))  # 64 … 131,072
SECONDS, LONGEST_SECONDS = 12.0, 60.0  # of all calls; of everything. A length that would go past is not begun
MOST_BYTES = 1_000_000_000
MOST_RUNS, ENOUGH_SECONDS = 9, 0.3  # the fastest of so many calls, or of as many as fit into the seconds


@dataclass(frozen=True)
class Shapes:
    """What is measured: H query heads, G key/value heads, D; T queries read T keys, causally or all of them."""

    heads: int
    groups: int
    width: int
    causal: bool


@dataclass(frozen=True)
class Machine:
    """Where it was measured."""

    processor: str
    threads: int
    torch: str


@dataclass(frozen=True)
class Call:
    """One way at one length: seconds of the fastest of `runs` calls, and the most bytes that torch held for a call.

    The result counts to the bytes; query, key and value do not.
    """

    seconds: float
    nbytes: int
    runs: int

    @property
    def spent(self) -> float:
        """About the seconds that all calls took, the one whose bytes were counted included."""
        return (self.runs + 1) * self.seconds


@dataclass(frozen=True)
class Timing:
    """Both ways at one length T; written_out is None where it would take more time or memory than it may."""

    length: int
    fused: Call
    written_out: Call | None

    @classmethod
    def of(cls, told: dict) -> "Timing":
        """From what `dataclasses.asdict` made of one."""
        written_out = told["written_out"]
        return cls(told["length"], Call(**told["fused"]), Call(**written_out) if written_out else None)


def machine() -> Machine:
    """This machine: its processor by name where the system tells it, and the threads that torch uses."""
    return Machine(_processor(), torch.get_num_threads(), torch.__version__)


def timings(shapes: Shapes, seconds: float = SECONDS, most_bytes: int | None = None) -> Iterator[Timing]:
    """T doubles from 64 on, as long as seconds and bytes suffice by the measure of the last length (×4 a doubling).

    Of the two the written-out way comes to its end first; the fused one then goes on alone.
    """
    if most_bytes is None:
        most_bytes = min(MOST_BYTES, (available_bytes() or 2 * MOST_BYTES) // 2)
    ends, left = time.perf_counter() + LONGEST_SECONDS, seconds
    last: Timing | None = None
    for length in LENGTHS:
        problem = _inputs(shapes, length)
        calls: dict[str, Call | None] = {}
        for name, attention in (("fused", fused_attention), ("written_out", written_out_attention)):
            before = getattr(last, name, None)
            bearable = before and 4 * before.nbytes <= most_bytes and 8 * before.seconds <= left
            calls[name] = _measure(attention, problem, shapes.causal) if last is None or bearable else None
            left -= calls[name].spent if calls[name] else 0
        if calls["fused"] is None or time.perf_counter() > ends:
            return
        last = Timing(length, **calls)
        yield last


def written_out_attention(query: Tensor, key: Tensor, value: Tensor, *, causal: bool) -> Tensor:
    """The same functions that a captured pass of this program takes: (H,T,D), (G,S,D), (G,S,D) -> (H,T,D)."""
    mask = named("causal", query.shape[-2]) if causal else None
    scores = raw_scores(query, key) * query.shape[-1] ** -0.5  # (H,T,S)
    return mix(attention_weights(scores, mask), value)


def fused_attention(query: Tensor, key: Tensor, value: Tensor, *, causal: bool) -> Tensor:
    """torch's kernel: (H,T,D), (G,S,D), (G,S,D) -> (H,T,D); on a CPU it goes through tiles too."""
    problem = query[None], key[None], value[None]  # without a batch axis it would take another path
    grouped = len(query) != len(key)
    return F.scaled_dot_product_attention(*problem, is_causal=causal, enable_gqa=grouped)[0]


def peak_bytes(run: Callable[[], object]) -> int:
    """The most bytes that torch's allocator held at once for what happened in `run`, its result included."""
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        kept = run()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        profiler.export_chrome_trace(str(path))
        events = json.loads(path.read_text())["traceEvents"]
    del kept
    held = most = 0
    for event in sorted((one for one in events if one["name"] == "[memory]"), key=lambda one: one["ts"]):
        held += event["args"]["Bytes"]
        most = max(most, held)
    return most


def _measure(attention: Callable[..., Tensor], problem: tuple[Tensor, ...], causal: bool) -> Call:
    nbytes = peak_bytes(lambda: attention(*problem, causal=causal))  # the first call is slower: it is not timed
    taken: list[float] = []
    while len(taken) < MOST_RUNS and sum(taken) < ENOUGH_SECONDS:
        start = time.perf_counter()
        attention(*problem, causal=causal)
        taken.append(time.perf_counter() - start)
    return Call(min(taken), nbytes, len(taken))


def _inputs(shapes: Shapes, length: int) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(length)
    return tuple(
        torch.randn(n, length, shapes.width, generator=generator) for n in (shapes.heads, shapes.groups, shapes.groups)
    )


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


def main() -> None:
    """Measure what the first argument says and write a line of JSON at a time."""
    torch.set_num_threads(1)  # other visitors keep their cores, and busy ones disturb the least
    print(json.dumps(asdict(machine())), flush=True)
    with torch.inference_mode():
        for timing in timings(Shapes(**json.loads(sys.argv[1]))):
            print(json.dumps(asdict(timing)), flush=True)


if __name__ == "__main__":
    main()
