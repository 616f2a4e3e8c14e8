"""A configuration that contradicts itself, or comes from a damaged file, is refused; the fields are named."""

import dataclasses
import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.properties import examples
from tests.support.small_models import configs, small_config
from viz_model.errors import ConfigError, VizError
from viz_model.transformer import TransformerConfig
from viz_model.transformer.config import CHOICES

FIELDS = [field.name for field in dataclasses.fields(TransformerConfig)]
COUNTS = ("n_layers", "n_heads", "n_kv_heads", "d_model", "vocab_size", "context_length")
MAY_BE_0 = ("d_ff", "n_encoder_layers")
NUMBERS = ("norm_epsilon", "rotary_base")
SWITCHES = ("embedding_norm", "embedding_scale", "bias", "tied_unembedding")


def test_the_kinds_of_fields_below_are_all_fields():
    assert sorted((*COUNTS, *MAY_BE_0, *NUMBERS, *SWITCHES, *CHOICES)) == sorted(FIELDS)


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"d_model": 25}, ["d_model", "25", "n_heads", "4"]),
        ({"n_heads": 5, "n_kv_heads": 1}, ["d_model", "n_heads", "5"]),
        ({"n_kv_heads": 3}, ["n_heads", "n_kv_heads", "3"]),
        ({"n_kv_heads": 8}, ["n_heads", "n_kv_heads", "8"]),
        ({"position": "rotary", "d_model": 12}, ["position", "rotary", "d_model", "n_heads", "3"]),
        ({"layout": "encoder-decoder", "n_encoder_layers": 0}, ["n_encoder_layers", "encoder-decoder"]),
        ({"n_encoder_layers": 2}, ["n_encoder_layers", "decoder-only"]),
        ({"position": "sinusoidal", "n_kv_heads": 1, "n_heads": 1, "d_model": 7}, ["position", "d_model"]),
    ],
)
def test_contradictions_are_refused_by_name(changes, named):
    with pytest.raises(ConfigError) as refusal:
        small_config(**changes)
    assert all(word in str(refusal.value) for word in named)


WRONG = {
    **dict.fromkeys(COUNTS, (0, -1, 2.0, "4", True, [4], {}, math.nan)),
    **dict.fromkeys(MAY_BE_0, (-1, 2.0, "4", True, [4], {}, math.nan)),
    **dict.fromkeys(NUMBERS, (0, -1e-5, "1e-5", None, True, [], {}, math.nan, math.inf, -math.inf)),
    **dict.fromkeys(SWITCHES, (0, 1, "false", "true", None, [], {})),
    **dict.fromkeys(CHOICES, ("", "Learned", None, 0, True, [], {}, ["learned"])),
}


@pytest.mark.parametrize("field", FIELDS)
def test_wrong_values_and_wrong_types_are_refused_by_name(field):
    wrong = [*WRONG[field], None] if field in COUNTS and field != "n_kv_heads" else WRONG[field]
    for value in wrong:
        with pytest.raises(ConfigError) as refusal:
            small_config(**{field: value})
        assert field in str(refusal.value), value
        assert isinstance(refusal.value, VizError)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 9) | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=2), inner, max_size=2),
    max_leaves=3,
)


@examples(150)
@given(st.dictionaries(st.sampled_from(FIELDS), json_values, min_size=1, max_size=4))
def test_damage_is_a_config_error_or_harmless_and_never_another_error(damage):
    fields = dataclasses.asdict(small_config()) | damage
    try:
        config = TransformerConfig(**fields)
    except ConfigError as refusal:
        assert any(field in str(refusal) for field in damage)  # noqa: PT017
    else:
        assert config.d_model == config.n_heads * config.d_head
        assert config.n_heads % config.n_kv_heads == 0


@examples(40)
@given(st.sampled_from(CHOICES["layout"]).flatmap(lambda layout: configs(layout=layout)))
def test_a_config_survives_json(config):
    assert TransformerConfig(**json.loads(json.dumps(dataclasses.asdict(config)))) == config


def test_derived_values():
    config = TransformerConfig(n_layers=1, n_heads=6, d_model=48, vocab_size=9, context_length=5)
    assert (config.n_kv_heads, config.d_ff, config.d_head) == (6, 192, 8)
    assert config.mask == "causal"
    assert small_config(layout="encoder-only").mask == "bidirectional"
    assert config.n_encoder_layers == 0
    assert small_config(layout="encoder-decoder", n_layers=3).n_encoder_layers == 3
    with pytest.raises(dataclasses.FrozenInstanceError):
        config.n_heads = 3


def test_query_heads_share_key_heads_in_runs():
    """GQA (Ainslie et al. 2023), Figure 2: neighbouring query heads share one key head."""
    config = small_config(n_heads=6, n_kv_heads=2)
    assert [config.kv_head(head) for head in range(6)] == [0, 0, 0, 1, 1, 1]
    assert [small_config(n_heads=6, n_kv_heads=6).kv_head(head) for head in range(6)] == list(range(6))
    assert {small_config(n_heads=6, n_kv_heads=1).kv_head(head) for head in range(6)} == {0}


def test_the_parts_of_a_layout_and_what_they_are_called():
    one, two = small_config(), small_config(layout="encoder-decoder", n_layers=3, n_encoder_layers=2)
    assert (one.parts, two.parts) == (("self",), ("encoder", "decoder", "cross"))
    assert [two.layers_of(part) for part in two.parts] == [2, 3, 3]
    assert [two.mask_of(part) for part in two.parts] == ["bidirectional", "causal", "bidirectional"]
    assert two.mask == "causal"
    assert one.attention_name("self", 1) == "blocks.1.attn"
    names = [two.attention_name(part, 1) for part in two.parts]
    assert names == ["encoder.blocks.1.attn", "decoder.blocks.1.attn", "decoder.blocks.1.cross"]
    assert [two.block_name(part, 0) for part in two.parts] == ["encoder.blocks.0", *["decoder.blocks.0"] * 2]
