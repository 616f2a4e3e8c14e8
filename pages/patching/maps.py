"""The maps of the page Patching: what is put from one run into the other, and how much of the answer comes with it."""

from dataclasses import dataclass

import streamlit as st

import viz_model as vm
from pages.patching.prompts import ComparedRuns
from viz_model.intervention.patching import (
    ATTENTION,
    FEED_FORWARD,
    HEAD_POSITIONS,
    HEADS,
    STREAM,
    Patching,
)
from viz_model.intervention.paths import INPUTS, LOGITS
from viz_ui.components.panels import Matrix, panels
from viz_ui.frame.address import choose, held, linked
from viz_ui.frame.forms import PairOfNumbers
from viz_ui.frame.jobs import kept_result
from viz_ui.frame.passes import takes_a_second
from viz_ui.frame.view import View, choose_cell, choose_head
from viz_ui.look.glossary import explained
from viz_ui.look.text import number
from viz_ui.parts.aligned import place_labels
from viz_ui.parts.head_matrix import LEAST_CELL, draw_head_matrix
from viz_ui.parts.open_matrix import Named, named, note_opened, open_noted_matrix, pass_words

PATHS = "paths"
MAPS = {
    "heads": HEADS,
    "stream": STREAM,
    "attention outputs": ATTENTION,
    "feed-forward outputs": FEED_FORWARD,
    "heads × positions": HEAD_POSITIONS,
    "paths into a head": PATHS,
    "paths into the logits": LOGITS,
}
OF_HEADS = (HEADS, LOGITS)  # of each head one number, and a click chooses the head
OF_LAYERS = {
    STREAM: "stream before layer {}",
    ATTENTION: "attention output of layer {}",
    FEED_FORWARD: "feed-forward output of layer {}",
}
DIRECTIONS = {"clean into corrupted": False, "corrupted into clean": True}


@dataclass(frozen=True)
class MapChoice:
    """What is put in: one of MAPS, in which direction; of paths, into the query, key or value of a head."""

    sites: str
    reverse: bool
    into: str

    @property
    def runs(self) -> tuple[str, str]:
        """From which run, into which one."""
        return ("corrupted", "clean") if self.reverse else ("clean", "corrupted")


def draw_choice() -> MapChoice:
    chosen = linked(
        st.selectbox,
        "What is put in",
        list(MAPS),
        key="map",
        width=190,
        help="- **heads**: the mixed values of a head, at all tokens\n- **stream**: the residual stream of a token, "
        "before a layer\n- **attention outputs**, **feed-forward outputs**: what attention, or feed-forward, adds to a "
        "token in a layer\n- **heads × positions**: the mixed values of a head of the chosen layer, at a token\n- "
        "**paths into a head**: what an earlier head adds to the query, key or value of the chosen head\n- **paths "
        "into the logits**: what a head adds to the logits directly, and not by way of later layers\n\n"
        + explained("path patching"),
    )
    into = "key"
    if MAPS[chosen] == PATHS:
        into = linked(st.selectbox, "Into the head's", list(INPUTS), index=1, key="into", width=110)
    direction = linked(
        st.segmented_control,
        "Direction",
        list(DIRECTIONS),
        default=next(iter(DIRECTIONS)),
        required=True,
        key="direction",
        help="- **clean into corrupted** shows what is enough to bring the answer back.\n- **corrupted into clean** "
        "shows what the answer needs.\n\nHeimersheim and Nanda 2024, “How to Use and Interpret Activation "
        "Patching”.",
    )
    held("sender", PairOfNumbers(("sender_layer", "sender_head")))
    return MapChoice(MAPS[chosen], DIRECTIONS[direction], into)


def patched(view: View, pair: ComparedRuns, choice: MapChoice) -> Patching:
    """Kept for this visitor, the latest of each map."""
    model, config = view.model, view.model.config
    given = (model, pair.clean, pair.corrupted)
    more = {"reverse": choice.reverse, "part": view.part, "position": pair.position, "answer": (pair.good, pair.bad)}
    layers, heads, length = pair.clean.n_layers, config.n_heads, pair.clean.length
    if choice.sites == LOGITS:
        passes, of = layers * heads, ()

        def work(tell) -> Patching:
            return vm.patch_paths(*given, LOGITS, **more, tell=tell)
    elif choice.sites == PATHS:
        if view.layer == 0:
            raise vm.VizError("No head comes before layer 0. Choose a head of a later layer in the sidebar.")
        place, passes = (view.layer, view.head), 2 * view.layer * heads
        of = (*place, choice.into)

        def work(tell) -> Patching:
            return vm.patch_paths(*given, place, choice.into, **more, tell=tell)
    else:
        chosen = [view.layer] if choice.sites == HEAD_POSITIONS else [*range(layers)]
        passes = {HEADS: layers * heads, HEAD_POSITIONS: heads * length}.get(choice.sites, layers * length)
        of = tuple(chosen)

        def work(tell) -> Patching:
            return vm.patch(*given, choice.sites, layers=chosen, **more, tell=tell)

    return kept_result(
        work,
        words=f"Running the prompt up to {passes:,} times, each time with another value put in",
        name=f"patching_{choice.sites.replace('.', '_')}",
        of=(view.name, pair.key, choice, of),
        at_once=not takes_a_second(model, pair.clean.read.ids, passes),
    )


def draw_map(view: View, pair: ComparedRuns, choice: MapChoice, found: Patching) -> None:
    """The map; a click chooses what belongs to its cell."""
    if choice.sites in OF_HEADS:
        draw_head_matrix(
            view,
            "patched_heads",
            _title(choice, view),
            found.effect.numpy(),
            _named(view, pair, choice),
            **_look(found),
        )
    elif choice.sites == PATHS:
        _draw_paths(view, pair, choice, found)
    else:
        _draw_positions(view, pair, choice, found)


def _draw_positions(view: View, pair: ComparedRuns, choice: MapChoice, found: Patching) -> None:
    """Layers, or the heads of a layer, × the tokens that have a counterpart."""
    columns = columns_of(pair)
    places = [second if not choice.reverse else first for first, second in pair.alignment.pairs]
    of_heads = choice.sites == HEAD_POSITIONS
    values = (found.effect[view.layer] if of_heads else found.effect)[:, places].numpy()
    axis, rows = ("head", "head {}") if of_heads else ("layer", "layer {}")
    matrix = Matrix(
        "patched",
        _title(choice, view),
        values,
        [rows.format(n) for n in range(len(values))],
        columns,
        row_axis=axis,
        column_axis="position",
        **_look(found),
    )

    def picked(event: dict) -> None:
        choose_head(**{axis: event["row"]})
        if event["column"] is not None:
            choose_cell(query=pair.alignment.pairs[event["column"]][0])

    marked = {axis: view.head if of_heads else view.layer}
    firsts = [first for first, _ in pair.alignment.pairs]
    if view.query in firsts:
        marked["position"] = firsts.index(view.query)
    panels([matrix], key="patched_panels", marked=marked, least_cell=LEAST_CELL, on_pick=picked, on_open=note_opened)
    open_noted_matrix(view, {"patched": matrix}, names={"patched": _named(view, pair, choice)})


def _draw_paths(view: View, pair: ComparedRuns, choice: MapChoice, found: Patching) -> None:
    layer, head = sender_of(view, found)

    def picked(event: dict) -> None:
        row, column = event["row"], event["column"]
        choose(sender=(layer if row is None else row, head if column is None else column))

    draw_head_matrix(
        view,
        "paths",
        _title(choice, view),
        found.effect[: view.layer].numpy(),
        _named(view, pair, choice),
        marked={"layer": layer, "head": head},
        on_pick=picked,
        **_look(found) | {"role": choice.into},
    )


def sender_of(view: View, found: Patching) -> tuple[int, int]:
    """The sender that is chosen; where none is, or it is no sender here, the one with the largest effect."""
    chosen = held("sender", PairOfNumbers(("sender_layer", "sender_head")))
    heads = found.effect.shape[1]
    if chosen is not None and chosen[0] < view.layer and chosen[1] < heads:
        return chosen
    return divmod(int(found.effect[: view.layer].argmax()), heads)


def columns_of(pair: ComparedRuns, *, keys: bool = False) -> list[str]:
    """A label for each aligned pair of tokens: of the clean prompt, and of the other one where that differs."""
    alignment = pair.key_alignment if keys else pair.alignment
    pieces = (trace.key_token_bytes if keys else trace.token_bytes for trace in (pair.clean, pair.corrupted))
    return place_labels(alignment.places, *pieces)


def _title(choice: MapChoice, view: View) -> str:
    """What is put in, from which run into which one."""
    origin, base = choice.runs
    if choice.sites == PATHS:
        return f"Paths into the {choice.into} of head {view.head} of layer {view.layer}, {origin} into {base}"
    words = {
        HEADS: "Heads",
        LOGITS: "Paths from each head into the logits",
        STREAM: "Stream before each layer",
        ATTENTION: "Attention outputs",
        FEED_FORWARD: "Feed-forward outputs",
        HEAD_POSITIONS: f"Heads of layer {view.layer}, at each token",
    }
    return f"{words[choice.sites]}, {origin} into {base}"


def _named(view: View, pair: ComparedRuns, choice: MapChoice) -> Named:
    origin, base = choice.runs
    places = {HEAD_POSITIONS: (f"layer {view.layer}",), PATHS: (f"layer {view.layer}", f"head {view.head}")}
    written = {PATHS: choice.into, LOGITS: LOGITS}.get(choice.sites)
    words = f"{written} patched by each head" if written else f"{choice.sites} patched"
    of = f"{pass_words(pair.clean)}. Corrupted: {pass_words(pair.corrupted)}"
    file_words = f"patched_{written or choice.sites}_{origin}_into_{base}"
    return named(view, f"{words}, {origin} into {base}", file_words, *places.get(choice.sites, ()), of=of)


def _look(found: Patching) -> dict:
    """The colours of effects, around 0, and the largest one in words."""
    known = found.effect[found.effect.isfinite()]
    largest = f"0: as if nothing were put in. 1: all of the answer. The largest is {number(float(known.max()), 3)}."
    return {
        "scale": "diverging",
        "role": "weights",
        "high": max(1.0, float(known.abs().max())),
        "low": -max(1.0, float(known.abs().max())),
        "caption": largest,
    }
