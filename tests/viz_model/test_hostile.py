"""A small and fixed part of what `python benchmarks/hostile.py` does by the thousand."""

import pytest

from benchmarks import hostile


@pytest.mark.parametrize("kind", ["files", "prompts"])
def test_a_hostile_input_is_refused_by_a_sentence_or_read(kind):
    tally = hostile.Tally(kind, "suite")
    hostile.KINDS[kind](tally, 50, None)
    assert (tally.count, tally.faults) == (50, [])
    assert 0 < tally.refused < tally.count


def test_a_fault_is_seen(monkeypatch, capsys):
    """A run that finds nothing has looked: what is no sentence, and what takes too long, are faults."""
    monkeypatch.setattr(hostile, "read", lambda folder: {}["bare"])
    tally = hostile.Tally("files", "suite")
    hostile.files(tally, 3, None)
    assert len(tally.faults) == 3
    assert "KeyError" in tally.faults[0]
    assert "--seed suite --kind files --only 0" in tally.faults[0]
    with tally.watching(7, "a slow one", most=1.0, worked=iter([0.0, 3.5]).__next__):
        pass
    assert "3.5 s" in tally.faults[-1]
    with tally.watching(8, "a sentence", most=1.0, worked=lambda: 0.0):
        raise hostile.vm.PromptError("The prompt is empty.")
    assert len(tally.faults) == 4
    assert "FAULT in files 7" in capsys.readouterr().out
