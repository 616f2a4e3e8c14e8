"""The diagram of shapes: every tensor of any model in a place of its own, every arrow between two of them."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pages.shapes.layout import around, letters, placed
from tests.support.properties import examples
from tests.support.small_models import configs, small_config
from viz_model.shapes.contract import block_nodes, outer_nodes, sizes
from viz_ui.components.shape_diagram import Card, Diagram, Edge, checked_pick

ANY_PART = st.sampled_from(("self", "encoder", "decoder"))


def of_stack(part, source=7):
    return {"part": part, "source": source if part == "decoder" else 0}


def diagram_of(config, layer=0, length=5, part="self"):
    tensors, adds, edges = placed(block_nodes(config, layer, length, **of_stack(part)))
    card = Card("", "", [], [])
    return Diagram(
        letters=letters(sizes(config, length, **of_stack(part)), part),
        around=around(outer_nodes(config, length, **of_stack(part))),
        blocks=config.layers_of(part),
        block=layer,
        block_words="",
        tensors=tensors,
        adds=adds,
        edges=edges,
        chosen="attn.q",
        card=card,
    )


@examples(60)
@given(part=ANY_PART, data=st.data())
def test_every_tensor_of_any_block_has_a_place_and_its_arrows(part, data):
    config = data.draw(configs() if part == "self" else configs(layout="encoder-decoder"))
    layer = data.draw(st.integers(0, config.layers_of(part) - 1))
    nodes = {node.local: node for node in block_nodes(config, layer, 5, **of_stack(part))}
    diagram = diagram_of(config, layer, part=part)  # refuses two in one place, and arrows that lead nowhere
    assert {tensor.name for tensor in diagram.tensors} == set(nodes)
    for tensor in diagram.tensors:
        node = nodes[tensor.name]
        assert tuple(axis.symbol for axis in tensor.axes) == node.axes
        assert tuple(axis.size for axis in tensor.axes) == node.shape
        assert (tensor.parameters, tensor.nbytes) == (node.n_parameters, node.nbytes)
        assert tensor.column < (4 if tensor.name.startswith(("attn.", "cross.")) else 5)
    signs = {add.name for add in diagram.adds}
    into = {name: {edge.start for edge in diagram.edges if edge.end == name} for name in (*nodes, *signs)}
    for name, node in nodes.items():  # what a tensor is made of leads to it, through a plus sign or straight
        sources = set().union(*(into[start] if start in signs else {start} for start in into[name]))
        assert sources == {n.local for n in nodes.values() if n.name in node.inputs.values()}
    assert all(len(into[sign]) == 2 for sign in signs)


def test_every_letter_of_a_shape_is_in_the_legend():
    diagram = diagram_of(small_config(activation="swiglu", position="rotary"))
    known = {letter.letter: letter.number for letter in diagram.letters}
    for tensor in (*diagram.around, *diagram.tensors):
        for axis in tensor.axes:
            assert axis.letters == (axis.symbol,)
            assert axis.size == known[axis.symbol]


def test_what_does_not_fit_is_refused():
    whole = diagram_of(small_config())
    with pytest.raises(ValueError, match="leads to no box"):
        replace(whole, edges=[Edge("attn.q", "attn.nowhere")])
    with pytest.raises(ValueError, match="same name"):
        replace(whole, around=[*whole.around, whole.around[0]])
    with pytest.raises(ValueError, match="same place"):
        replace(whole, tensors=[replace(tensor, column=0, row=0) for tensor in whole.tensors])
    with pytest.raises(ValueError, match="no block 2"):
        replace(whole, block=2)
    with pytest.raises(ValueError, match="Unknown roles: red"):
        replace(whole, around=[replace(whole.around[0], role="red")])


def test_an_event_from_the_browser_is_believed_only_for_what_is_there():
    diagram = diagram_of(small_config())
    assert checked_pick(["tensor", "attn.q"], diagram) == ("tensor", "attn.q")
    assert checked_pick(["tensor", "logits"], diagram) == ("tensor", "logits")
    assert checked_pick(["block", 1], diagram) == ("block", 1)
    forged = (None, [], "tensor", ["tensor"], ["tensor", "blocks.0.attn.q"], ["tensor", 1], ["block", 2], ["block", -1])
    for event in (*forged, ["block", True], ["block", "1"], ["block", 0.0], ["tensor", ["attn.q"]], ["all", 1], {}):
        assert checked_pick(event, diagram) is None
