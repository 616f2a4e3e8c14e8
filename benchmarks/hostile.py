"""Hostile inputs for everything that takes input: files, prompts, arguments, addresses, clicks in a browser.

    python benchmarks/hostile.py [--seed 0] [--count 2000] [--kind files prompts arguments addresses clicks] [--only 17]

files: folders of every format, one file of each cut, lengthened, nested, or with sizes and values that cannot be; each
is described, loaded, and read with. prompts: any Unicode. arguments: those of every public function of viz_model.
addresses: links to every page with whatever its parameters are. clicks: heads, pages, prompts, numbers, Back, Forward
and Reload in a Chromium, often before the page is at rest. The inputs are shared out among the kinds by `SHARES`.

Each may be answered by a VizError; a fault is anything else: another error, a box with a traceback, an error in the
browser's console, more than 2 s of processor time (8 s for a whole page, that is, for a link or a click), or more
memory than `MOST_BYTES` beyond what there was. A fault is printed with what makes it again. Ends with status 1 where
there is one. Processor time, for on a busy machine waiting is nobody's fault.
"""

import argparse
import logging
import os
import random
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from unittest.mock import patch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import viz_model as vm
from tests.support import hostile
from tests.support.whole_folders import write_library, write_ours
from viz_model import checkpoints

ROOT = Path(__file__).resolve().parents[1]
SHARES = {"files": 0.35, "prompts": 0.3, "arguments": 0.2, "addresses": 0.05, "clicks": 0.1}
MOST_SECONDS, MOST_SECONDS_OF_A_PAGE = 2.0, 8.0
MOST_BYTES = 1_500_000_000
HANGS_AFTER = 20.0  # seconds of processor time, after which an input is given up
OURS = 0.6  # of the damaged folders, how many are of our own format, which is read in a hundredth of the time
PROMPTED = ("tiny-gpt", "tiny-bert", "tiny-seq2seq", "tiny-llama")


@dataclass
class Tally:
    """What was seen of one kind."""

    kind: str
    seed: str
    count: int = 0
    refused: int = 0
    seconds: float = 0.0
    slowest: tuple[float, str] = (0.0, "nothing")
    faults: list[str] = field(default_factory=list)

    @contextmanager
    def watching(self, number: int, what: str, most: float, worked: Callable[[], float]) -> Iterator[None]:
        """Whatever happens within is that of one input."""
        began = worked()
        try:
            yield
        except vm.VizError as error:
            self.refused += 1
            if not str(error).strip():
                self.fault(number, what, "a VizError without a sentence")
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:  # a panic of a library in Rust is no Exception
            self.fault(number, what, "".join(traceback.format_exception(error)[-3:])[-1500:])
        took = worked() - began
        self.count, self.seconds = self.count + 1, self.seconds + took
        self.slowest = max(self.slowest, (took, f"{number}: {what}"))
        if took > most:
            self.fault(number, what, f"it took {took:.1f} s of processor time")

    def fault(self, number: int, what: str, why: str) -> None:
        self.faults.append(f"{what}\n{why.rstrip()}\n  again: --seed {self.seed} --kind {self.kind} --only {number}")
        print(f"FAULT in {self.kind} {number}: {self.faults[-1]}", flush=True)


def _inputs(tally: Tally, count: int, only: int | None) -> Iterator[tuple[int, random.Random]]:
    for number in range(count) if only is None else [only]:
        yield number, random.Random(f"{tally.seed} {tally.kind} {number}")


def _give_up(*_: object) -> None:
    raise TimeoutError(f"it had not ended after {HANGS_AFTER:.0f} s of processor time")


@contextmanager
def _not_for_ever() -> Iterator[None]:
    signal.signal(signal.SIGPROF, _give_up)
    signal.setitimer(signal.ITIMER_PROF, HANGS_AFTER)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


def files(tally: Tally, count: int, only: int | None) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        shelf = Path(scratch) / "shelf"
        shelf.mkdir()
        ours = write_ours(Path(scratch) / "ours")
        others = write_library(Path(scratch))
        for number, chance in _inputs(tally, count, only):
            whole = ours if chance.random() < OURS else chance.choice([*others.values()])
            folder = shelf / f"n{number}"
            what = hostile.damaged(chance, whole, folder)
            with (
                patch.object(checkpoints, "FOLDER", shelf),
                tally.watching(number, what, MOST_SECONDS, time.process_time),
                _not_for_ever(),
            ):
                read(folder)
            shutil.rmtree(folder)


def read(folder: Path) -> None:
    """What the app does with a folder: it is listed or named as damaged, loaded, and read with."""
    listed, named = checkpoints.catalogue(), checkpoints.damaged()
    here = [entry for entry in listed if entry.folder == folder] + [one for one in named if one.folder == folder]
    if any(path.suffix in (".safetensors", ".gguf") or path.name == "config.json" for path in folder.iterdir()):
        assert len(here) == 1, "the folder is neither listed nor named"
    model = vm.load(folder)
    for example in model.examples.values():
        model.encode(example)
    prompt = "the cat" if model.tokenizer is not None else [1, 2, 3]
    model.chat("the cat")
    trace = model.trace(prompt)
    assert len(trace.tokens) == trace.length
    if model.config.layout == "decoder-only" and model.config.has_unembedding:
        [step.top(5) for step in model.generate(prompt, max_new_tokens=2)]


def prompts(tally: Tally, count: int, only: int | None) -> None:
    models = [vm.load(name) for name in PROMPTED]
    for number, chance in _inputs(tally, count, only):
        model, text = chance.choice(models), hostile.text(chance)
        what = f"{model.name} reads {len(text)} letters: {text[:40]!a}"
        with tally.watching(number, what, MOST_SECONDS, time.process_time), _not_for_ever():
            pieces = model.pieces(text)
            assert b"".join(pieces) == text.encode(), "the pieces are not the text"
            if len(pieces) > 64 and chance.random() < 0.8:
                model.encode(text)  # says how long it is; a pass of many tokens is measured elsewhere
            elif model.has_source:
                model.trace(text, target=hostile.text(chance, 60))
            else:
                model.trace(text)


def arguments(tally: Tally, count: int, only: int | None) -> None:
    from tests.support.wrong_arguments import ROOTS, fault, reached

    with tempfile.TemporaryDirectory() as scratch:
        os.chdir(scratch)
        uses = [(f"{root}: {name}", use) for number, root in enumerate(ROOTS)
                for name, use in reached(root, Path(scratch) / str(number)).items()]  # fmt: skip
        examples = max(1, -(-count // len(uses)))
        for number, (name, use) in enumerate(uses):
            if only in (None, number):
                with tally.watching(number, name, MOST_SECONDS * examples, time.process_time):
                    if found := fault(use, examples, int(tally.seed) + number):
                        raise AssertionError(found)
                tally.count += examples - 1
        os.chdir(ROOT)


def addresses(tally: Tally, count: int, only: int | None) -> None:
    from tests.support.app import opened

    pages = sorted(path.parent.name for path in (ROOT / "pages").glob("*/page.py"))
    names = {}
    for number, chance in _inputs(tally, count, only):
        page = pages[number % len(pages)]
        if page not in names:  # what is declared where the widgets stand
            declared = opened(page).session_state.visit.parameters
            names[page] = [*sorted(declared), "layer", "query", "embed", "nobody"]
        address = hostile.address(chance, names[page])
        what = f"/{page}?{str(address)[:200]}"
        with tally.watching(number, what, MOST_SECONDS_OF_A_PAGE, time.process_time):
            opened(page, **address)


def clicks(tally: Tally, count: int, only: int | None) -> None:
    from tests.support.clicking import Reader, browsing

    with browsing() as (page, server, problems):
        reader = Reader(page, server.url, random.Random(f"{tally.seed} clicks"))
        for number in range(count):  # one order: each click comes after all before it
            what = reader.choose()
            with tally.watching(number, what, MOST_SECONDS_OF_A_PAGE, server.worked):
                reader.act()
                found, problems[:] = [*problems], []
                assert not found, "; ".join(found)[:1500]
                assert "Traceback" not in (log := server.log()), log[-1500:]
        print(f"  lost clicks: {reader.lost}; the server's memory at its peak: {server.peak_bytes() / 1e9:.2f} GB")
        if server.peak_bytes() > 2 * MOST_BYTES:
            tally.fault(count, "all clicks", "the server took too much memory")


KINDS = {kind.__name__: kind for kind in (files, prompts, arguments, addresses, clicks)}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", default="0")
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--kind", nargs="+", choices=KINDS, default=[*KINDS])
    parser.add_argument("--only", type=int, help="one input of one kind, by its number")
    options = parser.parse_args()
    logging.disable(logging.WARNING)
    shares = sum(SHARES[kind] for kind in options.kind)
    tallies, before = [], resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    for kind in options.kind:
        tally = Tally(kind, options.seed)
        tallies.append(tally)
        KINDS[kind](tally, round(options.count * SHARES[kind] / shares), options.only)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        if peak - before > MOST_BYTES:
            tally.fault(-1, "all of them", f"memory grew to {peak / 1e9:.2f} GB")
        print(
            f"{kind}: {tally.count} inputs, {tally.refused} refused by a sentence, {len(tally.faults)} faults, "
            f"{tally.seconds:.0f} s; slowest {tally.slowest[0]:.2f} s ({tally.slowest[1][:160]}); "
            f"peak {peak / 1e9:.2f} GB",
            flush=True,
        )
    n_faults = sum(len(tally.faults) for tally in tallies)
    print(f"seed {options.seed}: {sum(tally.count for tally in tallies)} hostile inputs, {n_faults} faults")
    return bool(n_faults)


if __name__ == "__main__":
    sys.exit(main())
