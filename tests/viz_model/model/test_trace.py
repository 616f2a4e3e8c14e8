"""A Trace against torch's own kernels and against a fully captured pass."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn import functional as F

import viz_model as vm
from tests.reference.written_out import attention
from tests.support.properties import examples
from tests.support.small_models import configs, make_model, random_ids, randomise, small_config, small_model
from viz_model.errors import VizError
from viz_model.model import Model
from viz_model.transformer import Transformer
from viz_model.transformer.hooks import capture

IDS = random_ids(11).tolist()


def model(seed=0, **changes):
    return Model("small", small_model(seed, **changes))


def some_mask(length, seed=3):
    """Half of the cells, and one row that may attend to nothing."""
    allowed = torch.rand(length, length, generator=torch.Generator().manual_seed(seed)) > 0.5
    allowed[min(2, length - 1)] = False
    return allowed


ATTENTION = ("raw", "scores", "weights")
STORED = 1 << 20  # more bytes than the weights of any pass here


def close(one, other, size=1.0):
    np.testing.assert_allclose(one, other, atol=1e-5 * max(1.0, size), rtol=0)


@examples(25)
@given(config=configs(), length=st.integers(1, 12), kind=st.sampled_from([None, "bidirectional", "custom"]))
def test_heads_can_be_derived_from_q_k_and_mask(config, length, kind):
    host, ids = Model("any", make_model(config)), random_ids(length).tolist()
    mask = some_mask(length) if kind == "custom" else kind
    stored = host.trace(ids, mask, stored_weights_bytes=STORED)
    left = {name: held for name, held in stored.tensors.items() if not name.endswith(ATTENTION)}
    derived = replace(stored, tensors=left)
    assert stored.stored
    assert not derived.stored
    for layer in range(config.n_layers):
        q, k, v, mixed = (getattr(stored, name)(layer)[None] for name in ("q", "k", "v", "mixed"))
        assert q.shape[1:] == (config.n_heads, length, config.d_head)
        assert k.shape == v.shape == (1, config.n_kv_heads, length, config.d_head)
        loop = attention(q, k, v, stored.mask(layer))
        close(mixed, loop[3], np.abs(v.numpy()).max())
        for head in range(config.n_heads):
            for name, expected in zip(ATTENTION, loop, strict=False):
                one, other = getattr(stored, name)(layer, head), getattr(derived, name)(layer, head)
                assert one.shape == other.shape == (length, length)
                close(one, other, np.abs(expected).max())
                close(other, expected[0, head], np.abs(expected).max())


@pytest.mark.parametrize("position", ["learned", "rotary", "sinusoidal", "none"])
@pytest.mark.parametrize("groups", [1, 2, 4])
@pytest.mark.parametrize("mask", [None, "bidirectional", "custom"])
def test_a_pass_that_stores_and_one_that_derives_agree(position, groups, mask):
    """The second takes torch's fused kernel, so that nothing of the size (H,T,S) is ever made."""
    config = small_config(n_kv_heads=groups, position=position)
    host = Model("small", randomise(Transformer(config), size=0.2))
    asked = some_mask(len(IDS)) if mask == "custom" else mask
    stored, derived = host.trace(IDS, asked, stored_weights_bytes=STORED), host.trace(IDS, asked)
    assert (stored.stored, derived.stored) == (True, False)
    assert not any(name.endswith(ATTENTION) for name in derived.tensors)
    for layer, head in np.ndindex(config.n_layers, config.n_heads):
        assert stored.weights(layer, head)[-1].std() > 0.002  # not all alike
        for name in ATTENTION:
            one, other = getattr(stored, name)(layer, head), getattr(derived, name)(layer, head)
            np.testing.assert_allclose(one, other, atol=1e-6 * max(1.0, float(one.abs().max())), rtol=0)
            assert torch.equal(derived[f"blocks.{layer}.attn.{name}"][head], other)
    for layer in range(config.n_layers):
        close(stored.mixed(layer), derived.mixed(layer), stored.mixed(layer).abs().max())
    close(stored.logits, derived.logits, stored.logits.abs().max())


@pytest.mark.parametrize("mask", [None, "causal", "bidirectional", "custom"])
@pytest.mark.parametrize("stored_weights_bytes", [0, 1 << 20])
@pytest.mark.parametrize("layout", ["decoder-only", "encoder-only"])
def test_each_layer_is_what_torch_makes_of_it_under_that_mask(mask, stored_weights_bytes, layout):
    host = model(layout=layout, position="rotary")
    length, width = len(IDS), host.config.d_head
    own = "causal" if layout == "decoder-only" else "bidirectional"
    allowed = {
        "causal": torch.tril(torch.ones(length, length, dtype=torch.bool)),
        "bidirectional": torch.ones(length, length, dtype=torch.bool),
        "custom": some_mask(length),
    }[mask or own]
    trace = host.trace(IDS, allowed if mask == "custom" else mask, stored_weights_bytes=stored_weights_bytes)
    assert trace.mask_name == (mask or own)
    assert trace.own_mask == (trace.mask_name == own)
    reading = allowed.any(-1)
    for layer in range(host.config.n_layers):
        assert torch.equal(trace.mask(layer), allowed)
        q, k, v = trace.q(layer)[None], trace.k(layer)[None], trace.v(layer)[None]
        expected = F.scaled_dot_product_attention(q, k, v, attn_mask=allowed, enable_gqa=True)[0]
        torch.testing.assert_close(trace.mixed(layer)[:, reading], expected[:, reading], atol=1e-5, rtol=1e-5)
        assert (trace.mixed(layer)[:, ~reading] == 0).all()
        # Attention over the rows of the identity gives the weights themselves.
        identity = torch.eye(length).expand(1, host.config.n_heads, length, length)
        keys = k.repeat_interleave(host.config.n_heads // host.config.n_kv_heads, 1)
        weights = F.scaled_dot_product_attention(q, keys, identity, attn_mask=allowed, scale=width**-0.5)[0]
        for head in range(host.config.n_heads):
            ours = trace.weights(layer, head)
            torch.testing.assert_close(ours[reading], weights[head, reading], atol=1e-5, rtol=1e-5)
            assert (ours[~allowed] == 0).all()
            torch.testing.assert_close(ours.sum(-1), reading.float(), atol=1e-5, rtol=0)
    # and the pass went on with it: the logits are those of a plain pass under that mask
    plain = host.transformer(torch.tensor([IDS]), mask=allowed, logits="all")[0]
    torch.testing.assert_close(trace.logits, plain[-1], atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("changes", [{}, {"tied_unembedding": False}, {"norm_place": "post"}, {"norm": "rms"}])
def test_logits_of_every_position(changes):
    host = model(**changes)
    trace = host.trace(IDS)
    every = host.transformer(torch.tensor([IDS]), logits="all")[0]
    assert trace.logits.shape == (host.config.vocab_size,)
    torch.testing.assert_close(trace.logits, every[-1], atol=1e-5, rtol=1e-5)
    for position in range(-len(IDS), len(IDS)):
        torch.testing.assert_close(trace.logits_at(position), every[position], atol=1e-5, rtol=1e-5)


def test_only_the_last_position_is_unembedded_at_once():
    trace = model().trace(IDS)
    assert trace["logits"].shape == (29,)


def test_the_stream_is_held_too_and_is_the_one_of_the_pass():
    host = model()
    trace = host.trace(IDS, stored_weights_bytes=STORED)
    with capture("*") as found:
        host.transformer(torch.tensor([IDS]))
    names = ["embed", "embed.tokens", "embed.positions", "final_norm"]
    names += [f"blocks.1.{name}" for name in ("resid_pre", "resid_mid", "resid_post", "attn.out", "attn.q")]
    for name in names:
        torch.testing.assert_close(trace[name], found[name][0], atol=1e-5, rtol=1e-5)
    attended = trace["blocks.1.resid_mid"] - trace["blocks.1.resid_pre"]
    torch.testing.assert_close(attended, trace["blocks.1.attn.out"], atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("stored_weights_bytes", [0, 1 << 20])
@pytest.mark.parametrize("mask", [None, "bidirectional", "custom"])
def test_nothing_can_be_written_into_a_trace(stored_weights_bytes, mask):
    host = model()
    asked = some_mask(len(IDS)) if mask == "custom" else mask
    trace = host.trace(IDS, asked, stored_weights_bytes=stored_weights_bytes)
    tensors = [*trace.tensors.values(), trace.q(0), trace.k(0), trace.v(0), trace.mixed(0), trace.mask(0)]
    tensors += [trace.raw(0, 0), trace.scores(0, 0), trace.weights(0, 0), trace.logits, trace.logits_at(0)]
    for tensor in tensors:
        with pytest.raises(RuntimeError, match="inference tensor"):
            tensor.zero_()
        with pytest.raises(RuntimeError, match="inference tensor"):
            tensor[0] = 1
    for name in ("read", "tensors", "config"):
        with pytest.raises(AttributeError):
            setattr(trace, name, None)


def test_a_mask_that_is_changed_afterwards_changes_no_trace():
    host, mask = model(), some_mask(len(IDS))
    trace, kept = host.trace(IDS, mask), mask.clone()
    mask[:] = True
    assert torch.equal(trace.mask(0), kept)


def test_bytes_of_what_is_held_each_memory_once():
    config = small_config(position="none")
    derived = Model("small", make_model(config)).trace(IDS, stored_weights_bytes=0)
    length, width, layers = len(IDS), config.d_model, config.n_layers
    per_layer = 4 * length * (2 * width + 2 * config.n_kv_heads * config.d_head)  # q, mixed, k, v
    per_layer += 4 * length * (width + width)  # resid_mid, resid_post; resid_pre is what came before
    others = 4 * length * width * 2 + 4 * config.vocab_size + length**2  # embed, final_norm, logits, one mask
    assert derived.nbytes == layers * per_layer + others
    stored = Model("small", make_model(config)).trace(IDS, stored_weights_bytes=STORED)
    squares = 3 * config.n_heads * length**2  # raw, scores, weights
    assert stored.nbytes - derived.nbytes == 4 * layers * (squares + length * width)  # out


def test_without_being_asked_a_trace_stores_no_weights():
    trace = model().trace(IDS)
    assert not trace.stored
    assert not any(name.endswith((*ATTENTION, ".out")) for name in trace.tensors)


@pytest.mark.parametrize("site", ATTENTION)
def test_what_somebody_makes_of_a_weight_from_outside_is_what_the_trace_shows(site):
    """Derived from Q and K it would be the number as it was, beside mixed values that are not."""
    host = model()
    plain = host.trace(IDS)
    with vm.edit({f"blocks.1.attn.{site}": lambda tensor: tensor * 0.5}):
        edited = host.trace(IDS)
    assert not edited.stored  # but that layer is
    expected = {"weights": plain.weights(1, 0) * 0.5}.get(site)
    if expected is None:
        halved = (plain.scores(1, 0) * 0.5).masked_fill(~plain.mask(1), -torch.inf)
        expected = halved.softmax(-1)
    close(edited.weights(1, 0), expected)
    close(edited.mixed(1)[0], expected @ edited.v(1)[host.config.kv_head(0)])
    close(edited.weights(0, 0), plain.weights(0, 0))


def test_weights_are_stored_up_to_the_budget_and_not_beyond():
    config = small_config()
    needed = 4 * config.n_layers * config.n_heads * len(IDS) ** 2
    host = Model("small", make_model(config))
    assert host.trace(IDS, stored_weights_bytes=needed).stored
    assert not host.trace(IDS, stored_weights_bytes=needed - 1).stored


@pytest.mark.parametrize("stored_weights_bytes", [0, 1 << 20])
@pytest.mark.parametrize(
    ("ask", "words"),
    [
        *((lambda t, name=name: getattr(t, name)(2), "no layer 2: .* 0 to 1") for name in ("q", "k", "v", "mask")),
        (lambda t: t.mixed(-1), "no layer -1"),
        *((lambda t, n=n: getattr(t, n)(0, 4), "no head 4: .* 0 to 3") for n in ("raw", "scores", "weights")),
        *((lambda t, n=n: getattr(t, n)(2, 0), "no layer 2") for n in ("raw", "scores", "weights")),
        (lambda t: t.weights(0, -1), "no head -1"),
        (lambda t: t.logits_at(11), "no position 11: .* 11 tokens"),
        (lambda t: t.logits_at(-12), "no position -12"),
        (lambda t: t["blocks.0.attn.wieghts"], "not hold 'blocks.0.attn.wieghts'.*blocks.0.attn"),
        (lambda t: t[""], "not hold ''"),
    ],
)
def test_what_is_not_there_is_said_in_a_sentence(ask, words, stored_weights_bytes):
    trace = model().trace(IDS, stored_weights_bytes=stored_weights_bytes)
    with pytest.raises(VizError, match=words) as caught:
        ask(trace)
    assert str(caught.value).endswith(".")


@pytest.mark.parametrize("part", ["encoder", "decoder", "cross"])
def test_a_trace_and_a_model_are_shown_in_a_line_and_a_step_without_its_cache(part):
    host = model(layout="encoder-decoder", n_layers=2, n_encoder_layers=1)
    trace = host.trace(IDS, target=IDS[:3]).of(part)
    layers, heads, (queries, keys) = trace.n_layers, trace.config.n_heads, trace.weights(0, 0).shape
    assert f"{part}, {layers} layers × {heads} heads, {queries} queries × {keys} keys" in repr(trace)
    assert repr(host) == f"<Model small: encoder-decoder, 2 layers × {heads} heads>"
    [step] = host.generate(IDS, max_new_tokens=1)
    assert "CacheView" not in repr(step)
    assert "\n" not in repr(trace)


def test_two_traces_can_be_compared_and_be_keys():
    host = model()
    one, other = host.trace(IDS), host.trace(IDS)
    assert one != other
    assert len({one, other}) == 2
