"""Every family of the library with blocks left out: the rest of the pass is that of a whole one."""

from dataclasses import replace

import pytest
import torch

import viz_model as vm
from tests.reference.families import FAMILIES, save_small
from viz_model.intervention.batches import edited_logits
from viz_model.transformer.hooks import edit, follow
from viz_model.transformer.skipping import is_skipped, skipping

LAYERS = 4
IDS, SOURCE = [5, 44, 17, 8, 60, 23], [9, 30, 4, 55]
COUNTS = ("n_layer", "n_layers", "num_layers", "num_hidden_layers", "num_decoder_layers", "encoder_layers")
COUNTS += ("decoder_layers",)


def deeper(family):
    """With four layers in each stack; what is listed a layer is listed twice."""
    sizes = {name: LAYERS if name in COUNTS else value for name, value in family.sizes.items()}
    options = {name: 2 * value if isinstance(value, list) else value for name, value in family.options.items()}
    return replace(family, sizes=sizes, options=options)


@torch.inference_mode()
@pytest.mark.parametrize("name", FAMILIES)
def test_edits_behind_skipped_blocks_do_what_they_do_in_a_whole_pass(name, tmp_path):
    save_small(deeper(FAMILIES[name]), tmp_path)
    model = vm.load(tmp_path)
    assert model.transformer.skips_blocks
    trace = model.trace(SOURCE, target=IDS) if model.has_source else model.trace(IDS)
    blocks = model.config.block_names
    assert len(blocks) == LAYERS * (1 + model.has_source)
    rows = [{f"{block}.attn.mixed": torch.zeros_like} for block in blocks]
    found = edited_logits(model, trace, rows, lambda _: None)
    given = {"source": torch.tensor([SOURCE])} if model.has_source else {}
    for row, logits in zip(rows, found, strict=True):
        with edit(row):
            whole = model.transformer(torch.tensor([IDS]), **given)[0]
        torch.testing.assert_close(logits, whole, atol=1e-4, rtol=1e-4)
    changes = (found - trace.logits).abs().amax(-1)
    assert (changes > 1e-3).all(), "each of the edits must be seen"


def test_a_model_whose_blocks_cannot_be_skipped_runs_whole(tmp_path, monkeypatch):
    """As one whose later blocks read what an earlier one left elsewhere."""

    def unskippable(name, block):
        def forward(*arguments, **options):
            if is_skipped(name):
                raise KeyError("what it would have left")
            return block(*arguments, **options)

        return forward

    save_small(deeper(FAMILIES["Llama"]), tmp_path)
    rows = [{f"blocks.{layer}.ffn.out": torch.zeros_like} for layer in range(LAYERS)]
    known = vm.load(tmp_path)
    monkeypatch.setattr("viz_model.hub.host.skippable", unskippable)
    model = vm.load(tmp_path)
    assert not model.transformer.skips_blocks
    found = [edited_logits(each, each.trace(IDS), rows, lambda _: None) for each in (known, model)]
    torch.testing.assert_close(found[1], found[0], atol=1e-5, rtol=1e-5)


def test_a_copy_that_shares_its_weights_skips_its_own_blocks(tmp_path):
    save_small(deeper(FAMILIES["T5"]), tmp_path)
    host = vm.load(tmp_path).transformer
    twin, visited = host.sharing_copy(), set()
    with skipping(["encoder.blocks.1", "decoder.blocks.2"]), follow(visited.add), torch.inference_mode():
        twin.hidden(torch.tensor([IDS]), source=torch.tensor([SOURCE]))
    attentions = {name for name in visited if name.endswith("attn.mixed")}
    assert len(attentions) == 2 * LAYERS - 2
