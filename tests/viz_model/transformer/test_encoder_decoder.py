"""The encoder-decoder's identities for any configuration, its trace through each part, its cache and its generation."""

import numpy as np
import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.reference.written_out import attention
from tests.support.properties import examples
from tests.support.small_models import (
    CONTEXT,
    VOCABULARY,
    configs,
    expected_sites,
    make_model,
    random_ids,
    small_config,
)
from viz_model import checkpoints
from viz_model.errors import CheckpointError, MaskError, PromptError, VizError
from viz_model.model import Model
from viz_model.model.stages import assembled_weights
from viz_model.model.tokenizer import Tokenizer
from viz_model.shapes import costs
from viz_model.shapes.costs import PassSize, pass_flops
from viz_model.transformer.cache import KVCache
from viz_model.transformer.hooks import capture, edit

BYTES = Tokenizer.of_bytes()
two_stacks = configs(layout="encoder-decoder")
lengths = st.integers(1, CONTEXT)
SOURCE, TARGET = [3, 8, 1, 9, 4, 4, 7], [5, 2, 8]


def close(one, other):
    torch.testing.assert_close(one, other, atol=1e-4, rtol=1e-4)


def host(seed=0, **changes):
    fields = {"layout": "encoder-decoder", "n_layers": 3, "n_encoder_layers": 2, "position": "sinusoidal"}
    return Model("small", make_model(small_config(**(fields | changes)), seed))


@examples(20)
@given(two_stacks, lengths, lengths)
def test_every_site_is_visited_once_and_logits_are_those_of_the_last_or_of_every_position(config, sources, targets):
    model, source, ids = make_model(config), random_ids(2, sources), random_ids(2, targets, seed=1)
    with capture("*") as found:
        every = model(ids, source=source, logits="all")
    assert found.keys() == expected_sites(config)
    assert every.shape == (2, targets, VOCABULARY)
    close(model(ids, source=source), every[:, -1])
    close(model.unembed(model.hidden(ids, source=source)), every)
    close(model(ids[1:], source=source[1:], logits="all")[0], every[1])


@examples(20)
@given(two_stacks, st.integers(1, 8), st.integers(1, 6), st.booleans(), st.booleans())
def test_padding_of_the_source_on_either_side_changes_no_result(config, length, extra, on_the_left, captured):
    model, ids = make_model(config), random_ids(1, 5)
    source, filler = random_ids(1, length, seed=1), random_ids(1, extra, seed=9)
    padded = torch.cat((filler, source) if on_the_left else (source, filler), 1)
    place = torch.arange(length + extra)
    padding = (place < extra if on_the_left else place >= length)[None]
    with capture(*["*.weights"] if captured else []) as found:
        logits = model(ids, source=padded, source_padding=padding, logits="all")
    close(logits, model(ids, source=source, logits="all"))
    for name, weights in found.items():
        if ".cross." in name or name.startswith("encoder."):
            assert weights[..., padding[0]].eq(0).all()


@examples(20)
@given(two_stacks, st.integers(2, 10), st.data())
def test_the_target_reads_all_of_the_source_and_of_itself_only_what_came_before(config, length, data):
    assume(config.d_model > 3)  # a norm of two numbers leaves only their order
    model, source, ids = make_model(config), random_ids(1, 6), random_ids(1, length, seed=1)
    changed = data.draw(st.integers(1, length - 1))
    before = model(ids, source=source, logits="all")
    others = ids.clone()
    others[0, changed] = (ids[0, changed] + 1) % VOCABULARY
    after = model(others, source=source, logits="all")
    close(after[:, :changed], before[:, :changed])
    assert (after[:, changed] - before[:, changed]).abs().max() > 1e-4
    other_source = source.clone()
    other_source[0, -1] = (source[0, -1] + 1) % VOCABULARY
    difference = model(ids, source=other_source, logits="all") - before
    assert difference[:, 0].abs().max() > 1e-7


@examples(30)
@given(config=two_stacks, cuts=st.sets(st.integers(1, 9)), batch=st.integers(1, 2))
def test_any_way_of_cutting_a_target_gives_the_logits_of_one_pass(config, cuts, batch):
    model, source, ids = make_model(config), random_ids(batch, 7, seed=1), random_ids(batch, 10)
    expected = model(ids, source=source, logits="all")
    cache, found = KVCache(config, 10, batch, source=7), []
    for start, end in zip([0, *sorted(cuts)], [*sorted(cuts), 10], strict=True):
        given_source = source if start == 0 else None  # read once
        with capture("*.k") as keys:
            found.append(model(ids[:, start:end], source=given_source, cache=cache, logits="all"))
        assert any(name.startswith("encoder.") for name in keys) == (start == 0)
    close(torch.cat(found, 1), expected)
    assert cache.view().nbytes == costs.cache_bytes(config, 10 + 7) * batch


def test_what_a_cache_cannot_do_is_refused():
    model = host().transformer
    with pytest.raises(VizError, match="needs a source"):
        model(random_ids(1, 2))
    with pytest.raises(VizError, match="source of 4 tokens, and this one has 7"):
        model(random_ids(1, 2), source=torch.tensor([SOURCE]), cache=KVCache(model.config, 5, source=4))


# --- traces ---


@pytest.mark.parametrize("stored_weights_bytes", [0, 1 << 20])
@pytest.mark.parametrize("groups", [1, 2, 4])
def test_each_part_of_a_trace_against_numpy(stored_weights_bytes, groups):
    trace = host(n_kv_heads=groups).trace(SOURCE, target=TARGET, stored_weights_bytes=stored_weights_bytes)
    shapes = {"encoder": (7, 7), "decoder": (3, 3), "cross": (3, 7)}
    for part, (queries, keys) in shapes.items():
        seen = trace.of(part)
        assert (seen.part, seen.length, seen.key_length) == (part, queries, keys)
        assert seen.ids == tuple(SOURCE if part == "encoder" else TARGET)
        assert seen.key_ids == tuple(TARGET if part == "decoder" else SOURCE)
        assert seen.n_layers == (2 if part == "encoder" else 3)
        allowed = torch.tril(torch.ones(3, 3)).bool() if part == "decoder" else torch.ones(queries, keys).bool()
        for layer in range(seen.n_layers):
            assert torch.equal(seen.mask(layer), allowed)
            raw, scores, weights, mixed = attention(
                seen.q(layer)[None], seen.k(layer)[None], seen.v(layer)[None], allowed
            )
            np.testing.assert_allclose(seen.mixed(layer), mixed[0], atol=2e-5)
            for head in range(4):
                for name, expected in (("raw", raw), ("scores", scores), ("weights", weights)):
                    np.testing.assert_allclose(getattr(seen, name)(layer, head), expected[0, head], atol=2e-5)
    assert trace.part == "decoder"
    with pytest.raises(VizError, match="no layer 2"):
        trace.of("encoder").q(2)
    with pytest.raises(VizError, match="encoder makes no logits"):
        trace.of("encoder").logits_at(0)
    with pytest.raises(VizError, match=r"no part 'self': .* encoder, decoder, cross"):
        trace.of("self")


def test_logits_of_a_trace_are_those_of_the_pass():
    model = host()
    trace = model.trace(SOURCE, target=TARGET)
    expected = model.transformer(torch.tensor([TARGET]), source=torch.tensor([SOURCE]), logits="all")[0]
    close(trace.logits, expected[-1])
    for part in ("decoder", "cross"):
        close(trace.of(part).logits_at(1), expected[1])


def test_a_mask_of_each_part_is_the_mask_of_the_pass():
    model, cross = host(), torch.rand(3, 7, generator=torch.Generator().manual_seed(0)) < 0.6
    own = model.trace(SOURCE, target=TARGET)
    trace = model.trace(SOURCE, {"encoder": "causal", "cross": cross}, TARGET)
    assert trace.mask_names == {"encoder": "causal", "decoder": "causal", "cross": "custom"}
    assert (own.own_mask, trace.own_mask) == (True, False)
    assert torch.equal(trace.of("cross").mask(2), cross)
    assert torch.equal(trace.of("encoder").mask(1), torch.ones(7, 7).tril().bool())
    expected = model.transformer(
        torch.tensor([TARGET]), source=torch.tensor([SOURCE]),
        mask={"encoder": torch.ones(7, 7).tril().bool(), "cross": cross},
    )  # fmt: skip
    close(trace.logits, expected[0])
    alone = model.trace(SOURCE, "bidirectional", TARGET)
    assert alone.mask_names == {"encoder": "bidirectional", "decoder": "bidirectional", "cross": "bidirectional"}
    assert alone.of("decoder").mask(0).all()
    with pytest.raises(MaskError, match=r"3 queries and 7 keys .* \(3, 7\)"):
        model.trace(SOURCE, {"cross": torch.ones(7, 7, dtype=torch.bool)}, TARGET)
    with pytest.raises(MaskError, match="no part 'self'"):
        model.trace(SOURCE, {"self": "causal"}, TARGET)


def test_without_a_target_it_is_what_the_model_writes_greedily():
    model = host(seed=3)
    start = VOCABULARY - 1
    ids = [start]
    for _ in range(CONTEXT - 1):
        ids.append(int(model.transformer(torch.tensor([ids]), source=torch.tensor([SOURCE]))[0].argmax()))
    assert model.trace(SOURCE).ids == tuple(ids)
    with edit({"decoder.blocks.0.cross.weights": lambda a: a * 0}), capture("*.cross.mixed") as found:
        assert model.trace(SOURCE).ids == tuple(ids)  # what others watch or edit is the pass over these alone
    assert found["decoder.blocks.0.cross.mixed"].abs().max() == 0


def test_text_for_a_target_begins_with_the_start_token():
    model = Model("bytes", make_model(small_config(layout="encoder-decoder", vocab_size=257)), BYTES)
    assert model.encode_target("ab") == [256, 97, 98]
    assert model.encode_target("") == [256]
    assert model.encode_target([256, 97]) == [256, 97]
    trace = model.trace("3 May", target="2024")
    assert trace.tokens == ("<|endoftext|>", "2", "0", "2", "4")
    assert trace.of("cross").key_tokens == ("3", " ", "M", "a", "y")
    with pytest.raises(PromptError, match=r"target has 31 tokens, .* at most 24.* by 7"):
        model.trace("a", target="b" * 30)
    with pytest.raises(PromptError, match="at least the start token"):
        model.trace("a", target=[])
    one_stack = Model("one", make_model(small_config()))
    with pytest.raises(PromptError, match="no target"):
        one_stack.trace([1, 2], target=[3])


# --- generation ---


def test_a_generation_reads_the_source_once_and_adds_to_the_cache_of_the_target():
    model, config = host(), host().config
    forced = dict(enumerate([5, 2, 8, 8, 1]))
    steps = list(model.generate(SOURCE, max_new_tokens=5, forced=forced, compare=True))
    whole = model.trace(SOURCE, target=list(steps[-1].ids[:-1]))
    for step in steps:
        assert (step.queries, step.read, step.source) == (1, step.number + 1, tuple(SOURCE))
        assert (step.cache.length, step.cache.source_length) == (step.read, 7)
        assert step.cache.nbytes == costs.step_cache_bytes(step) == costs.cache_bytes(config, step.read + 7)
        assert step.largest_difference < 1e-4
        close(step.sampled.logits, whole.logits_at(step.read - 1))
        for layer in range(3):
            close(step.cache.key(layer, "cross"), whole.of("cross").k(layer))
            close(step.cache.value(layer, "cross"), whole.of("cross").v(layer))
            close(step.cache.key(layer), whole.k(layer)[:, : step.read])
            close(step.weights(layer, 3, "cross")[0], whole.of("cross").weights(layer, 3)[step.read - 1])
    for part in ("decoder", "cross"):
        close(assembled_weights(steps, 1, 2, part), whole.of(part).weights(1, 2))
    goes_on = list(model.generate(SOURCE, max_new_tokens=7, forced=forced, kept=steps))
    assert [step.number for step in goes_on] == [5, 6]
    assert goes_on[-1].ids == list(model.generate(SOURCE, max_new_tokens=7, forced=forced))[-1].ids
    with pytest.raises(VizError, match="another prompt"):
        model.generate(SOURCE[1:], kept=steps)


def test_a_generation_goes_on_from_a_target_to_the_end_of_the_text():
    model = Model("bytes", make_model(small_config(layout="encoder-decoder", vocab_size=257)), BYTES)
    steps = list(model.generate("3 May", max_new_tokens=4, target="20", forced={1: 256}))
    assert steps[0].queries == 3
    assert list(steps[0].ids[:3]) == [256, 50, 48]
    assert [step.is_end for step in steps] == [False, True]


def multiply_adds(config, targets, sources):
    """Every matrix product of a whole pass, written out: numbers of (rows, inner, columns)."""
    c, f, d, heads = config.d_model, config.d_ff, config.d_head, config.n_heads
    kv = config.n_kv_heads * d

    def attention_products(t, s):
        return [(t, c, c), (s, c, kv), (s, c, kv), *[(t, d, s), (t, s, d)] * heads, (t, c, c)]

    ffn = [(1, c, f), (1, f, c)] + [(1, c, f)] * (config.activation == "swiglu")
    encoder = [*attention_products(sources, sources), *ffn * sources] * config.n_encoder_layers
    decoder = [*attention_products(targets, targets), *attention_products(targets, sources), *ffn * targets]
    return sum(a * b * e for a, b, e in [*encoder, *decoder * config.n_layers, (1, c, config.vocab_size)])


@examples(20)
@given(two_stacks, st.integers(1, 6), st.integers(1, 6))
def test_operations_are_those_of_its_matrix_products(config, targets, sources):
    model, whole = make_model(config), PassSize(targets, targets, sources, encodes=True)
    assert pass_flops(model, whole) == 2 * multiply_adds(config, targets, sources)
    steps = [pass_flops(model, PassSize(1, n + 1, sources, encodes=n == 0)) for n in range(targets)]
    one_pass = pass_flops(model, whole, targets)
    above_diagonal = 4 * config.n_layers * config.d_model * targets * (targets - 1) // 2  # which steps do not make
    assert sum(steps) == one_pass - above_diagonal


# --- checkpoints ---


def test_a_checkpoint_survives_writing_and_reading(tmp_path):
    model = make_model(small_config(layout="encoder-decoder", vocab_size=257, n_encoder_layers=1, d_ff=0))
    checkpoints.save(tmp_path / "two", model, BYTES)
    read = checkpoints.load(tmp_path / "two")
    assert read.config == model.config
    halves = {name: tensor.half().float() for name, tensor in model.state_dict().items()}
    assert sum(tensor.numel() for tensor in halves.values()) == model.n_parameters() == read.transformer.n_parameters()
    assert all(torch.equal(tensor, halves[name]) for name, tensor in read.transformer.state_dict().items())
    (tmp_path / "two" / "examples.json").write_text('{"A date": "3 May"}')
    assert checkpoints.load(tmp_path / "two").examples == {"A date": "3 May"}
    (tmp_path / "two" / "examples.json").write_text('["3 May"]')
    with pytest.raises(CheckpointError, match=r"examples\.json does not hold prompts"):
        checkpoints.load(tmp_path / "two")
    (tmp_path / "two" / "examples.json").unlink()
    text = (tmp_path / "two" / "config.json").read_text().replace('"n_encoder_layers": 1', '"n_encoder_layers": 2')
    (tmp_path / "two" / "config.json").write_text(text)
    with pytest.raises(CheckpointError, match=r"encoder\.blocks\.1"):
        checkpoints.load(tmp_path / "two")
