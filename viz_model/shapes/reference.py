"""The shape reference: every hook site of a pass with its letters, its formula, and the sizes that it had.

Vaswani et al. 2017, "Attention Is All You Need", §3. Letters and formulas are the contract; the sizes are read off the
tensors of a real pass, of any host, and a test holds both together.
"""

from dataclasses import dataclass
from math import prod

import torch

from viz_model.model import Model
from viz_model.model.formula import AttentionFormula
from viz_model.model.trace import Trace
from viz_model.shapes.nodes import local_name, sizes
from viz_model.transformer.attention import LINEAR, NORMED, OTHER, Equation
from viz_model.transformer.facts import ModelFacts
from viz_model.transformer.hooks import capture

GROUPS = ("Into the stream", "Attention", "Feed-forward", "Out of the stream")

_STREAM, _QUERIES, _KEYS, _CELLS = ("B", "T", "C"), ("B", "H", "T", "D"), ("B", "G", "S", "D"), ("B", "H", "T", "S")

# Local site -> group, what it is, axes of its full shape, formula in LaTeX.
CONTRACT = {
    "embed.tokens": (0, "row of each token", _STREAM, r"E[\mathrm{ids}]"),
    "embed.positions": (0, "row of each position", _STREAM, r"P[0 \ldots T-1]"),
    "embed.segments": (0, "row of the segment of each token", _STREAM, r"S[\mathrm{segments}]"),
    "embed": (0, "embedding", _STREAM, r"E[\mathrm{ids}]"),
    "resid_pre": (1, "residual stream in", _STREAM, "x"),
    "norm1": (1, "norm 1", _STREAM, r"\hat{x} = \mathrm{norm}_1(x)"),
    "resid_self": (1, "stream after self-attention", _STREAM, r"x + \mathrm{out}"),
    "norm_cross": (1, "norm of cross-attention", _STREAM, r"\hat{x} = \mathrm{norm}_\times(x)"),
    "q_pre": (1, "queries, not yet rotated", _QUERIES, r"\hat{x}\,W_{Q}"),
    "k_pre": (1, "keys, not yet rotated", _KEYS, r"\hat{x}\,W_{K}"),
    "q": (1, "queries", _QUERIES, r"Q = \hat{x}\,W_{Q}"),
    "k": (1, "keys", _KEYS, r"K = \hat{x}\,W_{K}"),
    "v": (1, "values", _KEYS, r"V = \hat{x}\,W_{V}"),
    "raw": (1, "products", _CELLS, r"Q K^{\top}"),
    "scores": (1, "scores", _CELLS, r"Q K^{\top} / \sqrt{D}"),
    "capped": (1, "scores after the soft cap c", _CELLS, r"c \tanh(\mathrm{scores} / c)"),
    "bias": (1, "position bias", _CELLS, "b_{ij}"),
    "sinks": (1, "one more logit a row, without a value", ("H",), "s_h"),
    "mask": (1, "mask, booleans", _CELLS, r"M_{ij} \in \{0, -\infty\}"),
    "weights": (1, "weights", _CELLS, r"A = \mathrm{softmax}(\mathrm{scores} + M)"),
    "mixed": (1, "mixed values", _QUERIES, "A V"),
    "out": (1, "attention out", _STREAM, r"\mathrm{concat}(A V)\,W_O"),
    "resid_mid": (2, "stream midway", _STREAM, r"x + \mathrm{out}"),
    "norm2": (2, "norm 2", _STREAM, r"\hat{x} = \mathrm{norm}_2(x)"),
    "ffn.hidden": (2, "hidden", ("B", "T", "F"), r"\varphi(\hat{x}\,W_1)"),
    "ffn.out": (2, "feed-forward out", _STREAM, r"\mathrm{hidden}\;W_2"),
    "resid_post": (2, "residual stream out", _STREAM, r"x + \mathrm{out}"),
    "final_norm": (3, "final norm", _STREAM, r"\hat{x} = \mathrm{norm}(x)"),
    "logits": (3, "logits of the last position", ("B", "V"), r"\hat{x}_{T-1}\,E^{\top}"),
}
# Of the letters W and R: how queries, keys and values come of what is read, see `Equation`.
PROJECTIONS = {
    "q": ("Q", "W_{Q}", "R_i"),
    "k": ("K", "W_{K}", "R_j"),
    "v": ("V", "W_{V}", ""),
}
POST_NORM = {  # the norm is part of the stream, and each half reads the stream itself
    "norm1": r"x = \mathrm{norm}_1(x + \mathrm{out})",
    "norm_cross": r"x = \mathrm{norm}_\times(x + \mathrm{out})",
    "norm2": r"x = \mathrm{norm}_2(x + \mathrm{out})",
    "resid_self": "x",
    "resid_mid": "x",
    "resid_post": "x",
    "final_norm": "x",
}
NO_LAST_NORM = "final hidden state"  # post-norm, whose last block has ended with a norm
# A pre-norm stream: which streams before it may be, the nearest first, and what was written since.
SUMS = {
    "resid_self": (("resid_pre",), ("attn.out",)),
    "resid_mid": (("resid_self", "resid_pre"), ("cross.out", "attn.out")),
    "resid_post": (("resid_mid", "resid_self", "resid_pre"), ("ffn.out", "cross.out", "attn.out")),
}


@dataclass(frozen=True)
class Quantity:
    """One tensor of a pass: its hook site, what it is, its axes ("1" where it is shared by all) and sizes."""

    site: str
    group: str
    title: str
    axes: tuple[str, ...]
    shape: tuple[int, ...]
    formula: str

    @property
    def count(self) -> int:
        """How many numbers it holds."""
        return prod(self.shape)


def letters(trace: Trace) -> dict[str, int]:
    """The number of each letter in this pass, seen through the trace's part; F only where it is known."""
    numbers = sizes(trace.config, trace.length, part=trace.part, source=trace.key_length)
    return {letter: number for letter, number in numbers.items() if number is not None}


@torch.inference_mode()
def quantities(model: Model, trace: Trace, layer: int) -> list[Quantity]:
    """Every tensor of the pass around the blocks and in one of them, in groups, each in the order of the pass.

    The pass is run once more, for a trace does not hold all of it.
    """
    config, numbers = trace.config, letters(trace)
    stack, block = config.stack_name(trace.part), config.block_name(trace.part, layer)
    attention = config.attention_name(trace.part, layer)
    names = [f"{stack}embed", f"{stack}embed.*", f"{block}.*", f"{stack}final_norm"]
    if not (trace.source and trace.part == "encoder"):  # its end goes to the decoder, which makes the logits
        names.append("logits")
    prompt, target = (trace.source, trace.read.ids) if trace.source else (trace.read, None)
    with capture(optional=names) as found:
        model.trace(list(prompt.ids), target=target if target is None else list(target))
    rows = []
    for site, tensor in found.items():
        local = local_name(site.removeprefix(stack))
        kind, _, of_attention = local.partition(".")
        if kind in ("attn", "cross"):
            if not site.startswith(attention):
                continue  # the block's other attention
            local = of_attention
        if local in CONTRACT:
            formula = _formula(trace, layer, local, found, across=kind == "cross")
            rows.append(_quantity(site, local, tuple(tensor.shape), numbers, formula))
    return sorted(rows, key=lambda row: GROUPS.index(row.group))  # in each group the order of the pass


def _quantity(site: str, local: str, shape: tuple[int, ...], numbers: dict[str, int], formula: str) -> Quantity:
    group, title, axes, _ = CONTRACT[local]
    if local == "final_norm" and formula == POST_NORM[local]:
        title = NO_LAST_NORM
    axes = axes[len(axes) - len(shape) :]  # a mask may come without the axes that share it
    named = tuple(
        letter if numbers.get(letter) == size else str(size) for letter, size in zip(axes, shape, strict=True)
    )
    return Quantity(site, GROUPS[group], title, named, shape, formula)


def _formula(trace: Trace, layer: int, local: str, found: dict, *, across: bool) -> str:
    """The contract's formula, or what this model has in its place."""
    config = trace.config
    if local == "embed":
        return _embedding(config, found)
    if local == "bias":
        return _bias(trace, layer, found)
    if local in ("scores", "weights"):
        return _scores(trace, layer) if local == "scores" else _weights(trace, layer, found)
    if local == "logits":
        return _logits(config)
    block, has_norm = config.block_name(trace.part, layer), config.norm_place != "post"
    if local.removesuffix("_pre") in PROJECTIONS:
        has_norm = has_norm and f"{block}.{'norm_cross' if across else 'norm1'}" in found
        return _projection(trace.equation(layer), local, found, across=across, read=r"\hat{x}" if has_norm else "x")
    formula = CONTRACT[local][3]
    if local == "ffn.hidden":
        beside = f"{block}.resid_mid" not in found  # it runs beside attention, and reads what that reads
        has_norm = has_norm and f"{block}.{'norm1' if beside else 'norm2'}" in found
        formula = _feed_forward(config)
    elif local in POST_NORM and config.norm_place == "post":
        formula = POST_NORM[local]
    elif local in SUMS:
        formula = _sum(block, local, found)
    return formula if has_norm else formula.replace(r"\hat{x}", "x")


def _projection(equation: Equation, local: str, found: dict, *, across: bool, read: str) -> str:
    """Queries, keys or values, or what they are before their rotation."""
    letter = local[0]
    name, matrix, turn = PROJECTIONS[letter]
    made = {"q": equation.query, "k": equation.key, "v": equation.value}[letter]
    read = "y" if across and letter != "q" else read  # y: the encoder output
    formula = {
        LINEAR: rf"{read}\,{matrix}",
        NORMED: rf"\mathrm{{norm}}_{name}({read}\,{matrix})",
        OTHER: rf"f_{name}({read})",
    }[made]
    if letter == "q" and made != OTHER and equation.query_factor != 1:
        formula = rf"{equation.query_factor:.4g}\,{formula}"
    if local.endswith("_pre"):
        return formula
    if made != OTHER and letter != "v" and equation.turns:
        return rf"{name} = {turn}\,({formula})" if made == LINEAR else rf"{name} = {turn}\,{formula}"
    return f"{name} = {formula}"


def _feed_forward(config: ModelFacts) -> str:
    """What this model's feed-forward half has before its last matrix."""
    if config.activation is None:
        return r"f(\hat{x})"
    return r"\varphi(\hat{x}\,W_g) \odot \hat{x}\,W_1" if config.is_gated else CONTRACT["ffn.hidden"][3]


def _scores(trace: Trace, layer: int) -> str:
    """What the products are multiplied with; T5 has no scale, Granite one of its own."""
    return AttentionFormula.of(trace, layer).latex_scores


def _bias(trace: Trace, layer: int, found: dict) -> str:
    """ALiBi grows with the key's position, counted from the first key or back from the last (MPT)."""
    bias = found[f"{trace.config.attention_name(trace.part, layer)}.bias"]
    if trace.equation(layer).slopes is None:
        return CONTRACT["bias"][3]
    return r"b_{ij} = m_h\,j" if not bias[..., 0].any() else r"b_{ij} = m_h\,(j - S + 1)"


def _weights(trace: Trace, layer: int, found: dict) -> str:
    """What goes into the softmax: scores, capped where there is a cap, with a bias and a sink where there are any."""
    name = trace.config.attention_name(trace.part, layer)
    added = r"\mathrm{capped}" if trace.equation(layer).softcap is not None else r"\mathrm{scores}"
    added += " + b" if f"{name}.bias" in found else ""
    sink = r"\mid s_h" if f"{name}.sinks" in found else ""
    return rf"A = \mathrm{{softmax}}({added} + M{sink})"


def _logits(config) -> str:
    factor = config.unembedding_factor
    end = "x" if config.norm_place == "post" else r"\hat{x}"
    if factor is None:
        return rf"\mathrm{{head}}({end}_{{T-1}})"  # more than a product, and the model's own code says what
    before = "" if abs(factor - 1) < 1e-3 else rf"{factor:.4g}\,"
    return before + end + (r"_{T-1}\,E^{\top}" if config.tied_unembedding else r"_{T-1}\,W_U")


def _sum(block: str, local: str, found: dict) -> str:
    """Whether the stream is that before and what the half writes, or that twice over, or something in between."""
    stream, branches = SUMS[local]
    before = next((found[f"{block}.{name}"] for name in stream if f"{block}.{name}" in found), None)
    outs = [found[f"{block}.{name}"] for name in branches if f"{block}.{name}" in found]
    after = found[f"{block}.{local}"]
    if before is not None and outs:
        for words, branch in ((r"x + \mathrm{out}", outs[0]), (r"x + \sum \mathrm{out}", sum(outs))):
            if torch.allclose(before + branch, after, atol=1e-5 * after.abs().max().item()):
                return words
    return r"x + f(\mathrm{out})"  # a norm (Gemma 2) or a factor (Granite) comes between


def _embedding(config, found: dict) -> str:
    """What this model adds up, and whether a norm follows."""
    factor = config.embedding_factor
    if factor is None:
        return r"x = \mathrm{embed}(\mathrm{ids})"  # otherwise than by a sum, and its own code says how
    if abs(factor / config.d_model**0.5 - 1) < 1e-3:
        scale = r"\sqrt{C}\,"
    else:
        scale = "" if abs(factor - 1) < 1e-3 else rf"{factor:.4g}\,"
    positions = " + P" if config.position in ("learned", "sinusoidal") else ""
    segments = r" + S[\mathrm{segments}]" if any(site.endswith("embed.segments") for site in found) else ""
    embedding = rf"{scale}E[\mathrm{{ids}}]{positions}{segments}"
    return rf"x = \mathrm{{norm}}({embedding})" if config.embedding_norm else f"x = {embedding}"
