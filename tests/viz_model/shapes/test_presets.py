"""Sizes by formula: parameters against `transformers` models on the meta device, activations against a real pass."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.utils.flop_counter import FlopCounterMode
from transformers import (
    BertConfig,
    BertModel,
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
)

from tests.reference.name_maps import LLAMA_7B, gpt2_config, llama_config
from tests.support.properties import examples
from tests.support.small_models import configs, make_model, random_ids
from viz_model.errors import ConfigError
from viz_model.shapes import costs
from viz_model.shapes.presets import PRESETS, fitting_heads, resized
from viz_model.transformer import Transformer
from viz_model.transformer.hooks import capture


def transformers_model(name):
    """A `transformers` model of this name, without memory."""
    with torch.device("meta"):
        if name == "GPT-2 small":
            return GPT2LMHeadModel(GPT2Config())
        if name == "GPT-2 XL":
            return GPT2LMHeadModel(GPT2Config(n_layer=48, n_head=25, n_embd=1600))
        if name == "BERT-base":
            return BertModel(BertConfig())
        return LlamaForCausalLM(LlamaConfig(vocab_size=32000, max_position_embeddings=2048, **LLAMA_7B))


@pytest.mark.parametrize("name", PRESETS)
def test_published_counts_to_the_last_digit(name):
    preset = PRESETS[name]
    ours = sum(costs.parameters_by_part(preset.config).values())
    published = {"GPT-2 small": 124_439_808, "GPT-2 XL": 1_557_611_200}
    published |= {"BERT-base": 109_482_240, "Llama-7B": 6_738_415_616}
    assert preset.published == published[name] == transformers_model(name).num_parameters()
    assert ours + sum(count for _, _, count in preset.beyond) == preset.published


def test_what_bert_has_beyond_ours():
    model = transformers_model("BERT-base")
    pooler = sum(parameter.numel() for parameter in model.pooler.parameters())
    kinds = model.embeddings.token_type_embeddings.weight.numel()
    assert [count for _, _, count in PRESETS["BERT-base"].beyond] == [kinds, pooler]


def test_parts_of_gpt2_and_llama():
    gpt2, llama = transformers_model("GPT-2 XL"), transformers_model("Llama-7B")

    def count(model, *words):
        return sum(p.numel() for name, p in model.named_parameters() if any(word in name for word in words))

    parts = costs.parameters_by_part(PRESETS["GPT-2 XL"].config)
    assert parts["attention"] == count(gpt2, ".attn.")
    assert parts["feed-forward"] == count(gpt2, ".mlp.")
    assert parts["norms"] == count(gpt2, "ln_")
    assert (parts["token embedding"], parts["positions"]) == (count(gpt2, "wte"), count(gpt2, "wpe"))
    assert parts["unembedding"] == 0  # tied
    parts = costs.parameters_by_part(PRESETS["Llama-7B"].config)
    assert parts["attention"] == count(llama, "self_attn")
    assert parts["feed-forward"] == count(llama, ".mlp.")
    assert parts["norms"] == count(llama, "norm")
    assert (parts["token embedding"], parts["unembedding"]) == (count(llama, "embed_tokens"), count(llama, "lm_head"))


@examples(60)
@given(config=configs())
def test_parts_add_up_to_what_a_model_holds(config):
    with torch.device("meta"):
        held = sum(parameter.numel() for parameter in Transformer(config).parameters())
    assert sum(costs.parameters_by_part(config).values()) == held


@examples(40)
@given(config=configs(), batch=st.integers(1, 3), length=st.integers(1, 6))
def test_activations_and_operations_are_those_of_a_real_pass(config, batch, length):
    model, ids = make_model(config), random_ids(batch, length)
    with capture("*") as found, FlopCounterMode(display=False) as counter:
        model(ids, logits="all")
    parts = costs.activations_by_part(config, batch, length)
    assert sum(parts.values()) == held_numbers(found)
    squares = [t.numel() for name, t in found.items() if name.endswith((".raw", ".scores", ".weights"))]
    assert parts["three T² matrices"] == sum(squares)
    assert costs.score_numbers(config, batch, length) == sum(squares) / 3
    assert sum(costs.flops_by_part(config, batch, length).values()) == counter.get_total_flops()
    with capture("*") as found, FlopCounterMode(display=False) as counter:
        model.hidden(ids)
    assert sum(costs.activations_by_part(config, batch, length, logits=False).values()) == held_numbers(found)
    assert sum(costs.flops_by_part(config, batch, length, logits=False).values()) == counter.get_total_flops()


def held_numbers(found):
    """The numbers in all distinct memory of a captured pass, booleans left out; concatenated heads have no site."""
    joined = [tensor.transpose(1, 2).flatten(-2) for name, tensor in found.items() if name.endswith(".mixed")]
    floats = [tensor for tensor in (*found.values(), *joined) if tensor.is_floating_point()]
    memory = {tensor.untyped_storage().data_ptr(): tensor.untyped_storage().nbytes() for tensor in floats}
    return sum(memory.values()) // 4


def test_activations_of_published_models_are_known_numbers():
    gpt2 = resized(PRESETS["GPT-2 small"], layers=3, heads=12, width=768, length=4096)
    bert, llama = PRESETS["BERT-base"], PRESETS["Llama-7B"]
    # a block: 2 norms, Q, K, V, mixed, joined, 2 branches, 2 streams of C; F; 3 squares. Outside: 4 of C; V
    assert 4096 * (3 * (11 * 768 + 3072 + 3 * 12 * 4096) + 4 * 768 + 50257) == 2_171_932_672
    assert sum(costs.activations_by_part(gpt2, 1, 4096).values()) == 2_171_932_672
    assert sum(costs.activations_by_part(bert.config, 1, 512).values()) == 191_394_816
    assert sum(costs.activations_by_part(bert.config, 1, 512, logits=False).values()) == 191_394_816 - 512 * 30522
    assert sum(costs.activations_by_part(llama.config, 1, 2048).values()) == 17_178_296_320


def test_bert_has_the_operations_of_its_transformers_model_without_the_pooler():
    preset, batch, length = PRESETS["BERT-base"], 2, 32
    with torch.device("meta"):
        model = BertModel(BertConfig(attn_implementation="eager")).eval()
        ids = torch.zeros(batch, length, dtype=torch.long)
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        model(ids)
    pooler = 2 * batch * 768**2
    assert not preset.logits
    ours = costs.flops_by_part(preset.config, batch, length, logits=preset.logits)
    assert sum(ours.values()) + pooler == counter.get_total_flops()


def test_without_logits_the_crossing_is_at_six_widths():
    config = PRESETS["BERT-base"].config
    assert costs.crossover_length(config, logits=False) == 6 * 768  # 24 C² against 4 C·T
    assert costs.crossover_length(config) > 6 * 768


def test_the_length_from_which_t_squared_costs_more():
    config = PRESETS["GPT-2 small"].config
    length = costs.crossover_length(config)
    # per token and layer 24 C² + the unembedding's 2·C·V against 4·C·T: T = 6 C + V / (2 L)
    assert length == pytest.approx(6 * 768 + 50257 / 24)
    parts = costs.flops_by_part(config, 1, round(length))
    assert parts["scores and mixing"] == pytest.approx(sum(parts.values()) / 2, rel=1e-3)


def test_a_resized_preset_is_the_transformers_model_of_that_size():
    sizes = {"layers": 3, "heads": 4, "width": 64, "length": 8}
    with torch.device("meta"):
        gpt2 = GPT2LMHeadModel(GPT2Config(n_layer=3, n_head=4, n_embd=64))
        llama = LlamaForCausalLM(
            LlamaConfig(
                vocab_size=32000,
                max_position_embeddings=2048,
                hidden_size=64,
                intermediate_size=172,
                num_hidden_layers=3,
                num_attention_heads=4,
            )
        )
    for name, model, like in (("GPT-2 small", gpt2, gpt2_config), ("Llama-7B", llama, llama_config)):
        config = resized(PRESETS[name], **sizes)
        assert (config.d_ff, config.n_layers, config.d_head) == (like(model.config).d_ff, 3, 16)
        assert sum(costs.parameters_by_part(config).values()) == model.num_parameters()


def test_sizes_that_cannot_be_are_refused_and_others_named():
    with pytest.raises(ConfigError, match="cannot be split"):
        resized(PRESETS["GPT-2 small"], layers=2, heads=7, width=768, length=8)
    assert fitting_heads(768, 7, 64) == [6, 8]
    assert fitting_heads(96, 31, 64, even=True) == [24, 48]
    assert fitting_heads(64, 1, 64) == [2]


def test_learned_positions_grow_with_a_longer_prompt_and_only_then():
    for length, rows in ((512, 1024), (4096, 4096)):
        config = resized(PRESETS["GPT-2 small"], layers=12, heads=12, width=768, length=length)
        assert costs.parameters_by_part(config)["positions"] == rows * 768
