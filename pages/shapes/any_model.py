"""A model that nobody has to load: how its parameters, activations, scores and operations grow with its sizes."""

import numpy as np
import streamlit as st

from viz_model.errors import ConfigError
from viz_model.shapes import costs
from viz_model.shapes.presets import PRESETS, Preset, fitting_heads, resized
from viz_model.transformer import TransformerConfig
from viz_ui.frame.address import linked
from viz_ui.look.glossary import explained
from viz_ui.look.growth_figure import growth_figure
from viz_ui.look.text import number, percent, size_words

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
    number_bytes = BYTES[st.session_state.precision]
    draw_numbers(preset, config, batch, length, number_bytes)
    draw_published(preset, config)
    draw_curves(preset, config, batch, length, number_bytes)
    draw_tables(preset, config, batch, length, number_bytes)


def choose_preset() -> Preset:
    with st.container(horizontal=True, vertical_alignment="bottom"):
        name = linked(
            st.segmented_control,
            "Published model",
            list(PRESETS),
            default=next(iter(PRESETS)),
            required=True,
            key="preset",
        )
        linked(st.segmented_control, "Precision", list(BYTES), default="float32", required=True, key="precision")
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
        return {"value": own[size], "key": key_of(preset.name, size)}

    batch = linked(places[0].select_slider, "B, batch", POWERS[:11], **keyed("batch"))
    length = linked(places[1].select_slider, "T, tokens", POWERS, **keyed("length"))
    width = linked(places[2].slider, "C, width", 64, 16384, step=64, **keyed("width"))
    heads = linked(places[3].slider, "H, heads", 1, MOST_HEADS, **keyed("heads"))
    layers = linked(places[4].slider, "L, layers", 1, 128, **keyed("layers"))
    return batch, length, width, heads, layers


def say_what_fits(preset: Preset, width: int, heads: int) -> None:
    """Why these sizes make no model, and which numbers of heads would fit."""
    rotary = preset.config.position == "rotary"
    near = " or ".join(map(str, fitting_heads(width, heads, MOST_HEADS, even=rotary)))
    if width % heads:
        why = f"C = {width:,} cannot be split into H = {heads} equal heads: {width:,} / {heads} = {width / heads:.2f}"
    else:
        why = f"Rotary positions turn pairs of numbers, but D = C/H = {width:,} / {heads} = {width // heads} is odd"
    st.info(f"{why}. Choose H = {near}.", icon=":material/straighten:")


def draw_numbers(preset: Preset, config: TransformerConfig, batch: int, length: int, number_bytes: int) -> None:
    """The four numbers that matter most, each with its formula."""
    parameters = sum(costs.parameters_by_part(config).values())
    activations = sum(costs.activations_by_part(config, batch, length, logits=preset.logits).values())
    scores = costs.score_numbers(config, batch, length)
    operations = sum(costs.flops_by_part(config, batch, length, logits=preset.logits).values())
    places = st.container(key="sizes_numbers").columns(4)
    for place, name, value, words in (
        (places[0], "Parameters", f"{parameters:,}", size_words(parameters * number_bytes)),
        (places[1], "Activations, all kept", f"{activations:,}", size_words(activations * number_bytes)),
        (places[2], "Score matrix, B·L·H·T²", f"{scores:,}", size_words(scores * number_bytes)),
        (places[3], "FLOPs of one pass", number(float(operations)), f"{operations:,}"),
    ):
        place.metric(name, value, words, delta_color="off", delta_arrow="off")


def draw_published(preset: Preset, config: TransformerConfig) -> None:
    """Our count beside the published one, to the last digit; or what the reader changed."""
    own = preset.config
    changes = [
        f"{letter} {before:,} → {after:,}"
        for letter, before, after in (
            ("C", own.d_model, config.d_model),
            ("H", own.n_heads, config.n_heads),
            ("L", own.n_layers, config.n_layers),
            ("F", own.d_ff, config.d_ff),
        )
        if before != after
    ]
    if changes:
        st.markdown(changed_words(preset, config, changes))
    else:
        st.markdown(published_words(preset, config))


def more_rows(preset: Preset, config: TransformerConfig) -> int:
    """By how many rows the table of learned positions is longer than the published one."""
    return config.context_length - preset.config.context_length if config.position == "learned" else 0


def changed_words(preset: Preset, config: TransformerConfig, changes: list[str]) -> str:
    """All reasons why the count differs from the published one."""
    if rows := more_rows(preset, config):
        changes = [
            *changes,
            f"T {preset.length:,} → {config.context_length:,} ({rows:,} more position rows, "
            f"{rows * config.d_model:,} parameters)",
        ]
    words = f"Changed from {preset.name}: {', '.join(changes)}."
    if config.d_model != preset.config.d_model:
        words += " F grows with C."
    if preset.beyond:
        left_out = " and ".join(f"{words} ({formula})" for words, formula, _ in preset.beyond)
        words += f" Not counted here: {left_out}."
    return words


def published_words(preset: Preset, config: TransformerConfig) -> str:
    """How our count adds up to the published one."""
    ours = sum(costs.parameters_by_part(config).values())
    words = f"{ours:,} here"
    for name, formula, count in preset.beyond:
        words += f" + **{count:,}** for {name} ({formula})"
    rows = more_rows(preset, config)
    if rows:
        words += (
            f" − **{rows * config.d_model:,}** for {rows:,} more position rows, because T is "
            f"{config.context_length:,} ((T − {preset.length:,}) · C)"
        )
    if not (preset.beyond or rows):
        return f"**{ours:,}** parameters: exactly as many as in the released {preset.name}."
    return f"{words} = **{preset.published:,}**, the number in the released weights."


def draw_curves(preset: Preset, config: TransformerConfig, batch: int, length: int, number_bytes: int) -> None:
    """Operations and bytes over T; at each T the model that reads so many tokens."""
    lengths = np.unique(np.geomspace(16, POWERS[-1], 60).round().astype(int))
    sizes = {"layers": config.n_layers, "heads": config.n_heads, "width": config.d_model}
    operations = {"QKᵀ and A·V": [], "everything else": []}
    kept = {"three T² matrices": [], "all other activations": [], "parameters": []}
    for each in lengths.tolist():
        parts = costs.flops_by_part(config, batch, each, logits=preset.logits)
        operations["QKᵀ and A·V"].append(parts["scores and mixing"])
        operations["everything else"].append(sum(parts.values()) - parts["scores and mixing"])
        parts = costs.activations_by_part(config, batch, each, logits=preset.logits)
        kept["three T² matrices"].append(parts["three T² matrices"] * number_bytes)
        kept["all other activations"].append((sum(parts.values()) - parts["three T² matrices"]) * number_bytes)
        parts = costs.parameters_by_part(resized(preset, **sizes, length=each))
        kept["parameters"].append(sum(parts.values()) * number_bytes)
    left, right = st.columns(2)
    crossing = costs.crossover_length(config, logits=preset.logits)
    figure = growth_figure(lengths, arrays(operations), "QKᵀ and A·V", length=length, unit="FLOPs", crossing=crossing)
    left.plotly_chart(figure, key="flops_over_length", config={"displaylogo": False})
    figure = growth_figure(lengths, arrays(kept), "three T² matrices", length=length, unit="bytes")
    right.plotly_chart(figure, key="bytes_over_length", config={"displaylogo": False})


def arrays(curves: dict[str, list[int]]) -> dict[str, np.ndarray]:
    return {name: np.array(values, dtype=float) for name, values in curves.items()}


def draw_tables(preset: Preset, config: TransformerConfig, batch: int, length: int, number_bytes: int) -> None:
    """Every part in numbers."""
    with st.container(horizontal=True):  # wraps where the window is narrow
        for title, parts in (
            ("Parameters", costs.parameters_by_part(config)),
            ("Activations", costs.activations_by_part(config, batch, length, logits=preset.logits)),
            ("FLOPs", costs.flops_by_part(config, batch, length, logits=preset.logits)),
        ):
            st.markdown(table(title, parts), width="content")
    positions = ""
    if config.position == "learned":
        positions = f" The table of positions has T rows, and never fewer than {preset.length:,}."
    each_logits = " The logits of every position are included." if preset.logits else ""
    st.caption(
        f"D = C/H = {config.d_head}, F = {config.d_ff:,}, V = {config.vocab_size:,}. **Parameters:** tied parameters "
        f"count once.{positions} **Activations:** we count every tensor that the view “this model” draws. Each "
        f"tensor is kept once, with {number_bytes} bytes per number. Masks and ids are left out, and all prompts of a "
        "batch share the position rows. The three T² matrices are QKᵀ, the scaled scores and the weights. A fused "
        "kernel (one program for all steps of attention) never stores these matrices (Dao et al. 2022, "
        "“FlashAttention”). **FLOPs:** only matrix products are counted. A multiplication and an addition are two "
        f"FLOPs, and all T² cells are computed, even the masked ones.{each_logits} Kaplan et al. 2020, "
        "“Scaling Laws”, §2.1.",
        help=explained("embedding", "unembedding", "tied", "norm", "feed-forward", "logit"),
    )
    st.caption(f"{preset.name}: {preset.source}.{encoder_words(preset, config, batch)}")


def encoder_words(preset: Preset, config: TransformerConfig, batch: int) -> str:
    """What activations and FLOPs leave out where a model is published without an unembedding."""
    if preset.logits:
        return ""
    pooler = 2 * batch * config.d_model**2
    return (
        " So activations and FLOPs end with the last block, without logits. The parameters, activations and FLOPs here "
        f"also leave out the pooler (2·B·C² = {pooler:,} FLOPs, B·C = {batch * config.d_model:,} activations) and the "
        "token types."
    )


def table(title: str, parts: dict[str, int]) -> str:
    total = sum(parts.values())
    rows = [f"| {name} | {amount(value)} | {percent(value / total)} |" for name, value in parts.items()]
    return "\n".join([f"| {title} | number | share |", "|--|--:|--:|", *rows, f"| **total** | **{amount(total)}** | |"])


def amount(count: int) -> str:
    """Exact below 10⁹; from there on as 2.916×10¹¹, because a column has no more room."""
    return f"{count:,}" if count < 10**9 else number(float(count))
