"""KV cache, FlashAttention and quantization in one table: what each changes, alone and together."""

from collections.abc import Callable
from dataclasses import replace

import streamlit as st

import viz_model as vm
from viz_model.quantization.savings import FAST_BYTES, PLAIN, Savings, Way, compare_ways
from viz_model.quantization.twin import Quantized
from viz_ui.frame.address import linked
from viz_ui.frame.jobs import kept_result
from viz_ui.frame.passes import is_small
from viz_ui.frame.view import View
from viz_ui.look.text import counted, number, size_words

MOST_READ = 256  # tokens of the prompt
NEW_TOKENS, MOST_NEW = 8, 32
MAY_BREAK = "\u200b"  # a zero-width space: six columns have to fit into a narrow window

MEANS = {
    "cache": ("KV cache", "keys and values are computed once and **kept**. This saves arithmetic and takes memory"),
    "fused": (
        f"Flash{MAY_BREAK}Attention",
        "QKᵀ and A are **never stored whole**. This saves memory and traffic; the arithmetic stays the same",
    ),
    "quantized": ("quantization", "weights take **fewer bits**. This saves memory and traffic; **the result changes**"),
}


def choose_new_tokens(view: View) -> None:
    """How much of the task there is, where the model writes."""
    if view.model.config.layout != "encoder-only":
        linked(st.number_input, "Tokens to write", 1, MOST_NEW, NEW_TOKENS, key="written", width=130)


def draw_savings(view: View, quantized: Quantized) -> None:
    """The section: one task done in every way."""
    prompt = (view.trace.source or view.trace.read).ids  # of an encoder-decoder the source; it writes the rest here
    ids = prompt[:MOST_READ]
    rows = measured_ways(view, quantized, ids, st.session_state.get("written", NEW_TOKENS))
    scheme = quantized.choice.scheme
    if words := kernel_words(view):
        st.markdown(words)
    st.markdown(table(rows, scheme, predicts=view.model.config.has_unembedding))
    st.markdown("\n".join(f"- **{name}**: {words}." for name, words in meanings(rows)))
    cut = "" if len(ids) == len(prompt) else f"the first {len(ids)} tokens of "
    task = f"read {cut}this {'source' if view.model.has_source else 'prompt'} ({counted(len(ids), 'token')})"
    if view.model.config.layout != "encoder-only":
        task += (
            f", then write {counted(rows[0].passes, 'token')}, each the likeliest. In every column, the "
            "model reads the tokens that were written in the column “none of them”. “Same "
            "choice” counts the steps at which a column would choose the same token as the column “none of them”"
        )
    what = "logits" if view.model.config.has_unembedding else "final hidden states"
    places = "positions" if view.model.config.layout == "encoder-only" else "new tokens"
    st.caption(
        f"**Task:** {task}. **Memory:** we count all weights as they are stored, the cache at the end, and QKᵀ and A "
        "of one layer at the step where they are largest. Other activations are left out. **Traffic:** a GPU has a "
        "large slow memory and a small fast memory, and numbers must be moved between the two. We assume that a "
        "pass moves each weight in use exactly once, and no other weight. For attention, we count the bytes that the "
        f"full-matrix and the tiled algorithm move on a GPU with {size_words(FAST_BYTES)} of fast memory (Dao et al. "
        "2022, “FlashAttention”, Algorithm 0 and §2.1; Dao 2023, “FlashAttention-2”, Algorithm 1). **FLOPs:** only "
        "matrix products are counted. A multiplication and an addition are two FLOPs, and every cell of QKᵀ counts, "
        f"even the masked ones. **Result:** we measure how far the {what} at the {places} differ from those of “none "
        "of them”. A difference of about a millionth of their size is only rounding: the methods add the same numbers "
        "in different orders. **Time:** we measure twice on this processor and take the shorter time. Rounded weights "
        "are dequantized for every product. Cache: Pope et al. 2022, “Efficiently Scaling Transformer Inference”."
    )


def measured_ways(view: View, quantized: Quantized, ids: tuple[int, ...], new: int) -> list[Savings]:
    """The table's rows, kept for this visitor until something else is asked."""
    return kept_result(
        lambda tell: compare_ways(*settled(view, quantized, ids), ids, new, tell),
        words="Running the task in every way",
        name="savings",
        of=(view.name, view.pass_key[-1], ids, new, quantized.choice),
        at_once=is_small(view.model),
    )


def settled(view: View, quantized: Quantized, ids: tuple[int, ...]) -> tuple[vm.Model, Quantized]:
    """The model and its copy as they write after the prompt: an edit that puts a mean puts that over the prompt.

    Raises VizError for an edit of a cell that cannot be made while they write.
    """
    if not view.edits or view.model.config.layout == "encoder-only":
        return view.model, quantized
    return view.model.settled(ids), replace(quantized, model=quantized.model.settled(ids))


def kernel_words(view: View) -> str:
    """That a fused kernel cannot set a weight; "" where no edit sets one."""
    layers = sorted({edit.layer for edit in view.edits if isinstance(edit, vm.SetWeight)})
    if not layers:
        return ""
    which = f"layer{'s' * (len(layers) > 1)} {', '.join(map(str, layers))}"
    return (
        f":orange-badge[not fused] An edit sets attention weights in {which}. A fused kernel never stores the weights, "
        f"so it cannot set one. In {which}, every column with FlashAttention therefore computes the full matrices. "
        "The bytes in the table are still those of a fused kernel."
    )


def table(rows: list[Savings], scheme: str, *, predicts: bool) -> str:
    """Markdown: a column a way; what differs from the plain way by a hundredth or more is bold, with its factor.

    predicts: whether there are logits; else the final hidden states are compared.
    """
    first, two_texts = rows[0], _reads_two_texts(rows)
    compared = f"result: largest change of any {'logit' if predicts else 'number'}"
    quantities = {
        "memory: weights": [against(row.weight_bytes, first.weight_bytes) for row in rows],
        f"memory: cache{', of the target' * two_texts}": [held(row.target_cache_bytes) for row in rows],
        "memory: cache, of the source": [held(row.source_cache_bytes) for row in rows],
        "memory: QKᵀ and A": [against(row.score_bytes, first.score_bytes) for row in rows],
        "traffic: weights": [against(row.weight_traffic, first.weight_traffic) for row in rows],
        "traffic: attention": [against(row.attention_traffic, first.attention_traffic) for row in rows],
        "arithmetic: FLOPs": [against(row.flops, first.flops, in_words=scientific) for row in rows],
        compared: ["–", *(changed(row) for row in rows[1:])],
        "result: same choice": ["–", *(f"{row.same_choices} of {row.choices}" for row in rows[1:])],
        "time, seconds": [number(row.seconds, 2) for row in rows],
    }
    if not two_texts:
        del quantities["memory: cache, of the source"]
    if not predicts:
        del quantities["result: same choice"]
    lines = [["", *(way_name(row.way, scheme) for row in rows)], ["--", *("--:" for _ in rows)]]
    lines += [[name, *cells] for name, cells in quantities.items()]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def _reads_two_texts(rows: list[Savings]) -> bool:
    return any(row.source_cache_bytes for row in rows)


def held(nbytes: int) -> str:
    return f"**{size_words(nbytes)}**" if nbytes else "0"


def changed(row: Savings) -> str:
    words = number(row.largest_difference, 2)
    return f"**{words}**" if row.way.quantized else words


def way_name(way: Way, scheme: str) -> str:
    if way == PLAIN:
        return "none of them"
    names = [MEANS[name][0] for name in MEANS if getattr(way, name)]
    names = [f"{name} ({scheme})" if name == "quantization" else name for name in names]
    return names[0] if len(names) == 1 else "both together" if len(names) == 2 else "all together"


def scientific(value: int) -> str:
    return number(float(value), 3)


def against(value: int, plain_value: int, in_words: Callable[[int], str] = size_words) -> str:
    """The value; where it differs from the plain one, also its factor."""
    if not plain_value or abs(value / plain_value - 1) < 0.01:
        return in_words(value)
    return f"**{in_words(value)}** ×{number(value / plain_value, 2)}" if value else "**0**"


def meanings(rows: list[Savings]) -> list[tuple[str, str]]:
    """What each of them is, or why this model cannot have it."""
    stays = "The cache of the target **grows** with every token; the cache of the source is filled **once**"
    without = "this model writes no tokens after the prompt, so there is nothing to keep"
    found = [
        (words, meaning if any(getattr(row.way, name) for row in rows) else without)
        for name, (words, meaning) in MEANS.items()
    ]
    if _reads_two_texts(rows):
        found[0] = (found[0][0], f"{found[0][1]}. {stays}")
    return found
