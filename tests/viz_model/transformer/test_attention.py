"""attend(): both paths against numpy float64 and torch, for every shape, mask, bias and scale."""

from dataclasses import dataclass

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn import functional as F

from tests.reference.written_out import attention
from tests.support.properties import examples
from viz_model.errors import MaskError
from viz_model.transformer import attention as module
from viz_model.transformer.attention import attend, attention_weights, mix, raw_scores
from viz_model.transformer.hooks import capture, edit
from viz_model.transformer.masks import named

WRITTEN_OUT = ("attn.raw", "attn.scores", "attn.weights")


@dataclass
class Problem:
    query: torch.Tensor
    key: torch.Tensor
    value: torch.Tensor
    mask: torch.Tensor | None = None
    bias: torch.Tensor | None = None
    scale: float | None = None
    softcap: float | None = None
    sinks: torch.Tensor | None = None

    def fused(self):
        return attend(*self.tensors(), **self.options())

    def written_out(self):
        with capture(*WRITTEN_OUT) as found:
            mixed = attend(*self.tensors(), **self.options())
        return *(found[name] for name in WRITTEN_OUT), mixed

    def reference(self):
        return attention(*self.tensors(), **self.options())

    def tensors(self):
        return self.query, self.key, self.value

    def options(self):
        names = ("mask", "bias", "scale", "softcap", "sinks")
        return {name: getattr(self, name) for name in names}

    def to(self, dtype):
        bias, sinks = (None if x is None else x.to(dtype) for x in (self.bias, self.sinks))
        return Problem(*(x.to(dtype) for x in self.tensors()), self.mask, bias, self.scale, self.softcap, sinks)


@st.composite
def problems(draw, huge=False, plain=False):
    """Any attention; with `huge`, scores up to ±100,000 out of whole numbers, which float32 holds exactly.

    plain: without soft caps and sinks, as torch knows it.
    """
    size = st.integers(1, 9)
    batch, groups, share = (draw(st.integers(1, 3)) for _ in range(3))
    queries, keys, width = draw(size), draw(size), draw(st.sampled_from((1, 4)) if huge else size)
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**20)))
    heads = groups * share

    def heads_of(length, count, most):
        shape = (batch, length, count, width)  # transposed below, as projections hand them over
        if huge:
            return torch.randint(-most, most + 1, shape, generator=generator).float().transpose(1, 2)
        return torch.randn(shape, generator=generator).transpose(1, 2)

    def broadcastable():
        whole = (batch, heads, queries, keys)
        shape = [n if draw(st.booleans()) else 1 for n in whole]
        return shape[draw(st.integers(0, 3)) :]

    mask = bias = None
    if draw(st.booleans()):
        shape, share_permitted = broadcastable(), draw(st.sampled_from((0.0, 0.2, 0.7, 1.0)))
        mask = torch.rand(shape, generator=generator) < share_permitted
    elif queries == keys and draw(st.booleans()):
        mask = named("causal", queries)
    if draw(st.booleans()):
        bias = torch.randn(broadcastable(), generator=generator)
        bias = bias.round() if huge else bias
    scale = draw(st.sampled_from((None, 1.0, 0.25, -0.5, 0.0)))
    softcap = sinks = None
    if not (huge or plain):
        softcap = draw(st.sampled_from((None, None, 0.7, 30.0)))
        sinks = torch.randn(heads, generator=generator) if draw(st.integers(0, 2)) == 2 else None
    return Problem(heads_of(queries, heads, 200), heads_of(keys, groups, 125), heads_of(keys, groups, 9),
                   mask, bias, scale, softcap, sinks)  # fmt: skip


def agree(found, expected, tolerance):
    np.testing.assert_allclose(np.asarray(found, np.float64), np.asarray(expected), atol=tolerance, rtol=0)


@examples(120)
@given(problems())
def test_both_paths_are_the_definition(problem):
    expected = problem.reference()
    written_out, fused = problem.written_out(), problem.fused()
    for found, known in zip(written_out, expected, strict=True):
        agree(found, known, 1e-5)
    agree(fused, expected[-1], 1e-5)
    agree(fused, written_out[-1], 1e-5)
    in_double = problem.to(torch.float64)
    agree(in_double.fused(), expected[-1], 1e-12)
    agree(in_double.written_out()[-1], expected[-1], 1e-12)


@examples(60)
@given(problems(huge=True))
def test_huge_scores_do_not_beat_a_mask(problem):
    """Minus infinity, not a large number: real scores of −110,208 were seen (TransformerLens#1692)."""
    _, scores, weights, mixed = problem.written_out()
    _, known_scores, known_weights, known_mixed = problem.reference()
    agree(scores, known_scores, 0)
    agree(weights, known_weights, 1e-6)
    agree(mixed, known_mixed, 1e-5)
    agree(problem.fused(), known_mixed, 1e-5)


@examples(60)
@given(problems())
def test_rows_sum_to_one_or_are_zero_and_forbidden_cells_are_exactly_zero(problem):
    *_, weights, mixed = problem.written_out()
    mask = torch.tensor(True) if problem.mask is None else problem.mask
    mask = mask.expand(weights.shape)
    empty = ~mask.any(-1)
    assert weights[~mask].eq(0).all()
    assert weights[empty].eq(0).all()
    if problem.sinks is None:
        agree(weights.sum(-1), (~empty).double(), 1e-6)
    else:
        assert (weights.sum(-1) < 1).all()
    assert mixed[empty].eq(0).all()
    assert problem.fused()[empty].eq(0).all()


@examples(60)
@given(problems(plain=True))
def test_equals_torch_where_every_row_has_a_key(problem):
    if problem.mask is not None:
        problem.mask = problem.mask | ~problem.mask.any(-1, keepdim=True)
    added = torch.zeros(problem.query.shape[-2], problem.key.shape[-2])
    if problem.mask is not None:
        added = torch.zeros(problem.mask.shape).masked_fill(~problem.mask, -torch.inf)
    if problem.bias is not None:
        added = added + problem.bias
    theirs = F.scaled_dot_product_attention(
        *problem.tensors(), attn_mask=torch.atleast_2d(added), scale=problem.scale, enable_gqa=True
    )
    agree(problem.fused(), theirs, 1e-5)
    agree(problem.written_out()[-1], theirs, 1e-5)


@pytest.mark.parametrize("site", ["q", "k", "v", "mask", "raw", "scores", "capped", "weights", "mixed"])
def test_each_site_is_there_when_it_alone_is_asked_for(site):
    query, key, value = (torch.randn(1, 2, 3, 4) for _ in range(3))
    mask = torch.ones(3, 3, dtype=torch.bool).tril()
    with capture("*") as everything:
        attend(query, key, value, mask=mask, softcap=2.0, name="attn")
    with capture(f"*.{site}") as found:
        attend(query, key, value, mask=mask, softcap=2.0, name="attn")
    assert list(found) == [f"attn.{site}"]
    torch.testing.assert_close(found[f"attn.{site}"], everything[f"attn.{site}"])


@examples(60)
@given(problems())
def test_captured_pieces_explain_each_other(problem):
    """No hook is named scores that holds weights: each boundary follows from the one before it."""
    with capture("attn.*") as found:
        mixed = problem.fused()
    held = {name.removeprefix("attn."): tensor for name, tensor in found.items()}
    bias = held.get("bias", torch.tensor(0.0))
    assert ("bias" in held) == (problem.bias is not None)
    assert held["mask"].dtype == torch.bool
    options = {"scale": problem.scale, "softcap": problem.softcap, "sinks": held.get("sinks")}
    raw, scores, weights, known = attention(held["q"], held["k"], held["v"], held["mask"], bias, **options)
    agree(held["raw"], raw, 1e-5)
    agree(held["scores"], scores, 1e-5)
    assert ("capped" in held, "sinks" in held) == (problem.softcap is not None, problem.sinks is not None)
    entering = held.get("capped", held["scores"])
    if problem.softcap is not None:
        agree(entering, problem.softcap * np.tanh(np.float64(held["scores"]) / problem.softcap), 1e-5)
    exponentials = (entering + bias).masked_fill(~held["mask"], -torch.inf).double().exp()
    of_sink = held["sinks"].double().exp()[:, None] if "sinks" in held else 0.0
    shares = exponentials / (exponentials.sum(-1) + of_sink)[..., None]
    agree(held["weights"], shares.nan_to_num(0.0), 1e-6)
    agree(held["weights"], weights, 1e-5)
    agree(held["mixed"], known, 1e-5)
    assert torch.equal(held["mixed"], mixed)


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float16, 1e-2), (torch.bfloat16, 8e-2)])
@examples(40)
@given(problem=problems())
def test_half_precision_has_no_nan(dtype, tolerance, problem):
    """Tolerances: ten times the spacing of numbers near 1 (2^-10 and 2^-7)."""
    half = problem.to(dtype)
    half.bias = problem.bias  # a bias is often kept in float32
    *_, weights, mixed = half.written_out()
    _, _, known_weights, known_mixed = half.to(torch.float32).reference()
    assert mixed.dtype == half.fused().dtype == dtype
    assert weights.dtype == torch.float32, "what is captured is seen in float32"
    agree(weights, known_weights, tolerance)
    agree(mixed.float(), known_mixed, 2 * tolerance)
    agree(half.fused().float(), known_mixed, 2 * tolerance)


def problem_of(queries=4, keys=4, heads=2, groups=2, **options):
    generator = torch.Generator().manual_seed(0)
    shapes = (1, heads, queries, 8), (1, groups, keys, 8), (1, groups, keys, 8)
    return Problem(*(torch.randn(shape, generator=generator) for shape in shapes), **options)


def test_a_bias_of_minus_infinity_or_an_edited_score_may_empty_a_row_too():
    bias = torch.zeros(4, 4)
    bias[2] = -torch.inf
    problem = problem_of(bias=bias)
    *_, weights, mixed = problem.written_out()
    assert weights[:, :, 2].eq(0).all()
    assert torch.isfinite(weights).all()
    torch.testing.assert_close(mixed, problem.fused(), atol=1e-6, rtol=0)
    assert problem.fused()[:, :, 2].eq(0).all()
    unbiased = problem_of()
    with edit({"attn.scores": lambda scores: scores + bias}):
        torch.testing.assert_close(unbiased.fused(), mixed, atol=1e-6, rtol=0)


@pytest.mark.parametrize("groups", [1, 2, 3, 6])
def test_grouped_heads_are_repeated_heads(groups):
    problem = problem_of(heads=6, groups=groups, keys=5)
    repeated = Problem(problem.query, *(x.repeat_interleave(6 // groups, 1) for x in problem.tensors()[1:]))
    torch.testing.assert_close(problem.fused(), repeated.fused(), atol=1e-6, rtol=0)
    with capture("attn.k", "attn.v", *WRITTEN_OUT) as found:
        problem.fused()
    assert found["attn.k"].shape[1] == found["attn.v"].shape[1] == groups
    assert found["attn.weights"].shape == (1, 6, 4, 5)
    for grouped, whole in zip(problem.written_out(), repeated.written_out(), strict=True):
        torch.testing.assert_close(grouped, whole, atol=1e-6, rtol=0)


def test_one_head_is_worked_out_from_the_whole():
    """A Trace asks for one head at a time, with the same functions, without the batch."""
    mask = named("causal", 4)
    problem = problem_of(heads=4, groups=2, mask=mask)
    raw, scores, weights, mixed = problem.written_out()
    for head in range(4):
        query = problem.query[0, head : head + 1]
        key, value = (x[0, head // 2 : head // 2 + 1] for x in (problem.key, problem.value))
        torch.testing.assert_close(raw_scores(query, key)[0], raw[0, head], atol=1e-6, rtol=0)
        row = attention_weights(scores[0, head], mask)
        torch.testing.assert_close(row, weights[0, head], atol=1e-6, rtol=0)
        torch.testing.assert_close(mix(row[None], value)[0], mixed[0, head], atol=1e-6, rtol=0)


@pytest.mark.parametrize(
    "mask",
    [
        torch.ones(4, 4),
        torch.ones(4, 4, dtype=torch.int64),
        torch.full((4, 4), -torch.inf),
        torch.ones(3, 4, dtype=torch.bool),
        torch.ones(4, 5, dtype=torch.bool),
        torch.ones(3, 4, 4, dtype=torch.bool),
        torch.ones(2, 1, 4, 4, dtype=torch.bool),
        torch.ones(1, 1, 1, 4, 4, dtype=torch.bool),
    ],
)
def test_a_mask_that_does_not_fit_is_refused_on_both_paths(mask):
    problem = problem_of(mask=mask)
    expected = str(tuple(mask.shape)) if mask.dtype == torch.bool else "booleans"
    with pytest.raises(MaskError) as refusal:
        problem.fused()
    assert expected in str(refusal.value)
    with pytest.raises(MaskError), capture("attn.weights"):
        problem.fused()


@pytest.fixture
def kernel(monkeypatch):
    """Every call of the fused kernel: its keyword arguments."""
    calls, real = [], F.scaled_dot_product_attention

    def spy(*tensors, **options):
        calls.append(options)
        return real(*tensors, **options)

    monkeypatch.setattr(F, "scaled_dot_product_attention", spy)
    return calls


@pytest.fixture
def written_out(monkeypatch):
    """Every call of the written-out path's first step."""
    calls, real = [], module.raw_scores

    def spy(query, key):
        calls.append(query.shape)
        return real(query, key)

    monkeypatch.setattr(module, "raw_scores", spy)
    return calls


@pytest.mark.parametrize("watched", [(), ("attn.q", "attn.k", "attn.v"), ("attn.mask",), ("attn.mixed",)])
def test_the_written_out_path_is_not_paid_for_unless_watched(watched, kernel, written_out):
    with capture(*watched):
        problem_of(mask=named("causal", 4)).fused()
    assert len(kernel) == 1
    assert not written_out


@pytest.mark.parametrize("watched", [*WRITTEN_OUT, "*", "attn.w*"])
def test_the_written_out_path_is_taken_when_watched(watched, kernel, written_out):
    with capture(watched):
        problem_of().fused()
    with edit({watched: lambda tensor: tensor}):
        problem_of().fused()
    assert not kernel
    assert len(written_out) == 2


def test_the_kernel_is_told_of_the_plain_triangle_only(kernel):
    """`is_causal` halves the work, and means something else when T != S."""
    triangle = named("causal", 4)
    with_hole = triangle.clone()
    with_hole[3, 0] = False
    for shape in ((4, 4), (1, 1, 4, 4)):
        problem_of(mask=triangle.reshape(shape)).fused()
        assert kernel[-1]["is_causal"]
    others = [
        problem_of(mask=with_hole),
        problem_of(mask=~triangle),
        problem_of(mask=triangle, bias=torch.ones(4, 4)),
        problem_of(mask=triangle[1:], queries=3),
        problem_of(),
    ]
    for problem in others:
        agree(problem.fused(), problem.reference()[-1], 1e-6)
        assert not kernel[-1].get("is_causal")
    with edit({"attn.mask": lambda mask: mask & with_hole}):
        problem_of(mask=triangle).fused()
    assert not kernel[-1].get("is_causal")
