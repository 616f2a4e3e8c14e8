"""The place, colour and words of each tensor in the diagram of shapes."""

from viz_model.shapes.nodes import Node, Parameter
from viz_ui.components.shape_diagram import Add, Axis, Edge, Letter, Tensor

WORDS = {
    "B": "prompts in a batch",
    "T": "queries (tokens)",
    "S": "keys (= T)",
    "C": "width of the stream",
    "H": "heads",
    "G": "key/value heads",
    "D": "width of a head, C/H",
    "L": "layers (blocks)",
    "V": "vocabulary",
    "F": "FFN width",
}

IN_DECODER = {"T": "queries (decoder)", "S": "keys (source)"}

ROLE_OF = {
    f"{half}.{name}": role
    for half in ("attn", "cross")
    for name, role in {
        "q_pre": "query", "q": "query", "k_pre": "key", "k": "key", "v": "value",
        "mixed": "value", "raw": "scores", "scores": "scores", "weights": "weights",
    }.items()
}  # fmt: skip

# A block is drawn in halves: self-attention, cross-attention where there is any, feed-forward. Each has four columns of
# its own, of which row 0 is the residual stream; what a half leaves in the stream begins the next one.
SELF, CROSS = "attention added", "cross-attention added"
FEED_FORWARD = "feed-forward added"
ADDED = {"attn.out": SELF, "cross.out": CROSS, "ffn.out": FEED_FORWARD}


def letters(sizes: dict[str, int], part: str = "self") -> list[Letter]:
    """The legend: every letter with its words and number."""
    words = WORDS | (IN_DECODER if part in ("decoder", "cross") else {})
    return [Letter(letter, words[letter], number) for letter, number in sizes.items() if number]  # no F without an FFN


def axes(thing: Node | Parameter) -> tuple[Axis, ...]:
    """The axes of a tensor or of a parameter."""
    pairs = zip(thing.axes, thing.shape, strict=True)
    return tuple(
        Axis(symbol, tuple(symbol.split("·")) if symbol in WORDS or "·" in symbol else (), size)
        for symbol, size in pairs
    )


def around(nodes: list[Node]) -> list[Tensor]:
    """The tensors outside the blocks, in a row."""
    return [_tensor(node, (0, 0, 0)) for node in nodes]


def placed(nodes: list[Node]) -> tuple[list[Tensor], list[Add], list[Edge]]:
    """The tensors of one block in their places, the plus signs of the stream, and the arrows."""
    places, names = _places(nodes), {node.local for node in nodes}
    tensors = [_tensor(node, places[node.local]) for node in nodes]
    adds = [Add(sign, *places[sign]) for branch, sign in ADDED.items() if branch in names]
    return tensors, adds, _edges(nodes)


def _places(nodes: list[Node]) -> dict[str, tuple[int, int, int]]:
    """Column, row and half of every tensor and plus sign, by their names."""
    names = {node.local for node in nodes}
    pre = "norm1" in next(node for node in nodes if node.local == "attn.v").inputs
    places = {"resid_pre": (0, 0, 0)}
    half, streams = 0, iter([name for name in ("resid_self", "resid_mid", "resid_post") if name in names])
    for name, sign, norm in (("attn", SELF, "norm1"), ("cross", CROSS, "norm_cross"), ("ffn", FEED_FORWARD, "norm2")):
        if f"{name}.out" not in names:
            continue
        plus, own = ((1, 0), (0, 1)) if name == "ffn" else ((3, 0), (1, 1) if name == "attn" else (0, 1))
        places |= _of_feed_forward(half) if name == "ffn" else _of_attention(name, half, f"{name}.q_pre" in names)
        places[sign] = (*plus, half)
        after = (2, 0, half) if name == "ffn" else (0, 0, half + 1)
        places[norm] = (*own, half) if pre else after
        places[next(streams)] = after if pre else (after[0], 1, after[2])
        half += 1
    return places


def _of_attention(name: str, half: int, rotated: bool) -> dict[str, tuple[int, int, int]]:
    row = 3 if rotated else 2  # one row more
    places = {"q_pre": (0, 2), "k_pre": (1, 2), "q": (0, row), "k": (1, row), "v": (2, 2)}
    places |= {one: (column, row + 1) for column, one in enumerate(("raw", "scores", "weights", "mixed"))}
    places |= {"mask": (2, row + 2), "joined": (3, 2), "out": (3, 1)}
    return {f"{name}.{one}": (*place, half) for one, place in places.items()} | {"memory": (2, 1, half)}


def _of_feed_forward(half: int) -> dict[str, tuple[int, int, int]]:
    return {"ffn.hidden": (0, 2, half), "ffn.out": (1, 1, half)}


def _edges(nodes: list[Node]) -> list[Edge]:
    """An arrow for every input; where a branch is added to the stream, both go through a plus sign."""
    own, edges = {node.name: node.local for node in nodes}, []
    for node in nodes:
        sources = [own[name] for name in node.inputs.values() if name in own]
        [branch] = [name for name in sources if name in ADDED and len(sources) == 2] or [None]
        if branch is None:
            edges += [Edge(source, node.local) for source in sources]
            continue
        [stream] = [name for name in sources if name != branch]
        sign = ADDED[branch]
        edges += [Edge(stream, sign, True), Edge(branch, sign), Edge(sign, node.local, True)]
    return edges


def _tensor(node: Node, place: tuple[int, int, int]) -> Tensor:
    column, row, half = place
    return Tensor(
        name=node.local,
        title=node.title,
        axes=axes(node),
        role=ROLE_OF.get(node.local, "stream"),
        parameters=node.n_parameters,
        nbytes=node.nbytes,
        tied="" if node.tied is None else node.tied.name,
        column=column,
        row=row,
        half=half,
    )
