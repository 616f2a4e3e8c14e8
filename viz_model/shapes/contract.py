"""The tensor contract: every tensor of a pass as a record, in the order of the pass; see `nodes`.

Vaswani et al. 2017, "Attention Is All You Need", §3; the variants are those of `TransformerConfig`. part: of an
encoder-decoder, which stack is meant: "encoder", whose T tokens are the source, or "decoder" (or "cross"), which reads
a source of `source` tokens besides.
"""

from collections.abc import Mapping

from viz_model.shapes.nodes import Maker, Node, sizes
from viz_model.transformer import TransformerConfig

__all__ = ["Node", "all_nodes", "block_nodes", "outer_nodes", "sizes"]

STREAM = ("B", "T", "C")
ACTIVATIONS = {
    "gelu": "F.gelu({up})",
    "gelu-tanh": 'F.gelu({up}, approximate="tanh")',
    "relu": "F.relu({up})",
    "swiglu": "F.silu({gate}) * {up}",
}
CHOSEN = "chosen_mask  # as it was chosen"
MASKS = {
    "causal": "torch.ones(T, {keys}, dtype=torch.bool).tril()",
    "bidirectional": "torch.ones(T, {keys}, dtype=torch.bool)",
}


def outer_nodes(
    config: TransformerConfig, length: int, batch: int = 1, *, part: str = "self", source: int = 0
) -> list[Node]:
    """What stands before and after the blocks, in the order of the pass; the last ones end the stack."""
    make = Maker(config, length, batch, part, source)
    rows = make.matrix("tokens.weight", "V", "C", shared=True)
    counted = part in ("self", "encoder")  # the decoder reads the table of the encoder
    words = "target_ids" if part in ("decoder", "cross") else "prompt_ids"
    nodes = [
        make("ids", "token ids", ("B", "T"), f"torch.tensor([{words}])", number_bytes=8),
        make(
            "embed.tokens", "token rows", STREAM, "model.tokens(ids)", ["ids"],
            [rows] if counted else [], tied=None if counted else rows,
        ),
    ]  # fmt: skip
    added = "tokens * math.sqrt(C)" if config.embedding_scale else "tokens"
    if config.position in ("learned", "sinusoidal"):
        learned = config.position == "learned"
        table = f"{make.model}.positions.weight" if learned else f"{make.model}.position_table"
        own = [make.matrix("positions.weight", "context", "C")] if learned else []
        line, kept = f"{table}[:T].expand(B, T, C)", length * config.d_model
        nodes.append(make("embed.positions", "position rows", STREAM, line, [], own, kept=kept))
        added += " + positions"
    inputs = [node.local for node in nodes[1:]]
    if config.embedding_norm:
        own = make.norm("embedding_norm")
        nodes.append(make("embed", "embedding", STREAM, f"{make.model}.embedding_norm({added})", inputs, own))
    else:
        nodes.append(make("embed", "embedding", STREAM, added, inputs))
    end = {"stream": f"{config.block_name(part, config.layers_of(part) - 1)}.resid_post"}
    pre = config.norm_place == "pre"
    title = "encoder output" if part == "encoder" else "final norm" if pre else "final hidden state"
    if pre:
        nodes.append(
            make("final_norm", title, STREAM, f"{make.model}.final_norm(stream)", end, make.norm("final_norm"))
        )
    else:  # the last block ends with a norm
        nodes.append(make("final_norm", title, STREAM, "stream", end))
    return nodes if part == "encoder" else [*nodes, _logits(make)]


def _logits(make: Maker) -> Node:
    axes, inputs = ("B", "T", "V"), {"final_norm": f"{make.stack}final_norm"}
    if make.config.tied_unembedding:
        rows = make.matrix("tokens.weight", "V", "C", shared=True)
        return make("logits", "logits", axes, "F.linear(final_norm, model.tokens.weight)", inputs, tied=rows)
    own = [make.matrix("unembedding.weight", "V", "C", shared=True)]
    return make("logits", "logits", axes, "model.unembedding(final_norm)", inputs, own)


def block_nodes(
    config: TransformerConfig,
    layer: int,
    length: int,
    batch: int = 1,
    masks: Mapping[str, str] | None = None,
    *,
    part: str = "self",
    source: int = 0,
) -> list[Node]:
    """Every tensor of one block, in the order of the pass.

    masks: the name of each part's mask in the pass; those of the model where it is left out.
    """
    make, named = Maker(config, length, batch, part, source, layer), masks or {}
    stack = {"cross": "decoder"}.get(part, part)
    before = f"{config.block_name(part, layer - 1)}.resid_post" if layer else f"{make.stack}embed"
    nodes = [make("resid_pre", "stream in", STREAM, "stream", {"stream": before})]
    last, has_cross = "resid_mid" if config.d_ff else "resid_post", stack == "decoder"
    after_self = "resid_self" if has_cross else last
    mask = named.get(stack, config.mask_of(stack))
    nodes += _half(make, "norm1", "resid_pre", after_self, lambda read: _attention(make, "attn", read, mask))
    if has_cross:
        mask = named.get("cross", config.mask_of("cross"))
        nodes += _half(make, "norm_cross", "resid_self", last, lambda read: _cross_attention(make, read, mask))
    if config.d_ff:
        nodes += _half(make, "norm2", "resid_mid", "resid_post", lambda read: _feed_forward(make, read))
    return nodes


def all_nodes(
    config: TransformerConfig,
    length: int,
    batch: int = 1,
    masks: Mapping[str, str] | None = None,
    *,
    source: int = 0,
) -> list[Node]:
    """Every tensor of a pass, in its order; of an encoder-decoder first the encoder's."""
    nodes = []
    for part in config.parts[:2]:
        own = source if part == "encoder" else length
        across = {"part": part, "source": source if part == "decoder" else 0}
        outer = outer_nodes(config, own, batch, **across)
        ends = 1 if part == "encoder" else 2
        blocks = [block_nodes(config, layer, own, batch, masks, **across) for layer in range(config.layers_of(part))]
        nodes += [*outer[:-ends], *(node for block in blocks for node in block), *outer[-ends:]]
    return nodes


NORM_TITLES = {"norm1": "norm 1", "norm_cross": "cross-attention norm", "norm2": "norm 2"}
STREAM_TITLES = {
    "resid_self": "after self-attention",
    "resid_mid": "stream midway",
    "resid_post": "stream out",
}


def _half(make: Maker, norm: str, stream: str, after: str, branch) -> list[Node]:
    """A branch of the stream, and the stream with it added. Pre-norm: it reads a norm; post-norm: one follows."""
    title, line = NORM_TITLES[norm], f"{make.path}.{norm}"
    if make.config.norm_place == "pre":
        read = make(norm, title, STREAM, f"{line}({stream})", [stream], make.norm(norm))
        nodes = branch(norm)
        out = nodes[-1].local
        added = make(after, STREAM_TITLES[after], STREAM, f"{stream} + {_name(nodes[-1])}", [stream, out])
        return [read, *nodes, added]
    # the stream of a post-norm block is the norm before, under a second name
    nodes = branch(stream)
    own, expression = make.norm(norm), f"{line}({stream} + {_name(nodes[-1])})"
    return [
        *nodes,
        make(norm, title, STREAM, expression, [stream, nodes[-1].local], own),
        make(after, STREAM_TITLES[after], STREAM, norm, [norm]),
    ]


def _name(node: Node) -> str:
    """The variable that the node's line makes."""
    return node.line.partition(" = ")[0]


def _attention(make: Maker, name: str, read: str, mask: str) -> list[Node]:
    keys = make.keys
    nodes = [
        *_projected(make, name, "q", read, [read], "T"),
        *_projected(make, name, "k", read, [read], keys),
        *_projected(make, name, "v", read, [read], keys),
    ]
    before = [node for node in nodes if node.local.endswith("_pre")]  # in the order of the pass
    return [*before, *(node for node in nodes if node not in before), *_scores_and_mix(make, name, keys, mask)]


def _cross_attention(make: Maker, read: str, mask: str) -> list[Node]:
    """Queries of the decoder's stream, keys and values of the encoder output."""
    memory = make("memory", "encoder output", ("B", "S", "C"), "encoder_end", {"encoder_end": "encoder.final_norm"})
    return [
        memory,
        *_projected(make, "cross", "q", read, [read], "T"),
        *_projected(make, "cross", "k", "memory", ["memory"], "S"),
        *_projected(make, "cross", "v", "memory", ["memory"], "S"),
        *_scores_and_mix(make, "cross", "S", mask),
    ]


def _projected(make: Maker, name: str, letter: str, read: str, inputs: list[str], tokens: str) -> list[Node]:
    """Queries, keys or values of every head; rotated where positions are."""
    config, word = make.config, {"q": "query", "k": "key", "v": "value"}[letter]
    heads = "H" if letter == "q" else "G"
    title = f"{letter.upper()} {'queries' if letter == 'q' else word + 's'}"
    axes = ("B", heads, tokens, "D")
    line = f"{make.path}.{name}.{word}({read}).unflatten(-1, ({heads}, D)).transpose(1, 2)"
    own = make.linear(f"{name}.{word}", "C" if letter == "q" else make.kv_width, "C")
    if config.position != "rotary" or letter == "v" or name == "cross":
        return [make(f"{name}.{letter}", title, axes, line, inputs, own)]
    angles = f"rotary_angles(torch.arange(T), D, {config.rotary_base})"
    turned = f'rotate({letter}_pre, {angles}, "{config.rotary_pairs}")'
    return [
        make(f"{name}.{letter}_pre", f"{letter.upper()} unrotated", axes, line, inputs, own),
        make(f"{name}.{letter}", title, axes, turned, [f"{name}.{letter}_pre"]),
    ]


def _scores_and_mix(make: Maker, name: str, keys: str, mask: str) -> list[Node]:
    config = make.config
    key, value = ("k", "v")
    if config.n_kv_heads != config.n_heads:  # each key/value head serves H/G query heads
        key, value = (f"{name}.repeat_interleave(H // G, dim=1)" for name in "kv")
    cells = ("B", "H", "T", keys)
    # heads side by side are a copy, unless there is nothing to put side by side
    joined = 0 if 1 in (config.n_heads, config.d_head, make.sizes["T"]) else None
    softmax = "scores.masked_fill(~mask, -torch.inf).softmax(-1)"
    if mask not in MASKS:
        softmax += ".nan_to_num()  # 0 where a row may read nothing"
    allowed = MASKS.get(mask, CHOSEN).format(keys=keys)
    q, k, v, raw, scores, masked, weights, mixed, side_by_side = (
        f"{name}.{one}" for one in ("q", "k", "v", "raw", "scores", "mask", "weights", "mixed", "joined")
    )
    return [
        make(raw, "QKᵀ", cells, f"q @ {key}.transpose(-1, -2)", [q, k]),
        make(scores, "scores QKᵀ/√D", cells, "raw / math.sqrt(D)", [raw]),
        make(masked, "mask, booleans", ("T", keys), allowed, number_bytes=1),
        make(weights, "weights A", cells, softmax, [scores, masked]),
        make(mixed, "mixed A·V", ("B", "H", "T", "D"), f"weights @ {value}", [weights, v]),
        make(side_by_side, "concatenated", STREAM, "mixed.transpose(1, 2).flatten(-2)", [mixed], kept=joined),
        make(
            f"{name}.out",
            "cross-attention out" if name == "cross" else "attention out",
            STREAM,
            f"{make.path}.{name}.output(joined)",
            [side_by_side],
            make.linear(f"{name}.output", "C", "C"),
        ),
    ]


def _feed_forward(make: Maker, read: str) -> list[Node]:
    path, gated = f"{make.path}.ffn", make.config.activation == "swiglu"
    line = ACTIVATIONS[make.config.activation].format(up=f"{path}.up({read})", gate=f"{path}.gate({read})")
    own = [*(make.linear("ffn.gate", "F", "C") if gated else []), *make.linear("ffn.up", "F", "C")]
    down = make.linear("ffn.down", "C", "F")
    return [
        make("ffn.hidden", "FFN hidden", ("B", "T", "F"), line, [read], own),
        make("ffn.out", "FFN out", STREAM, f"{path}.down(hidden)", ["ffn.hidden"], down),
    ]
