"""A report of heads: what every head does over a whole text, pattern by pattern, with an interval.

A head is never named by one number without the share of its attention that the name explains.
Symbols: N windows, L layers, H heads, B windows at once, T queries, S keys.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from itertools import combinations

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from viz_model.arguments import of_type, said, text, whole_number
from viz_model.errors import MaskError, VizError
from viz_model.heads import patterns as known
from viz_model.heads.examples import ExampleGroup, ExampleReader, HeadExample, groups
from viz_model.heads.finder import alike_over
from viz_model.heads.names import HeadName, HeadNames
from viz_model.heads.patterns import NUMBERS, PATTERNS, Base, CellSets, HeadSums, Seen
from viz_model.heads.reading import at_once, cells_of, pass_through
from viz_model.heads.resampling import interval
from viz_model.heads.windows import LONGEST, Text, Window, cut, shuffled_batches
from viz_model.jobs import Tell, untold
from viz_model.memory_limits import refuse_beyond_memory
from viz_model.model import Model
from viz_model.transformer import masks

WINDOWS, MOST_WINDOWS = 128, 4096
ADDED, ROUNDED = 0.1, 5  # the second pattern of a name adds at least so much
COLUMNS = {known.LARGEST: "largest", known.ENTROPY: "entropy", known.MEAN_DISTANCE: "distance"}  # of the tables
BASES: dict[str, Base] = {known.PREVIOUS: 1, known.ITSELF: 0, known.NEXT: -1} | {name: name for name in known.FEATURES}


@dataclass(frozen=True, eq=False)
class Tables:
    """Sums over the queries of each window, see `HeadSums` and `Seen`: of heads (N,L,H,…), of masks (N,L,…)."""

    mass: np.ndarray
    even: np.ndarray
    largest: np.ndarray
    entropy: np.ndarray
    distance: np.ndarray
    uniform: np.ndarray
    counts: np.ndarray
    uniform_largest: np.ndarray
    uniform_entropy: np.ndarray
    uniform_distance: np.ndarray

    @classmethod
    def empty(cls, windows: int, layers: int, heads: int, sets: CellSets):
        of_heads, of_masks = (windows, layers, heads), (windows, layers)
        shapes = (
            (*of_heads, len(sets.columns)), (*of_heads, sets.n_single), of_heads, of_heads, of_heads,
            (*of_masks, sets.n_single), (*of_masks, sets.n_single), of_masks, of_masks, of_masks,
        )  # fmt: skip
        refuse_beyond_memory("A report of so many windows", 4 * sum(map(np.prod, shapes)))
        return cls(*(np.zeros(shape, np.float32) for shape in shapes))

    def put(self, windows: slice, layer: int, seen: Seen, sums: HeadSums) -> None:
        for name in ("mass", "even", "largest", "entropy", "distance"):
            getattr(self, name)[windows, layer] = getattr(sums, name)
        self.uniform[windows, layer], self.counts[windows, layer] = seen.sums, seen.counts
        for name in ("largest", "entropy", "distance"):
            getattr(self, f"uniform_{name}")[windows, layer] = getattr(seen, name)

    def take(self, begun: "Tables") -> None:
        """Begin with the windows of other tables."""
        for field in fields(self):
            getattr(self, field.name)[: len(begun.counts)] = getattr(begun, field.name)

    def first(self, windows: int) -> "Tables":
        """Those of the first windows; nothing is copied."""
        return Tables(*(getattr(self, field.name)[:windows] for field in fields(self)))


@dataclass(frozen=True, eq=False)
class HeadReport:
    """What every head of a part of a model does over the windows of a text.

    mask: its name. windows: those that were read, in a random order; planned: how many there are, more where the work
    was stopped. has_sinks: whether rows of weights add up to less than 1 because of a learned sink.
    """

    model: Model
    part: str
    mask: str
    windows: tuple[Window, ...]
    planned: int
    has_sinks: bool
    _sets: CellSets
    _tables: Tables

    def __repr__(self) -> str:
        read = f"{len(self.windows)} of {self.planned} windows" if self.is_partial else f"{self.planned} windows"
        return f"<HeadReport: {self.model.name}, {self.part}, {read}, {self.n_tokens:,} tokens>"

    @property
    def is_partial(self) -> bool:
        """Whether only some of the windows were read."""
        return len(self.windows) < self.planned

    @property
    def nbytes(self) -> int:
        """What its tables take."""
        return sum(getattr(self._tables, field.name).nbytes for field in fields(self._tables))

    @property
    def n_tokens(self) -> int:
        """How many tokens were read, those of sources too."""
        return sum(map(sum, (window.sizes for window in self.windows)))

    @property
    def has_distances(self) -> bool:
        """Whether a distance lies between query and key; in cross-attention they are of two texts."""
        return self._sets.within_one

    @cached_property
    def patterns(self) -> tuple[str, ...]:
        """Those that some query could show."""
        return tuple(name for name in self._possible if not np.isnan(self.mean(name)).all())

    @property
    def _possible(self) -> tuple[str, ...]:
        """Those that this kind of attention could show in some text."""
        gone = set() if self._sets.within_one else {*known.WITHIN_ONE}
        gone |= set() if -1 in self._sets.distances else {known.NEXT}
        gone |= set() if self.has_sinks else {known.SINK}
        return tuple(name for name in PATTERNS if name not in gone)

    @cached_property
    def scores(self) -> pd.DataFrame:
        """A row for each layer, head and pattern: mean, low and high of its 95 % interval, and uniform.

        mean: of the weight over the queries that may read such a token (entropy in bits, mean distance in tokens, over
        all queries). uniform: the mean that the same weight on every key would have. k: of "k before", which k it is;
        less than 0 is after the query. low and high are NaN for fewer than 8 windows.
        """
        layers, heads = self._tables.entropy.shape[1:]
        layer, head = (numbers.ravel() for numbers in np.indices((layers, heads)))
        tables = []
        for name in self.patterns:
            low, high = self.interval(name)
            numbers = {"mean": self.mean(name), "low": low, "high": high, "uniform": self.uniform(name)}
            k = self.best_distance.ravel() if name == known.DISTANCE else pd.NA
            whole = pd.DataFrame({"layer": layer, "head": head, "pattern": name, **_flat(numbers), "k": k})
            tables.append(whole.astype({"k": "Int64"}))
        table = pd.concat(tables, ignore_index=True)
        return table.sort_values(["layer", "head"], kind="stable", ignore_index=True)

    def mean(self, pattern: str) -> np.ndarray:
        """Of every head: (L,H); NaN where no query could show it. Raises VizError for a pattern that is not there."""
        sums, counts = self._sums(pattern)
        return _ratio(sums.sum(0), counts.sum(0))

    def interval(self, pattern: str) -> tuple[np.ndarray, np.ndarray]:
        """Low and high of the mean, (L,H) each, from drawing the windows again; NaN for fewer than 8 windows."""
        return interval(*self._sums(pattern))

    def uniform(self, pattern: str) -> np.ndarray:
        """The mean that uniform attention would have: (L,H). A sink has no part of it."""
        self._refuse_no_pattern(pattern)
        tables, rows = self._tables, self._tables.counts[..., 0].sum(0)[:, None]  # (L,1)
        if pattern in (known.EVEN, known.SINK):
            found = np.where(rows > 0, float(pattern == known.EVEN), np.nan)
        elif pattern in NUMBERS:
            found = _ratio(getattr(tables, f"uniform_{COLUMNS[pattern]}").sum(0)[:, None], rows)
        else:
            columns = self._columns(pattern)  # (L,H)
            layers = np.arange(len(columns))[:, None]
            found = _ratio(tables.uniform.sum(0)[layers, columns], tables.counts.sum(0)[layers, columns])
        return np.broadcast_to(found, self.best_distance.shape)

    @cached_property
    def best_distance(self) -> np.ndarray:
        """The k of "k before" of every head: (L,H); 0 where a window is too short for any."""
        ks = [k for k in self._sets.distances if k not in (-1, 0, 1)]
        if not ks:
            return np.zeros(self._tables.entropy.shape[1:], int)
        columns = [self._sets.column(k) for k in ks]
        means = _ratio(self._tables.mass.sum(0)[..., columns], self._tables.counts.sum(0)[:, None, columns])
        best = np.array(ks)[np.nan_to_num(means, nan=-1.0).argmax(-1)]
        return np.where(np.isnan(means).all(-1), 0, best)

    def curve(self, layer: int, head: int) -> pd.DataFrame:
        """The mean weight of a head by distance: k (how many tokens before the query), mean and uniform.

        Raises VizError for a head that is not there, and for cross-attention, whose queries and keys are two texts.
        """
        layer, head = self._refuse_no_head(layer, head)
        if not self._sets.within_one:
            raise VizError(
                "Queries and keys of cross-attention belong to two texts, so there is no distance between them."
            )
        columns = [self._sets.column(k) for k in self._sets.distances]
        counts = self._tables.counts[:, layer, columns].sum(0)
        numbers = self._tables.mass[:, layer, head, columns].sum(0), self._tables.uniform[:, layer, columns].sum(0)
        mean, uniform = (_ratio(sums, counts) for sums in numbers)
        table = pd.DataFrame({"k": self._sets.distances, "mean": mean, "uniform": uniform})
        return table.dropna(ignore_index=True)

    def name(self, layer: int, head: int) -> HeadName:
        """What a head does, and how much of its attention that explains; see `HeadName`.

        Of all pairs of patterns it is the one with the largest share, or a single one to which no other adds a tenth.
        Raises VizError for a head that is not there.
        """
        return self.names[self._refuse_no_head(layer, head)]

    @cached_property
    def names(self) -> dict[tuple[int, int], HeadName]:
        """Of every head."""
        return {place: self._name(*place) for place in np.ndindex(self.best_distance.shape)}

    def kept_names(self, text: str) -> HeadNames:
        """The names of all heads as they are kept. text: what was read, in words, see `HeadNames`."""
        layers, heads = self.best_distance.shape
        names = tuple(tuple(self.names[layer, head] for head in range(heads)) for layer in range(layers))
        return HeadNames(text, len(self.windows), self.n_tokens, names)

    def examples(
        self, layer: int, head: int, pattern: str | None = None, most: int = 3, tell: Tell = untold
    ) -> list[HeadExample]:
        """The windows in which a head shows a pattern most, at most so many, each read once more.

        pattern: None for the first one of its name. tell: told how many are read, of how many. Raises VizError for a
        head or pattern that is not there.
        """
        layer, head = self._refuse_no_head(layer, head)
        most = whole_number("The number of examples", most, 1, 100)
        of_type("tell", tell, Callable, "a function")
        pattern, means = self._shown_by(layer, head, pattern)
        best = [at for at in np.argsort(-means, kind="stable")[:most] if np.isfinite(means[at])]
        return self._reader(layer, head, pattern).read([(self.windows[at], float(means[at])) for at in best], tell)

    def example_groups(
        self, layer: int, head: int, pattern: str | None = None, each: int = 3, tell: Tell = untold
    ) -> list[ExampleGroup]:
        """Windows that show a pattern most, and windows that show it less: at most `each` of five tenths of all
        windows, or of their fifths where there are less than 30. Arguments and errors as for `examples`."""
        layer, head = self._refuse_no_head(layer, head)
        each = whole_number("The number of examples of a group", each, 1, 100)
        of_type("tell", tell, Callable, "a function")
        pattern, means = self._shown_by(layer, head, pattern)
        found = list(groups(means, each))
        chosen = [(self.windows[at], float(means[at])) for *_, some in found for at in some]
        examples = iter(self._reader(layer, head, pattern).read(chosen, tell))
        return [
            ExampleGroup(
                place, of, float(means[whole[-1]]), float(means[whole[0]]), tuple(next(examples) for _ in some)
            )
            for place, of, whole, some in found
        ]

    def alike(self, layer: int, head: int, tell: Tell = untold) -> np.ndarray:
        """Of every head, how much of its attention goes where this head's goes, over the windows: (L,H), see
        `finder.alike`. The windows are read twice more. Raises VizError for a head that is not there."""
        layer, head = self._refuse_no_head(layer, head)
        of_type("tell", tell, Callable, "a function")
        batches = shuffled_batches(self.windows, at_once(self.model, self.windows))
        return alike_over(self.model, batches, self.part, self.mask, layer, head, tell)

    def _shown_by(self, layer: int, head: int, pattern: str | None) -> tuple[str, np.ndarray]:
        """The pattern, and how much of it each window shows: (N,)."""
        if pattern is None:
            pattern = self.name(layer, head).patterns[0]
        sums, counts = (numbers[:, layer, head] for numbers in self._sums(pattern))
        return pattern, _ratio(sums, counts)

    def _reader(self, layer: int, head: int, pattern: str) -> ExampleReader:
        base = None if pattern in (known.SINK, known.EVEN, *NUMBERS) else self._base(pattern, layer, head)
        return ExampleReader(self.model, self.part, self.mask, self._sets, layer, head, pattern, base)

    def _sums(self, pattern: str) -> tuple[np.ndarray, np.ndarray]:
        """Of each window and head the sum over its queries, and how many queries that is: (N,L,H) each."""
        self._refuse_no_pattern(pattern)
        tables, rows = self._tables, self._tables.counts[..., :1]
        if pattern in NUMBERS:
            sums = getattr(tables, COLUMNS[pattern])
        elif pattern == known.EVEN:
            sums = tables.even[..., 0]
        elif pattern == known.SINK:
            sums = rows - tables.mass[..., 0]
        else:
            columns = self._columns(pattern)
            layers, heads = np.indices(columns.shape)
            return tables.mass[:, layers, heads, columns], tables.counts[:, layers, columns]
        return sums, np.broadcast_to(rows, sums.shape)

    def _columns(self, pattern: str) -> np.ndarray:
        """Where the cells of a pattern stand in the tables, for each head: (L,H)."""
        if pattern != known.DISTANCE:
            return np.full(self._tables.entropy.shape[1:], self._sets.column(BASES[pattern]))
        column_of = {k: self._sets.column(k) for k in (*self._sets.distances, 0)}
        return np.array([[column_of[k] for k in of_layer] for of_layer in self.best_distance.tolist()])

    def _base(self, pattern: str, layer: int, head: int) -> Base:
        return int(self.best_distance[layer, head]) if pattern == known.DISTANCE else BASES[pattern]

    def _name(self, layer: int, head: int) -> HeadName:
        mass, even = self._tables.mass[:, layer, head].astype(float), self._tables.even[:, layer, head].astype(float)
        rows = self._tables.counts[:, layer, 0].astype(float)
        total = mass.sum(0), even.sum(0), rows.sum()
        # Of two that explain the same, as a distance and what stands there may, the distance says less: it comes last.
        names = [name for name in self.patterns if name not in (known.DISTANCE, *NUMBERS)]
        names += [known.DISTANCE] if self.best_distance[layer, head] else []
        bases = {name: name if name in (known.EVEN, known.SINK) else self._base(name, layer, head) for name in names}

        def share_of(*names: str) -> float:
            return round(float(self._explained(*total, *map(bases.get, names)) / max(total[2], 1)), ROUNDED)

        best = max(names, key=share_of)
        pair = max(combinations(names, 2), key=lambda pair: share_of(*pair))
        chosen = pair if share_of(*pair) - share_of(best) >= ADDED else (best,)
        chosen = tuple(sorted(chosen, key=share_of, reverse=True))
        sums = self._explained(mass, even, rows, *(bases[name] for name in chosen))
        share = float(sums.sum() / max(rows.sum(), 1))
        low, high = interval(sums, rows)
        explaining = " and ".join(self.words(name, layer, head) for name in chosen)
        return HeadName(chosen, explaining, share, float(low), float(high))

    def words(self, pattern: str, layer: int, head: int) -> str:
        """A pattern as it is said of a head: "k before" is "3 before" or "2 after". Errors as `mean` and `name`."""
        self._refuse_no_pattern(pattern)
        layer, head = self._refuse_no_head(layer, head)
        if pattern != known.DISTANCE:
            return pattern
        k = int(self.best_distance[layer, head])
        return f"{abs(k)} {'after' if k < 0 else 'before'}"

    def _explained(self, mass: np.ndarray, even: np.ndarray, rows: np.ndarray, *bases: Base):
        """The weight on one base, or on what is in either of two: of mass (…,columns), even (…,n) and rows (…)."""

        def of(base: Base):
            if base == known.SINK:
                return rows - mass[..., 0]
            return even[..., 0] if base == known.EVEN else mass[..., self._sets.column(base)]

        if len(bases) == 1:
            return of(bases[0])
        one, two = bases if bases[0] != known.EVEN else bases[::-1]
        if known.SINK in bases:
            both = 0.0
        elif two == known.EVEN:
            both = even[..., self._sets.column(one)]
        else:
            column = self._sets.column(one, two)
            both = 0.0 if column is None else mass[..., column]
        return of(one) + of(two) - both

    def _refuse_no_pattern(self, pattern: str) -> None:
        if text("The pattern", pattern) not in self._possible:
            raise VizError(f"There is no pattern {said(pattern)} here. Choose one of {', '.join(self._possible)}.")

    def _refuse_no_head(self, layer: int, head: int) -> tuple[int, int]:
        layers, heads = self._tables.entropy.shape[1:]
        layer = whole_number("The layer", layer, 0, layers - 1)
        return layer, whole_number("The head", head, 0, heads - 1)


def head_report(
    model: Model,
    text: Text,
    *,
    part: str | None = None,
    length: int | None = None,
    windows: int = WINDOWS,
    mask: str | None = None,
    tell: Tell = untold,
) -> HeadReport:
    """What every head does over a text, which is read in windows.

    text: a text, ids, or rows of ids, of which each is a window. Of an encoder-decoder: pairs of a source and a target,
    or lines with a tab between the two; where a target is missing, it is what the model writes.
    part: which attention; that of the stack which makes the logits, if none is named. length: tokens of a window; as
    many as the model reads, at most 512, if none is given. windows: at most so many are read, evenly spread over the
    text. mask: of the part, "causal" or "bidirectional"; its own, if none is named. tell: told after each batch how
    many are done, of how many. Edits reach these passes: the report is of what the heads do under them.

    Raises VizError for a part or mask that is not there, and PromptError where there is nothing to read, or what is no
    text to the model.
    """
    *_, whole = growing_report(model, text, part=part, length=length, windows=windows, mask=mask, tell=tell)
    return whole


def growing_report(
    model: Model,
    text: Text,
    *,
    part: str | None = None,
    length: int | None = None,
    windows: int = WINDOWS,
    mask: str | None = None,
    tell: Tell = untold,
    begun: HeadReport | None = None,
) -> Iterator[HeadReport]:
    """The report after each batch of windows, the last of all; windows come in a random order. See `head_report`.

    begun: a partial report for the same arguments, whose windows are not read again.
    """
    of_type("The model", model, Model, "a Model, such as vm.load gives")
    of_type("tell", tell, Callable, "a function")
    part = model.config.self_part if part is None else part
    model.config.refuse_no_part(part)
    most = model.config.context_length
    length = min(LONGEST, most) if length is None else whole_number("The length of a window", length, 1, most)
    pieces = cut(model, text, length, whole_number("The number of windows", windows, 1, MOST_WINDOWS))
    mask = model.config.mask_of(part) if mask is None else mask
    masks.named(of_type("The mask", mask, str, "a text", MaskError), 1)  # says why there is none
    yield from _read(model, pieces, part, mask, tell, begun)


def _read(
    model: Model, pieces: list[Window], part: str, mask: str, tell: Tell, begun: HeadReport | None
) -> Iterator[HeadReport]:
    config = model.config
    sets = CellSets(part, mask == "causal")
    tables = Tables.empty(len(pieces), config.layers_of(part), config.n_heads, sets)
    done: list[Window] = []
    has_sinks, passed = False, 0
    if begun is not None:
        done, has_sinks = [*begun.windows], begun.has_sinks
        tables.take(begun._tables)
    tell(len(done), len(pieces))
    for batch in shuffled_batches(pieces, at_once(model, pieces)):
        passed += len(batch)
        if passed <= len(done):
            continue
        cells, here = cells_of(model, sets, batch, part), slice(len(done), len(done) + len(batch))
        seen: list[tuple[Tensor, Seen]] = []  # of the last mask: layers often have the same

        def measure(layer: int, weights: Tensor, allowed: Tensor, cells=cells, here=here, seen=seen) -> None:
            if not seen or not torch.equal(seen[0][0], allowed):
                seen[:] = [(allowed, Seen.of(cells, allowed))]
            tables.put(here, layer, seen[0][1], HeadSums.of(cells, seen[0][1], weights))

        def told(_: str, done: int = len(done)) -> None:
            tell(done, len(pieces))

        has_sinks |= pass_through(model, batch, part, mask, measure, told)
        done += batch
        tell(len(done), len(pieces))
        yield HeadReport(model, part, mask, tuple(done), len(pieces), has_sinks, sets, tables.first(len(done)))


def _flat(numbers: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {name: values.ravel() for name, values in numbers.items()}


def _ratio(sums: np.ndarray, counts: np.ndarray) -> np.ndarray:
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(counts > 0, np.asarray(sums, float) / counts, np.nan)
