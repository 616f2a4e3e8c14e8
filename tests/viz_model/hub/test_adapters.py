"""Adapters beside a base model: merged as written out by hand, or refused by name; never ignored."""

import json

import pytest
import torch
from safetensors.torch import save_file
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM

import viz_model as vm
from viz_model.checkpoints.catalogue import describe

IDS = [5, 44, 17, 8, 60]
Q, DOWN = "model.layers.0.self_attn.q_proj", "model.layers.1.mlp.down_proj"


@pytest.fixture
def llama(tmp_path):
    torch.manual_seed(0)
    sizes = {"vocab_size": 67, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}
    config = LlamaConfig(**sizes, num_key_value_heads=2, intermediate_size=48, initializer_range=0.2)
    library = LlamaForCausalLM(config).eval()
    library.save_pretrained(tmp_path)
    return library


def halves(rank, **modules):
    """Random A and B by the names that adapters have for them."""
    torch.manual_seed(1)
    found = {}
    for name, (rows, columns) in modules.items():
        found[f"base_model.model.{name}.lora_A.weight"] = torch.randn(rank, columns)
        found[f"base_model.model.{name}.lora_B.weight"] = torch.randn(rows, rank)
    return found


def write(folder, tensors, **config):
    save_file(tensors, folder / "adapter_model.safetensors")
    said = {"peft_type": "LORA", "r": 3, "lora_alpha": 6, "bias": "none", "base_model_name_or_path": "org/base"}
    (folder / "adapter_config.json").write_text(json.dumps(said | config))


@torch.inference_mode()
@pytest.mark.parametrize(("config", "factor"), [({}, 2.0), ({"use_rslora": True}, 6 / 3**0.5)])
def test_lora_is_merged_as_by_hand(config, factor, llama, tmp_path):
    tensors = halves(3, **{Q: (32, 32), DOWN: (32, 48)})
    write(tmp_path, tensors, **config)
    before = llama(torch.tensor([IDS])).logits[0, -1].clone()
    for name in (Q, DOWN):
        a, b = (tensors[f"base_model.model.{name}.lora_{letter}.weight"] for letter in "AB")
        llama.get_submodule(name).weight += factor * torch.einsum("or,ri->oi", b, a)
    known = llama(torch.tensor([IDS])).logits[0, -1]
    model = vm.load(tmp_path)
    assert (known - before).abs().max() > 0.1
    torch.testing.assert_close(model.trace(IDS).logits, known, atol=1e-4, rtol=0)
    assert model.has_adapter


@torch.inference_mode()
def test_matrices_that_are_kept_turned(tmp_path):
    """GPT-2's are (in, out); what runs is x·W + 2·(x·Aᵀ)·Bᵀ, without a merge."""
    torch.manual_seed(0)
    library = GPT2LMHeadModel(GPT2Config(vocab_size=67, n_embd=16, n_layer=1, n_head=2, initializer_range=0.2)).eval()
    library.save_pretrained(tmp_path)
    name = "transformer.h.0.attn.c_attn"
    tensors = halves(3, **{name: (48, 16)})
    write(tmp_path, tensors, fan_in_fan_out=True)
    a, b = tensors.values()
    library.get_submodule(name).register_forward_hook(lambda _, given, out: out + 2 * given[0] @ a.T @ b.T)
    known = library(torch.tensor([IDS])).logits[0, -1]
    torch.testing.assert_close(vm.load(tmp_path).trace(IDS).logits, known, atol=1e-4, rtol=0)


@pytest.mark.parametrize(
    ("config", "sentence"),
    [
        ({"peft_type": "IA3"}, "of the kind 'IA3', and only 'LORA'"),
        ({"use_dora": True}, "asks for 'use_dora'"),
        ({"rank_pattern": {"q_proj": 2}}, "asks for 'rank_pattern'"),
        ({"bias": "all"}, "asks for 'bias'"),
        ({"r": 4}, r"q_proj' have the shapes \(3, 32\) and \(32, 3\), .* ask for \(4, 32\) and \(32, 4\)"),
        ({"r": 0}, "says r = 0"),
        ({"lora_alpha": "x"}, "lora_alpha = 'x'"),
    ],
)
@pytest.mark.usefixtures("llama")
def test_what_cannot_be_merged_exactly_is_refused_by_name(config, sentence, tmp_path):
    write(tmp_path, halves(3, **{Q: (32, 32)}), **config)
    with pytest.raises(vm.CheckpointError, match=f"cannot be merged: .*{sentence}"):
        vm.load(tmp_path)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda tensors: tensors.update(halves(3, **{"model.layers.7.mlp.up_proj": (48, 32)})), "no matrix of that"),
        (lambda tensors: tensors.update({"base_model.model.lm_head.weight": torch.ones(67, 32)}), "lm_head.weight"),
        (lambda tensors: tensors.popitem(), "one of the matrices A and B is missing"),
        (lambda tensors: next(iter(tensors.values())).fill_(torch.nan), "other than finite"),
    ],
)
@pytest.mark.usefixtures("llama")
def test_weights_of_an_adapter_that_do_not_fit(change, sentence, tmp_path):
    tensors = halves(3, **{Q: (32, 32)})
    change(tensors)
    write(tmp_path, tensors)
    with pytest.raises(vm.CheckpointError, match=sentence):
        vm.load(tmp_path)


@pytest.mark.usefixtures("llama")
def test_half_of_an_adapter(tmp_path):
    write(tmp_path, halves(3, **{Q: (32, 32)}))
    (tmp_path / "adapter_model.safetensors").write_bytes(b"no tensors")
    with pytest.raises(vm.CheckpointError, match=r"adapter_model\.safetensors"):
        vm.load(tmp_path)
    write(tmp_path, halves(3, **{Q: (32, 32)}))
    (tmp_path / "adapter_config.json").unlink()
    with pytest.raises(vm.CheckpointError, match=r"adapter_config\.json, which says how much"):
        vm.load(tmp_path)


@pytest.mark.parametrize("with_config", [False, True])
@pytest.mark.usefixtures("llama")
def test_an_adapter_alone_says_what_it_needs(with_config, tmp_path):
    write(tmp_path, halves(3, **{Q: (32, 32)}))
    (tmp_path / "model.safetensors").unlink()
    if not with_config:
        (tmp_path / "config.json").unlink()
    for read in (vm.load, describe):
        with pytest.raises(vm.CheckpointError, match=r"an adapter of the kind LORA and no model: .* org/base"):
            read(tmp_path)
