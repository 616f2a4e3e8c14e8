"""Formulas of the shape reference read as they are printed, and worked out in numpy float64.

Nothing of ours computes here. A formula is LaTeX; a symbol is what the caller says it is: an array (…,T,C) or
(H,T,D), a `Matrix` of the model, or a function. What is written side by side is multiplied: a number scales, a matrix
follows the rows that it is multiplied with, a function reads all that follows it up to a sum. What cannot be read, and
a symbol that nobody knows, is an `UnreadableError`.
"""

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

TOKEN = re.compile(
    r"""(?:\s|\\[,;!\ ])*(?P<token>
    [EPS]\[[^\]]*\] | B_h\[[^\]]*\]                                   # rows of a table
    | (?:\\hat\{x\} | \\mathrm\{[^}]*\} | [A-Za-z])(?:_(?:\{[^}]*\}|\w|\\times))?(?:\^[2es])?
    | \\(?:sqrt\{[CD]\} | tanh | min | odot | sum(?:_e)? | mid | sigma)
    | \^\{\\top\} | \d+(?:\.\d+)?(?:e[-+]?\d+)? | [-+/()\[\];,=]
    )""",
    re.VERBOSE,
)

ENDS = ("+", "-", r"\odot", "/", ")", "]", ";", ",", r"\mid")


class UnreadableError(Exception):
    """A formula that does not say how its tensor is computed."""


@dataclass(frozen=True)
class Matrix:
    """A learned matrix (in,out), and the bias that formulas leave out."""

    weight: np.ndarray
    bias: np.ndarray | float = 0.0


@dataclass(frozen=True)
class Read:
    """What the formula gives: its value, and the largest share by which printed numbers are rounded."""

    value: np.ndarray
    rounding: float


def evaluate(formula: str, symbols: Mapping[str, object]) -> Read:
    """The right-hand side of a formula. symbols: by their LaTeX, without spaces."""
    tokens = _tokens(formula)
    if "=" in tokens[:2]:
        tokens = tokens[2:]
    reader = _Reader(tokens, symbols)
    value = reader.sum()
    if reader.tokens:
        raise UnreadableError(f"{formula}: {' '.join(reader.tokens)} is left over")
    if not isinstance(value, np.ndarray):
        raise UnreadableError(f"{formula} is no tensor")
    return Read(value, reader.rounding)


def _tokens(formula: str) -> list[str]:
    found, at = [], 0
    while at < len(formula.rstrip()):
        match = TOKEN.match(formula, at)
        if match is None:
            raise UnreadableError(f"{formula}: what is {formula[at:]}?")
        found.append(re.sub(r"\s|\\[,;]", "", match["token"]))
        at = match.end()
    return found


class _Reader:
    """Sums of products of factors, each read from the left."""

    def __init__(self, tokens: list[str], symbols: Mapping[str, object]):
        self.tokens, self.symbols, self.rounding = list(tokens), symbols, 0.0

    def next_is(self, *wanted: str) -> bool:
        return bool(self.tokens) and self.tokens[0] in wanted

    def take(self, wanted: str | None = None) -> str:
        if not self.tokens or (wanted is not None and self.tokens[0] != wanted):
            raise UnreadableError(f"{wanted or 'more'} is missing before {' '.join(self.tokens)}")
        return self.tokens.pop(0)

    def sum(self):
        value = self.rowwise()
        while self.next_is("+", "-"):
            sign = self.take()
            other = self.rowwise()
            value = value + other if sign == "+" else value - other
        return value

    def rowwise(self):
        """a ⊙ b, and a / b: number by number."""
        value = self.product()
        while self.next_is(r"\odot", "/"):
            sign = self.take()
            other = self.product()
            value = value * other if sign == r"\odot" else value / other
        return value

    def product(self):
        """Factors side by side; a function without brackets reads all that follow it."""
        value = None
        while self.tokens and self.tokens[0] not in ENDS:
            one = self.factor()
            one = one(self.product()) if callable(one) else one
            value = one if value is None else multiplied(value, one)
        if value is None:
            raise UnreadableError(f"a factor is missing before {' '.join(self.tokens)}")
        return value

    def factor(self):
        token = self.take()
        if token == "(":
            value = self.sum()
            self.take(")")
        elif token == "[":
            value = self.sum()
            parts = [value]
            while self.next_is(";"):
                self.take()
                parts.append(self.sum())
            self.take("]")
            value = side_by_side(parts)
        elif token[0].isdigit():
            value = float(token)
            if "." in token and len(token.replace(".", "").lstrip("0")) >= 3:  # printed with four digits
                self.rounding = max(self.rounding, 5e-4)
        elif token == r"\sum":
            value = self.symbols.get(r"\sum" + self.take())
        elif token == r"\sum_e":
            return self.expert_sum()
        else:
            value = self.symbols.get(token, with_an_index(token))
        if value is None:
            raise UnreadableError(f"nobody says what {token} is")
        if callable(value) and self.next_is("("):
            value = self.called(value)
        if self.next_is("^{\\top}"):
            self.take()
            value = transposed(value)
        return value

    def called(self, function: Callable):
        self.take("(")
        arguments = [self.sum()]
        while self.next_is(r"\mid", ","):
            self.take()
            arguments.append(self.sum())
        self.take(")")
        return function(*arguments)

    def expert_sum(self):
        """What follows, for each expert: its symbols are those that end with ^e."""
        start, total, left = list(self.tokens), 0.0, None
        outer = self.symbols
        for expert in range(outer["experts"]):
            self.tokens = list(start)
            self.symbols = dict(outer) | {name: one(expert) for name, one in outer["of an expert"].items()}
            total = total + self.product()
            left = self.tokens
        self.symbols, self.tokens = outer, left
        return total


def with_an_index(token: str) -> Callable | None:
    """A function whose index is a number: the k largest of a row (among the best groups), a clip, a slope."""
    if match := re.fullmatch(r"\\mathrm\{top\}_(?:(\d)|\{(\d+)(?:,(\d+):(\d+))?\})", token):
        count, groups = int(match[1] or match[2]), match[3] and (int(match[3]), int(match[4]))
        return top(count, groups)
    if match := re.fullmatch(r"\\mathrm\{clip\}_\{?([\d.]+)\}?", token):
        return lambda x: np.clip(x, -float(match[1]), float(match[1]))
    if match := re.fullmatch(r"\\mathrm\{SiLU\}_\{([\d.]+)\}", token):
        return lambda x: x * sigmoid(float(match[1]) * x)
    return None


def multiplied(left, right):
    """left·right: numbers scale; (…,C) times a matrix; heads times heads, of which there may be fewer on the right."""
    if isinstance(right, Matrix):
        if isinstance(left, Matrix) or np.ndim(left) < 2:
            raise UnreadableError("a matrix stands before nothing that it could be multiplied with")
        return left @ right.weight + right.bias
    if np.ndim(left) == 0 or np.ndim(right) == 0:
        return left * right
    if np.ndim(left) == np.ndim(right) == 3:
        return left @ np.repeat(right, left.shape[0] // right.shape[0], axis=0)
    if np.ndim(left) == 1 and np.ndim(right) == 2:  # a number for each token
        return left[:, None] * right
    if (np.ndim(left) == 3 and np.ndim(right) == 2) or (np.ndim(left) == 2 and np.ndim(right) == 3):  # a number a head
        return left * right
    if np.ndim(left) == np.ndim(right) == 2 and left.shape[-1] == 1:  # a number for each token
        return left * right
    raise UnreadableError(f"shapes {np.shape(left)} and {np.shape(right)} do not multiply")


def transposed(value):
    if isinstance(value, Matrix):
        return Matrix(value.weight.T, value.bias)
    return np.swapaxes(value, -1, -2)


def side_by_side(parts):
    heads = max(part.shape[0] for part in parts if part.ndim == 3)
    return np.concatenate([np.broadcast_to(part, (heads, *part.shape[-2:])) for part in parts], -1)


def evaluate_mask(formula: str, queries: int, keys: int) -> np.ndarray:
    """M_{ij} = 0 \\ \\mathrm{where} … : booleans (T,S), True where M is 0."""
    i, j = np.arange(queries)[:, None], np.arange(keys)[None, :]
    start = r"M_{ij} = 0"
    if not formula.startswith(start):
        raise UnreadableError(f"{formula} does not say where it is 0")
    said = formula.removeprefix(start)
    allowed = np.ones((queries, keys), dtype=bool)
    if not said:
        return allowed
    match = re.fullmatch(r"\\ \\mathrm\{where\}\\ (.*),\\ \\mathrm\{else\}\\ -\\infty", said)
    if match is None:
        raise UnreadableError(f"{formula}: what is {said}?")
    for condition in match[1].split(r",\ "):
        python = re.sub(r"\\lfloor (.) / (\d+) \\rfloor", r"(\1 // \2)", condition)
        python = re.sub(r"\|(.*?)\|", r"abs(\1)", python).replace(r"\le", "<=").replace(" = ", " == ")
        if not re.fullmatch(r"(?:[ij\d\s()+<>=-]|//|abs|&)+", python):
            raise UnreadableError(f"{formula}: what is {condition}?")
        for bound in re.split(r"&", python):
            allowed &= eval(bound, {"abs": np.abs, "i": i, "j": j})
    return allowed


# --- functions of the formulas ---


def softmax(scores: np.ndarray, sinks: np.ndarray | None = None) -> np.ndarray:
    """Over the last axis; sinks (H,) are one more number in each row's sum."""
    top = scores.max(-1, keepdims=True)
    if sinks is not None:
        top = np.maximum(top, sinks[:, None, None])
    powers = np.exp(scores - top)
    total = powers.sum(-1, keepdims=True)
    return powers / (total if sinks is None else total + np.exp(sinks[:, None, None] - top))


def concat(heads: np.ndarray) -> np.ndarray:
    """(H,T,D) -> (T,H·D)"""
    return np.swapaxes(heads, 0, 1).reshape(heads.shape[1], -1)


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def top(count: int, groups: tuple[int, int] | None = None) -> Callable:
    """The largest numbers of each row, −∞ in place of the others; groups: only of the best so many of so many groups,
    by the sum of the two largest in each."""

    def of(x: np.ndarray) -> np.ndarray:
        allowed = x
        if groups is not None:
            best, each = groups[0], x.reshape(len(x), groups[1], -1)
            two = np.sort(each, -1)[..., -2:].sum(-1)
            fits = two >= np.sort(two, -1)[:, -best][:, None]
            allowed = np.where(fits[..., None], each, -np.inf).reshape(x.shape)
        return np.where(allowed >= np.sort(allowed, -1)[..., -count][..., None], x, -np.inf)

    return of


def share(x: np.ndarray) -> np.ndarray:
    """Each number of a row, of their sum; what was not chosen is 0."""
    x = np.where(np.isneginf(x), 0.0, x)
    return x / x.sum(-1, keepdims=True)


erf = np.vectorize(math.erf)


ACTIVATIONS = {
    r"\mathrm{GELU}": lambda x: x * 0.5 * (1 + erf(x / math.sqrt(2))),
    r"\mathrm{GELU}_{\tanh}": lambda x: 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
    r"\mathrm{ReLU}": lambda x: np.maximum(x, 0),
    r"\mathrm{ReLU}^2": lambda x: np.maximum(x, 0) ** 2,
    r"\mathrm{SiLU}": lambda x: x * sigmoid(x),
}
FUNCTIONS = {
    **ACTIVATIONS,
    r"\tanh": np.tanh,
    r"\min": np.minimum,
    r"\sigma": sigmoid,
    r"\mathrm{softmax}": softmax,
    r"\mathrm{concat}": concat,
    r"\mathrm{share}": share,
}
