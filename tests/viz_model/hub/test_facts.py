"""What config.json says of a model, before anything is loaded."""

from dataclasses import asdict

import pytest
import transformers

import viz_model as vm
from tests.reference.families import FAMILIES, save_small
from viz_model.hub import is_hub, read_facts

SAID_BEFORE = ("family", "layout", "n_layers", "n_encoder_layers", "n_heads", "n_kv_heads", "d_model", "d_head", "d_ff",
               "vocab_size")  # fmt: skip


@pytest.mark.parametrize("name", FAMILIES)
def test_what_is_said_before_holds_when_it_is_loaded(name, tmp_path):
    """Heads and their widths are then those of the queries and keys that the library's own code makes."""
    save_small(FAMILIES[name], tmp_path)
    assert is_hub(tmp_path)
    before, loaded = asdict(read_facts(tmp_path)), asdict(vm.load(tmp_path).config)
    assert {fact: before[fact] for fact in SAID_BEFORE} == {fact: loaded[fact] for fact in SAID_BEFORE}


@pytest.mark.parametrize("text", ["", "[]", "{", '{"layout": "decoder-only"}', '"model_type"'])
def test_other_folders_are_none_of_the_library(text, tmp_path):
    (tmp_path / "config.json").write_text(text)
    assert not is_hub(tmp_path)
    assert not is_hub(tmp_path / "nothing")


@pytest.mark.parametrize(
    ("config", "sentence"),
    [
        ("MambaConfig", "mamba cannot be shown: it has no attention. .* a state"),
        ("Mamba2Config", "mamba2 cannot be shown: it has no attention"),
        ("FNetConfig", "fnet cannot be shown: it has no attention. .* a Fourier transform"),
        ("RwkvConfig", "rwkv cannot be shown: it has no attention"),
        ("JambaConfig", "jamba cannot be shown: only some of its layers have attention"),
        ("WhisperConfig", "whisper cannot be shown: it reads sound"),
    ],
)
def test_a_family_without_attention_is_refused_by_its_name(config, sentence, tmp_path):
    getattr(transformers, config)().save_pretrained(tmp_path)
    with pytest.raises(vm.CheckpointError, match=sentence):
        read_facts(tmp_path)


def test_the_heads_of_xglm_are_found(tmp_path):
    transformers.XGLMConfig(attention_heads=2, d_model=16).save_pretrained(tmp_path)
    assert read_facts(tmp_path).n_heads == 2


SIZES = {"vocab_size": 67, "d_model": 16}
OWN_CODE = {
    "XGLM": lambda: transformers.XGLMForCausalLM(
        transformers.XGLMConfig(**SIZES, num_layers=1, attention_heads=2, ffn_dim=24, max_position_embeddings=32)
    ),
    "XLNet": lambda: transformers.XLNetLMHeadModel(transformers.XLNetConfig(**SIZES, n_layer=1, n_head=2, d_inner=24)),
}


@pytest.mark.parametrize("family", OWN_CODE)
def test_a_family_with_attention_in_its_own_code_is_refused_by_its_name(family, tmp_path):
    OWN_CODE[family]().save_pretrained(tmp_path)
    with pytest.raises(vm.CheckpointError, match=f"{family} cannot be shown: it computes attention in its own code"):
        vm.load(tmp_path)
