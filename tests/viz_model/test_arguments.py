"""What Python may hand to a public function by mistake: a VizError says what is wanted, whatever it was."""

import pytest
from hypothesis import settings

import viz_model as vm
from tests.support.wrong_arguments import MODEL, ROOTS, fault, reached


@pytest.mark.parametrize("root", ROOTS)
def test_a_wrong_argument_is_a_sentence(root, tmp_path, monkeypatch):
    """Of every public function and method, found by inspection: a new one is in it by itself.

    Twelve examples of each with --slow, else three; `python benchmarks/hostile.py arguments` tries more of them.
    """
    monkeypatch.chdir(tmp_path)  # a tokenizer may be saved anywhere
    faults = {
        name: fault(use, examples=12 * settings().max_examples // 100)
        for name, use in reached(root, tmp_path / "model").items()
    }
    assert len(faults) > 40, faults
    assert not any(faults.values()), "\n".join(f"{name}: {said}" for name, said in faults.items() if said)


def test_a_million_spaces():
    for text in (" " * 1_000_000, "a" + " " * 1_000_000 + "b"):
        for use in (MODEL.ids, MODEL.trace, MODEL.pieces):
            with pytest.raises(vm.PromptError, match=r"too long|reads at most"):
                use(text)
    assert MODEL.ids("a b")
