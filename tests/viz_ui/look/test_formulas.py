"""Formulas in the colours of the roles: what is coloured among words, and what is left as it is."""

from viz_ui.look.formulas import coloured, coloured_formulas


def test_only_the_formulas_of_a_sentence_are_coloured():
    found = coloured_formulas("A second K: $A V$ and $Q_{i}$. S")
    assert found == f"A second K: ${coloured('A V')}$ and ${coloured('Q_{i}')}$. S"
    assert found.count(r"\textcolor") == 3
