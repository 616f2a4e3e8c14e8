"""What the page Generate hands on of the chosen head: the strips and rows of that head, whatever it shares."""

import numpy as np
import pytest

import viz_model as vm
from pages.generate.run import Run
from tests.support.page_parts import Noted, page_module, view_of
from tests.support.small_models import small_model
from viz_model.model.sampling import Sampling

SOURCE, TARGET = (5, 9, 11, 9, 4), (3, 7, 2)
GROUP = (0, 0, 1, 1)  # of four heads two read the same keys and values


@pytest.mark.parametrize("head", range(4))
@pytest.mark.parametrize("part", ["self", "decoder", "cross", "encoder"])
def test_the_strips_are_the_keys_and_values_that_the_head_reads(part, head):
    two_texts = {"layout": "encoder-decoder", "n_encoder_layers": 3} if part != "self" else {}
    model = vm.Model("small", small_model(**two_texts))
    target = TARGET if two_texts else None
    view = view_of(model, SOURCE, target=target, part=part, layer=1, head=head)
    run = Run(model, SOURCE, target, Sampling(0.0), {})
    run.advance(4, 60)
    page = page_module("generate")
    noted = Noted()
    page.generation = noted.generation
    page.draw_steps(view, run, page.Choices(4, Sampling(0.0), {}, None))
    [(_, drawn)] = noted.of("generation")
    seen = "cross" if part in ("encoder", "cross") else model.config.self_part
    written = run.steps[-1].ids[:-1]  # the last token is not read any more
    trace = model.trace(SOURCE, target=written).of(seen) if two_texts else model.trace(written)
    np.testing.assert_allclose(drawn["keys"], trace.k(1)[GROUP[head]], atol=1e-5)
    np.testing.assert_allclose(drawn["values"], trace.v(1)[GROUP[head]], atol=1e-5)
    np.testing.assert_allclose(drawn["weights"], trace.weights(1, head), atol=1e-5)
    assert drawn["head_name"] == f"{'cross-attention, ' if seen == 'cross' else ''}layer 1, head {head}"
    assert drawn["prompt_length"] == (3 if two_texts else 5)
