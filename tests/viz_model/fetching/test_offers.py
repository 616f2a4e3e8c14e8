"""What the catalogue says of models before they are here is what they turn out to be (with --real-models)."""

import pytest

from viz_model.checkpoints import describe
from viz_model.fetching import OFFERS

SIZES = ("family", "layout", "n_layers", "n_heads", "n_kv_heads", "d_model", "d_head", "d_ff", "vocab_size")


@pytest.mark.parametrize("name", OFFERS)
def test_an_offer_told_the_truth(name, real_model):
    offer, entry = OFFERS[name], describe(real_model(name))
    for fact in (*SIZES, "context_length", "n_encoder_layers"):
        assert getattr(offer.facts, fact) == getattr(entry.config, fact), fact
    assert offer.parameters == entry.parameters
    assert offer.size == pytest.approx(entry.size, rel=0.01)  # the header of a file may be longer or shorter
    assert (entry.name, entry.licence, entry.state) == (name, offer.licence, "fetched")
    assert entry.has_tokenizer
