"""Edits of a pass against the library's GPT-2 and Llama with hooks of their own, against softmax written out, and with
a cache against without."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import viz_model as vm
from tests.support.small_models import small_model
from tests.support.small_tokenizers import small_tokenizer
from tests.support.transformers_tiny_gpt import gpt2
from tests.support.transformers_tiny_llama import llama
from viz_model.intervention.edits import LARGEST, LONGEST, SHOWN, read_edit
from viz_model.layouts.depth import with_norms_placed
from viz_model.model import Model
from viz_model.model.edits import Edit
from viz_model.model.generation import ROUNDING
from viz_model.positions.beyond_trained_length import longer
from viz_model.positions.schemes import under_scheme
from viz_model.quantization.twin import INT8, Choice, quantize
from viz_model.transformer.attention import attention_weights
from viz_model.transformer.hooks import edit

PROMPT = "The red fox met a grey goose by the old mill. The red fox met a grey goose by the"
OTHER = PROMPT.replace(" old", " new", 1)
SHORT, QUERY, KEY = "The king", 20, 9
WIDTH = 32  # D of both models

EDITS = {
    "off": vm.SwitchOff(1, 0),
    "mean": vm.SwitchOff(1, 0, "mean"),
    "scaled": vm.ScaleHead(1, 0, -2.5),
    "forbidden": vm.SetWeight(1, 0, QUERY, KEY),
    "weight": vm.SetWeight(1, 0, QUERY, KEY, 0.3),
    "the only weight": vm.SetWeight(1, 0, QUERY, KEY, 1.0),
    "values": vm.SetValues(1, 0, OTHER),
    "values of a shorter prompt": vm.SetValues(1, 0, SHORT),
    "values at a token": vm.SetValues(1, 0, OTHER, 10),
    "vector": vm.AddVector(1, "love", "hate", 3.0),
    "vector at a token": vm.AddVector(1, "love", "hate", -3.0, 5),
}


def parts_of(name):
    """The library's model with the same weights: its layers, and by layer its attention and output projection."""
    if name == "tiny-gpt":
        theirs = gpt2()
        layers = theirs.transformer.h
        return theirs, layers, [layer.attn for layer in layers], [layer.attn.c_proj for layer in layers]
    theirs = llama()
    layers = theirs.model.layers
    return theirs, layers, [layer.self_attn for layer in layers], [layer.self_attn.o_proj for layer in layers]


def hooks(name, one, model):
    """What the edit does, as a hook on the library's model; gives what removes it."""
    theirs, layers, attentions, projections = parts_of(name)
    layer = one.layer
    own = slice(WIDTH * getattr(one, "head", 0), WIDTH * getattr(one, "head", 0) + WIDTH)

    def joined(change):
        """A change of what a head mixed (T,D), which the output projection reads."""

        def hook(_, read):
            read[0][0, :, own] = change(read[0][0, :, own].clone())
            return read

        return projections[layer].register_forward_pre_hook(hook)

    def ids(text):
        return torch.tensor([model.encode(text)])

    if isinstance(one, vm.SwitchOff):
        return joined(lambda mixed: 0 * mixed if one.how == "zero" else mixed.mean(0, keepdim=True).expand_as(mixed))
    if isinstance(one, vm.ScaleHead):
        return joined(lambda mixed: one.factor * mixed)
    if isinstance(one, vm.SetValues):
        kept = []
        handle = joined(lambda mixed: kept.append(mixed) or mixed)
        theirs(ids(one.text))
        handle.remove()
        [values] = kept

        def put(mixed):
            places = [one.position] if one.position is not None else range(min(len(values), len(mixed)))
            for place in places:
                mixed[place] = values[place]
            return mixed

        return joined(put)
    if isinstance(one, vm.AddVector):
        ends = [theirs(ids(text), output_hidden_states=True).hidden_states[layer + 1][0, -1]
                for text in (one.text, one.minus)]  # fmt: skip

        def added(_, __, result):
            stream = (result if isinstance(result, torch.Tensor) else result[0]).clone()
            rows = slice(None) if one.position is None else one.position
            stream[0, rows] += one.strength * (ends[0] - ends[1])
            return stream if isinstance(result, torch.Tensor) else (stream, *result[1:])

        return layers[layer].register_forward_hook(added)
    # A number added to the score, after which the softmax gives the cell this weight.
    before = theirs(ids(PROMPT), output_attentions=True).attentions[layer][0, one.head, one.query, one.key]
    odds = torch.tensor(one.weight).logit() - before.logit()
    length = len(model.encode(PROMPT))
    bias = torch.full((1, 8, length, length), 0.0)
    if one.weight == 1:
        bias[0, one.head, one.query] = -torch.inf
        bias[0, one.head, one.query, one.key] = 0
    else:
        bias[0, one.head, one.query, one.key] = odds

    def with_bias(_, arguments, options):
        mask = options.get("attention_mask")
        options["attention_mask"] = bias.masked_fill(~torch.ones(length, length).tril().bool(), -torch.inf)
        assert mask is None or mask.shape[-2:] == bias.shape[-2:]
        return arguments, options

    return attentions[layer].register_forward_pre_hook(with_bias, with_kwargs=True)


@pytest.mark.parametrize("kind", EDITS)
@pytest.mark.parametrize("name", ["tiny-gpt", "tiny-llama"])
@torch.inference_mode()
def test_an_edit_does_what_the_same_hook_does_in_the_library(name, kind):
    model, one = vm.load(name), EDITS[kind]
    theirs = parts_of(name)[0]
    ids = torch.tensor([model.encode(PROMPT)])
    unedited = theirs(ids).logits[0, -1]
    handle = hooks(name, one, model)
    found = theirs(ids, output_attentions=True)
    handle.remove()
    trace = model.trace(PROMPT, edits=[one])
    for layer, expected in enumerate(found.attentions):
        ours = torch.stack([trace.weights(layer, head) for head in range(8)])
        np.testing.assert_allclose(ours, expected[0], atol=1e-5)
    scale = float(found.logits[0, -1].abs().max())
    np.testing.assert_allclose(trace.logits / scale, found.logits[0, -1] / scale, atol=1e-5)
    assert float((found.logits[0, -1] - unedited).abs().max()) > 1e-3, "the hook does nothing"
    assert trace.edits == (one,)


@pytest.mark.parametrize("kind", EDITS)
def test_a_long_prompt_whose_weights_are_not_kept_has_the_same(kind):
    model, one = vm.load("tiny-llama"), EDITS[kind]
    kept, derived = (model.trace(PROMPT, edits=[one], stored_weights_bytes=limit) for limit in (1 << 26, 0))
    assert kept.stored
    assert not derived.stored
    for layer in range(4):
        np.testing.assert_allclose(derived.mixed(layer), kept.mixed(layer), atol=1e-4)
        for head in range(8):
            np.testing.assert_allclose(derived.weights(layer, head), kept.weights(layer, head), atol=1e-5)
    np.testing.assert_allclose(derived.logits, kept.logits, atol=1e-3)


@pytest.mark.parametrize("kind", EDITS)
@pytest.mark.parametrize("name", ["tiny-gpt", "tiny-llama"])
def test_with_a_cache_the_model_writes_the_same_as_without(name, kind):
    model, one = vm.load(name), EDITS[kind]
    steps = list(model.generate(PROMPT, max_new_tokens=4, temperature=0.0, compare=True, edits=[one]))
    assert all(step.largest_difference < 1e-4 < ROUNDING * float(step.sampled.logits.abs().max()) for step in steps)
    trace = model.trace(PROMPT, edits=[one])
    np.testing.assert_allclose(steps[0].sampled.logits, trace.logits, atol=1e-4)
    np.testing.assert_allclose(steps[0].weights(1, 0), trace.weights(1, 0), atol=1e-5)


def test_the_mean_over_the_prompt_stays_while_the_model_writes():
    """The library, with the prompt's mean put at every token, the new ones too."""
    model = vm.load("tiny-gpt")
    theirs, _, _, projections = parts_of("tiny-gpt")
    kept, own = [], slice(0, WIDTH)
    ids = model.encode(PROMPT)

    def put(_, read):
        if not kept:
            kept.append(read[0][0, :, own].mean(0))
        read[0][0, :, own] = kept[0]
        return read

    handle = projections[1].register_forward_pre_hook(put)
    with torch.inference_mode():
        for _ in range(4):
            ids.append(int(theirs(torch.tensor([ids])).logits[0, -1].argmax()))
    handle.remove()
    steps = list(model.generate(PROMPT, max_new_tokens=4, temperature=0.0, edits=[EDITS["mean"]]))
    assert list(steps[-1].ids) == ids
    host, cache = model.edited([EDITS["mean"]]).transformer, vm.KVCache(model.config, 5)
    host(torch.tensor([[1, 2]]), cache=cache)
    with pytest.raises(vm.EditError, match=r"model\.generate"):
        host(torch.tensor([[3]]), cache=cache)


def test_a_mean_that_is_scaled_is_scaled_once():
    model, edits = vm.load("tiny-gpt"), [EDITS["mean"], vm.ScaleHead(1, 0, 3.0)]
    [step] = model.generate(PROMPT, max_new_tokens=1, edits=edits)
    np.testing.assert_allclose(step.sampled.logits, model.trace(PROMPT, edits=edits).logits, atol=1e-4)


def test_the_first_edit_of_a_site_comes_first():
    model, put, scaled = vm.load("tiny-gpt"), vm.SetValues(1, 0, OTHER), vm.ScaleHead(1, 0, 0.0)
    both = model.trace(PROMPT, edits=[put, scaled]).logits
    np.testing.assert_allclose(both, model.trace(PROMPT, edits=[vm.SwitchOff(1, 0)]).logits, atol=1e-5)
    np.testing.assert_allclose(
        model.trace(PROMPT, edits=[scaled, put]).logits, model.trace(PROMPT, edits=[put]).logits, atol=1e-5
    )
    np.testing.assert_allclose(model.edited([put]).trace(PROMPT, edits=[scaled]).logits, both, atol=1e-5)


def test_an_edit_leaves_the_model_as_it_was():
    model = vm.load("tiny-gpt")
    before = model.trace(PROMPT).logits
    model.trace(PROMPT, edits=[EDITS["off"]])
    assert not model.transformer.changes
    torch.testing.assert_close(model.trace(PROMPT).logits, before, rtol=0, atol=0)
    assert model.edited([]).trace(PROMPT).edits == ()


def test_what_is_switched_off_besides_is_off_after_the_edits():
    """An ablation of an edited model: a head whose values an edit replaces is off all the same."""
    model = vm.load("tiny-gpt").edited([EDITS["values"]])
    found = vm.ablate(model, PROMPT, heads=[(1, 0)])
    off = vm.load("tiny-gpt").trace(PROMPT, edits=[EDITS["off"]]).logits
    np.testing.assert_allclose(found.logits, model.trace(PROMPT).logits, atol=1e-4)
    np.testing.assert_allclose(found.edited[0], off, atol=1e-4)
    with edit({"blocks.1.attn.mixed": torch.zeros_like}):
        assert float(model.trace(PROMPT).mixed(1).abs().max()) == 0


@pytest.mark.parametrize("weight", [0.0, 0.25, 1.0])
@pytest.mark.parametrize("sink", [None, 0.7])
def test_all_other_weights_of_the_row_make_up_the_rest(sink, weight):
    """0 is the softmax of the row without this cell; a sink loses and gains as any other key."""
    generator = torch.Generator().manual_seed(3)
    scores = 3 * torch.randn(5, 7, generator=generator)
    scores[2, 4] = 25.0 if sink is None else 9.0  # nearly all of its row's weight
    mask = torch.ones(5, 7).bool()
    mask[3] = False
    mask[3, 6] = True
    sinks = None if sink is None else torch.full((1, 1), sink)
    for query, key in ((0, 2), (2, 4), (3, 6), (4, 0)):
        one = vm.SetWeight(0, 0, query, key, weight)
        [change] = one.changes(vm.load("tiny-gpt"))
        found = change.rows(attention_weights(scores, mask, sinks=sinks)[None], 0)[0]
        without = mask.clone()
        without[query, key] = False
        expected = attention_weights(scores, mask, sinks=sinks)
        expected[query] = (1 - weight) * attention_weights(scores.double(), without, sinks=sinks)[query].float()
        expected[query, key] = weight
        np.testing.assert_allclose(found, expected, atol=1e-5)


@pytest.mark.parametrize("part", ["encoder", "decoder", "cross"])
def test_every_part_of_an_encoder_decoder_can_be_edited(part):
    model, source = vm.load("tiny-seq2seq"), "5/3/24 (US)"
    plain = model.trace(source, target="2024").of(part)
    edits = [
        vm.SwitchOff(1, 2, part=part),
        vm.SwitchOff(1, 2, "mean", part=part),
        vm.ScaleHead(1, 2, 4.0, part=part),
        vm.SetWeight(1, 2, 2, 1, 1.0, part=part),
        vm.SetValues(1, 2, "7/9/31 (US)", target="1999", part=part),
        vm.SetValues(1, 1, "7/9/31 (US)", 0, part=part),
    ]
    if part != "cross":
        edits.append(vm.AddVector(0, "7/9/31 (US)", source, 2.0, part=part))
    end, choices = "decoder.final_norm", {"max_new_tokens": 3, "temperature": 0.0, "compare": True}
    for one in edits:
        trace = model.trace(source, target="2024", edits=[one])
        assert not torch.equal(trace[end], plain[end]), one.words
        steps = list(model.generate(source, target="2024", edits=[one], **choices))
        assert max(step.largest_difference for step in steps) < 1e-4, one.words
        np.testing.assert_allclose(steps[0].sampled.logits, trace.logits, atol=1e-4)
    assert model.trace(source, edits=edits).length  # what it writes by itself
    with edit({f"{model.config.attention_name(part, 1)}.mixed": lambda mixed: mixed.index_fill(1, torch.tensor(2), 0)}):
        expected = model.trace(source, target="2024").logits
    np.testing.assert_allclose(model.trace(source, target="2024", edits=edits[:1]).logits, expected, atol=1e-5)


def test_an_added_vector_is_a_component_of_its_own():
    model = vm.load("tiny-gpt")
    trace = model.trace(PROMPT, edits=[EDITS["vector"], vm.AddVector(1, "day", "night", 2.0)])
    terms = trace.logit_terms(5)
    assert abs(terms.remainder) < 1e-3
    assert "layer 1, added vector" in terms.names
    rows, final = model.transformer.unembedding_rows()[0].double(), trace.tensors["blocks.3.resid_post"][-1].double()
    gain = model.transformer.final_norm.weight.double()
    vector = (trace["blocks.1.resid_post"] - model.trace(PROMPT)["blocks.1.resid_post"])[-1].double()
    by_hand = ((vector - vector.mean()) / (final.var(correction=0) + 1e-5).sqrt() * gain) @ rows[5]
    assert float(terms.terms[terms.names.index("layer 1, added vector")]) == pytest.approx(float(by_hand), abs=1e-3)
    score = trace.score_terms(3, 1, 8, 2)
    assert abs(score.remainder) < 1e-4
    assert "layer 1, added vector" in score.names_query


TOKENIZER = small_tokenizer()
SMALL = vm.Model("small", small_model(vocab_size=TOKENIZER.vocab_size), TOKENIZER)


@pytest.mark.parametrize(
    ("one", "words"),
    [
        (vm.SwitchOff(2, 0), "no head 0 of layer 2"),
        (vm.ScaleHead(0, 4, 1.0), "no head 4 of layer 0"),
        (vm.SwitchOff(0, 0, part="cross"), "no part 'cross'"),
        (vm.SetWeight(0, 0, 9, 0), "no query 9"),
        (vm.SetWeight(0, 0, 0, 9), "no key 9"),
        (vm.SetWeight(0, 0, 0, 1, 0.5), "mask already forbids"),
        (vm.SetValues(0, 0, ""), "empty"),
        (vm.SetValues(0, 0, "a b", 7), "no position 7"),
        (vm.AddVector(2, "a", "b"), "no layer 2"),
        (vm.AddVector(0, "a", "b", 1.0, 9), "no position 9"),
    ],
)
def test_what_does_not_fit_is_refused_in_a_sentence(one, words):
    with pytest.raises(vm.VizError, match=words):
        SMALL.trace([1, 2, 3], edits=[one])


def test_what_is_no_edit_is_refused():
    for bad in (None, "off:1.0", [1], [vm.SwitchOff], vm.SwitchOff(0, 0), [vm.SwitchOff(0, 0)] * 101):
        with pytest.raises(vm.EditError):
            SMALL.trace([1, 2], edits=bad)
    for make in (
        lambda: vm.SwitchOff(-1, 0), lambda: vm.SwitchOff(0, 0, "twice"), lambda: vm.SwitchOff(0, 0, part="mine"),
        lambda: vm.ScaleHead(0, 0, float("nan")), lambda: vm.ScaleHead(0, 0, "2"), lambda: vm.ScaleHead(0, 0, 2e6),
        lambda: vm.SetWeight(0, 0, 1, 1, 1.5), lambda: vm.SetValues(0, 0, 5), lambda: vm.SetValues(0, 0, "a" * 1001),
        lambda: vm.AddVector(0, "a", "b", part="cross"),
    ):  # fmt: skip
        with pytest.raises(vm.EditError):
            make()


def test_numbers_that_overflow_are_said_to_come_of_the_edits():
    loud = small_model(vocab_size=TOKENIZER.vocab_size)
    with torch.no_grad():
        loud.blocks[1].attn.output.weight *= 1e36
    model = vm.Model("loud", loud, TOKENIZER)
    with pytest.raises(vm.EditError, match="With these edits"):
        model.trace([1, 2, 3], edits=[vm.ScaleHead(1, 0, LARGEST)])
    with pytest.raises(vm.EditError, match="With these edits"):
        list(model.generate([1, 2, 3], edits=[vm.ScaleHead(1, 0, LARGEST)]))


def test_a_key_that_comes_later_cannot_be_read_while_the_model_writes():
    later = vm.SetWeight(0, 0, 1, 2, 0.5)
    assert float(SMALL.trace([1, 2, 3], "bidirectional", edits=[later]).weights(0, 0)[1, 2]) == 0.5
    with pytest.raises(vm.EditError, match="that key comes later"):
        SMALL.generate([1, 2, 3], edits=[later])


PLACES, PARTS = st.integers(0, 999_999), st.sampled_from(["self", "encoder", "decoder", "cross"])
STACKS, POSITIONS = st.sampled_from(["self", "encoder", "decoder"]), st.none() | PLACES
NUMBERS, TEXTS = st.floats(-LARGEST, LARGEST), st.text(max_size=40)
ANY = st.one_of(
    st.builds(vm.SwitchOff, PLACES, PLACES, st.sampled_from(["zero", "mean"]), part=PARTS),
    st.builds(vm.ScaleHead, PLACES, PLACES, NUMBERS, part=PARTS),
    st.builds(vm.SetWeight, PLACES, PLACES, PLACES, PLACES, st.floats(0, 1), part=PARTS),
    st.builds(vm.SetValues, PLACES, PLACES, TEXTS, POSITIONS, st.none() | TEXTS, part=PARTS),
    st.builds(vm.AddVector, PLACES, TEXTS, TEXTS, NUMBERS, POSITIONS, part=STACKS),
)


@given(ANY)
def test_what_is_written_is_read_again(one):
    again = read_edit(one.written)
    assert again == one
    assert hash(again) == hash(one)
    assert again.written == one.written
    assert one.words.endswith(".")
    assert len(one.words) < 150 + 2 * SHOWN


def test_the_longest_texts_are_read_again():
    one = vm.AddVector(0, ":" * LONGEST, "\\" * LONGEST)
    assert read_edit(one.written) == one


PIECES = ["off", "mean", "scale", "weight", "values", "add", ":", "1.0", "cross.1.0", "all", "2", "0.5", "\\", "nan",
          "-", "²", "9" * 30, "a"]  # fmt: skip


@given(st.text(max_size=30) | st.lists(st.sampled_from(PIECES), max_size=8).map("".join))
def test_any_other_text_is_refused_in_a_sentence(written):
    try:
        found = read_edit(written)
    except vm.EditError as error:
        found = error
    assert isinstance(found, Edit) or str(found).endswith(".")


@pytest.mark.parametrize("stored_weights_bytes", [0, 10**9])
def test_what_a_head_adds_is_split_by_token_under_edits_too(stored_weights_bytes):
    model = vm.load("tiny-gpt")
    edits = [vm.ScaleHead(1, 0, 2.5), vm.SwitchOff(2, 3), vm.SetWeight(3, 1, QUERY, KEY, 0.5)]
    trace = model.trace(PROMPT, edits=edits, stored_weights_bytes=stored_weights_bytes)
    sources, terms = trace.logit_sources(5), trace.logit_terms(5)
    assert abs(terms.remainder) < 1e-3
    of_heads = dict(zip(terms.names, terms.terms.tolist(), strict=True))
    expected = [of_heads[name] for name in sources.names]
    np.testing.assert_allclose(sources.of_heads, expected, atol=1e-4)
    assert of_heads["layer 2, head 3"] == 0
    assert sources.of_no_token.abs().max() < 1e-4
    put = EDITS["values"]
    sources = model.trace(PROMPT, edits=[put]).logit_sources(5)
    at = sources.names.index(f"layer {put.layer}, head {put.head}")
    assert sources.terms[at].abs().max() == 0  # other values stand there, which are of no token of this text
    assert sources.of_no_token[at] == pytest.approx(float(sources.of_heads[at]))


def unedited(model):
    return model.under_edits_of(Model("s", small_model()))


MADE = {
    "other positions": lambda model: under_scheme(model, "none"),
    "a longer text": lambda model: longer(model, 40),
    "moved norms": lambda model: with_norms_placed(model, "post"),
    "rounded weights": lambda model: quantize(model, Choice(INT8)).model,
    "rounded weights, edited later": lambda model: quantize(unedited(model), Choice(INT8)).under_edits_of(model).model,
}


@pytest.mark.parametrize("kind", MADE)
def test_a_model_that_is_made_of_an_edited_one_makes_its_edits(kind):
    """A copy once named the edits and did not make them."""
    plain = Model("s", small_model(position="rotary", n_layers=2))
    edits = [vm.SwitchOff(0, 1), vm.AddVector(0, "3 4", "5 6", 2.0)]
    ends = [plain.trace(text)["blocks.0.resid_post"][-1] for text in ("3 4", "5 6")]

    def off(mixed):
        mixed[:, 1] = 0
        return mixed

    made = MADE[kind](plain.edited(edits))
    assert made.edits == tuple(edits)
    alone = MADE[kind](plain)
    assert alone.edits == ()
    with vm.edit({"blocks.0.attn.mixed": off, "blocks.0.resid_post": lambda x: x + 2 * (ends[0] - ends[1])}):
        expected = alone.trace([3, 1, 4, 1, 5]).logits
    np.testing.assert_allclose(made.trace([3, 1, 4, 1, 5]).logits, expected, atol=1e-5)
    assert float((alone.trace([3, 1, 4, 1, 5]).logits - expected).abs().max()) > 1e-3
