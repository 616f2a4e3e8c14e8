"""The equation of an attention as it is written, of every kind of scale, cap, bias and sink."""

import pytest

from viz_model.model.formula import AttentionFormula

PLAIN = AttentionFormula(32**-0.5, True)
ALL = AttentionFormula(0.378, False, 3.0, True, True)


@pytest.mark.parametrize(
    ("formula", "scaling", "words", "scores"),
    [
        (PLAIN, "÷ √D", "divided by √D = √32 = 5.657", "QKᵀ/√D"),
        (AttentionFormula(0.37796, False), "× 0.378", "multiplied by 0.378", "0.378·QKᵀ"),
        (AttentionFormula(1, False), "× 1", "multiplied by 1", "QKᵀ"),
    ],
)
def test_the_scale_is_the_model_s_own(formula, scaling, words, scores):
    assert (formula.scaling, formula.scaling_words, formula.scores) == (scaling, words, scores)


def test_every_part_stands_where_it_acts():
    assert PLAIN.weights == "softmax(QKᵀ/√D + M)"
    assert ALL.softmax_input == "3·tanh(0.378·QKᵀ / 3) + bias"
    assert ALL.weights == "softmax(3·tanh(0.378·QKᵀ / 3) + bias + M | sink)"
    assert PLAIN.latex_weights == r"\mathrm{softmax}\left(\frac{Q K^{\top}}{\sqrt{D}} + M\right)"
    assert ALL.latex_weights == (
        r"\mathrm{softmax}\left(3\tanh\left(\frac{0.378\,Q K^{\top}}{3}\right) + b + M\;\middle|\; s\right)"
    )
    assert AttentionFormula(1, False).latex_scores == r"Q K^{\top}"


def test_only_the_equation_of_2017_is_plain():
    others = ({"by_width": False}, {"softcap": 3.0}, {"has_bias": True}, {"has_sink": True})
    assert PLAIN.is_plain
    assert not any(AttentionFormula(**(vars(PLAIN) | other)).is_plain for other in others)
