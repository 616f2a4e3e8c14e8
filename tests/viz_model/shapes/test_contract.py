"""The tensor contract against real passes: shapes, parameters, and the line of PyTorch that each node shows."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn import functional as F

import viz_model as vm
from tests.support.properties import examples
from tests.support.small_models import configs, expected_sites, make_model, random_ids, small_model
from tests.support.transformers_tiny_gpt import gpt2
from viz_model.shapes import costs
from viz_model.shapes.contract import all_nodes, sizes
from viz_model.shapes.values import NodeValues, node_tensor, statistics
from viz_model.transformer.config import CHOICES
from viz_model.transformer.hooks import capture
from viz_model.transformer.positions import rotary_angles, rotate

WITHOUT_A_SITE = ("ids", "attn.joined", "cross.joined", "memory")
ANY_LAYOUT = st.sampled_from(CHOICES["layout"]).flatmap(lambda layout: configs(layout=layout))
SOURCE = 5
PROMPT = "The queen gave the girl a ring, and she thanked her."


def passed(config, batch, length, mask=None):
    """A random model, what it read, and all that one pass of it left; mask: of the self-attention before the logits."""
    model, ids, read = make_model(config), random_ids(batch, length), {}
    if config.layout == "encoder-decoder":
        read = {"encoder.ids": random_ids(batch, SOURCE, seed=1), "decoder.ids": ids}
    given = {"source": read["encoder.ids"]} if read else {}
    with capture("*") as found:
        model(ids, logits="all", mask=mask, **given)
    return model, read or {"ids": ids}, found


def nodes_of(config, length, batch=1, masks=None):
    return all_nodes(config, length, batch, masks, source=SOURCE if config.layout == "encoder-decoder" else 0)


def letters_of(config, node, length, batch):
    if node.part == "encoder":
        return sizes(config, SOURCE, batch, part="encoder")
    return sizes(config, length, batch, part=node.part, source=0 if node.part == "self" else SOURCE)


@examples(60)
@given(config=ANY_LAYOUT, batch=st.integers(1, 3), length=st.integers(1, 7))
def test_nodes_are_what_a_pass_goes_through_in_these_shapes(config, batch, length):
    model, _, found = passed(config, batch, length)
    nodes = {node.name: node for node in nodes_of(config, length, batch)}
    sites = {name for name, node in nodes.items() if node.local not in WITHOUT_A_SITE}
    assert sites == set(found) == expected_sites(config)
    for name in sites:
        assert nodes[name].shape == tuple(found[name].shape), name
        assert nodes[name].nbytes == found[name].numel() * found[name].element_size(), name
    shapes = {name: tuple(parameter.shape) for name, parameter in model.named_parameters()}
    listed = [parameter for node in nodes.values() for parameter in node.parameters]
    assert sum(costs.parameters_by_part(config).values()) == model.n_parameters()
    assert {parameter.name: parameter.shape for parameter in listed} == shapes
    assert sum(node.n_parameters for node in nodes.values()) == sum(p.numel() for p in model.parameters())


@examples(60)
@given(config=ANY_LAYOUT, batch=st.integers(1, 2), length=st.integers(1, 7), mask=st.sampled_from([None, "chosen"]))
def test_every_line_runs_and_makes_its_tensor(config, batch, length, mask):
    chosen = torch.ones(length, length, dtype=torch.bool).tril().flip(-1)  # the first query reads the last key only
    chosen[length // 2] = False  # and one may read nothing
    model, ids, found = passed(config, batch, length, chosen if mask else None)
    nodes = nodes_of(config, length, batch, {config.self_part: mask} if mask else None)
    values = dict(found) | ids
    for node in nodes:
        names = {variable: values[name] for variable, name in node.inputs.items()}
        names |= letters_of(config, node, length, batch) | {"torch": torch, "F": F, "math": math, "model": model}
        names |= {
            "rotate": rotate,
            "rotary_angles": rotary_angles,
            "prompt_ids": next(iter(ids.values()))[0].tolist(),
            "target_ids": list(ids.values())[-1][0].tolist(),
            "chosen_mask": chosen,
        }
        exec(node.line, names)
        made = names[node.line.partition(" = ")[0]]
        if node.local in WITHOUT_A_SITE[1:]:
            values[node.name] = made
        elif node.local != "ids":  # of a batch the line shows the first prompt
            torch.testing.assert_close(made, found[node.name], atol=2e-5, rtol=1e-5, msg=node.line)


@examples(60)
@given(config=ANY_LAYOUT, batch=st.integers(1, 3), length=st.integers(1, 7))
def test_a_tensor_with_two_names_is_kept_once(config, batch, length):
    _, _, found = passed(config, batch, length)
    seen = set()
    for node in nodes_of(config, length, batch):
        if node.local == "ids" or node.local.endswith(".mask"):
            continue
        if node.local == "memory":
            found[node.name] = found["encoder.final_norm"]
        if node.local.endswith(".joined"):
            tensor = found[node.inputs["mixed"]].transpose(1, 2).flatten(-2)
            found[node.name] = tensor  # held, so that no other takes its place in memory
        memory = found[node.name].untyped_storage()
        assert node.kept == (0 if memory.data_ptr() in seen else memory.nbytes() // 4), node.name
        seen.add(memory.data_ptr())


@pytest.mark.parametrize("tied", [True, False])
def test_a_tied_unembedding_is_named_and_counted_with_the_token_rows(tied):
    model = small_model(tied_unembedding=tied)
    nodes = {node.name: node for node in all_nodes(model.config, 3)}
    logits, rows = nodes["logits"], nodes["embed.tokens"].parameters[0]
    assert (logits.tied == rows) == tied
    assert (logits.n_parameters == 0) == tied
    assert tied != any(name == "unembedding.weight" for name, _ in model.named_parameters())
    assert not [node.name for node in nodes.values() if node.tied and node is not logits]


def test_ids_are_made_of_the_prompt():
    [node] = [node for node in all_nodes(small_model().config, 3) if node.name == "ids"]
    names = {"torch": torch, "prompt_ids": [4, 5, 6]}
    exec(node.line, names)
    assert names["ids"].tolist() == [[4, 5, 6]]
    assert (names["ids"].shape, names["ids"].element_size()) == (node.shape, node.number_bytes)


@pytest.fixture(scope="module")
def theirs():
    """What `transformers` has of tiny-gpt for the prompt, by the names of our nodes in block 2."""
    ids = torch.tensor([vm.load("tiny-gpt").tokenizer.encode(PROMPT)])
    model, seen = gpt2(), {}
    block = model.transformer.h[2]
    parts = {"norm1": block.ln_1, "attn.out": block.attn.c_proj, "norm2": block.ln_2}
    parts |= {"ffn.hidden": block.mlp.act, "ffn.out": block.mlp.c_proj}
    hooks = [
        part.register_forward_hook(lambda _m, _i, out, name=name: seen.__setitem__(f"blocks.2.{name}", out))
        for name, part in parts.items()
    ]
    hooks.append(
        block.attn.c_proj.register_forward_pre_hook(lambda _m, into: seen.__setitem__("blocks.2.attn.joined", into[0]))
    )
    with torch.inference_mode():
        found = model(ids, output_hidden_states=True, output_attentions=True)
    for hook in hooks:
        hook.remove()
    seen |= {"blocks.2.resid_pre": found.hidden_states[2], "blocks.2.resid_post": found.hidden_states[3]}
    return seen | {"blocks.2.attn.weights": found.attentions[2], "logits": found.logits, "ids": ids}


@pytest.mark.parametrize("stored", [True, False], ids=["stored", "derived"])
def test_opened_tensors_are_those_of_transformers(theirs, stored):
    model = vm.load("tiny-gpt")
    trace = model.trace(PROMPT, stored_weights_bytes=2**26 if stored else 0)
    nodes = {node.name: node for node in all_nodes(model.config, trace.length)}
    for name, expected in theirs.items():
        values = NodeValues(model, trace, nodes[name])
        assert expected.shape == nodes[name].shape
        opened = torch.stack(list(values.matrices())).reshape(expected.shape)
        torch.testing.assert_close(opened.float(), expected.float(), atol=2e-4, rtol=1e-4, msg=name)
        whole = expected.double().numpy()
        numbers = [whole.mean(), whole.std(), whole.min(), whole.max(), np.sqrt((whole**2).sum())]
        found = values.statistics
        assert found.count == whole.size
        assert [found.mean, found.std, found.minimum, found.maximum, found.norm] == pytest.approx(
            numbers, rel=1e-4, abs=1e-4
        )


@pytest.mark.parametrize("stored", [True, False], ids=["stored", "derived"])
@pytest.mark.parametrize("mask", ["causal", "bidirectional"])
def test_opened_tensors_are_those_of_the_pass_of_the_trace(stored, mask):
    model = vm.Model("small", small_model(position="rotary"))
    trace = model.trace([1, 5, 7, 2], mask=mask, stored_weights_bytes=2**26 if stored else 0)
    with torch.inference_mode(), capture("*") as found:
        model.transformer(torch.tensor([trace.ids]), mask=trace.mask(0), logits="all")
    for node in all_nodes(model.config, 4):
        if node.local not in WITHOUT_A_SITE:
            if stored:  # the very same numbers
                assert torch.equal(node_tensor(model, trace, node), found[node.name]), node.name
            else:
                opened = torch.stack(list(NodeValues(model, trace, node).matrices()))
                torch.testing.assert_close(opened.reshape(node.shape), found[node.name], atol=1e-5, rtol=1e-5)


@examples(50)
@given(st.lists(st.lists(st.floats(-1e3, 1e3, width=32), min_size=1, max_size=9), min_size=1, max_size=5))
def test_statistics_of_parts_are_those_of_numpy_for_the_whole(parts):
    whole = np.concatenate([np.array(part, dtype=np.float64) for part in parts])
    found = statistics(torch.tensor(part) for part in parts)
    expected = [whole.mean(), whole.std(), whole.min(), whole.max(), np.linalg.norm(whole)]
    numbers = [found.mean, found.std, found.minimum, found.maximum, found.norm]
    np.testing.assert_allclose(numbers, expected, rtol=1e-9, atol=1e-7)
    assert found.count == whole.size
