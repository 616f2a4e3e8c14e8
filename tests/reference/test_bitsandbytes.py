"""Quantized matrices against bitsandbytes, the library of both papers' first author, on the CPU."""

import copy

import bitsandbytes.functional as bitsandbytes
import pytest
import torch
from bitsandbytes.nn import Int8Params, Linear4bit, Linear8bitLt, Params4bit
from torch import nn

import viz_model as vm
from viz_model.quantization.codes import NF4_LEVELS, Int8Rows, NF4Blocks, float8_levels
from viz_model.quantization.products import DequantizingProduct, MixedInt8Product
from viz_model.quantization.twin import INT8, NF4, Choice, quantize
from viz_model.transformer.hooks import capture

SHAPES = [(256, 192), (64, 512), (33, 66), (7, 10), (1, 130)]  # whole blocks, and last ones that are not full


def weights(shape, seed=0):
    """Rows of very different size, one of zeros."""
    generator = torch.Generator().manual_seed(seed)
    matrix = torch.randn(shape, generator=generator) * torch.rand(shape[0], 1, generator=generator) ** 3
    matrix[shape[0] // 2] *= shape[0] == 1
    return matrix


def written_out(packed, state):
    """What the library's own codes stand for: the level of each, times the constant of its block of 64."""
    codes = torch.stack((packed >> 4, packed & 15), -1).flatten()[: state.shape.numel()].int()
    absmax = bitsandbytes.dequantize_blockwise(state.absmax, state.state2) + state.offset
    return (state.code[codes] * absmax.repeat_interleave(64)[: len(codes)]).view(state.shape)


def is_right_about(shape):
    """Whether its `dequantize_4bit` can be believed: with AVX-512 it is wrong where a block of 64 ends inside a row."""
    return shape[1] % 64 == 0


def test_the_levels_of_nf4_and_of_its_constants():
    assert torch.equal(NF4_LEVELS, bitsandbytes.get_4bit_type("nf4", device="cpu"))
    assert torch.equal(float8_levels(), bitsandbytes.create_dynamic_map())


@pytest.mark.parametrize("shape", SHAPES)
def test_nf4(shape):
    matrix = weights(shape)
    ours = NF4Blocks.of(matrix)
    packed, state = bitsandbytes.quantize_4bit(matrix, blocksize=64, compress_statistics=True, quant_type="nf4")
    assert torch.equal(ours.stored[: packed.numel()], packed.flatten())
    constants = ours.block_constants
    assert torch.equal(constants.absmax, state.state2.absmax)
    assert torch.equal(constants.mean, state.offset)
    # Its search for the nearest of 256 levels is approximate: sometimes one off, and then further away.
    apart = constants.stored.int() - state.absmax.int()
    assert apart.abs().max() <= 1
    assert (apart != 0).float().mean() < 0.02
    same_constants = (apart == 0).repeat_interleave(64)[: matrix.numel()].view(shape)
    theirs = written_out(packed, state)
    if is_right_about(shape):
        assert torch.equal(theirs, bitsandbytes.dequantize_4bit(packed, state))
    assert torch.equal(ours.dequantized()[same_constants], theirs[same_constants])
    assert (ours.dequantized() - theirs).abs().max() <= 0.04 * matrix.abs().max()


@pytest.mark.parametrize("shape", SHAPES)
def test_int8(shape):
    matrix = weights(shape, 1)
    matrix[matrix.abs().amax(-1) == 0] = 1e-3  # bitsandbytes divides rows of zeros by zero
    codes, absmax, _ = bitsandbytes.int8_vectorwise_quant(matrix)
    ours = Int8Rows.of(matrix)
    assert torch.equal(ours.stored, codes)
    assert torch.equal(ours.absmax, absmax)
    theirs = torch.ops.bitsandbytes.int8_vectorwise_dequant.default(codes, absmax)
    torch.testing.assert_close(ours.dequantized(), theirs, rtol=1e-6, atol=0)


def linear_and_tokens(features=48):
    """A linear layer, and eleven tokens whose columns 3 and 40 reach the threshold of 6."""
    torch.manual_seed(3)
    linear, tokens = nn.Linear(features, 20), torch.randn(11, features)
    tokens[4, 3], tokens[7, 40], tokens[0, 9] = -60.0, 6.0, 5.9
    return linear.requires_grad_(False), tokens


def int8_product(linear, threshold):
    return MixedInt8Product(Int8Rows.of(linear.weight), linear.bias, linear.weight, "linear", threshold)


def test_products_of_int8_without_outliers():
    linear, tokens = linear_and_tokens()
    ours = int8_product(linear, threshold=100.0)
    x, x_absmax, _ = bitsandbytes.int8_vectorwise_quant(tokens)
    w, w_absmax, _ = bitsandbytes.int8_vectorwise_quant(linear.weight)
    products = bitsandbytes.int8_linear_matmul(x, w)
    theirs = bitsandbytes.int8_mm_dequant(products, x_absmax, w_absmax, bias=linear.bias)
    torch.testing.assert_close(ours(tokens), theirs.float(), rtol=1e-3, atol=1e-3)  # theirs is float16


def test_outlier_columns_are_those_of_bitsandbytes_and_kept_in_16_bits():
    linear, tokens = linear_and_tokens()
    ours = int8_product(linear, threshold=6.0)
    with capture("linear.largest") as found:
        result = ours(tokens[None])[0]  # (B,T,N)
    _, _, columns = bitsandbytes.int8_vectorwise_quant(tokens.clone(), threshold=6.0)
    assert (found["linear.largest"] >= 6.0).nonzero().flatten().tolist() == columns.tolist() == [3, 40]
    regular = tokens.clone()
    regular[:, columns] = 0
    x, x_absmax, _ = bitsandbytes.int8_vectorwise_quant(regular)
    w, w_absmax, _ = bitsandbytes.int8_vectorwise_quant(linear.weight)
    in_int8 = bitsandbytes.int8_mm_dequant(bitsandbytes.int8_linear_matmul(x, w), x_absmax, w_absmax).double()
    in_16_bits = tokens[:, columns].half().double() @ linear.weight[:, columns].half().double().T
    torch.testing.assert_close(result.double(), in_int8 + in_16_bits + linear.bias.double(), rtol=2e-3, atol=2e-3)
    exact = linear(tokens)
    without = int8_product(linear, threshold=100.0)(tokens)
    assert (result - exact).norm() < 0.6 * (without - exact).norm()  # what the outliers are kept for


@pytest.mark.parametrize("features", [48, 64])
def test_a_layer_of_nf4_computes_with_what_the_codes_stand_for(features):
    linear, tokens = linear_and_tokens(features)
    packed, state = bitsandbytes.quantize_4bit(linear.weight, blocksize=64, compress_statistics=True, quant_type="nf4")
    matrix = written_out(packed, state)
    if is_right_about(matrix.shape):
        assert torch.equal(matrix, bitsandbytes.dequantize_4bit(packed, state))
    theirs = tokens.double() @ matrix.double().T + linear.bias.double()
    ours = DequantizingProduct(NF4Blocks.of(linear.weight), linear.bias)(tokens)
    torch.testing.assert_close(ours.double(), theirs, rtol=1e-5, atol=1e-5)


def linear_4bit(linear):
    theirs = Linear4bit(linear.in_features, linear.out_features, compute_dtype=torch.float32, quant_type="nf4")
    theirs.weight = Params4bit(linear.weight.data.clone(), requires_grad=False, quant_type="nf4")
    theirs.bias = linear.bias
    return theirs.to("cpu")  # which quantizes


def linear_8bit(linear):
    theirs = Linear8bitLt(linear.in_features, linear.out_features, has_fp16_weights=False)
    theirs.weight = Int8Params(linear.weight.data.clone(), requires_grad=False, has_fp16_weights=False)
    theirs.bias = linear.bias
    return theirs.to("cpu")


@pytest.mark.parametrize(("scheme", "layer", "share"), [(NF4, linear_4bit, 0.02), (INT8, linear_8bit, 1e-3)])
def test_the_whole_of_tiny_gpt_against_their_layers(scheme, layer, share):
    """Their layers in the place of every linear layer of the blocks; `share`: of what quantization changes.

    Of NF4 the products are equal; what is left comes from the constants, of which they find some one level off (see
    `test_nf4`).
    """
    model = vm.load("tiny-gpt")
    ids = torch.tensor([model.encode("The red fox met a grey goose by the old mill. The red fox met")])
    theirs = copy.deepcopy(model.transformer)
    for name, module in list(theirs.blocks.named_modules()):
        if isinstance(module, nn.Linear):
            parent, _, leaf = name.rpartition(".")
            setattr(theirs.blocks.get_submodule(parent), leaf, layer(module))
    with torch.inference_mode():
        exact, expected = model.transformer(ids), theirs(ids)
        found = quantize(model, Choice(scheme)).model.transformer(ids)
    changed = (expected - exact).abs().max()
    assert changed > 0.01
    assert (found - expected).abs().max() < share * changed
