"""A model's twin with quantized weights: what it shares, what it computes, and that the model stays as it is."""

import gc
import weakref

import numpy as np
import pytest
import torch

from tests.support.small_models import make_model, random_ids, small_model
from viz_model.errors import VizError
from viz_model.heads.comparison import weight_changes
from viz_model.model import Model
from viz_model.quantization.twin import (
    INT8,
    LLM_INT8,
    NF4,
    SCHEMES,
    Choice,
    Twins,
    outlier_bytes,
    places,
    quantize,
    trace_quantized,
    weight_bytes,
)

IDS = random_ids(9, seed=4).tolist()


def model(**changes):
    return Model("small", small_model(**changes))


def with_dequantized_weights(original, quantized):
    """The model made anew, with the numbers that the codes stand for in the place of its weights."""
    other = make_model(original.config)
    weights = original.transformer.state_dict()
    for name, tensor in quantized.tensors.items():
        weights[f"{name}.weight"] = tensor.after.dequantized()
    other.load_state_dict(weights)
    return other


@pytest.mark.parametrize("scheme", [INT8, NF4])
@pytest.mark.parametrize("changes", [{}, {"activation": "swiglu", "bias": False, "position": "rotary"}, {"d_ff": 0}])
def test_the_twin_computes_with_what_the_codes_stand_for(scheme, changes):
    original = model(**changes)
    before = original.trace(IDS)
    quantized = quantize(original, Choice(scheme))
    twins, largest = trace_quantized(quantized, before)
    expected = with_dequantized_weights(original, quantized)(torch.tensor([IDS]))[0]
    torch.testing.assert_close(twins.logits, expected, rtol=1e-5, atol=1e-5)
    assert largest == {}
    assert (twins.logits - before.logits).abs().max() > 1e-3  # it is another model


def test_the_model_itself_stays_as_it_is_and_shares_what_is_not_quantized():
    original = model()
    before, weights = original.trace(IDS).logits.clone(), weight_bytes(original.transformer)
    quantized = quantize(original, Choice(NF4))
    trace_quantized(quantized, original.trace(IDS))
    assert torch.equal(original.trace(IDS).logits, before)
    assert weight_bytes(original.transformer) == weights
    own, twins = dict(original.transformer.named_parameters()), dict(quantized.model.transformer.named_parameters())
    assert own.keys() == twins.keys()
    assert all(own[name].data_ptr() == twins[name].data_ptr() for name in own)


def test_what_enters_the_matrices_decides_on_the_outliers():
    original = model()
    before = original.trace(IDS)
    quantized = quantize(original, Choice(LLM_INT8, threshold=2.0))
    _, largest = trace_quantized(quantized, before)
    # what enters Q, K and V of the first block is what its norm gave, which nothing quantized has touched
    entering = torch.nn.functional.layer_norm(
        before["embed"], (24,), original.transformer.blocks[0].norm1.weight, original.transformer.blocks[0].norm1.bias
    )
    for matrix in ("query", "key", "value"):
        torch.testing.assert_close(largest[f"blocks.0.attn.{matrix}"], entering.abs().amax(0))
    columns = sum(
        len(quantized.tensors[name].before) * int(np.sum(values.numpy() >= 2.0)) for name, values in largest.items()
    )
    assert 0 < columns < sum(tensor.before.numel() for tensor in quantized.tensors.values())
    assert outlier_bytes(quantized, largest) == 2 * columns
    # all columns in 16 bits: nearly the model itself; none: as far off as int8 is
    apart = {
        threshold: (trace_quantized(quantize(original, Choice(LLM_INT8, threshold=threshold)), before)[0].logits
                    - before.logits).abs().max()
        for threshold in (1e-6, 100.0)
    }  # fmt: skip
    assert apart[1e-6] < 0.02 * before.logits.abs().max()
    assert apart[1e-6] < apart[100.0] / 3


@pytest.mark.parametrize("layout", ["decoder-only", "encoder-only", "encoder-decoder"])
def test_which_weights_are_taken(layout):
    original = model(layout=layout)
    stacks = {"encoder", "decoder"} if layout == "encoder-decoder" else {""}
    assert {place.stack for place in places(original.transformer)} == stacks

    def names(**choice):
        return set(quantize(original, Choice(INT8, **choice)).tensors)

    every = {name for name, module in original.transformer.named_modules() if isinstance(module, torch.nn.Linear)}
    assert names() == every
    assert names(which="attention") == {name for name in every if ".attn." in name or ".cross." in name}
    assert names(which="feed-forward") == {name for name in every if ".ffn." in name}
    for stack in stacks:
        prefix = f"{stack}.blocks.1." if stack else "blocks.1."
        one = {name for name in every if name.startswith(prefix)}
        assert names(which="one layer", layer=1, stack=stack) == one


def test_bytes_and_errors_are_those_of_the_matrices():
    quantized = quantize(model(), Choice(NF4))
    assert quantized.bytes_before == 4 * quantized.n_weights
    assert quantized.bytes_after == sum(tensor.bytes_after for tensor in quantized.tensors.values())
    before = np.concatenate([tensor.before.numpy().ravel() for tensor in quantized.tensors.values()]).astype(float)
    after = np.concatenate([tensor.after.dequantized().numpy().ravel() for tensor in quantized.tensors.values()])
    assert quantized.relative_error == pytest.approx(np.linalg.norm(after - before) / np.linalg.norm(before), rel=1e-4)
    for tensor in quantized.tensors.values():
        error = tensor.after.dequantized().numpy() - tensor.before.numpy()
        assert tensor.relative_error == pytest.approx(np.linalg.norm(error) / np.linalg.norm(tensor.before), rel=1e-4)
        assert tensor.largest_error == pytest.approx(np.abs(error).max(), rel=1e-5)


@pytest.mark.parametrize("layout", ["decoder-only", "encoder-decoder"])
def test_the_twins_pass_is_the_same_pass(layout):
    """The same texts under the same masks, seen through the same part."""
    original = model(layout=layout)
    given = {"target": [3, 4, 5]} if layout == "encoder-decoder" else {}
    part = "cross" if given else "self"
    before = original.trace(IDS, mask="bidirectional", **given).of(part)
    for scheme in SCHEMES:
        after, _ = trace_quantized(quantize(original, Choice(scheme)), before)
        assert (after.read, after.source, after.part) == (before.read, before.source, part)
        assert dict(after.mask_names) == dict(before.mask_names)
        changes = weight_changes(before, after)
        expected = np.abs(after.weights(1, 2).numpy() - before.weights(1, 2).numpy()).max()
        assert changes[1, 2] == pytest.approx(expected)


def test_progress_is_told_and_what_it_raises_ends_the_work():
    told = []
    quantize(model(), Choice(INT8), lambda *progress: told.append(progress))
    assert len(told) == 12
    assert [done for done, _ in told] == sorted(done for done, _ in told)
    assert {total for _, total in told} == {told[-1][0]}

    def stop(done, total):
        raise InterruptedError

    with pytest.raises(InterruptedError):
        quantize(model(), Choice(INT8), stop)


def test_what_cannot_be_quantized_is_refused():
    with pytest.raises(VizError, match="feed-forward"):
        quantize(model(d_ff=0), Choice(NF4, which="feed-forward"))
    for wrong in ({"scheme": "int3"}, {"which": "some"}, {"threshold": 0.0}, {"threshold": float("nan")}):
        with pytest.raises(VizError):
            Choice(**wrong)


def test_twins_are_bounded_and_go_with_their_model():
    original, shelf = model(), Twins(most=2)
    first = shelf.get(original, Choice(INT8))
    assert shelf.get(original, Choice(INT8)) is first
    shelf.get(original, Choice(NF4))
    shelf.get(original, Choice(NF4, which="attention"))
    assert not shelf.made(original, Choice(INT8))
    assert shelf.made(original, Choice(NF4))
    assert shelf.made(original, Choice(NF4, which="attention"))
    kept = weakref.ref(shelf.get(original, Choice(NF4)))
    del original, first
    gc.collect()
    assert kept() is None
