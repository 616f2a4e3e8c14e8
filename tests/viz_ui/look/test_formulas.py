"""Formulas in the colours of the roles: what is coloured among words, and what is left as it is."""

from viz_ui.look.formulas import coloured, coloured_formulas


def test_only_the_formulas_of_a_sentence_are_coloured():
    found = coloured_formulas("A second K: $A V$ and $Q_{i}$. S")
    assert found == f"A second K: ${coloured('A V')}$ and ${coloured('Q_{i}')}$. S"
    assert found.count(r"\textcolor") == 3


def test_an_index_that_is_coloured_stands_in_braces():
    """TeX takes one sign as an index, and a command for a colour is none."""
    found = coloured(r"\mathrm{norm}_Q(x\,W_{Q}) \quad W_{DK}")
    assert r"_\textcolor" not in found
    assert found.count(r"_{\textcolor") == 2
    assert r"W_{DK}" in found, "one name of two letters"
