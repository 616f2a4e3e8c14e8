"""Twins of models of the transformers library against the library's own code with the rounded weights put in.

Also what a cache saves of the library's encoder-decoders, against torch's count of operations.
"""

import pytest
import torch
import transformers
from torch.utils.flop_counter import FlopCounterMode

import viz_model as vm
from tests.reference.families import FAMILIES as SMALL
from tests.reference.families import save_small
from viz_model import hub
from viz_model.quantization.savings import PLAIN, Way, compare_ways
from viz_model.quantization.twin import (
    ATTENTION,
    INT8,
    LLM_INT8,
    NF4,
    ONE_LAYER,
    Choice,
    places,
    quantize,
    source_weight_bytes,
    trace_quantized,
)
from viz_model.transformer.cache import KVCache
from viz_model.transformer.hooks import capture

IDS, TARGET = [3, 5, 7, 9, 11, 4], [2, 4, 6]
V, C, F = 31, 24, 40


def gpt2():
    return transformers.GPT2LMHeadModel(
        transformers.GPT2Config(
            vocab_size=V, n_embd=C, n_layer=2, n_head=3, n_positions=16, bos_token_id=0, eos_token_id=0
        )
    )


def llama():
    return transformers.LlamaForCausalLM(
        transformers.LlamaConfig(
            vocab_size=V,
            hidden_size=C,
            intermediate_size=F,
            num_hidden_layers=2,
            num_attention_heads=4,
            num_key_value_heads=2,
        )
    )


def bert():
    return transformers.BertForMaskedLM(
        transformers.BertConfig(
            vocab_size=V, hidden_size=C, intermediate_size=F, num_hidden_layers=2, num_attention_heads=3
        )
    )


def t5():
    return transformers.T5ForConditionalGeneration(
        transformers.T5Config(vocab_size=V, d_model=C, d_ff=F, d_kv=8, num_layers=2, num_heads=3)
    )


# Linear layers of the blocks, and those of attention among them: in GPT-2, Q, K and V are one matrix.
FAMILIES = {gpt2: (8, 4), llama: (14, 8), bert: (12, 8), t5: (32, 24)}


@pytest.fixture(params=FAMILIES, ids=lambda family: family.__name__)
def pair(request, tmp_path):
    """The library's model, and ours of the same folder."""
    torch.manual_seed(1)
    theirs = request.param().eval()
    with torch.no_grad():
        for parameter in theirs.parameters():
            parameter.normal_(0, 0.2)
    theirs.save_pretrained(tmp_path)
    return request.param, theirs, hub.load(tmp_path, request.param.__name__)


@torch.no_grad()
def test_the_twin_is_the_librarys_model_with_rounded_weights(pair):
    family, theirs, ours = pair
    inputs, given = {"input_ids": torch.tensor([IDS])}, {}
    if family is t5:
        inputs["decoder_input_ids"], given = torch.tensor([TARGET]), {"target": TARGET}
    before = ours.trace(IDS, **given)
    every, attention = FAMILIES[family]
    assert len(places(ours.transformer)) == every
    assert len(quantize(ours, Choice(INT8, ATTENTION)).tensors) == attention
    exact = {name: parameter.clone() for name, parameter in theirs.named_parameters()}
    for scheme in (INT8, NF4):
        quantized = quantize(ours, Choice(scheme))
        parameters = dict(theirs.named_parameters())
        for name, tensor in quantized.tensors.items():
            rounded = tensor.after.dequantized()
            parameters[f"{name}.weight"].copy_(rounded.T if family is gpt2 else rounded)
        expected = theirs(**inputs).logits[0, -1]
        after, _ = trace_quantized(quantized, before)
        torch.testing.assert_close(after.logits, expected, rtol=1e-4, atol=1e-5)
        assert after.tensors.keys() == before.tensors.keys()  # hook sites on replaced layers are there too
        for name, tensor in quantized.tensors.items():
            original = exact[f"{name}.weight"]
            assert torch.equal(tensor.before, original.T if family is gpt2 else original)
    assert torch.equal(ours.trace(IDS, **given).logits, before.logits)  # and the model is as it was
    apart = [
        (trace_quantized(quantize(ours, Choice(LLM_INT8, threshold=threshold)), before)[0].logits - before.logits)
        for threshold in (1e-6, 100.0)
    ]
    assert apart[0].abs().max() < apart[1].abs().max() / 2  # all columns in 16 bits, or all in int8


@torch.no_grad()
def test_layers_that_share_a_matrix_share_its_codes(tmp_path):
    """ALBERT's two groups of two layers: one layer alone cannot be stored otherwise than the rest of its group."""
    save_small(SMALL["ALBERT"], tmp_path)
    model, theirs = vm.load(tmp_path), SMALL["ALBERT"].kind.from_pretrained(tmp_path, dtype=torch.float32).eval()
    quantized = quantize(model, Choice(INT8, ONE_LAYER, layer=1))
    assert {tensor.place.layer for tensor in quantized.tensors.values()} == {0, 1}
    group = theirs.albert.encoder.albert_layer_groups[0]
    matrices = {name: matrix for name, matrix in group.named_parameters() if matrix.dim() == 2}
    assert quantized.n_weights == sum(matrix.numel() for matrix in matrices.values())
    assert quantized.bytes_before == 4 * quantized.n_weights
    for name, matrix in matrices.items():
        own = f"albert.encoder.albert_layer_groups.0.{name}".removesuffix(".weight")
        matrix.copy_(quantized.tensors[own].after.dequantized())
    after, _ = trace_quantized(quantized, model.trace(IDS))
    torch.testing.assert_close(after.logits, theirs(torch.tensor([IDS])).logits[0, -1], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("family", ["T5", "BART", "Marian", "mBART", "Pegasus"])
def test_operations_and_weights_of_two_stacks_with_and_without_a_cache(family, tmp_path):
    save_small(SMALL[family], tmp_path)
    model = vm.load(tmp_path)
    rows = {row.way: row for row in compare_ways(model, quantize(model, Choice(INT8)), (3, 5, 7, 9), 2)}
    step = next(model.generate((3, 5, 7, 9), max_new_tokens=1, temperature=0.0))

    def counted(passes, **cache):
        with FlopCounterMode(display=False) as counter, torch.inference_mode():
            for new in passes:
                with capture("*.weights"):  # written out
                    model.transformer(torch.tensor([new]), source=torch.tensor([[3, 5, 7, 9]]), **cache)
        return counter.get_total_flops()

    assert rows[PLAIN].flops == counted([list(step.ids[:1]), list(step.ids)])
    cache = KVCache(model.config, 2, source=4)
    assert rows[Way(cache=True)].flops == counted([[token] for token in step.ids], cache=cache)
    theirs = model.transformer.model
    encoder = sum(parameter.nbytes for parameter in theirs.get_encoder().parameters())
    table = theirs.get_input_embeddings().weight.nbytes  # the decoder's too
    cross = [child.weight for name, child in theirs.named_modules()
             if "decoder" in name and ("encoder_attn." in name or "EncDecAttention." in name)
             and name.rpartition(".")[2] in ("k", "v", "k_proj", "v_proj")]  # fmt: skip
    biases = 0 if family == "T5" else sum(4 * len(weight) for weight in cross)
    expected = encoder - table + sum(weight.nbytes for weight in cross) + biases
    assert source_weight_bytes(model.transformer) == expected
    assert rows[Way(cache=True)].largest_difference < 1e-3
