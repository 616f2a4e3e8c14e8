"""Values and paths patched, against the library's GPT-2 and Llama with hooks of their own."""

from contextlib import ExitStack

import numpy as np
import pytest
import torch

import viz_model as vm
from tests.reference.families import FAMILIES, save_small
from tests.support.transformers_tiny_gpt import gpt2
from tests.support.transformers_tiny_llama import llama
from viz_model.heads.alignment import align, shared_start

CLEAN = "The blue bird saw a brave wolf by the mill. The blue"
CORRUPTED = "The brave bird saw a blue wolf by the mill. The blue"
LONGER = "The brave old bird saw a blue wolf by the mill. The blue"
ANSWER = (" bird", " wolf")
D = 32


class Gpt2:
    """tiny-gpt in the library's own code: where its heads, halves and projections are."""

    name = "tiny-gpt"

    def __init__(self):
        self.whole = gpt2()
        self.blocks = list(self.whole.transformer.h)

    def joined(self, layer):
        """The module that reads the mixed values of all heads, side by side."""
        return self.blocks[layer].attn.c_proj

    def feed_forward(self, layer):
        return self.blocks[layer].mlp

    def projection(self, layer, into):
        """The module that makes queries, keys or values, and where a head's lie in what it gives."""
        start = {"query": 0, "key": 256, "value": 512}[into]
        return self.blocks[layer].attn.c_attn, lambda head: slice(start + D * head, start + D * (head + 1))


class Llama(Gpt2):
    name = "tiny-llama"

    def __init__(self):
        self.whole = llama()
        self.blocks = list(self.whole.model.layers)

    def joined(self, layer):
        return self.blocks[layer].self_attn.o_proj

    def projection(self, layer, into):
        attention = self.blocks[layer].self_attn
        module = {"query": attention.q_proj, "key": attention.k_proj, "value": attention.v_proj}[into]
        shared = 1 if into == "query" else 4  # 8 heads of queries, 2 of keys
        return module, lambda head: slice(D * (head // shared), D * (head // shared + 1))


def reading(module, change):
    """Let a module read what `change` makes of its input."""
    return module.register_forward_pre_hook(lambda _, read: (change(read[0].clone()), *read[1:]))


def giving(module, change):
    return module.register_forward_hook(lambda _, __, result: change(result.clone()))


def kept(store, name):
    def keep(tensor):
        store[name] = tensor.clone()
        return tensor

    return keep


def constant(tensor):
    return lambda _: tensor


@torch.inference_mode()
def run(library, ids, *handles):
    """Logits of the last position, with hooks that are taken away afterwards."""
    with ExitStack() as stack:
        for handle in handles:
            stack.callback(handle.remove)
        return library.whole(torch.tensor([ids])).logits[0, -1]


def difference(library, model, logits):
    good, bad = (model.encode(word)[0] for word in ANSWER)
    return float(logits[good] - logits[bad])


@pytest.mark.parametrize("library", [Gpt2, Llama])
@pytest.mark.parametrize("into", ["query", "key", "value"])
def test_a_path_does_what_it_does_in_the_library(library, into):
    library = library()
    model, (layer, head) = vm.load(library.name), (2, 3)
    clean, corrupted = model.encode(CLEAN), model.encode(CORRUPTED)
    found = vm.patch_paths(model, CLEAN, CORRUPTED, (layer, head), into, ANSWER)
    store = {}
    watched = [reading(library.joined(n), kept(store, ("clean", n))) for n in range(layer)]
    d_clean = difference(library, model, run(library, clean, *watched))
    watched = [reading(library.joined(n), kept(store, ("base", n))) for n in range(layer + 1)]
    watched += [giving(library.feed_forward(n), kept(store, ("ffn", n))) for n in range(layer)]
    d_base = difference(library, model, run(library, corrupted, *watched))
    module, place = library.projection(layer, into)
    assert [found.clean, found.corrupted] == pytest.approx([d_clean, d_base], abs=1e-3)
    for sender_layer, sender in [(0, 0), (0, 1), (1, 0), (1, 7)]:
        frozen = {n: store["base", n].clone() for n in range(layer)}
        own = slice(D * sender, D * (sender + 1))
        frozen[sender_layer][..., own] = store["clean", sender_layer][..., own]
        handles = [reading(library.joined(n), constant(frozen[n])) for n in range(layer)]
        handles += [giving(library.feed_forward(n), constant(store["ffn", n])) for n in range(layer)]
        run(library, corrupted, *handles, giving(module, kept(store, "received")))

        def put(made):
            made[..., place(head)] = store["received"][..., place(head)]
            return made

        def alone(mixed):
            others = store["base", layer].clone()
            others[..., D * head : D * (head + 1)] = mixed[..., D * head : D * (head + 1)]
            return others

        handles = giving(module, put), reading(library.joined(layer), alone)
        effect = (difference(library, model, run(library, corrupted, *handles)) - d_base) / (d_clean - d_base)
        assert float(found.effect[sender_layer, sender]) == pytest.approx(effect, rel=1e-4, abs=2e-5)


def test_both_heads_of_induction_are_found_and_the_path_between_them():
    """The previous-token head of layer 0 writes into the key of the induction head of layer 1, and nowhere else."""
    for name, previous in [("tiny-gpt", 0), ("tiny-llama", 1)]:
        model = vm.load(name)
        heads = vm.patch(model, CLEAN, CORRUPTED, "heads", ANSWER).effect
        assert sorted(heads.flatten().topk(2).indices.tolist()) == [previous, 8]
        assert float(heads[0, previous]) > 0.75
        assert float(heads[1, 0]) > 0.95
        paths = {into: vm.patch_paths(model, CLEAN, CORRUPTED, (1, 0), into, ANSWER) for into in ("query", "key")}
        assert paths["key"].effect[0].argmax() == previous
        assert float(paths["key"].effect[0, previous]) > 0.55
        assert paths["key"].whole > 0.9
        assert paths["query"].effect[0].abs().max() < 0.02
        assert paths["key"].effect[1:].isnan().all(), "no path leads from a later head to an earlier one"
        direct = vm.patch_paths(model, CLEAN, CORRUPTED, "logits", answer=ANSWER).effect
        assert float(direct[1, 0]) > 0.55, "the induction head writes into the logits itself"
        assert direct[0].abs().max() < 0.01, "what feeds it does not"


@pytest.mark.parametrize(("clean", "corrupted"), [(CLEAN, LONGER), (LONGER, CLEAN)])
@torch.inference_mode()
def test_prompts_of_unequal_length_are_aligned_by_the_ends_they_share(clean, corrupted):
    """Behind what was left out every token has moved by one: a position that is off by one is another number."""
    model, library = vm.load("tiny-gpt"), Gpt2()
    ids = [model.encode(text) for text in (clean, corrupted)]
    assert abs(len(ids[0]) - len(ids[1])) == 1
    found = vm.patch(model, clean, corrupted, answer=ANSWER)
    pairs = found.alignment.pairs
    assert all(ids[0][i] == ids[1][j] for i, j in pairs)
    assert len(pairs) == 8
    alone = {*range(len(ids[1]))} - {j for _, j in pairs}
    assert found.effect.isnan().any(0).nonzero().flatten().tolist() == sorted(alone)
    store = {}
    ends = [difference(library, model, run(library, one)) for one in ids]
    run(library, ids[0], *(reading(library.blocks[n], kept(store, n)) for n in range(4)))
    for layer, (i, j) in [(1, pairs[1]), (2, pairs[-1]), (1, pairs[-6])]:

        def put(stream, layer=layer, i=i, j=j):
            stream[0, j] = store[layer][0, i]
            return stream

        d = difference(library, model, run(library, ids[1], reading(library.blocks[layer], put)))
        effect = (d - ends[1]) / (ends[0] - ends[1])
        assert float(found.effect[layer, j]) == pytest.approx(effect, rel=1e-4, abs=2e-5)


@torch.inference_mode()
def test_a_head_at_one_position_does_what_it_does_in_the_library():
    model, library = vm.load("tiny-gpt"), Gpt2()
    ids = [model.encode(text) for text in (CLEAN, CORRUPTED)]
    found = vm.patch(model, CLEAN, CORRUPTED, "head_positions", ANSWER, layers=[0, 1])
    assert found.effect.shape == (4, 8, 13)
    assert found.effect[2:].isnan().all()
    ends = [difference(library, model, run(library, one)) for one in ids]
    for layer, head, position in [(0, 0, 2), (0, 0, 6), (1, 0, 12), (1, 7, 3)]:
        store, own = {}, slice(D * head, D * (head + 1))
        run(library, ids[0], reading(library.joined(layer), kept(store, 0)))

        def put(mixed, position=position, own=own, store=store):
            mixed[0, position, own] = store[0][0, position, own]
            return mixed

        d = difference(library, model, run(library, ids[1], reading(library.joined(layer), put)))
        effect = (d - ends[1]) / (ends[0] - ends[1])
        assert float(found.effect[layer, head, position]) == pytest.approx(effect, rel=1e-4, abs=2e-5)


@pytest.mark.parametrize("sites", ["resid_pre", "heads", "head_positions"])
def test_the_reverse_is_the_same_with_the_prompts_exchanged(sites):
    model = vm.load("tiny-gpt")
    there = vm.patch(model, LONGER, CORRUPTED, sites, ANSWER, reverse=True)
    back = vm.patch(model, CORRUPTED, LONGER, sites, ANSWER)
    np.testing.assert_allclose(there.effect, back.effect, atol=1e-9)
    assert (there.clean, there.corrupted) == (back.corrupted, back.clean)
    assert there.effect.shape[-1] == (8 if sites == "heads" else 14)


def test_what_is_the_same_in_both_runs_is_not_run_again():
    """Before the first token that differs, a causal model has the same values in both runs."""
    model, told = vm.load("tiny-gpt"), []
    start = "There was once a king. "
    found = vm.patch(model, start + CLEAN, start + CORRUPTED, answer=ANSWER, tell=lambda *step: told.append(step))
    first = len(model.encode(start.rstrip())) + 1  # the first of the two tokens that differ
    assert found.effect[:, :first].tolist() == [[found.nothing] * first] * 4
    length = found.effect.shape[1]
    assert told[-1] == (2 + 3 * (length - first) + 2,) * 2, "two tokens before layer 0, and the two ends"


def test_a_mask_of_the_traces_stays():
    model = vm.load("tiny-gpt")
    own, both = (vm.patch(model, CLEAN, CORRUPTED, "heads", ANSWER).effect for _ in range(2))
    traces = [model.trace(text, "bidirectional") for text in (CLEAN, CORRUPTED)]
    other = vm.patch(model, *traces, "heads", ANSWER)
    assert torch.equal(own, both)
    assert not torch.allclose(own, other.effect, atol=0.1)
    assert other.whole == pytest.approx(1, abs=1e-4)


@pytest.mark.parametrize("family", ["Gemma 2", "GPT-J", "BERT", "Mixtral", "gpt-oss", "T5"])
def test_all_of_it_is_the_clean_run_and_nothing_the_corrupted_one(family, tmp_path):
    """Whatever the model: norms behind a half, halves side by side, post-norm, experts, sinks, two stacks."""
    save_small(FAMILIES[family], tmp_path)
    model = vm.load(tmp_path)
    clean, corrupted = [3, 4, 5, 6, 7, 8, 9], [3, 4, 15, 6, 7, 8, 9]
    if model.has_source:
        clean, corrupted = (model.trace(ids, target=[10, 11, 12]) for ids in (clean, corrupted))
    for part in model.config.parts:
        for sites in ("resid_pre", "attn.out", "ffn.out", "heads", "head_positions"):
            found = vm.patch(model, clean, corrupted, sites, (20, 21), part=part)
            assert found.nothing == pytest.approx(0, abs=1e-4)
            assert found.whole == pytest.approx(1, abs=1e-4)
            assert found.effect.isfinite().all()
            if sites == "resid_pre" and part in ("self", "encoder"):  # the prompts differ in one token
                assert found.effect[0].tolist() == pytest.approx([0, 0, 1, 0, 0, 0, 0], abs=1e-4)
        if part != "encoder":
            direct = vm.patch_paths(model, clean, corrupted, "logits", answer=(20, 21), part=part)
            assert (direct.nothing, direct.whole) == (pytest.approx(0, abs=1e-4), pytest.approx(1, abs=1e-4))
            assert direct.effect.isfinite().all()
            assert direct.effect.abs().max() > 1e-4


def test_what_is_aligned():
    assert align([1, 2, 3], [4, 5, 6]).pairs == ((0, 0), (1, 1), (2, 2))
    assert align([1, 2, 3], [1, 9, 2, 3]).columns == ((0, 0), (None, 1), (1, 2), (2, 3))
    assert align([1, 7, 8, 3], [1, 9, 3]).columns == ((0, 0), (1, None), (2, None), (None, 1), (3, 2))
    assert align([1, 1], [1, 1, 1]).pairs == ((0, 0), (1, 1))
    assert align([1], [2, 3]).pairs == ()
    assert not align([5, 1], [5, 2, 1]).is_whole
    assert align([5], [6]).is_whole
    assert shared_start([1, 2, 3], [1, 2, 4, 5]) == [1, 2]


def test_one_token_can_be_patched():
    model = vm.load("tiny-gpt")
    found = vm.patch(model, "a", "b", answer=ANSWER)
    assert found.effect.flatten().tolist() == pytest.approx([1] * 4, abs=1e-4)
    paths = vm.patch_paths(model, "a", "b", (3, 0), "value", ANSWER)
    assert paths.effect[:3].isfinite().all()


def test_every_part_of_an_encoder_decoder_can_be_patched():
    """The month is read from the source by cross-attention: its stream carries the answer, and then the decoder's."""
    model = vm.load("tiny-seq2seq")
    dates = ["3 May 2024", "3 Jun 2024"]
    target = shared_start(*map(model.written, dates))
    traces = [model.trace(date, target=target) for date in dates]
    good, bad = (int(trace.logits.argmax()) for trace in traces)
    assert [model.token_bytes([token])[0] for token in (good, bad)] == [b"5", b"6"]
    for part, shape in [("encoder", (2, 10)), ("decoder", (2, len(target))), ("cross", (2, len(target)))]:
        found = vm.patch(model, *traces, answer=(good, bad), part=part)
        assert found.effect.shape == shape
        assert found.whole == pytest.approx(1, abs=1e-4)
    source = vm.patch(model, *traces, answer=(good, bad), part="encoder").effect
    assert source[0, [0, 1, 5, 6, 7, 8, 9]].abs().max() < 0.2, "these are the same in both dates"
    cross = vm.patch(model, *traces, "heads", (good, bad), part="cross").effect
    assert cross.argmax() // 4 == 1, "a head of the last layer"
    assert float(cross.max()) > 0.2
    with pytest.raises(vm.VizError, match="encoder output"):
        vm.patch_paths(model, *traces, (1, 0), "key", (good, bad), part="cross")
    assert vm.patch_paths(model, *traces, (1, 0), "query", (good, bad), part="cross").effect[0].isfinite().all()
    with pytest.raises(vm.VizError, match="encoder output"):
        vm.patch_paths(model, *traces, "logits", answer=(good, bad), part="encoder")


def test_what_cannot_be_patched_is_a_sentence():
    model = vm.load("tiny-gpt")
    with pytest.raises(vm.VizError, match="Choose prompts of equal length"):
        vm.patch(model, CLEAN, "Once upon a time", answer=ANSWER)
    with pytest.raises(vm.VizError, match="no position 99"):
        vm.patch(model, CLEAN, CORRUPTED, answer=ANSWER, position=99)
    for layers in ([], [4], [-1], "some", 1):
        with pytest.raises(vm.VizError, match="layer"):
            vm.patch(model, CLEAN, CORRUPTED, answer=ANSWER, layers=layers)
    with pytest.raises(vm.VizError, match="feed-forward"):
        vm.patch(vm.load("induction"), "ab", "cb", "ffn.out", ("a", "b"))
    for receiver in ((4, 0), (0, 8), 5, (1,), ("a", 0)):
        with pytest.raises(vm.VizError):
            vm.patch_paths(model, CLEAN, CORRUPTED, receiver, "key", ANSWER)
    with pytest.raises(vm.VizError, match="cannot lead into"):
        vm.patch_paths(model, CLEAN, CORRUPTED, (1, 0), "score", ANSWER)
    with pytest.raises(vm.VizError, match="no query, key or value"):
        vm.patch_paths(model, CLEAN, CORRUPTED, "logits", "key", ANSWER)
    with pytest.raises(vm.VizError, match="A receiver is"):
        vm.patch_paths(model, CLEAN, CORRUPTED, "the end", answer=ANSWER)


def test_what_predicts_nothing_is_refused_and_so_are_numbers_that_are_none(tmp_path):
    save_small(FAMILIES["BERT"], tmp_path)
    silent = vm.load(tmp_path)
    with torch.no_grad():
        next(silent.transformer.network.parameters()).fill_(torch.nan)
    with pytest.raises(vm.VizError):
        vm.patch(silent, [3, 4], [3, 5], answer=(1, 2))


def edited_by_hand(library, model):
    """Head 1 of layer 0 off, and a vector added behind layer 1, as hooks on the library's model."""
    ends = [model.trace(text)["blocks.1.resid_post"][-1] for text in ("love", "hate")]

    def off(mixed):
        mixed[..., D : 2 * D] = 0
        return mixed

    def added(_, __, result):
        return result + 3 * (ends[0] - ends[1])

    return [reading(library.joined(0), off), library.blocks[1].register_forward_hook(added)]


@pytest.mark.parametrize("library", [Gpt2, Llama])
def test_both_runs_of_an_edited_model_are_edited_and_what_is_put_in_comes_on_top(library):
    library = library()
    plain = vm.load(library.name)
    edits = [vm.SwitchOff(0, 1), vm.AddVector(1, "love", "hate", 3.0)]
    model = plain.edited(edits)
    clean, corrupted = plain.encode(CLEAN), plain.encode(CORRUPTED)
    traces = [plain.trace(text, edits=edits) for text in (CLEAN, CORRUPTED)]
    heads, stream = (vm.patch(model, *traces, sites, ANSWER) for sites in ("heads", "resid_pre"))
    store = {}
    handles = edited_by_hand(library, plain)  # first: hooks of one module run in the order in which they were made
    handles += [reading(library.joined(n), kept(store, n)) for n in range(4)]
    handles += [reading(library.blocks[2], kept(store, "stream"))]
    ends = [difference(library, plain, run(library, clean, *handles))]
    ends += [difference(library, plain, run(library, corrupted, *edited_by_hand(library, plain)))]
    assert [heads.clean, heads.corrupted] == pytest.approx(ends, abs=1e-3)
    assert abs(heads.clean - vm.patch(plain, CLEAN, CORRUPTED, "heads", ANSWER).clean) > 0.01, "the edits do nothing"

    def effect(module, change):
        handles = [*edited_by_hand(library, plain), reading(module, change)]
        return (difference(library, plain, run(library, corrupted, *handles)) - ends[1]) / (ends[0] - ends[1])

    for layer, head in [(0, 0), (0, 1), (1, 0), (2, 3), (3, 5)]:

        def put(mixed, layer=layer, own=slice(D * head, D * (head + 1))):
            mixed[..., own] = store[layer][..., own]
            return mixed

        assert float(heads.effect[layer, head]) == pytest.approx(effect(library.joined(layer), put), abs=2e-4)
    assert float(heads.effect[0, 1]) == pytest.approx(0, abs=1e-5), "it is off in both runs"

    def put_stream(hidden):
        hidden[:, 5] = store["stream"][:, 5]
        return hidden

    assert float(stream.effect[2, 5]) == pytest.approx(effect(library.blocks[2], put_stream), abs=2e-4)
    assert [stream.nothing, stream.whole] == pytest.approx([0, 1], abs=1e-4)


def test_traces_under_other_edits_than_those_of_the_model_are_refused():
    plain = vm.load("tiny-gpt")
    model = plain.edited([vm.SwitchOff(0, 1)])
    of_plain, of_edited = plain.trace(CLEAN), model.trace(CLEAN)
    refused = [
        (lambda: vm.patch(model, of_plain, CORRUPTED, "heads", ANSWER), "under no edits, and the model has the edits"),
        (lambda: vm.patch(plain, of_edited, CORRUPTED, "heads", ANSWER), "under the edits off:0.1, and the model has"),
        (lambda: vm.patch_paths(model, CLEAN, plain.trace(CORRUPTED), (1, 0), "key", ANSWER), "under no edits"),
        (lambda: vm.ablate(model, of_plain), "under no edits"),
        (lambda: vm.ablate(plain, of_edited), "under the edits off:0.1"),
    ]
    for call, words in refused:
        with pytest.raises(vm.EditError, match=words):
            call()
    assert vm.ablate(model, of_edited, [(1, 0)]).kl[1, 0] == vm.ablate(model, CLEAN, [(1, 0)]).kl[1, 0]
