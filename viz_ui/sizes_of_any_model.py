"""A model that nobody has to load: how its parameters, activations, scores and operations grow with its sizes."""

import numpy as np
import streamlit as st

from viz_model import costs
from viz_model.errors import ConfigError
from viz_model.presets import PRESETS, Preset, fitting_heads, resized
from viz_model.transformer import TransformerConfig
from viz_ui.growth_figure import growth_figure
from viz_ui.text import number

POWERS = [2**n for n in range(18)]
BYTES = {"float32": 4, "float16": 2}
MOST_HEADS = 128
SIZES = ("batch", "length", "width", "heads", "layers")


def draw_any_model() -> None:
    preset = choose_preset()
    batch, length, width, heads, layers = choose_sizes(preset)
    try:
        config = resized(preset, layers=layers, heads=heads, width=width, length=length)
    except ConfigError:
        say_what_fits(preset, width, heads)
        return
    number_bytes = BYTES[st.session_state.get("precision") or "float32"]
    draw_numbers(config, batch, length, number_bytes)
    draw_published(preset, config, is_changed(preset, width, heads, layers))
    draw_curves(config, batch, length, number_bytes)
    draw_tables(config, batch, length, number_bytes)


def choose_preset() -> Preset:
    with st.container(horizontal=True, vertical_alignment="bottom"):
        name = st.segmented_control(
            "Published model",
            list(PRESETS),
            default=next(iter(PRESETS)),
            required=True,
            key="preset",
            bind="query-params",
        )
        st.segmented_control(
            "Numbers are kept as", list(BYTES), default="float32", required=True, key="precision", bind="query-params"
        )
        st.button("Back to its own sizes", on_click=take_own_sizes, args=(name,), icon=":material/undo:")
    return PRESETS[name]


def key_of(preset: str, size: str) -> str:
    """Each preset has sliders of its own, so that its own sizes are their defaults and stay out of the address."""
    return f"{preset.lower().replace(' ', '-')}_{size}"


def own_sizes(preset: Preset) -> dict[str, int]:
    """B, T, C, H, L as they were published; B is 1."""
    own = preset.config
    numbers = (1, preset.length, own.d_model, own.n_heads, own.n_layers)
    return dict(zip(SIZES, numbers, strict=True))


def take_own_sizes(name: str) -> None:
    for size, own in own_sizes(PRESETS[name]).items():
        st.session_state[key_of(name, size)] = own


def choose_sizes(preset: Preset) -> tuple[int, int, int, int, int]:
    """B, T, C, H, L."""
    own, places = own_sizes(preset), st.columns(5)

    def keyed(size: str) -> dict:
        return {"value": own[size], "key": key_of(preset.name, size), "bind": "query-params"}

    batch = places[0].select_slider("B, batch", POWERS[:11], **keyed("batch"))
    length = places[1].select_slider("T, tokens", POWERS, **keyed("length"))
    width = places[2].slider("C, width", 64, 16384, step=64, **keyed("width"))
    heads = places[3].slider("H, heads", 1, MOST_HEADS, **keyed("heads"))
    layers = places[4].slider("L, layers", 1, 128, **keyed("layers"))
    return batch, length, width, heads, layers


def say_what_fits(preset: Preset, width: int, heads: int) -> None:
    """Why these sizes make no model, and which numbers of heads would."""
    rotary = preset.config.position == "rotary"
    near = " or ".join(map(str, fitting_heads(width, heads, MOST_HEADS, even=rotary)))
    if width % heads:
        why = f"C = {width:,} cannot be split into H = {heads} equal heads: {width:,} / {heads} = {width / heads:.2f}"
    else:
        why = f"Rotary positions turn pairs of numbers, but D = C/H = {width:,} / {heads} = {width // heads} is odd"
    st.info(f"{why}. Choose H = {near}.", icon=":material/straighten:")


def is_changed(preset: Preset, width: int, heads: int, layers: int) -> bool:
    own = preset.config
    return (width, heads, layers) != (own.d_model, own.n_heads, own.n_layers)


def draw_numbers(config: TransformerConfig, batch: int, length: int, number_bytes: int) -> None:
    """The four numbers that people ask for first, each with its formula."""
    parameters = sum(costs.parameters_by_part(config).values())
    activations = sum(costs.activations_by_part(config, batch, length).values())
    scores = costs.score_numbers(config, batch, length)
    operations = sum(costs.flops_by_part(config, batch, length).values())
    places = st.container(key="sizes_numbers").columns(4)
    for place, name, value, words in (
        (places[0], "Parameters", f"{parameters:,}", size_words(parameters * number_bytes)),
        (places[1], "Activations, all kept", f"{activations:,}", size_words(activations * number_bytes)),
        (places[2], "Score matrix, B·L·H·T²", f"{scores:,}", size_words(scores * number_bytes)),
        (places[3], "FLOPs of one pass", number(float(operations)), f"{operations:,}"),
    ):
        place.metric(name, value, words, delta_color="off", delta_arrow="off")


def draw_published(preset: Preset, config: TransformerConfig, changed: bool) -> None:
    """Our count against the published one, to the last digit; or what was changed."""
    if changed:
        own = preset.config
        pairs = (("C", own.d_model, config.d_model), ("H", own.n_heads, config.n_heads))
        pairs += (("L", own.n_layers, config.n_layers), ("F", own.d_ff, config.d_ff))
        words = ", ".join(f"{letter} {before:,} → {after:,}" for letter, before, after in pairs if before != after)
        st.markdown(f"Changed from {preset.name}: {words}. F grows with C.")
        return
    ours = sum(costs.parameters_by_part(config).values())
    grown = config.context_length - preset.config.context_length
    if grown and config.position == "learned":
        st.markdown(
            f"{preset.name} has {preset.config.context_length:,} learned positions; T = {config.context_length:,} "
            f"needs {grown:,} more rows of C numbers: {grown * config.d_model:,} parameters above the published "
            f"{preset.published:,}" + (" (which also has what is listed with its own T)." if preset.beyond else ".")
        )
    elif preset.beyond:
        more = " + ".join(f"**{count:,}** for {words} ({formula})" for words, formula, count in preset.beyond)
        st.markdown(f"{ours:,} here + {more} = **{preset.published:,}**, the published number.")
    else:
        st.markdown(f"**{ours:,}** is the published number of {preset.name}, to the last digit.")


def draw_curves(config: TransformerConfig, batch: int, length: int, number_bytes: int) -> None:
    """Operations and bytes over T."""
    lengths = np.unique(np.geomspace(16, POWERS[-1], 60).round().astype(int))
    operations = {"QKᵀ and A·V": [], "all else": []}
    kept = {"three T² matrices": [], "all other activations": []}
    for each in lengths.tolist():
        parts = costs.flops_by_part(config, batch, each)
        operations["QKᵀ and A·V"].append(parts["scores and mixing"])
        operations["all else"].append(sum(parts.values()) - parts["scores and mixing"])
        parts = costs.activations_by_part(config, batch, each)
        kept["three T² matrices"].append(parts["three T² matrices"] * number_bytes)
        kept["all other activations"].append((sum(parts.values()) - parts["three T² matrices"]) * number_bytes)
    parameters = sum(costs.parameters_by_part(config).values())
    kept["parameters"] = [parameters * number_bytes] * len(lengths)
    left, right = st.columns(2)
    crossing = costs.crossover_length(config)
    figure = growth_figure(lengths, arrays(operations), "QKᵀ and A·V", length=length, unit="FLOPs", crossing=crossing)
    left.plotly_chart(figure, key="flops_over_length", config={"displaylogo": False})
    figure = growth_figure(lengths, arrays(kept), "three T² matrices", length=length, unit="bytes")
    right.plotly_chart(figure, key="bytes_over_length", config={"displaylogo": False})


def arrays(curves: dict[str, list[int]]) -> dict[str, np.ndarray]:
    return {name: np.array(values, dtype=float) for name, values in curves.items()}


def draw_tables(config: TransformerConfig, batch: int, length: int, number_bytes: int) -> None:
    """Every part in numbers."""
    with st.container(horizontal=True):  # wraps where the window is narrow
        for title, parts in (
            ("Parameters", costs.parameters_by_part(config)),
            ("Activations", costs.activations_by_part(config, batch, length)),
            ("FLOPs", costs.flops_by_part(config, batch, length)),
        ):
            st.markdown(table(title, parts), width="content")
    st.caption(
        f"D = C/H = {config.d_head}, F = {config.d_ff:,}, V = {config.vocab_size:,}. Parameters: tied ones count once. "
        f"Activations: every tensor of the diagram of “this model” kept once, {number_bytes} bytes a number, masks and "
        "ids left out; the three T² matrices are QKᵀ, the scaled scores and the weights, which a fused kernel never "
        "holds (Dao et al. 2022, “FlashAttention”). FLOPs: a multiplication and an addition are two; matrix products "
        "only, every cell of T² counted, logits of every position. Kaplan et al. 2020, “Scaling Laws”, §2.1."
    )
    names = [preset for preset in PRESETS.values() if preset.name == st.session_state.get("preset")]
    if names:
        st.caption(f"{names[0].name}: {names[0].source}.")


def table(title: str, parts: dict[str, int]) -> str:
    total = sum(parts.values())
    rows = [f"| {name} | {amount(value)} | {value / total:.1%} |" for name, value in parts.items()]
    return "\n".join([f"| {title} | number | share |", "|--|--:|--:|", *rows, f"| **all** | **{amount(total)}** | |"])


def amount(count: int) -> str:
    """Exact below 10⁹; as 2.916×10¹¹ from there on, for a column has no more room."""
    return f"{count:,}" if count < 10**9 else number(float(count))


def size_words(count: int) -> str:
    """Bytes in thousands: 498 MB."""
    value, units = float(count), ["B", "kB", "MB", "GB", "TB", "PB"]
    while value >= 1000 and len(units) > 1:
        value, units = value / 1000, units[1:]
    return f"{value:.3g} {units[0]}" if value < 100 else f"{value:.0f} {units[0]}"
