"""A pass taken apart, switched off and patched, against TransformerLens on the same weights.

TransformerLens folds the gain and bias of each norm into the matrix behind it; nothing else of what it can do to
weights is done here, so that its components are those of the model.
"""

import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from transformer_lens import FactoredMatrix, patching
from transformer_lens.model_bridge.sources import build_bridge_from_module
from transformers import AutoModelForCausalLM
from transformers.models.llama.modeling_llama import apply_rotary_pos_emb

import viz_model as vm
from tests.reference.families import FAMILIES, GPT2, Family, library_model, save_small

SHAPES = {
    "GPT-2": Family(AutoModelForCausalLM, "gpt2", GPT2),
    "Llama": FAMILIES["Llama"],
    "GPT-NeoX": FAMILIES["GPT-NeoX"],  # both halves of a block read the same stream
    "Cohere": FAMILIES["Cohere"],  # its logits are scaled
}
IDS = [5, 44, 17, 8, 60, 23, 23, 9, 31, 12]
OTHER = [5, 44, 17, 8, 33, 23, 23, 9, 31, 12]
GOOD, BAD = 7, 3
OUR_NAMES = {"embed": "token embedding", "pos_embed": "position embedding", "bias": "biases"}


@pytest.fixture(scope="module", params=SHAPES)
def both(request, tmp_path_factory):
    """The same weights here and there, both in float64: model and trace; bridge and cache.

    In float32 the smallest effects of these random weights are not far above what a processor's order of adding makes.
    """
    folder = tmp_path_factory.mktemp("shape")
    save_small(SHAPES[request.param], folder)
    theirs = library_model(SHAPES[request.param], folder).double()
    bridge = build_bridge_from_module(theirs, type(theirs).__name__, hf_config=theirs.config)
    bridge.enable_compatibility_mode(
        disable_warnings=True, center_writing_weights=False, center_unembed=False, fold_value_biases=False
    )
    model = vm.load(folder)
    model.transformer.network.double()
    with torch.no_grad():
        logits, cache = bridge.run_with_cache(torch.tensor([IDS]))
    return SimpleNamespace(
        name=request.param, model=model, trace=model.trace(IDS), bridge=bridge, logits=logits[0], cache=cache
    )


def agree(ours, theirs):
    """To 1e-4 of the largest number."""
    theirs = np.asarray(theirs.detach())
    np.testing.assert_allclose(np.asarray(ours), theirs, rtol=0, atol=1e-4 * np.abs(theirs).max())


def our_name(label):
    """ "L1H3" -> "layer 1, head 3"; "1_mlp_out" -> "layer 1, feed-forward"."""
    if label in OUR_NAMES:
        return OUR_NAMES[label]
    if label.startswith("L"):
        layer, head = label[1:].split("H")
        return f"layer {layer}, head {head}"
    return f"layer {label.removesuffix('_mlp_out')}, feed-forward"


def decomposed(both, layer, **options):
    """Their components of the stream that a layer reads, and our names of them."""
    stack, labels = both.cache.get_full_resid_decomposition(layer, expand_neurons=False, return_labels=True, **options)
    return stack[:, 0], [our_name(label) for label in labels]


@torch.no_grad()
def test_the_lens_of_every_layer_and_position(both):
    found = both.cache.logit_lens(return_type="logits", positions=None).values[:, 0]  # (L+1,T,V): also before layer 0
    for layer in range(both.trace.n_layers):
        for position in (0, 4, -1):
            agree(both.trace.lens(layer, position), found[layer + 1, position])


@torch.no_grad()
@pytest.mark.parametrize("position", [2, -1])
def test_what_each_component_adds_to_the_difference_of_two_logits(both, position):
    stack, names = decomposed(both, layer=None)
    theirs = both.cache.logit_attrs(stack[:, None], GOOD, BAD)[:, 0, position]
    bias = both.bridge.b_U  # what they fold into it, we count among the biases
    theirs[names.index("biases")] += bias[GOOD] - bias[BAD]
    ours = both.trace.logit_terms(GOOD, position, than=BAD)
    assert sorted(ours.names) == sorted(names)
    agree(ours.terms[[ours.names.index(name) for name in names]], theirs)
    agree(ours.logit, both.logits[position, GOOD] - both.logits[position, BAD])
    only_heads, labels = both.cache.stack_head_results(return_labels=True)
    theirs = both.cache.logit_attrs(only_heads, GOOD, BAD)[:, 0, position]
    agree(ours.terms[[ours.names.index(our_name(label)) for label in labels]], theirs)


def of_head(both, stack, side, layer, head):
    """What their components (A,T,C), behind the norm, become in a head: (A,T,D), turned where the model turns them."""
    attention = both.bridge.blocks[layer].attn
    weight = getattr(attention, f"W_{side}")
    head = head * len(weight) // both.trace.config.n_heads
    parts = stack @ weight[head]
    bias = getattr(attention, f"b_{side}", None)
    if bias is not None:
        parts[-1] += bias.reshape(len(weight), -1)[head]
    if both.name == "Llama":
        cos, sin = both.cache["rotary_emb.hook_cos"], both.cache["rotary_emb.hook_sin"]
        parts = apply_rotary_pos_emb(parts[:, None], parts[:, None], cos, sin)[0][:, 0]
    return parts


@torch.no_grad()
@pytest.mark.parametrize("both", ["GPT-2", "Llama"], indirect=True)  # the others turn a part of a query
@pytest.mark.parametrize(("layer", "head"), [(0, 1), (1, 4)])
def test_what_components_of_query_and_key_add_to_a_score(both, layer, head):
    stack, names = decomposed(both, layer, apply_ln=True)
    assert names[-1] == "biases"
    queries, keys = (of_head(both, stack, side, layer, head) for side in "QK")
    known = both.cache[f"blocks.{layer}.attn.hook_attn_scores"][0, head]
    for query, key in ((9, 3), (5, 5), (4, 0)):
        theirs = queries[:, query] @ keys[:, key].T / math.sqrt(queries.shape[-1])
        ours = both.trace.score_terms(layer, head, query, key)
        places = [ours.names_query.index(name) for name in names]
        assert sorted(ours.names_query) == sorted(ours.names_key) == sorted(names)
        agree(ours.terms[places][:, places], theirs)
        agree(ours.score, known[query, key])


@torch.no_grad()
def test_what_is_predicted_without_a_head(both):
    found = vm.ablate(both.model, IDS)
    before = both.logits[-1].double().log_softmax(-1)
    for layer in range(both.trace.n_layers):
        for head in (0, 3):

            def without(mixed, hook, head=head):
                mixed[:, :, head] = 0.0
                return mixed

            hooks = [(f"blocks.{layer}.attn.hook_z", without)]
            after = both.bridge.run_with_hooks(torch.tensor([IDS]), fwd_hooks=hooks)[0, -1].double()
            agree(found.logit_change(GOOD)[layer, head], after[GOOD] - both.logits[-1, GOOD])
            divergence = (before.exp() * (before - after.log_softmax(-1))).sum() / math.log(2)
            agree(found.kl[layer, head], divergence)


@torch.no_grad()
@pytest.mark.parametrize(
    ("sites", "sweep"),
    [
        ("resid_pre", patching.get_act_patch_resid_pre),
        ("attn.out", patching.get_act_patch_attn_out),
        ("ffn.out", patching.get_act_patch_mlp_out),
        ("heads", patching.get_act_patch_attn_head_out_all_pos),
        ("head_positions", patching.get_act_patch_attn_head_out_by_pos),
    ],
)
def test_what_returns_when_a_value_of_the_other_pass_is_put_in(both, sites, sweep):
    other = torch.tensor([OTHER])
    theirs = sweep(both.bridge, other, both.cache, difference)
    clean, corrupted = difference(both.logits[None]), difference(both.bridge(other))
    found = vm.patch(both.model, IDS, OTHER, sites, (GOOD, BAD))
    effect = found.effect.transpose(1, 2) if sites == "head_positions" else found.effect  # theirs: (L,T,H)
    agree(effect, (theirs - corrupted) / (clean - corrupted))


def difference(logits):
    return logits[0, -1, GOOD] - logits[0, -1, BAD]


@torch.no_grad()
@pytest.mark.parametrize(  # theirs has no paths in blocks of parallel halves, nor into keys that heads share
    ("both", "into"), [("GPT-2", "query"), ("GPT-2", "key"), ("GPT-2", "value"), ("Llama", "query")], indirect=["both"]
)
def test_what_returns_over_the_path_from_a_head_into_another(both, into):
    other, receiver = torch.tensor([OTHER]), (both.trace.n_layers - 1, 4)  # a head over which much returns
    logits, cache = both.bridge.run_with_cache(other)
    found = vm.patch_paths(both.model, IDS, OTHER, receiver, into, (GOOD, BAD))
    clean, corrupted = difference(both.logits[None]), difference(logits)
    given = both.bridge, other, both.cache, cache, difference
    ours, theirs = [], []
    for layer, head in [(0, 0), (0, 1), (0, 2), (receiver[0] - 1, 1)]:
        paths = patching.get_act_patch_direct_path(*given, layer, head, into[0], verbose=False)
        theirs.append((paths[receiver] - corrupted) / (clean - corrupted))
        ours.append(found.effect[layer, head])
    agree(ours, torch.stack(theirs))
    assert max(map(abs, theirs)) > 0.02


@torch.no_grad()
@pytest.mark.parametrize("reverse", [False, True])
def test_what_returns_over_the_path_from_a_head_into_the_logits(both, reverse):
    """What the head wrote less, or more, in the other run is added to the final stream, and to nothing before it."""
    runs = {False: IDS, True: OTHER}
    origin, base = torch.tensor([runs[reverse]]), torch.tensor([runs[not reverse]])
    (of_origin, values), (of_base, own) = (both.bridge.run_with_cache(ids) for ids in (origin, base))
    found = vm.patch_paths(both.model, IDS, OTHER, "logits", answer=(GOOD, BAD), reverse=reverse)
    last, theirs = len(both.bridge.blocks) - 1, torch.zeros_like(found.effect)
    for layer, head in np.ndindex(*theirs.shape):
        of_head = f"blocks.{layer}.attn.hook_z"
        written = (values[of_head] - own[of_head])[:, :, head] @ both.bridge.blocks[layer].attn.W_O[head]
        hooks = [(f"blocks.{last}.hook_resid_post", lambda stream, hook, written=written: stream + written)]
        theirs[layer, head] = difference(both.bridge.run_with_hooks(base, fwd_hooks=hooks)) - difference(of_base)
    agree(found.effect, theirs / (difference(of_origin) - difference(of_base)))
    assert found.effect.abs().amax(1).min() > 1e-3, "every layer has a head that adds to the answer itself"
    assert found.whole == pytest.approx(1, abs=1e-6)


@torch.no_grad()
@pytest.mark.parametrize(("kind", "letter"), [("query", "Q"), ("key", "K"), ("value", "V")])
def test_composition_of_heads(both, kind, letter):
    circuits = vm.circuits(both.model)
    ours, theirs = circuits.composition(kind), both.bridge.all_composition_scores(letter)
    assert ours.shape == theirs.shape
    agree((ours + circuits.baseline(kind)).nan_to_num(0.0), theirs)  # without a path theirs is 0


@torch.no_grad()
def test_eigenvalues_of_what_a_head_makes_of_tokens(both):
    found, bridge = vm.circuits(both.model).measure_copying(), both.bridge
    for layer, head in ((0, 1), (1, 4)):
        values = bridge.OV[layer, head]
        theirs = FactoredMatrix(bridge.W_E @ values.A, values.B @ bridge.W_U).eigenvalues
        ours = found.eigenvalues[layer, head]
        for of in (lambda x: x.real.sum(), lambda x: x.abs().sum(), lambda x: x.abs().max()):
            agree(of(ours), of(theirs))
        assert float(found.scores[layer, head]) == pytest.approx(
            float(theirs.real.sum() / theirs.abs().sum()), abs=1e-4
        )
