"""The names of the heads of the bundled models are those of their weights, over the text that ships."""

import pytest

import viz_model as vm
from viz_model.checkpoints import BUNDLED, FOLDER
from viz_model.checkpoints.head_names import head_names
from viz_model.heads.report import WINDOWS, head_report
from viz_model.training.head_names import named_heads
from viz_model.training.held_out import shipped_text


@pytest.mark.parametrize("name", BUNDLED)
def test_a_few_windows_tell_the_same_of_every_head(name):
    """Their names explain about as much as the kept ones, and most are the same."""
    model = vm.load(name)
    kept = head_names(FOLDER / name, model.config)
    assert kept.keys() == set(model.config.parts)
    part = model.config.self_part
    text, words = shipped_text(model, name, 4)
    few = head_report(model, text, windows=4, part=part)
    assert (kept[part].text, kept[part].windows) == (words, WINDOWS)
    pairs = [(kept[part].name(*place), found) for place, found in few.names.items()]
    apart = [abs(written.share - found.share) for written, found in pairs]
    assert sum(apart) / len(apart) < 0.05
    assert max(apart) < 0.2
    assert sum(written.patterns == found.patterns for written, found in pairs) > 0.6 * len(pairs)


@pytest.mark.slow
@pytest.mark.parametrize("name", BUNDLED)
def test_the_command_writes_them_as_they_are(name):
    model = vm.load(name)
    for part, names in named_heads(model, name).items():
        kept = head_names(FOLDER / name, model.config)[part]
        assert (kept.text, kept.windows, kept.tokens) == (names.text, names.windows, names.tokens)
        for written, found in zip(sum(kept.names, ()), sum(names.names, ()), strict=True):
            assert written.share == pytest.approx(found.share, abs=2e-3)
            assert written.words == found.words or abs(found.share - 0.5) < 2e-3
