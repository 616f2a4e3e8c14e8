"""What heads are built to do: what each copies and writes, what it looks for, and which heads read which others.

Elhage et al. 2021, "A Mathematical Framework for Transformer Circuits". All of it is of the weights alone, along the
direct path: from the table of tokens to a head, from head to head, and from a head to the logits, past all else. What
is folded in and what is left out: see `head_weights`.

L layers, H heads, C model width, D head width, V vocabulary.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from viz_model.arguments import of_type, said, text, whole_number
from viz_model.circuit.head_weights import (
    AttentionHalf,
    DirectPath,
    identity,
    keys,
    products_of_tables,
    queries,
    values,
    written,
)
from viz_model.errors import VizError
from viz_model.jobs import Tell, untold
from viz_model.model import Model
from viz_model.transformer.linear_maps import Maps, linear

QUERY, KEY, VALUE = "query", "key", "value"
KINDS = (QUERY, KEY, VALUE)
RANDOM_HEADS = 32  # whose copying scores stand beside those of a layer
RANDOM_PAIRS = 32  # of heads, whose mean composition is taken away
FARTHEST = 100_000  # distance


@dataclass(frozen=True, eq=False)
class CopyingScores:
    """Copying scores of the heads of a model.

    eigenvalues (L,H,D), complex: those of W_E·W_V·W_O·W_U, of which no more than D are not 0. random (L,N): scores of N
    heads whose W_V and W_O are random, between the same tables; the score does not depend on their norms.
    """

    eigenvalues: Tensor
    random: Tensor

    @property
    def scores(self) -> Tensor:
        """Σ Re λ / Σ |λ| of each head: (L,H), from −1 to 1."""
        return _score(self.eigenvalues)


@dataclass(frozen=True, eq=False)
class Composition:
    """How much of what a head writes another one reads.

    over (L,H,L,H): ‖W_OV·W‖/(‖W_OV‖·‖W‖), less the mean of random matrices, `baseline`; the writing head first, NaN
    where the other one does not come after it. source: the part whose heads write.
    """

    over: Tensor
    baseline: float
    source: str


def circuits(model: Model, part: str | None = None) -> "Circuits":
    """What the heads of a model are built to do, from its weights alone.

    part: which attention; that of the stack which predicts, if none is named. Raises VizError for a part that the
    model does not have.
    """
    config = of_type("The model", model, Model, "a Model, such as vm.load gives").config
    part = config.self_part if part is None else part
    config.refuse_no_part(part)
    return Circuits(model, part)


class Circuits:
    """The circuits of the heads of one part; see `circuits`. Tokens are ids.

    Each raises VizError where the model cannot be taken apart so: the sentence names what stands against it.
    """

    def __init__(self, model: Model, part: str):
        self.name, self.host, self.facts, self.part = model.name, model.transformer, model.config, part
        self._stack = DirectPath(self.host, part)

    @property
    def copying(self) -> Tensor:
        """The copying score of each head, Σ Re λ / Σ |λ| of W_E·W_V·W_O·W_U: (L,H).

        1: reading a token raises the logit of that token; −1: it lowers it.
        """
        return self._copying.scores

    def composition(self, kind: str, distance: int = 0) -> Tensor:
        """See `Composition.over`: (L,H,L,H). kind: "query", "key" or "value", what the later head makes of it.

        distance: of a model that turns queries and keys by their position, how many tokens the key stands before the
        query. Of cross-attention, "query" is of the decoder's heads, "key" and "value" are of the encoder's.
        """
        return self.measure_composition(kind, distance).over

    @cached_property
    def _copying(self) -> CopyingScores:
        return self.measure_copying()

    @torch.no_grad()
    def measure_copying(self, *, tell: Tell = untold) -> CopyingScores:
        """Copying scores with their eigenvalues. tell: told how much is done, of how much.

        The eigenvalues of W_E·W_V·W_O·W_U (V,V) that are not 0 are those of W_O·W_U·W_E·W_V (D,D), so they are exact
        for any vocabulary.
        """
        of_type("tell", tell, Callable, "a function")
        self._refuse_without_logits()
        layers, vocabulary = self._stack.layers, self.facts.vocab_size
        tables = products_of_tables(self.host, lambda done: tell(done, 2 * vocabulary))  # (C,C)
        generator = torch.Generator().manual_seed(0)
        eigenvalues, random, path, between = [], [], None, None
        for layer in layers:
            tell(vocabulary + layer * vocabulary // len(layers), 2 * vocabulary)
            half = self._half(layer)
            here = self._to_keys(layer), self._stack.behind(self.part, layer)
            if here != path:  # in all layers the same one, where no norm stands on the stream
                path, (entering, leaving) = here, here
                entering, leaving = linear(entering, identity(tables.shape[1])), linear(leaving, self._every)
                between = leaving @ tables @ entering  # (C,C): from what a head writes to what heads read
                scores = _random_scores(between, self.host.value_width, generator)
            random.append(scores)
            products = self._outputs(half) @ (between @ values(half, self.facts, self._every))  # (H,D,D)
            eigenvalues.append(torch.linalg.eigvals(products))
        return CopyingScores(torch.stack(eigenvalues), torch.stack(random))

    @torch.no_grad()
    def measure_composition(self, kind: str, distance: int = 0, *, tell: Tell = untold) -> Composition:
        """See `composition`. tell: told how many layers are done, of how many."""
        of_type("tell", tell, Callable, "a function")
        baseline, source = self.baseline(kind), self.source_part(kind)
        distance = whole_number("The distance", distance, 0, FARTHEST)
        heads, layers, other = self.facts.n_heads, self._stack.layers, self.facts.layers_of(source)
        found = torch.full((other, heads, len(layers), heads), torch.nan, dtype=torch.float64)
        writers = self._of_encoder() if source == "encoder" != self.part else []  # as they are where the walk stands
        own = source if not writers else ""
        for layer in layers:
            tell(layer, len(layers))
            for half in self._stack.halves(layer):
                if half.part == self.part and writers:
                    reader = self._reader(half, kind, distance)
                    for earlier, writer in enumerate(writers):
                        found[earlier, :, layer] = _shares(writer, reader)
                if half.part == own:
                    writers = [*writers, self._writer(half)]
                writers = _past(writers, half.maps.after if own else ())
            if own and layer < layers[-1]:
                writers = _past(writers, self._stack.behind_feed_forward(layer))
        return Composition(found - baseline, baseline, source)

    def source_part(self, kind: str) -> str:
        """The part whose heads write what the heads of this part read in their queries, keys or values."""
        if _known_kind(kind) == QUERY or self.part != "cross":
            return self._stack.part
        return "encoder"

    def baseline(self, kind: str) -> float:
        """The mean composition of random matrices of the same shapes: `RANDOM_PAIRS` pairs, always the same ones."""
        generator, width, value = torch.Generator().manual_seed(0), self.facts.d_model, self.host.value_width
        inner = value if _known_kind(kind) == VALUE else self.facts.d_head

        def product(inner: int) -> Tensor:
            sides = (1, width, inner), (1, inner, width)
            return _reduced(*(torch.randn(side, generator=generator, dtype=torch.float64) for side in sides))

        shares = [_shares(product(value), product(inner).mT) for _ in range(RANDOM_PAIRS)]
        return torch.stack(shares).mean().item()

    @torch.no_grad()
    def writes(self, layer: int, head: int, token: int) -> Tensor:
        """What reading a token alone adds to the logit of each token, less the mean over all tokens: (V,).

        The divisors of all norms are left out, so numbers of one head can be compared with each other, not with logits.
        """
        layer, head = self._head(layer, head)
        self._refuse_without_logits()
        half = self._half(layer)
        mixed = torch.zeros(1, self.facts.n_heads, self.host.value_width, dtype=torch.float64)
        mixed[:, head] = values(half, self.facts, linear(self._to_keys(layer), self._row(token)))[head]
        added = written(half, self.facts, mixed.flatten(1))
        end = linear(self._stack.behind(self.part, layer), added)[0]
        return _less_mean(_products(self.host.unembedding_rows()[0], end))

    @torch.no_grad()
    def raises_itself(self, layer: int, head: int) -> float:
        """The share of all tokens whose own logit rises above the mean of all logits when the head reads them."""
        layer, head = self._head(layer, head)
        self._refuse_without_logits()
        half, table, rows = self._half(layer), self.host.embedding_rows(), self.host.unembedding_rows()[0]
        value = values(half, self.facts, linear(self._to_keys(layer), identity(table.shape[1])))[head]  # (C,D)
        own = slice(head * self.host.value_width, (head + 1) * self.host.value_width)
        mixed = identity(self.facts.n_heads * self.host.value_width)[own]
        end = linear(self._stack.behind(self.part, layer), written(half, self.facts, mixed))  # (D,C)
        read, said = table @ value.to(table.dtype), rows @ end.T.to(rows.dtype)  # (V,D)
        return float(((read * (said - said.mean(0))).sum(-1) > 0).double().mean())

    @torch.no_grad()
    def looks_for(self, layer: int, head: int, token: int, distance: int = 0) -> Tensor:
        """The score that a query made of a token alone gives to the key of each token alone, less the mean over all
        tokens: (V,).

        distance: as of `composition`. Divisors of norms are left out, as of `writes`.
        """
        layer, head = self._head(layer, head)
        distance = whole_number("The distance", distance, 0, FARTHEST)
        half, table = self._half(layer), self.host.embedding_rows()
        query = queries(half, self.facts, linear(self._to_queries(layer), self._row(token)), distance)[head, 0]
        with torch.enable_grad():  # all that makes a key of a row is linear: its gradient is the transposed matrix
            row = torch.zeros(1, table.shape[1], dtype=torch.float64, requires_grad=True)
            score = keys(half, self.facts, linear(self._to_keys(layer), row))[head, 0] @ query
            (direction,) = torch.autograd.grad(score, row)
        return _less_mean(_products(table, direction[0]) * half.equation.scale)

    @torch.no_grad()
    def position_scores(self, layer: int, head: int, length: int) -> Tensor:
        """The scores that positions alone give each other, query × key, for the first positions: (n,n), n ≤ length.

        Raises VizError for a model that adds nothing for a position.
        """
        layer, head = self._head(layer, head)
        length, half = whole_number("The length", length, 1), self._half(layer)
        asked, read = (
            linear(maps[len(stack.entrance) :], self._positions(stack, length))
            for maps, stack in ((self._to_queries(layer), self._stack), (self._to_keys(layer), self._stack_of_keys))
        )
        query, key = queries(half, self.facts, asked)[head], keys(half, self.facts, read)[head]
        return query @ key.T * half.equation.scale

    @torch.no_grad()
    def distance_scores(self, layer: int, head: int, token: int, length: int, other: int | None = None) -> Tensor:
        """The score that a query of a token alone gives to the key of another one, by how many tokens the key stands
        before the query, from 0 on: (length,). other: the key's token; None for the mean over all tokens.

        Raises VizError for a model whose queries, keys and scores are the same at every distance.
        """
        layer, head = self._head(layer, head)
        length, half = whole_number("The length", length, 1, FARTHEST), self._half(layer)
        equation = half.equation
        if not (equation.turns or any(equation.slopes or ())):
            raise VizError(
                f"This model ({self.facts.family}) does not turn its queries and keys, so two tokens alone have the "
                "same score at every distance."
            )
        known = self.host.embedding_rows().mean(0, dtype=torch.float64)[None] if other is None else self._row(other)
        places = torch.arange(length)
        asked = linear(self._to_queries(layer), self._row(token)).expand(length, -1)
        query = queries(half, self.facts, asked, places)[head]  # (n,D)
        key = keys(half, self.facts, linear(self._to_keys(layer), known))[head, 0]
        slope = equation.slopes[head] if equation.slopes else 0.0  # of ALiBi, for each token of distance
        return query @ key * equation.scale - slope * places

    @property
    def _every(self) -> Tensor:
        return identity(self.facts.d_model)

    @property
    def _stack_of_keys(self) -> DirectPath:
        return DirectPath(self.host, "encoder") if self.part == "cross" else self._stack

    def _head(self, layer: int, head: int) -> tuple[int, int]:
        last, most = len(self._stack.layers) - 1, self.facts.n_heads - 1
        return whole_number("The layer", layer, 0, last), whole_number("The head", head, 0, most)

    def _half(self, layer: int) -> AttentionHalf:
        return next(half for half in self._stack.halves(layer) if half.part == self.part)

    def _to_queries(self, layer: int) -> Maps:
        """From the row of a token in its table to what queries of a layer are made of, before a norm of that half."""
        return (*self._stack.entrance, *self._stack.to(self.part, layer))

    def _to_keys(self, layer: int) -> Maps:
        """The same of keys and values."""
        return self._stack_of_keys.whole if self.part == "cross" else self._to_queries(layer)

    def _row(self, token: int) -> Tensor:
        table = self.host.embedding_rows()
        return table[whole_number("The token", token, 0, len(table) - 1)].double()[None]

    def _positions(self, stack: DirectPath, length: int) -> Tensor:
        """What stands for the first positions in the stream of the first layer: (n,C)."""
        rows = stack.maps.positions
        if rows is None:
            raise VizError(
                f"This model ({self.facts.family}) adds no row for a position to its tokens, so positions alone have "
                "no scores."
            )
        return linear(stack.maps.embedding, rows[: min(length, self.facts.context_length)].double())

    def _outputs(self, half: AttentionHalf) -> Tensor:
        """From the mixed values of each head to what it adds to the stream: (H,D,C)."""
        heads = self.facts.n_heads
        return written(half, self.facts, identity(heads * self.host.value_width)).unflatten(0, (heads, -1))

    def _writer(self, half: AttentionHalf) -> Tensor:
        """W_OV of each head, as a matrix (H,D,C) whose products with what reads it have the same norms."""
        return _reduced(values(half, self.facts, self._every), self._outputs(half))

    def _of_encoder(self) -> list[Tensor]:
        """What the heads of each layer of the encoder wrote, as it is in the encoder output: (H,D,C) each."""
        encoder, writers = DirectPath(self.host, "encoder"), []
        for layer in encoder.layers:
            [half] = encoder.halves(layer)
            writers = _past([*writers, self._writer(half)], (*half.maps.after, *encoder.behind_feed_forward(layer)))
        return _past(writers, encoder.final)

    def _reader(self, half: AttentionHalf, kind: str, distance: int) -> Tensor:
        """What of a head reads the stream, as a matrix (H,C,D) whose products with what is written have the same
        norms."""
        if kind == VALUE:
            return _reduced(self._outputs(half).mT, values(half, self.facts, self._every).mT).mT
        query, key = queries(half, self.facts, self._every, distance), keys(half, self.facts, self._every)
        reads, other = (query, key) if kind == QUERY else (key, query)
        return _reduced(other, reads.mT).mT

    def _refuse_without_logits(self) -> None:
        if self.part == "encoder":
            raise VizError(
                "What the heads of the encoder write is read by cross-attention and becomes no logit. Choose the "
                "decoder or its cross-attention."
            )
        if not self.facts.has_unembedding:
            raise VizError(
                f"{self.name} predicts no token, so what its heads write cannot be said in tokens. Choose a model such "
                "as tiny-gpt."
            )
        if self.facts.unembedding_hidden:
            raise VizError(
                f"Before its unembedding this model ({self.facts.family}) has the activation "
                f"{self.facts.unembedding_hidden}. What becomes of a vector there depends on the vector, so the "
                "parameters alone do not say which tokens a head writes. Choose a model such as tiny-bert."
            )
        self.host.unembedding_rows()


def _score(eigenvalues: Tensor) -> Tensor:
    """Σ Re λ / Σ |λ| over the last axis; 0 where all are 0, for such a head writes nothing."""
    lengths = eigenvalues.abs().sum(-1)
    return torch.where(lengths > 0, eigenvalues.real.sum(-1) / lengths, 0.0)


def _random_scores(between: Tensor, width: int, generator: torch.Generator) -> Tensor:
    """Copying scores of heads whose matrices are random, where their writing becomes their reading by `between` (C,C):
    (N,)."""
    shape = (RANDOM_HEADS, len(between), width)
    value, output = (torch.randn(shape, generator=generator, dtype=torch.float64) for _ in range(2))
    return _score(torch.linalg.eigvals(output.mT @ (between @ value)))


def _reduced(first: Tensor, second: Tensor) -> Tensor:
    """R·second (…,D,C), where first (…,C,D) = Q·R: what is multiplied from the right has the norm that it has with
    first·second."""
    return torch.linalg.qr(first, mode="r").R @ second


def _past(writers: list[Tensor], maps: Maps) -> list[Tensor]:
    """What was written (H,D,C each), behind these maps."""
    if not maps:
        return writers
    return [linear(maps, writer.flatten(0, 1)).unflatten(0, writer.shape[:2]) for writer in writers]


def _shares(writer: Tensor, reader: Tensor) -> Tensor:
    """‖A·B‖/(‖A‖·‖B‖) for each head that writes, A (H,D,C), and each that reads, B (H,C,D): (H,H). In float32."""
    rows, columns = writer.flatten(0, 1).float(), reader.transpose(0, 1).flatten(1).float()
    squares = (rows @ columns).double().square()  # (H·D,H·D)
    squares = squares.unflatten(1, (len(reader), -1)).sum(-1).unflatten(0, (len(writer), -1)).sum(1)
    lengths = writer.flatten(1).norm(dim=-1)[:, None] * reader.flatten(1).norm(dim=-1)
    return torch.where(lengths > 0, squares.sqrt() / lengths, 0.0)


def _products(table: Tensor, vector: Tensor) -> Tensor:
    """Each row of a table (V,C) with a vector (C,), in the precision of the table: (V,) float64."""
    return (table @ vector.to(table.dtype)).double()


def _less_mean(numbers: Tensor) -> Tensor:
    return numbers - numbers.mean()


def _known_kind(kind: str) -> str:
    if text("The kind of composition", kind) not in KINDS:
        raise VizError(f"There is no composition of the kind {said(kind)}: choose one of {', '.join(KINDS)}.")
    return kind
