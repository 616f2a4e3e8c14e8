"""Rotary positions of the chosen query and key: pairs as clocks, the score by distance, the frequencies."""

import streamlit as st
import torch

import viz_model as vm
from pages.positions.figures import wavelength_figure
from viz_model.positions.rotary import RotaryPairs, new_angles, pair_products, rotary_pairs
from viz_model.transformer.facts import ModelFacts
from viz_model.transformer.positions import rotary_angles
from viz_ui.components.rotary_pairs import Moved, Pair, Reach, Token
from viz_ui.components.rotary_pairs import rotary_pairs as draw_pairs
from viz_ui.frame.address import choose, held, linked
from viz_ui.frame.forms import Whole
from viz_ui.frame.view import View, current_view, traced
from viz_ui.look.text import counted, number, plain
from viz_ui.parts.fitting_model import FittingPrompt, drawn

FURTHEST = 100_000  # what the address may ask for; the sliders bring it into their range


def draw_rotation() -> None:
    """The whole section."""
    view = current_view()
    shown = drawn(view, _turns, "a model whose rotary positions turn all pairs of numbers by plain angles")
    trace = rotary_trace(view, shown)
    pairs = rotary_pairs(trace, shown.layer, shown.head, shown.query, shown.key)
    shift = held("shift", Whole(0, FURTHEST), 0)  # of both tokens
    apart = held("apart", Whole(-FURTHEST, FURTHEST), 0)  # of the query alone
    pair = held("pair", Whole(0, FURTHEST))
    if shown.note:
        st.caption(shown.note)
    if pair is None:  # the one with the largest share in the score
        pair = int(pair_products(pairs, shown.query, shown.key).abs().argmax())
    _draw_clocks(shown, pairs, Moved(shift, apart, pair))
    st.caption(
        f"These are q and k of {plain(shown.model.name)}, layer {shown.layer}, query head {shown.head}, key head "
        f"{shown.model.config.kv_head(shown.head)}. They were recorded before the rotation, and are rotated here in "
        "float64."
    )
    _draw_frequencies(shown, pairs)


def rotary_trace(view: View, shown: FittingPrompt) -> vm.Trace:
    """The sidebar's pass where the section shows its model, else the pass of the shown model under its own mask."""
    config = shown.model.config
    trace = traced(shown.name, shown.prompt, config.mask, edits=()) if shown.instead else view.trace
    return trace.of(config.parts[0])


def _turns(config: ModelFacts) -> bool:
    """Whether all numbers of its queries and keys turn in known pairs."""
    return config.position == "rotary" and config.rotary_pairs is not None


def _draw_clocks(shown: FittingPrompt, pairs: RotaryPairs, moved: Moved) -> None:
    config, own = shown.model.config, shown.query - shown.key
    both_ways = config.mask != "causal"
    longest = 2 * config.context_length
    draw_pairs(
        [
            Pair(tuple(numbers), tuple(query), tuple(key), theta)
            for numbers, query, key, theta in zip(
                pairs.numbers.tolist(),
                pairs.query.tolist(),
                pairs.key.tolist(),
                pairs.frequencies.tolist(),
                strict=True,
            )
        ],
        Token(shown.labels[shown.query], shown.query),
        Token(shown.labels[shown.key], shown.key),
        scale=pairs.scale,
        computed=pairs.computed,
        trained=config.context_length - 1,
        both_ways=both_ways,
        reach=Reach(least=-shown.key if both_ways else min(0, own), most=longest, furthest=longest),
        moved=moved,
        key="rotary_pairs",
        on_move=_keep,
    )


def _keep(moved: Moved) -> None:
    choose(shift=moved.shift, apart=moved.apart, pair=moved.pair)


def _draw_frequencies(shown: FittingPrompt, pairs: RotaryPairs) -> None:
    """How many tokens each pair takes for one turn, with this base and with another."""
    config = shown.model.config
    st.subheader("How fast each pair turns")
    with st.container(horizontal=True, vertical_alignment="bottom"):
        base = linked(
            st.number_input,
            "Another base",
            2,
            9_999_999,
            500_000,
            key="base",
            width=150,
            help="θ of pair p is base^(−2p/D). Llama 3 uses the base 500,000 to read longer texts.",
        )
        turning = pairs.frequencies > 0
        waves = pairs.wavelengths[turning]
        length = config.context_length
        new = int(new_angles(pairs.frequencies, length, length - 1, config.mask != "causal").sum())
        others = len(waves) - new
        seen = (
            f" The other {counted(others, 'pair')} {'turns' if others == 1 else 'turn'} faster and went through the "
            "full circle at smaller distances, so no angle is new for these."
        )
        theta, name = _written_theta(pairs)
        st.markdown(
            f"{theta}. The fastest pair makes one "
            f"turn in **{number(waves.min().item(), 3)}** tokens, and the slowest pair in "
            f"**{number(waves.max().item(), 3)}**. Distance {length:,} is the first distance that never occurred in "
            f"training. At this distance, **{new} of the {len(waves)}** pairs {'reaches' if new == 1 else 'reach'} an "
            f"angle that is new to the model.{seen if others else ''}"
        )
    theme = st.context.theme.type or "light"
    exponents = torch.arange(len(waves), dtype=torch.float64) / len(waves)
    figure = wavelength_figure(
        {
            f"{name}, {shown.model.name}": waves.numpy(),
            f"base {base:,}, by formula": (2 * torch.pi * float(base) ** exponents).numpy(),
        },
        trained=config.context_length,
        theme=theme,
    )
    st.plotly_chart(figure, key="wavelengths", theme=None, config={"displayModeBar": False})


def _written_theta(pairs: RotaryPairs) -> tuple[str, str]:
    """How the frequencies come about, and what they are called in a legend; scaled ones are the model's own."""
    theta = pairs.frequencies[pairs.frequencies > 0]
    width, whole = 2 * len(theta), 2 * len(pairs.frequencies)
    part = "" if width == whole else f", and only the first {width} of the {whole} numbers of a head turn"
    base = theta[1].item() ** (-width / 2) if len(theta) > 1 else 1.0  # θ of pair 1 is base^(−2/D)
    if torch.allclose(theta, rotary_angles(torch.tensor(1), width, base), rtol=1e-3, atol=0):
        letter = "D" if width == whole else "n"
        return f"θ = base^(−2p/{letter}) with base {base:,.0f} and {letter} = {width}{part}", f"base {base:,.0f}"
    return f"This model scales its angles θ{part}", "scaled by the model"
