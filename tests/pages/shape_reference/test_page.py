"""The page Shape reference: sizes counted by hand, in every layout that is bundled."""

import re

import pytest
from streamlit.testing.v1 import AppTest

from tests.support.app import opened


def page(**address: str) -> AppTest:
    return opened("shape_reference", **address)


def rows(test: AppTest) -> dict[str, tuple[str, str]]:
    """Hook site -> letters and sizes, of all tables that have them."""
    tables = [element.value for element in test.table if "hook site" in element.value]
    return {
        row["hook site"].strip("`"): (row["letters"], row["here"]) for table in tables for _, row in table.iterrows()
    }


def test_a_decoder_has_its_stream_attention_feed_forward_and_end():
    test = page(model="tiny-gpt", prompt="Once upon a time", layer="2")
    found = rows(test)
    assert found["embed"] == ("(B, T, C)", "(1, 4, 256)")
    assert found["blocks.2.attn.weights"] == ("(B, H, T, S)", "(1, 8, 4, 4)")
    assert found["blocks.2.attn.v"] == ("(B, G, S, D)", "(1, 8, 4, 32)")
    assert found["blocks.2.ffn.hidden"] == ("(B, T, F)", "(1, 4, 1,024)")
    assert found["logits"] == ("(B, V)", "(1, 4,353)")
    formulas = [cell for element in test.table for cell in element.value.get("formula", ())]
    assert any(r"W_{\textcolor" in cell for cell in formulas)
    assert not any(r"_\textcolor" in cell for cell in formulas), "TeX wants braces around a coloured index"
    [costs] = [element.value for element in test.table if "KV cache, bytes" in set(element.value.get("quantity", ()))]
    numbers = dict(zip(costs["quantity"], costs["here"], strict=True))
    assert numbers["KV cache, bytes"] == f"{2 * 4 * 8 * 32 * 4 * 4:,}"
    assert numbers["attention weights of all heads, bytes"] == f"{4 * 4 * 8 * 4 * 4:,}"
    assert numbers["parameters"] == "4,339,456"  # as its README says
    [letters] = [element.value for element in test.table if any("queries" in str(name) for name in element.value)]
    assert [re.sub(r"\D", "", value) for value in letters.iloc[0]] == [
        str(n) for n in (1, 4, 4, 256, 8, 8, 32, 4, 4353, 1024)
    ]


@pytest.mark.parametrize(("part", "sizes"), [("encoder", (10, 10)), ("decoder", (2, 2)), ("cross", (2, 10))])
def test_parts_of_an_encoder_decoder(part, sizes):
    """Ten letters of source; the decoder reads its start token and one letter."""
    test = page(model="tiny-seq2seq", prompt="3 May 2024", target="2", part=part)
    found = rows(test)
    [weights] = [here for site, (_, here) in found.items() if site.endswith(".weights")]
    assert weights.endswith(f", {sizes[0]}, {sizes[1]})")
    cells = 2 * 4 * sizes[0] * sizes[1]  # layers, heads, T, S
    totals = {row["quantity"]: row["here"] for _, row in test.table[-1].value.iterrows()}
    assert [number for name, number in totals.items() if name.startswith(("attention weights", "QKᵀ"))] == [
        f"{4 * cells:,}", f"{4 * 24 * cells:,}",
    ]  # fmt: skip
    assert "KV cache, bytes" not in totals
