"""What stands in a formula beside sums and products of the usual letters has a sentence under the tables."""

import re

import pytest

import viz_model as vm
from pages.shape_reference.symbols import explanations
from tests.reference.families import FAMILIES, save_small
from viz_model.shapes.reference import quantities

IDS = [5, 9, 11, 9, 30, 44]
WORDS = {  # of each family, the beginnings of sentences that its page has, of those in SENTENCES
    "GPT-2": {"norm takes the mean away"},
    "Mixtral": {"norm divides", "R_i turns the numbers", "⊙ multiplies", "p_e is the share", "top_k keeps", "SiLU(z)",
                "W_g makes"},
    "GPT-NeoX": {"norm takes the mean away", "R_i turns the first 4 of the 6 numbers"},
    "DeepSeek-V3": {"norm divides", "W_D makes a vector", "W_R makes the part", "In top_{k, g:G}", "σ is the sigmoid",
                    "The matrices with s", "share divides", "R_i turns a query or a key"},
    "OPT": {"W_E brings", "W_x brings"},
    "BERT": {"W_h and norm_h"},
    "Gemma 2": {"norm₁′ and norm₂′"},
}  # fmt: skip


@pytest.mark.parametrize("name", WORDS)
def test_symbols_of_a_family_are_explained(name, tmp_path):
    save_small(FAMILIES[name], tmp_path)
    model = vm.load(tmp_path)
    trace = model.trace(IDS)
    rows = quantities(model, trace, trace.n_layers - 1)
    found = explanations([row.formula for row in rows], trace.config, trace.equation(trace.n_layers - 1))
    for words in WORDS[name]:
        assert any(sentence.startswith(words) for sentence in found), words
    named = set(re.findall(r"\b[A-Z]_(?!i\b)\w", " ".join(found)))
    formulas = " ".join(row.formula for row in rows)
    assert all(symbol in formulas.replace("{", "") for symbol in named), "no sentence about what is not there"
    assert not any("own code" in sentence for sentence in found)
