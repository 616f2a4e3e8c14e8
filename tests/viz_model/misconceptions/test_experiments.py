"""Each experiment against its own definition written out in numpy, or with the model's modules, in the test."""

import numpy as np
import pytest
import torch
from scipy.special import log_softmax, softmax
from torch.nn import functional as F
from transformers import LlamaConfig, LlamaForCausalLM

import viz_model as vm
from tests.support.small_models import small_model
from tests.support.small_tokenizers import small_tokenizer
from viz_model.errors import PromptError, VizError
from viz_model.misconceptions.concept import pattern_scores
from viz_model.misconceptions.equations import through_one_equation
from viz_model.misconceptions.lengths import SIDES, padded_batch
from viz_model.misconceptions.memory import what_is_kept
from viz_model.misconceptions.whole import PARTS, loss_without, switchable
from viz_model.model import Model

TOKENIZER = small_tokenizer()
PROMPTS = ("the king had", "a castle and the daughters")
IDS = [3, 1, 4, 1, 5, 9, 2, 6, 5]


def model(**changes):
    return Model("small", small_model(vocab_size=TOKENIZER.vocab_size, context_length=64, **changes), TOKENIZER)


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("layout", ["decoder-only", "encoder-only"])
@pytest.mark.parametrize("position", ["learned", "rotary", "sinusoidal"])
def test_padded_prompts_end_as_they_do_alone(side, layout, position):
    host = model(layout=layout, position=position, d_model=24)
    found = padded_batch(host, PROMPTS, side)
    lengths = [len(TOKENIZER.encode(prompt)) for prompt in PROMPTS]
    assert (~found.padding).sum(1).tolist() == lengths
    assert found.padding[0, 0].item() == (side == "left")
    assert found.difference < 1e-5 < 1 < found.size
    # Without a mask over the padding it would not be so: the test can fail.
    alone = host.transformer.hidden(torch.tensor([TOKENIZER.encode(PROMPTS[0])]))[0]
    read = host.transformer.hidden(found.ids)[0, ~found.padding[0]]
    if layout == "encoder-only" or side == "left":
        assert (read - alone).abs().max() > 1e-2


def test_a_batch_needs_two_prompts():
    with pytest.raises(PromptError, match="second one"):
        padded_batch(model(), PROMPTS[:1])
    with pytest.raises(PromptError, match="Prompt 2 of the batch is empty"):
        padded_batch(model(), ("the", ""))


def written_out_loss(host, ids, off):
    """The pre-norm Transformer with parts off, from its modules: Xiong et al. 2020, figure 1 (b)."""
    weights, row = host.transformer, torch.tensor([ids])

    def norm(module, x):
        return x if "norms" in off else module(x)

    def half(x, branch, part):
        wrote = torch.zeros_like(x) if part in off else branch
        return wrote if "residuals" in off else x + wrote

    x = weights.tokens(row)
    if "positions" not in off:
        x = x + weights.positions.weight[: len(ids)]
    triangle = torch.ones(len(ids), len(ids), dtype=torch.bool).tril()
    for block in weights.blocks:
        x = half(x, block.attn(norm(block.norm1, x), triangle, None), "attention")
        x = half(x, block.ffn(norm(block.norm2, x)), "feed-forward")
    logits = weights.unembed(norm(weights.final_norm, x))[0]
    return -np.mean([log_softmax(logits[i].double().numpy())[ids[i + 1]] for i in range(len(ids) - 1)])


@pytest.mark.parametrize(
    "off", [(), *((part,) for part in PARTS), ("attention", "norms"), ("residuals", "norms", "positions"), PARTS]
)
def test_parts_that_are_off_are_those_of_the_written_out_model(off):
    host = model(position="learned")
    assert set(switchable(host).values()) == {""}
    assert loss_without(host, torch.tensor([IDS]), off).nats == pytest.approx(
        written_out_loss(host, IDS, off), rel=1e-4
    )


def test_what_cannot_be_switched_off_is_said():
    assert "no feed-forward half" in switchable(model(d_ff=0))["feed-forward"]
    assert "no positions" in switchable(model(position="none"))["positions"]
    post = switchable(model(norm_place="post"))
    assert "scale the residual stream itself" in post["residuals"] == post["norms"]


@pytest.mark.parametrize("off", [(), ("attention",), ("feed-forward",), ("norms",), ("attention", "norms")])
def test_parts_of_a_library_model_are_off_as_when_its_own_modules_are_replaced(off, tmp_path):
    """Its code adds the stream up where it can only be looked at, so residuals stay."""
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=67, hidden_size=64, num_hidden_layers=2, num_attention_heads=4, intermediate_size=96
    )
    library = LlamaForCausalLM(config).eval()
    library.save_pretrained(tmp_path)
    host = vm.load(tmp_path)
    assert {part for part, reason in switchable(host).items() if not reason} == {"attention", "feed-forward", "norms"}
    for block in library.model.layers:
        if "attention" in off:
            block.self_attn.o_proj.weight.data.zero_()
        if "feed-forward" in off:
            block.mlp.down_proj.weight.data.zero_()
        if "norms" in off:
            block.input_layernorm = block.post_attention_layernorm = torch.nn.Identity()
    if "norms" in off:
        library.model.norm = torch.nn.Identity()
    ids = torch.tensor([IDS])
    with torch.inference_mode():
        expected = F.cross_entropy(library(ids).logits[0, :-1], ids[0, 1:]).item()
    assert loss_without(host, ids, off).nats == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("position", ["learned", "rotary"])
def test_keys_and_values_are_what_the_next_step_needs(position):
    host = model(position=position, n_kv_heads=2)
    found = what_is_kept(host, IDS)
    whole = host.transformer(torch.tensor([IDS]))[0]
    torch.testing.assert_close(found.whole, whole)
    assert found.difference(found.kept) < 1e-4 < 1e-2 < found.difference(found.forgotten)
    config = host.config
    assert found.cache_bytes == 2 * config.n_layers * 2 * (len(IDS) - 1) * config.d_head * 4
    assert found.weights_bytes == config.n_layers * config.n_heads * (len(IDS) - 1) ** 2 * 4


def test_what_keeps_nothing_says_so():
    with pytest.raises(VizError, match="keeps nothing between steps"):
        what_is_kept(model(layout="encoder-only"), IDS)
    with pytest.raises(VizError, match="longer prompt"):
        what_is_kept(model(), IDS[:1])


@pytest.mark.parametrize("layout", ["decoder-only", "encoder-only"])
def test_one_equation_gives_the_weights_of_both_layouts(layout):
    trace = model(layout=layout, n_kv_heads=2).trace(IDS)
    found = through_one_equation(trace, 1, 3)
    q, k = trace.q(1)[3].double().numpy(), trace.k(1)[1].double().numpy()
    scores = q @ k.T / np.sqrt(q.shape[1])
    np.testing.assert_allclose(found.weights["bidirectional"], softmax(scores, axis=1), atol=1e-5)
    scores[np.triu_indices(len(IDS), 1)] = -np.inf
    np.testing.assert_allclose(found.weights["causal"], softmax(scores, axis=1), atol=1e-5)
    assert found.own == host_mask(layout)
    assert found.difference < 1e-6


def host_mask(layout):
    return "causal" if layout == "decoder-only" else "bidirectional"


def test_scores_of_patterns_are_means_over_queries():
    host = model()
    trace = host.trace(IDS)
    a, found = trace.weights(0, 1).double().numpy(), pattern_scores(trace, 0, 1)
    n = len(IDS)
    assert found["previous"] == pytest.approx(np.mean([a[i, i - 1] for i in range(1, n)]), abs=1e-5)
    assert found["first"] == pytest.approx(a[:, 0].mean(), abs=1e-5)
    assert found["itself"] == pytest.approx(np.diag(a).mean(), abs=1e-5)
    # 1 stands at 1 and 3, 5 at 4 and 8: what came after their earlier copies is at 2 and 5.
    assert found["again"] == pytest.approx((a[3, 2] + a[8, 5]) / 2, abs=1e-5)
    assert np.isnan(pattern_scores(host.trace([1, 2, 3]), 0, 1)["again"])
    doubled = host.trace([7, 7, 2, 7, 7])  # a query is no earlier copy of itself, and does not come after one
    a, found = doubled.weights(0, 1).double().numpy(), pattern_scores(doubled, 0, 1)
    of_queries = [a[3, 1] + a[3, 2], a[4, 1] + a[4, 2]]  # at 1 nothing stands between, so it has none
    assert found["again"] == pytest.approx(np.mean(of_queries), abs=1e-5)
    with pytest.raises(VizError, match="only token"):
        pattern_scores(host.trace([1]), 0, 1)


def test_the_loss_is_torchs():
    host = model(position="learned")
    logits = host.transformer(torch.tensor([IDS]), logits="all")[0]
    theirs = F.cross_entropy(logits[:-1], torch.tensor(IDS[1:])).item()
    assert loss_without(host, torch.tensor([IDS]), ()).nats == pytest.approx(theirs, rel=1e-5)
