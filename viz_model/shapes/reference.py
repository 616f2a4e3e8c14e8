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
from viz_model.transformer import masks
from viz_model.transformer.attention import LATENT, LINEAR, NORMED, OTHER, TURNED_NORMED, Equation
from viz_model.transformer.facts import ModelFacts
from viz_model.transformer.feed_forward import ALONE, OF_ALL, OF_CHOSEN, OF_SUM, Experts, FeedForwardEquation
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
    "capped": (1, "scores after the soft cap", _CELLS, r"c \tanh(\mathrm{scores} / c)"),
    "bias": (1, "position bias", _CELLS, r"b_{ij} = B_h[\mathrm{bucket}(j - i)]"),
    "sinks": (1, "one more logit a row, without a value", ("H",), "s_h"),
    "mask": (1, "mask, booleans", _CELLS, r"M_{ij} \in \{0, -\infty\}"),
    "weights": (1, "weights", _CELLS, r"A = \mathrm{softmax}(\mathrm{scores} + M)"),
    "mixed": (1, "mixed values", _QUERIES, "A V"),
    "out": (1, "attention out", _STREAM, r"\mathrm{out} = \mathrm{concat}(A V)\,W_O"),
    "out_norm": (1, "attention out, normed", _STREAM, r"\mathrm{out} = \mathrm{norm}_{1'}(\mathrm{out})"),
    "resid_mid": (2, "stream midway", _STREAM, r"x + \mathrm{out}"),
    "norm2": (2, "norm 2", _STREAM, r"\hat{x} = \mathrm{norm}_2(x)"),
    "ffn.shares": (2, "share of each expert", ("B", "T", "experts"), "p"),
    "ffn.hidden": (2, "hidden", ("B", "T", "F"), r"f(\hat{x})"),
    "ffn.out": (2, "feed-forward out", _STREAM, r"\mathrm{out} = \mathrm{hidden}\;W_2"),
    "ffn.out_norm": (2, "feed-forward out, normed", _STREAM, r"\mathrm{out} = \mathrm{norm}_{2'}(\mathrm{out})"),
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
# A pre-norm stream: which streams before it may be, the nearest first, and what was written since, the latest first.
SUMS = {
    "resid_self": (("resid_pre",), ("attn.out_norm", "attn.out")),
    "resid_mid": (("resid_self", "resid_pre"), ("cross.out_norm", "cross.out", "attn.out_norm", "attn.out")),
    "resid_post": (
        ("resid_mid", "resid_self", "resid_pre"),
        ("ffn.out_norm", "ffn.out", "cross.out_norm", "cross.out", "attn.out_norm", "attn.out"),
    ),
}
ACTIVATION_SYMBOLS = {  # by their names in `ModelFacts`, in LaTeX; others by their own
    "gelu": r"\mathrm{GELU}", "gelu-tanh": r"\mathrm{GELU}_{\tanh}", "relu": r"\mathrm{ReLU}",
    "silu": r"\mathrm{SiLU}", "relu2": r"\mathrm{ReLU}^2", "quick-gelu": r"\mathrm{SiLU}_{1.702}",
}  # fmt: skip


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
            formula = _formula(model, trace, layer, local, found)
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


def _formula(model: Model, trace: Trace, layer: int, local: str, found: dict) -> str:
    """The contract's formula, or what this model has in its place."""
    config, equation, across = trace.config, trace.equation(layer), trace.part == "cross"
    if local == "embed":
        return _embedding(config, found)
    if local == "scores":  # T5 has no scale, Granite one of its own
        return AttentionFormula.of(trace, layer).latex_scores
    if local == "weights":
        return _weights(trace, layer, found)
    if local == "capped":
        return rf"{equation.softcap:g}\,\tanh(\mathrm{{scores}} / {equation.softcap:g})"
    if local == "mask":
        return _mask(trace.mask(layer))
    if local == "bias":
        return _bias(trace, layer, found)
    if local == "logits":
        return _logits(config)
    block, has_norm = config.block_name(trace.part, layer), config.norm_place != "post"
    if local.removesuffix("_pre") in PROJECTIONS:
        has_norm = has_norm and f"{block}.{'norm_cross' if across else 'norm1'}" in found
        return _projection(equation, local, across=across, read=r"\hat{x}" if has_norm else "x")
    formula = CONTRACT[local][3]
    if local == "out" and equation.out != LINEAR:
        joined = r"\mathrm{norm}_O(\mathrm{concat}(A V))\,W_O" if equation.out == NORMED else "f_O(A V)"
        return rf"\mathrm{{out}} = {joined}"
    if local in ("ffn.hidden", "ffn.shares", "ffn.out"):
        beside = f"{block}.resid_mid" not in found  # it runs beside attention, and reads what that reads
        has_norm = has_norm and (f"{block}.norm2" in found or (beside and f"{block}.norm1" in found))
        half = model.transformer.feed_forward(block)
        formula = _feed_forward(half, local, has_hidden=f"{block}.ffn.hidden" in found)
    elif local in POST_NORM and config.norm_place == "post":
        formula = POST_NORM[local]
        if local == ("norm1" if across else "norm_cross"):
            formula = _of_other_attention(formula, across=across)
    elif local in SUMS:
        formula = _sum(block, local, found, across=across)
    elif local == "final_norm" and config.end_matrix:
        formula += r"\,W_x"
    return formula if has_norm else formula.replace(r"\hat{x}", "x")


def _projection(equation: Equation, local: str, *, across: bool, read: str) -> str:
    """Queries, keys or values, or what they are before their rotation."""
    letter = local[0]
    name, matrix, turn = PROJECTIONS[letter]
    made = {"q": equation.query, "k": equation.key, "v": equation.value}[letter]
    read = "y" if across and letter != "q" else read  # y: the encoder output
    if made == LATENT:
        return f"{name} = {_latent(letter, read)}"
    formula = {
        LINEAR: rf"{read}\,{matrix}",
        NORMED: rf"\mathrm{{norm}}_{name}({read}\,{matrix})",
        TURNED_NORMED: rf"\mathrm{{norm}}_{name}({turn}\,({read}\,{matrix}))",
        OTHER: rf"f_{name}({read})",
    }[made]
    if letter == "q" and made != OTHER and equation.query_factor != 1:
        formula = rf"{equation.query_factor:.4g}\,({formula})"
    if local.endswith("_pre"):
        return formula
    if made in (LINEAR, NORMED) and letter != "v" and equation.turns:
        return rf"{name} = {turn}\,({formula})" if made == LINEAR else rf"{name} = {turn}\,{formula}"
    return f"{name} = {formula}"


def _latent(letter: str, read: str) -> str:
    """Two matrices with a norm between them; of a key all heads share the numbers that turn (DeepSeek-V2, §2.1.3)."""
    low = {"q": "Q", "k": "K", "v": "K"}[letter]
    formula = rf"\mathrm{{norm}}_{low}({read}\,W_{{D{low}}})\,W_{{U{letter.upper()}}}"
    if letter == "q":
        return rf"R_i\,({formula})"
    return rf"[{formula};\, R_j\,({read}\,W_R)]" if letter == "k" else formula


def _feed_forward(half: FeedForwardEquation, local: str, *, has_hidden: bool) -> str:
    """What is written of this model's feed-forward half: hidden numbers, shares of experts, or what it gives."""
    if local == "ffn.shares":
        return _shares(half.experts)
    if local == "ffn.out" and has_hidden:
        return CONTRACT[local][3]
    if half.gated is None or half.activation is None:
        return CONTRACT["ffn.hidden"][3] if has_hidden else rf"\mathrm{{out}} = {CONTRACT['ffn.hidden'][3]}"
    if half.experts is not None and not has_hidden:
        return rf"\mathrm{{out}} = {_experts(half)}"
    return _hidden(half, "")


def _hidden(half: FeedForwardEquation, index: str, read: str = r"\hat{x}") -> str:
    """index: of the matrices, such as "^e" of an expert."""
    name = activation_symbol(half.activation)
    if half.gated:
        return rf"{name}({read}\,W_g{index}) \odot {read}\,W_1{index}"
    return rf"{name}({read}\,W_1{index})"


def _experts(half: FeedForwardEquation) -> str:
    """The sum of what the experts give, and the one that reads every token."""
    experts = half.experts
    hidden = _hidden(half, "^e", r"(p_e\,\hat{x})" if experts.before else r"\hat{x}")
    if experts.clipped is not None:
        slope, limit = (f"{number:g}" for number in experts.clipped)
        gate = rf"\mathrm{{SiLU}}_{{{slope}}}(\min({limit}, \hat{{x}}\,W_g^e))"
        hidden = rf"{gate} \odot (1 + \mathrm{{clip}}_{{{limit}}}(\hat{{x}}\,W_1^e))"
    share = "" if experts.before else r"p_e\,"
    formula = rf"\sum_e {share}(({hidden})\,W_2^e)"
    shared = rf"({_hidden(half, '^s')})\,W_2^s"
    shared = rf"\sigma(\hat{{x}}\,w_s)\,({shared})" if experts.gated_shared else shared
    return f"{formula} + {shared}" if experts.shared else formula


def _shares(experts: Experts) -> str:
    """How the router shares a token: top_k are the k largest numbers of a row, the others take no part."""
    within = "" if experts.groups is None else r",{}:{}".format(*experts.groups)
    top, logits = rf"\mathrm{{top}}_{{{experts.chosen}{within}}}", r"\hat{x}\,W_r"
    formula = {
        OF_CHOSEN: rf"\mathrm{{softmax}}({top}({logits}))",
        OF_ALL: rf"{top}(\mathrm{{softmax}}({logits}))",
        ALONE: rf"\sigma({top}({logits}))",
        OF_SUM: rf"\mathrm{{share}}({top}(\sigma({logits})))",
    }[experts.shares]
    return f"p = {formula}" if experts.factor == 1 else rf"p = {experts.factor:.4g}\,{formula}"


def activation_symbol(name: str) -> str:
    """ "gelu-tanh" -> GELU with an index, in LaTeX."""
    return ACTIVATION_SYMBOLS.get(name, rf"\mathrm{{{name.replace('_', '-')}}}")


def _mask(allowed: torch.Tensor) -> str:
    """Where the mask (T,S) of this pass lets a query read."""
    queries, keys = (torch.arange(size) for size in allowed.shape)
    far = (queries[:, None] - keys[None, :])[allowed]
    back, ahead = (int(far.max()), int(-far.min())) if len(far) else (0, 0)
    causal, everything = masks.causal(queries, keys), torch.ones_like(allowed)
    if torch.equal(allowed, everything):
        return "M_{ij} = 0"
    where = {r"j \le i": causal, rf"j \le i,\ i - j < {back + 1}": causal & masks.near(queries, keys, back + 1)}
    where[rf"|i - j| < {ahead + 1}"] = masks.near(queries, keys, ahead + 1)
    for size in range(2, len(queries)):  # Llama 4 reads within chunks
        same = (queries // size)[:, None] == (keys // size)[None, :]
        where[rf"j \le i,\ \lfloor i / {size} \rfloor = \lfloor j / {size} \rfloor"] = causal & same
    for condition, rule in where.items():
        if torch.equal(allowed, rule):
            return rf"M_{{ij}} = 0\ \mathrm{{where}}\ {condition},\ \mathrm{{else}}\ -\infty"
    return r"M_{ij} \in \{0, -\infty\}"  # as it was chosen


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


def _logits(config: ModelFacts) -> str:
    factor = config.unembedding_factor
    end = ("x" if config.norm_place == "post" else r"\hat{x}") + r"_{T-1}"
    if factor is None:
        return rf"\mathrm{{head}}({end})"  # more than a product, and the model's own code says what
    if config.unembedding_hidden is not None:
        end = rf"\mathrm{{norm}}_h({activation_symbol(config.unembedding_hidden)}({end}\,W_h))"
    before = "" if abs(factor - 1) < 1e-3 else rf"{factor:.4g}\,"
    formula = before + end + (r"\,E^{\top}" if config.tied_unembedding else r"\,W_U")
    cap = config.unembedding_softcap
    return formula if cap is None else rf"{cap:g}\,\tanh({formula} / {cap:g})"


def _of_other_attention(formula: str, *, across: bool) -> str:
    """With what that attention of a block gives which is not looked at."""
    return formula.replace(r"\mathrm{out}", r"\mathrm{out}_{self}" if across else r"\mathrm{out}_\times")


def _sum(block: str, local: str, found: dict, *, across: bool) -> str:
    """Whether the stream is that before and a multiple of what the half writes, or of that of both halves."""
    stream, branches = SUMS[local]
    before = next((found[f"{block}.{name}"] for name in stream if f"{block}.{name}" in found), None)
    outs = {name: found[f"{block}.{name}"] for name in branches if f"{block}.{name}" in found}
    latest = {}  # of each half what was written last
    for name, out in outs.items():
        latest.setdefault(name.partition(".")[0], out)
    after = found[f"{block}.{local}"]
    if before is not None and latest:
        half, own = next(iter(latest.items()))
        for words, branch in ((r"\mathrm{out}", own), (r"\sum \mathrm{out}", sum(latest.values()))):
            factor = (((after - before) * branch).sum() / branch.square().sum()).item()
            if torch.allclose(before + factor * branch, after, atol=1e-5 * after.abs().max().item()):
                if half != "ffn" and across != (half == "cross"):
                    words = _of_other_attention(words, across=across)
                return f"x + {words}" if abs(factor - 1) < 1e-3 else rf"x + {factor:.4g}\,{words}"
    return r"x + f(\mathrm{out})"


def _embedding(config: ModelFacts, found: dict) -> str:
    """What this model adds up, and whether a norm or a matrix follows."""
    factor = config.embedding_factor
    if factor is None:
        return r"x = \mathrm{embed}(\mathrm{ids})"  # otherwise than by a sum, and its own code says how
    if abs(factor / config.d_model**0.5 - 1) < 1e-3:
        scale = r"\sqrt{C}\,"
    else:
        scale = "" if abs(factor - 1) < 1e-3 else rf"{factor:.4g}\,"
    rows = r"E[\mathrm{ids}]" + (r"\,W_E" if config.embedding_matrix == "rows" else "")
    positions = " + P" if config.position in ("learned", "sinusoidal") else ""
    segments = r" + S[\mathrm{segments}]" if any(site.endswith("embed.segments") for site in found) else ""
    embedding = rf"{scale}{rows}{positions}{segments}"
    if config.embedding_norm:
        embedding = rf"\mathrm{{norm}}({embedding})"
    elif config.embedding_matrix == "sum":
        embedding = f"({embedding})"
    return f"x = {embedding}" + (r"\,W_E" if config.embedding_matrix == "sum" else "")
