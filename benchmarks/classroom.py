"""A class that opens the app at once: sessions of Streamlit's protocol over WebSockets, and a server of their own.

    python benchmarks/classroom.py [--visitors 1 10 30] [--actions 4] [--real SmolLM2-135M-Instruct] [--seed 0]

Each visitor comes by a link to a prompt and a head of their own, all in the same moment; then chooses heads and types
prompts, some seconds apart. Every picture that the server sends is compared with a pass that is made here, so that
nobody is shown what another one asked for. Counted from the message that asks to the message with the numbers; server
and visitors share this machine, and no browser takes part. The first line is of a server that has just started.

--real: ten visitors choose heads while one more reads 2,000 tokens with this model, which must have been fetched; the
same clicks are made without it. Ends with status 1 above a budget, or where a picture is wrong. "worked" is the
processor time of the server: on a busy machine the waits are longer than what the server is to blame for.
"""

import argparse
import asyncio
import os
import random
import sys
import tempfile
from collections.abc import Awaitable, Callable
from itertools import chain, cycle, islice
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import viz_model as vm
from tests.support.browser import Server
from tests.support.visitors import Look, Visitor, check

FIRST_BUDGET, LATER_BUDGET, CLICK_BUDGET = 4.0, 1.5, 1.0  # seconds: all first pictures, p95 later, a click more
HEADS = [(layer, head) for layer in range(4) for head in range(8)]  # of tiny-gpt
LOOKS_AT_IT, CLICKS_ON = (2.0, 8.0), (1.0, 4.0)  # seconds between what somebody does
CLICKERS, CLICKS, LONG = 10, 10, 2000  # visitors beside a long prompt, what each of them clicks, and its tokens
WORDS = ("the", "king", "and", "queen", "had", "three", "sons", "who", "went", "to", "find", "a", "golden", "bird")
ROW = "{:24} {:19}|{:19}|{:19}|{:>6} |{:>7} |{:>5}"

Pupils = list[tuple[Visitor, random.Random]]


def some_prompt(chance: random.Random) -> str:
    """Words of a tale in any order: hardly twice the same."""
    return "Once upon a time " + " ".join(chance.choices(WORDS, k=chance.randint(6, 20)))


def pupils_of(seed: str, count: int) -> Pupils:
    """So many visitors, each with a link of their own, and the chance by which they go on."""
    chances = [random.Random(f"{seed} {number}") for number in range(count)]
    return [(Visitor(Look(some_prompt(chance), *chance.choice(HEADS))), chance) for chance in chances]


async def act(visitor: Visitor, chance: random.Random, kinds: list[str], pause: tuple[float, float]) -> list[float]:
    """Do these things, some seconds apart; gives the seconds that each took."""
    waits = []
    for kind in kinds:
        await asyncio.sleep(chance.uniform(*pause))
        if kind == "head":
            others = [head for head in HEADS if head != (visitor.look.layer, visitor.look.head)]
            waits.append(await visitor.choose_head(*chance.choice(others)))
        else:
            waits.append(await visitor.type_prompt(some_prompt(chance)))
    return waits


async def leave(pupils: Pupils) -> int:
    """All leave; gives how many of their pictures were found right."""
    await asyncio.gather(*(visitor.leave() for visitor, _ in pupils))
    return check([picture for visitor, _ in pupils for picture in visitor.pictures])


async def lesson(url: str, seed: str, count: int, actions: int) -> tuple[dict[str, list[float]], int]:
    """`count` visitors come at once and do so many things each; gives the seconds by what was done, and how many
    pictures were right."""
    pupils = pupils_of(seed, count)
    first = await asyncio.gather(*(visitor.come(url) for visitor, _ in pupils))
    kinds = list(islice(cycle(("head", "prompt")), actions))
    later = await asyncio.gather(*(act(visitor, chance, kinds, LOOKS_AT_IT) for visitor, chance in pupils))
    by_kind = {kind: list(chain(*(waits[n::2] for waits in later))) for n, kind in enumerate(("head", "prompt"))}
    return {"first": first} | by_kind, await leave(pupils)


async def clicks(url: str, seed: str, beside: Callable[[str], Awaitable[None]] | None = None) -> list[float]:
    """What each click of `CLICKERS` visitors waits, while somebody else does what `beside` says."""
    pupils = pupils_of(seed, CLICKERS)
    for visitor, _ in pupils:
        await visitor.come(url)
    other = asyncio.create_task(beside(url)) if beside else None
    waits = await asyncio.gather(*(act(visitor, chance, ["head"] * CLICKS, CLICKS_ON) for visitor, chance in pupils))
    if other and not other.cancel():
        await other  # it ended before its time: raises what it raised
    await leave(pupils)
    return list(chain(*waits))


def reader_of(prompt: str, model: str) -> Callable[[str], Awaitable[None]]:
    """Somebody who opens a long prompt with a real model and chooses heads, then comes with another one."""

    async def read(url: str) -> None:
        for number in range(1000):
            visitor = Visitor(Look(f"{prompt[number:]}{' a' * number}", 0, 0, model))
            try:
                seconds = await visitor.come(url)
                print(f"    {len(visitor.look.tokens):,} tokens of {model} are there after {seconds:.1f} s", flush=True)
                for head in range(1, 9):
                    await visitor.choose_head(head, head)
            finally:
                await visitor.leave()

    return read


def text_of(tokens: int, model: str, seed: int) -> str:
    """A text of exactly so many tokens, short enough for the box."""
    loaded = vm.load(model)
    letters = " ".join(random.Random(seed).choices("abcdefghijklmnopqrstuvwxyz", k=tokens))
    while len(loaded.ids(letters)) > tokens:
        letters = letters[:-2]
    return letters


def share(values: list[float], percent: int) -> float:
    """The value that so many percent do not exceed."""
    return sorted(values)[max(0, -(-len(values) * percent // 100) - 1)]


def spread(waits: list[float]) -> str:
    return f"{share(waits, 50):6.2f} {share(waits, 95):5.2f} {max(waits):5.2f}" if waits else ""


def load() -> str:
    """How many processes wanted a processor in the last minute, these included."""
    return f"{os.getloadavg()[0]:.1f}"


def worked(server: Server) -> float:
    """Processor seconds of the server so far; of Linux alone."""
    fields = Path(f"/proc/{server.process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def lessons(server: Server, visitors: list[int], actions: int, seed: int) -> list[str]:
    """Print a line for each number of visitors; gives the budgets that were missed."""
    missed = []
    print(
        ROW.format(
            "seconds: p50, p95, most", " first picture", " another head", " other prompt", "right", "worked", "load"
        )
    )
    just_started = [(max(visitors), 0, f"{max(visitors)} as it has started")]
    for count, each, name in just_started + [(count, actions, f"{count} visitors") for count in visitors]:
        before = worked(server)
        seconds, right = asyncio.run(lesson(server.url, f"{seed} {name}", count, each))
        work = f"{worked(server) - before:.1f}"
        print(ROW.format(name, *map(spread, seconds.values()), right, work, load()), flush=True)
        later = seconds["head"] + seconds["prompt"]
        missed += [f"first, {name}"] if max(seconds["first"]) > FIRST_BUDGET else []
        missed += [f"later, {name}"] if later and share(later, 95) > LATER_BUDGET else []
    return missed


def beside_real(server: Server, model: str, seed: int) -> list[str]:
    """The same clicks without and with a long prompt beside them; gives the budget that was missed."""
    alone = asyncio.run(clicks(server.url, f"{seed}"))
    print(f"{CLICKERS} click on, alone    {spread(alone)}  load {load()}", flush=True)
    beside = asyncio.run(clicks(server.url, f"{seed}", reader_of(text_of(LONG, model, seed), model)))
    more = [with_it - without for with_it, without in zip(beside, alone, strict=True)]
    print(f"  and beside {LONG:,}    {spread(beside)}  load {load()}")
    print(f"  a click waits longer by {spread(more)}")
    return ["a click beside a long prompt"] if max(more) > CLICK_BUDGET else []


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--visitors", type=int, nargs="*", default=[1, 10, 30])
    parser.add_argument("--actions", type=int, default=4, help="of each visitor: heads and prompts in turn")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--real", help="a fetched model, of which somebody reads a long prompt")
    chosen = parser.parse_args()
    print(f"seed {chosen.seed}, {os.cpu_count()} processors, load before the server was started {load()}")
    missed = []
    with tempfile.TemporaryDirectory() as folder:
        server = Server("app.py", Path(folder) / "log")
        try:
            if chosen.visitors:
                missed += lessons(server, chosen.visitors, chosen.actions, chosen.seed)
            if chosen.real:
                missed += beside_real(server, chosen.real, chosen.seed)
        finally:
            server.stop()
    print(f"budgets: first {FIRST_BUDGET} s for all, later p95 {LATER_BUDGET} s, a click more {CLICK_BUDGET} s")
    print(f"missed: {'; '.join(missed) or 'none'}")
    return int(bool(missed))


if __name__ == "__main__":
    sys.exit(main())
