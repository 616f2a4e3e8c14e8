"""Folders and files of the transformers library: what loads, and what is said of those that do not."""

import json

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import (
    AutoModelForCausalLM,
    BloomConfig,
    BloomForCausalLM,
    FalconConfig,
    FalconForCausalLM,
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    LlamaModel,
    MPNetConfig,
    MPNetForMaskedLM,
    MPNetModel,
    T5Config,
    T5ForConditionalGeneration,
)

import viz_model as vm
from tests.support.damage import full_disk
from tests.support.gguf_files import write_gguf
from viz_model.hub import convert_gguf, is_hub, read_facts

SIZES = {"vocab_size": 67, "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
         "num_key_value_heads": 2, "intermediate_size": 96, "max_position_embeddings": 32}  # fmt: skip
IDS = [5, 44, 17, 8, 60]
WEIGHTS = "model.safetensors"


@pytest.fixture(scope="module")
def llama():
    torch.manual_seed(0)
    return LlamaForCausalLM(LlamaConfig(**SIZES, initializer_range=0.2)).eval()


@pytest.fixture
def folder(llama, tmp_path):
    llama.save_pretrained(tmp_path)
    return tmp_path


@torch.inference_mode()
def logits_of(library):
    return library(torch.tensor([IDS])).logits[0, -1]


def test_a_folder_without_tokenizer_is_traced_by_ids(folder, llama):
    model = vm.load(folder)
    assert (model.name, model.tokenizer) == (folder.name, None)
    torch.testing.assert_close(model.trace(IDS).logits, logits_of(llama), atol=1e-5, rtol=0)
    with pytest.raises(vm.PromptError, match="no tokenizer"):
        model.trace("text")


def test_sharded_weights(llama, tmp_path):
    llama.save_pretrained(tmp_path, max_shard_size="40KB")
    assert len(list(tmp_path.glob("*.safetensors"))) > 2
    torch.testing.assert_close(vm.load(tmp_path).trace(IDS).logits, logits_of(llama), atol=1e-5, rtol=0)


def test_half_precision_is_computed_in_float32(llama, tmp_path):
    LlamaForCausalLM.from_pretrained(save(llama, tmp_path), dtype=torch.bfloat16).save_pretrained(tmp_path / "half")
    model = vm.load(tmp_path / "half")
    known = LlamaForCausalLM.from_pretrained(tmp_path / "half", dtype=torch.float32)
    torch.testing.assert_close(model.trace(IDS).logits, logits_of(known), atol=1e-5, rtol=0)
    assert model.stored_as == "bfloat16"
    assert model.trace(IDS).q(0).dtype == torch.float32


def save(library, folder):
    library.save_pretrained(folder / "whole")
    return folder / "whole"


@torch.inference_mode()
def test_a_model_without_an_unembedding(tmp_path):
    torch.manual_seed(1)
    bare = LlamaModel(LlamaConfig(**SIZES, initializer_range=0.2)).eval()
    bare.save_pretrained(tmp_path)
    model = vm.load(tmp_path)
    trace = model.trace(IDS)
    torch.testing.assert_close(trace["final_norm"], bare(torch.tensor([IDS])).last_hidden_state[0], atol=1e-5, rtol=0)
    assert not model.config.has_unembedding
    with pytest.raises(vm.VizError, match="predicts no token"):
        _ = trace.logits


def rewrite(folder, change):
    tensors = load_file(folder / WEIGHTS)
    change(tensors)
    save_file(tensors, folder / WEIGHTS, metadata={"format": "pt"})


@torch.inference_mode()
def test_an_encoder_that_was_saved_without_its_head(tmp_path):
    """all-mpnet-base-v2 names MPNetForMaskedLM, and its file holds the encoder alone."""
    sizes = {name: size for name, size in SIZES.items() if name != "num_key_value_heads"}
    library = MPNetModel(MPNetConfig(**sizes, initializer_range=0.2, architectures=["MPNetForMaskedLM"])).eval()
    library.save_pretrained(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(config | {"architectures": ["MPNetForMaskedLM"]}))
    model = vm.load(tmp_path)
    assert not model.config.has_unembedding
    known = library(torch.tensor([IDS]))[0][0]
    torch.testing.assert_close(model.trace(IDS)["final_norm"], known, atol=1e-4, rtol=0)


def test_half_a_head_is_none(tmp_path):
    sizes = {name: size for name, size in SIZES.items() if name != "num_key_value_heads"}
    MPNetForMaskedLM(MPNetConfig(**sizes)).save_pretrained(tmp_path)
    tensors = load_file(tmp_path / WEIGHTS)
    del tensors["lm_head.dense.weight"]
    save_file(tensors, tmp_path / WEIGHTS, {"format": "pt"})
    with pytest.raises(vm.CheckpointError, match=r"'lm_head\.dense\.weight' is missing"):
        vm.load(tmp_path)


def test_what_a_config_leaves_out_is_what_the_library_fills_in(tmp_path):
    """BLOOM writes n_embed, Falcon no longest text and one key for all heads."""
    BloomForCausalLM(BloomConfig(vocab_size=67, hidden_size=24, n_layer=2, n_head=4)).save_pretrained(tmp_path)
    said = json.loads((tmp_path / "config.json").read_text())
    said = {"n_embed": said.pop("hidden_size"), "seq_length": 99} | said
    (tmp_path / "config.json").write_text(json.dumps(said))
    assert (read_facts(tmp_path).d_model, vm.load(tmp_path).config.context_length) == (24, 99)
    falcon = FalconConfig(vocab_size=67, hidden_size=24, num_hidden_layers=2, num_attention_heads=4)
    FalconForCausalLM(falcon).save_pretrained(tmp_path)
    said = json.loads((tmp_path / "config.json").read_text())
    said.pop("max_position_embeddings")
    (tmp_path / "config.json").write_text(json.dumps(said))
    assert read_facts(tmp_path).n_kv_heads == 1
    assert vm.load(tmp_path).config.context_length == falcon.max_position_embeddings


def test_a_missing_tensor_is_named(folder):
    rewrite(folder, lambda tensors: tensors.pop("model.layers.1.self_attn.k_proj.weight"))
    with pytest.raises(vm.CheckpointError, match=r"model\.layers\.1\.self_attn\.k_proj\.weight' is missing"):
        vm.load(folder)


def test_a_misshapen_tensor_is_named(folder):
    rewrite(folder, lambda tensors: tensors.update({"model.norm.weight": torch.ones(63)}))
    with pytest.raises(vm.CheckpointError, match=r"model\.norm\.weight.*63.*64"):
        vm.load(folder)


def test_a_number_that_is_none_is_found(folder):
    rewrite(folder, lambda tensors: tensors["model.layers.0.mlp.up_proj.weight"].view(-1)[7:8].fill_(torch.nan))
    with pytest.raises(vm.CheckpointError, match=r"mlp\.up_proj\.weight'.*other than finite"):
        vm.load(folder)


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("eos_token_id", {"a": 1}, "the id of a token"),
        ("forced_bos_token_id", "x", "the id of a token"),
        ("suppress_tokens", [1.5], "the id of a token"),
        ("bad_words_ids", [[1], ["a"]], "a list of lists of ids"),
        ("max_length", "long", "a whole number"),
        ("no_repeat_ngram_size", -1, "a whole number"),
    ],
)
def test_a_rule_of_writing_that_cannot_be_is_named(folder, name, value, words):
    """The library reads these files without a word, and fails when a text is at its end."""
    (folder / "generation_config.json").write_text(json.dumps({name: value}))
    with pytest.raises(vm.CheckpointError, match=f"say that {name} is .*must be {words}|cannot be read"):
        vm.load(folder)
    (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": [1, 2]}))
    assert vm.load(folder).end_tokens == {1, 2}


def test_a_file_that_was_cut_off(folder):
    whole = (folder / WEIGHTS).read_bytes()
    (folder / WEIGHTS).write_bytes(whole[: len(whole) // 2])
    with pytest.raises(vm.CheckpointError, match="is damaged or cut off"):
        vm.load(folder)


def test_weights_are_never_unpickled(folder):
    torch.save(load_file(folder / WEIGHTS), folder / "pytorch_model.bin")
    (folder / WEIGHTS).unlink()
    with pytest.raises(vm.CheckpointError, match=r"pytorch_model\.bin, a format that can run code"):
        vm.load(folder)
    (folder / "pytorch_model.bin").unlink()
    with pytest.raises(vm.CheckpointError, match="no weights"):
        vm.load(folder)


def change_config(folder, **values):
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | values))


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"model_type": "llama9"}, "cannot be read by transformers"),
        ({"hidden_size": None}, "hidden_size is missing"),
        ({"hidden_size": "many"}, "says that hidden_size is 'many', but it must be a whole number"),
        ({"num_key_value_heads": [2, 1]}, r"num_key_value_heads is '\[2, 1\]', but it must be a whole number"),
        ({"architectures": 5}, "cannot|can read"),
        (
            {"vocab_size": 10**8},
            "says that vocab_size is 100,000,000: at least 6,400,000,000 numbers, but all",
        ),
        ({"num_hidden_layers": 10**4}, "says that num_hidden_layers is 10,000, but all its weights are 21 tensors"),
        ({"num_key_value_heads": 10**8}, "says that num_key_value_heads is 100,000,000: at least"),
        ({"num_key_value_heads": 0}, "says that num_key_value_heads is '0', but it must be a whole number, at least 1"),
        ({"head_dim": 0}, "says that head_dim is '0', but it must be a whole number, at least 1"),
        ({"intermediate_size": 10**8}, "says that intermediate_size is 100,000,000"),
        ({"num_attention_heads": 10**8, "head_dim": 16}, "says that num_attention_heads is 100,000,000"),
        ({"num_attention_heads": 5}, "cannot"),
        ({"quantization_config": {"quant_method": "gptq", "bits": 4}}, "quantized by gptq"),
        ({"auto_map": {"AutoModelForCausalLM": "evil.Model"}, "model_type": "evil"}, "cannot|can read"),
    ],
)
def test_a_config_that_cannot_be_used(values, sentence, folder):
    change_config(folder, **values)
    (folder / "evil.py").write_text("raise SystemExit('code of a model was run')")
    with pytest.raises(vm.CheckpointError, match=sentence):
        vm.load(folder)


@pytest.mark.parametrize(
    ("values", "shapes"),
    [
        ({"intermediate_size": 10**6}, r"\(64, 96\), but the config asks for \(64, 1000000\)"),
        ({"num_key_value_heads": 10**4}, r"\(32, 64\), but the config asks for \(160000, 64\)"),
    ],
)
def test_sizes_are_compared_before_they_take_memory(values, shapes, folder, monkeypatch):
    change_config(folder, **values)
    monkeypatch.setattr(LlamaForCausalLM, "from_pretrained", None)  # that is where the library takes it
    with pytest.raises(vm.CheckpointError, match=shapes):
        vm.load(folder)


def test_positions_and_a_source_are_sizes_too(tmp_path):
    sizes = {"vocab_size": 67, "n_embd": 16, "n_layer": 1, "n_head": 2, "n_positions": 32}
    GPT2LMHeadModel(GPT2Config(**sizes)).save_pretrained(tmp_path / "learned")
    change_config(tmp_path / "learned", n_positions=10**8)
    with pytest.raises(vm.CheckpointError, match=r"'transformer.wpe.weight' .* asks for \(100000000, 16\)"):
        vm.load(tmp_path / "learned")
    sizes = {"vocab_size": 67, "d_model": 16, "d_kv": 8, "d_ff": 24, "num_layers": 1, "num_heads": 2}
    T5ForConditionalGeneration(T5Config(**sizes, decoder_start_token_id=0)).save_pretrained(tmp_path / "pair")
    for layers, sentence in ((10**6, "num_layers is 1,000,000, but all its weights are"), (0, "num_layers is '0'")):
        change_config(tmp_path / "pair", num_layers=layers)
        with pytest.raises(vm.CheckpointError, match=sentence):
            vm.load(tmp_path / "pair")


def test_gguf_loads_and_converts(llama, tmp_path):
    path = tmp_path / "small.gguf"
    write_gguf(path, llama)
    assert is_hub(path)
    assert is_hub(tmp_path)
    before, model = read_facts(path), vm.load(path)
    assert (before.n_heads, before.n_kv_heads) == (model.config.n_heads, model.config.n_kv_heads) == (4, 2)
    torch.testing.assert_close(model.trace(IDS).logits, logits_of(llama), atol=1e-5, rtol=0)
    assert model.tokenizer.token_bytes(2) == b" "
    assert model.end_tokens == {1}
    convert_gguf(path, tmp_path / "converted")
    converted = vm.load(tmp_path / "converted")
    assert torch.equal(converted.trace(IDS).logits, model.trace(IDS).logits)
    assert converted.encode("B A!") == model.encode("B A!") == [37, 3, 4]
    AutoModelForCausalLM.from_pretrained(tmp_path / "converted")  # the library reads it too


def test_a_gguf_file_converted_onto_a_full_disk(llama, tmp_path):
    write_gguf(tmp_path / "small.gguf", llama)
    with full_disk(), pytest.raises(vm.CheckpointError, match=r"cannot be written to .*converted\. .*(?i:too large)"):
        convert_gguf(tmp_path / "small.gguf", tmp_path / "converted")


def test_a_gguf_file_that_was_cut_off(tmp_path):
    (tmp_path / "broken.gguf").write_bytes(b"GGUF\x03\x00\x00\x00")
    with pytest.raises(vm.CheckpointError, match=r"broken\.gguf is not a complete GGUF file"):
        vm.load(tmp_path / "broken.gguf")
