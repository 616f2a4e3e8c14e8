"""Where the tensors of a model stand in the diagram of shapes, and what colour and words they get."""

from viz_model.shapes import Node, Parameter
from viz_ui.components.shape_diagram import Add, Axis, Edge, Letter, Tensor

WORDS = {
    "B": "prompts in a batch",
    "T": "tokens that ask",
    "S": "tokens read (= T)",
    "C": "width of the stream",
    "H": "heads",
    "G": "key/value heads",
    "D": "width of a head, C/H",
    "L": "layers (blocks)",
    "V": "vocabulary",
    "F": "FFN width",
}

ROLE_OF = {
    "attn.q_pre": "query", "attn.q": "query", "attn.k_pre": "key", "attn.k": "key", "attn.v": "value",
    "attn.mixed": "value", "attn.raw": "scores", "attn.scores": "scores", "attn.weights": "weights",
}  # fmt: skip

# Columns 0 to 3 are the attention half, from column 4 on the feed-forward half; row 0 is the residual stream.
STREAM_FIRST = {"resid_pre": (0, 0), "attention added": (3, 0)}
HALVES = {
    "pre": STREAM_FIRST
    | {"norm1": (1, 1), "resid_mid": (4, 0), "norm2": (4, 1), "feed-forward added": (5, 0), "resid_post": (6, 0)},
    "post": STREAM_FIRST
    | {"norm1": (4, 0), "resid_mid": (4, 1), "feed-forward added": (5, 0), "norm2": (6, 0), "resid_post": (6, 1)},
}
FEED_FORWARD = {"ffn.hidden": (4, 2), "ffn.out": (5, 1)}
FIRST_OF_SECOND_HALF = 4


def letters(sizes: dict[str, int]) -> list[Letter]:
    """The legend: every letter with its words and number."""
    return [Letter(letter, WORDS[letter], number) for letter, number in sizes.items()]


def axes(thing: Node | Parameter) -> tuple[Axis, ...]:
    """The axes of a tensor or of a parameter."""
    pairs = zip(thing.axes, thing.shape, strict=True)
    return tuple(
        Axis(symbol, tuple(symbol.split("·")) if symbol in WORDS or "·" in symbol else (), size)
        for symbol, size in pairs
    )


def around(nodes: list[Node]) -> list[Tensor]:
    """The tensors outside the blocks, in a row."""
    return [_tensor(node) for node in nodes]


def placed(nodes: list[Node]) -> tuple[list[Tensor], list[Add], list[Edge]]:
    """The tensors of one block in their places, the plus signs of the stream, and the arrows."""
    places = _places(nodes)
    tensors = [_tensor(node, *places[node.local]) for node in nodes]
    signs = ("attention added", "feed-forward added")
    adds = [Add(name, *places[name], half=int(places[name][0] >= FIRST_OF_SECOND_HALF)) for name in signs]
    return tensors, adds, _edges(nodes)


def _places(nodes: list[Node]) -> dict[str, tuple[int, int]]:
    names = {node.local for node in nodes}
    place = "pre" if "norm1" in next(node for node in nodes if node.local == "attn.v").inputs else "post"
    rotated = "attn.q_pre" in names  # one row more
    places = HALVES[place] | FEED_FORWARD | {"attn.q_pre": (0, 2), "attn.k_pre": (1, 2)}
    row = 3 if rotated else 2
    places |= {"attn.q": (0, row), "attn.k": (1, row), "attn.v": (2, 2)}
    square = ("raw", "scores", "weights", "mixed")
    places |= {f"attn.{name}": (column, row + 1) for column, name in enumerate(square)}
    return places | {"attn.mask": (2, row + 2), "attn.joined": (3, 2), "attn.out": (3, 1)}


def _edges(nodes: list[Node]) -> list[Edge]:
    """An arrow for every input; where a branch is added to the stream, both go through a plus sign."""
    own, edges = {node.name: node.local for node in nodes}, []
    added = {"attn.out": "attention added", "ffn.out": "feed-forward added"}
    for node in nodes:
        sources = [own[name] for name in node.inputs.values() if name in own]
        [branch] = [name for name in sources if name in added and len(sources) == 2] or [None]
        if branch is None:
            edges += [Edge(source, node.local) for source in sources]
            continue
        [stream] = [name for name in sources if name != branch]
        sign = added[branch]
        edges += [Edge(stream, sign, True), Edge(branch, sign), Edge(sign, node.local, True)]
    return edges


def _tensor(node: Node, column: int = 0, row: int = 0) -> Tensor:
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
        half=int(column >= FIRST_OF_SECOND_HALF),
    )
