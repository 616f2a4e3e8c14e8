"""Sites, captures and edits: what is seen is what the pass computed, and nobody sees another's pass."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import numpy as np
import pytest
import torch
from hypothesis import given
from torch.nn import functional as F

from tests.reference.written_out import attention
from tests.support.properties import examples
from tests.support.small_models import VOCABULARY, configs, expected_sites, make_model, random_ids, small_model
from tests.support.waiting import apart
from viz_model.errors import EditError, PromptError, SiteError
from viz_model.transformer.attention import attend
from viz_model.transformer.hooks import capture, edit, follow, site, unwatched, wanted
from viz_model.transformer.masks import named


def unchanged(tensor):
    return tensor


def test_what_is_taken_only_if_it_is_made_is_no_reason_to_make_it():
    model, ids = make_model(small_model().config), random_ids(1, 5)
    with capture("*.q", if_made=["*.weights"]) as found:
        assert not wanted("blocks.0.attn.weights")
        model(ids)
    assert not any(name.endswith("weights") for name in found)
    with edit({"blocks.0.attn.raw": unchanged}), capture("*.q", if_made=["*.weights"]) as found:
        model(ids)
    assert {name for name in found if name.endswith("weights")} == {"blocks.0.attn.weights"}


# --- which sites there are ---


@examples(40)
@given(configs())
def test_every_site_fires_exactly_once_with_its_shape(config):
    """A second visit would raise SiteError, so `capture("*")` shows both."""
    batch, length = 2, 5
    with capture("*") as found:
        make_model(config)(random_ids(batch, length), logits="all")
    assert set(found) == expected_sites(config)
    queries = (batch, config.n_heads, length, config.d_head)
    keys = (batch, config.n_kv_heads, length, config.d_head)
    cells = (batch, config.n_heads, length, length)
    shapes = {"q": queries, "q_pre": queries, "k": keys, "k_pre": keys, "v": keys, "mixed": queries}
    shapes |= dict.fromkeys(("raw", "scores", "weights"), cells)
    shapes |= {"hidden": (batch, length, config.d_ff), "logits": (batch, length, config.vocab_size)}
    for name, tensor in found.items():
        last = name.rpartition(".")[2]
        if last == "mask":
            assert tensor.dtype == torch.bool
            assert torch.broadcast_shapes(tensor.shape, cells) == cells
        else:
            assert tensor.shape == shapes.get(last, (batch, length, config.d_model)), name


@examples(30)
@given(configs())
def test_watching_changes_no_result_and_leaves_the_weights_alone(config):
    model, ids = make_model(config), random_ids(2, 7)
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    alone = model(ids, logits="all")
    with capture("*.attn.q", "*.resid_*", "logits") as found:
        assert torch.equal(model(ids, logits="all"), alone)
    assert torch.equal(found["logits"], alone)
    with capture("*"):
        torch.testing.assert_close(model(ids, logits="all"), alone, atol=1e-4, rtol=1e-4)
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())


def test_captured_tensors_are_never_changed_afterwards():
    """Each captured tensor at the end equals a copy that was made at its site, in an equal pass."""
    model, ids, copies = small_model(position="rotary"), random_ids(2, 7), []
    with capture("*") as found:
        model(ids)

    def copy(tensor):
        copies.append(tensor.clone())
        return tensor

    with capture("*") as order, edit({"*": copy}):
        model(ids)
    assert list(order) == list(found)
    assert len(copies) == len(found)
    for name, made_at_the_site in zip(found, copies, strict=True):
        assert torch.equal(found[name], made_at_the_site), name


def test_captured_tensors_do_not_keep_the_graph_alive():
    model = small_model().requires_grad_(True)
    with capture("*") as found:
        logits = model(random_ids(1, 4))
    assert logits.requires_grad
    assert not any(tensor.requires_grad for tensor in found.values())


# --- patterns that fit nothing, and passes that come twice ---


@pytest.mark.parametrize(
    ("pattern", "near"),
    [
        ("blocks.0.attn.weight", "blocks.0.attn.weights"),
        ("blocks.2.attn.q", "blocks.1.attn.q"),
        ("blocks.*.attn.pattern", "attn."),
        ("logit", "logits"),
        ("Ω", ""),
    ],
)
def test_an_unknown_site_is_refused_with_near_names(pattern, near):
    model, ids = small_model(), random_ids(1, 3)
    for watching in (capture("logits", pattern), edit({"logits": unchanged, pattern: unchanged})):
        with pytest.raises(SiteError) as refusal, watching:
            model(ids)
        said, _, names = str(refusal.value).partition("Near names: ")
        assert f"'{pattern}'" in said
        assert near in names
        assert names.rstrip(".").split(", ")[0] in expected_sites(model.config)


def test_a_site_that_this_config_lacks_is_unknown():
    with pytest.raises(SiteError, match=r"q_pre.*attn\.q"), capture("*.attn.q_pre"):
        small_model(position="learned")(random_ids(1, 3))


def test_a_capture_without_a_pass_says_so():
    with pytest.raises(SiteError, match="No pass ran"), capture("logits"):
        pass


def test_a_second_pass_in_one_capture_is_refused():
    model = small_model()
    with capture("embed"):
        model(random_ids(1, 3))
        with pytest.raises(SiteError, match=r"'embed' .*one capture for each pass"):
            model(random_ids(1, 3))


def test_an_exception_ends_the_capture():
    """A hook that survives its pass mixes with the next one (TransformerLens#1323)."""
    model, ids = small_model(), random_ids(1, 3)
    alone = model(ids)
    breaking = {"blocks.1.norm1": lambda _: 1 / 0, "blocks.0.norm1": torch.zeros_like}
    with capture("embed"):
        with pytest.raises(ZeroDivisionError), edit(breaking), capture("no.such.site"):
            model(ids)
        assert wanted("embed")
        assert not wanted("blocks.0.norm1")
    for watching in (capture("embed"), edit({"embed": torch.zeros_like})):
        with pytest.raises(PromptError), watching:
            model(torch.tensor([[VOCABULARY]]))
        assert not wanted("embed")
    with pytest.raises(SiteError), capture("embed", "no.such.site"):
        model(ids)
    assert not wanted("embed")
    assert torch.equal(model(ids), alone)


# --- captures and edits within one another ---


def test_captures_nest_and_each_holds_its_own():
    model, ids, others = small_model(), random_ids(1, 3), random_ids(1, 4, seed=1)
    with capture("blocks.*.attn.weights") as outer:
        with capture("*.attn.q", "logits") as inner:
            model(ids)
        assert {name.rpartition(".")[2] for name in inner} == {"q", "logits"}
        outer_of_first = dict(outer)
        outer.clear()
        with capture("logits") as second:
            model(others)
    assert set(outer_of_first) == set(outer) == {"blocks.0.attn.weights", "blocks.1.attn.weights"}
    assert outer_of_first["blocks.0.attn.weights"].shape[-1] == 3
    assert outer["blocks.0.attn.weights"].shape[-1] == 4
    torch.testing.assert_close(second["logits"], model(others), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("edit_is_outside", [True, False])
def test_a_capture_holds_what_an_edit_made(edit_is_outside):
    model, ids = small_model(), random_ids(1, 3)
    watching = [edit({"blocks.0.attn.v": torch.zeros_like}), capture("blocks.0.attn.*")]
    first, second = watching if edit_is_outside else reversed(watching)
    with first as one, second as two:
        model(ids)
    found = two if edit_is_outside else one
    assert found["blocks.0.attn.v"].eq(0).all()
    assert found["blocks.0.attn.mixed"].eq(0).all()
    assert found["blocks.0.attn.q"].ne(0).any()


def test_edits_apply_from_the_outside_in():
    with edit({"a.b": lambda x: x + 1}), edit({"a.*": lambda x: x * 10, "*.b": lambda x: x - 3}):
        assert site("a.b", torch.tensor(1.0)).item() == (1 + 1) * 10 - 3
    assert site("a.b", torch.tensor(1.0)).item() == 1


def test_an_edit_in_place_reaches_this_site_alone():
    """The residual stream and the mask are one tensor at several sites: an edit gets a copy of it."""
    model, ids = small_model(), random_ids(1, 4)
    with capture("*.resid_*", "*.mask") as alone:
        model(ids)

    def first_key_only(mask):
        mask[:, 1:] = False
        return mask

    edits = {"blocks.1.resid_pre": lambda x: x.zero_(), "blocks.0.attn.mask": first_key_only}
    with capture("*.resid_*", "*.mask", "blocks.0.attn.mixed", "blocks.0.attn.v") as found, edit(edits):
        model(ids)
    assert found["blocks.1.resid_pre"].eq(0).all()
    assert found["blocks.0.resid_post"].ne(0).any()
    assert torch.equal(found["blocks.0.resid_pre"], alone["blocks.0.resid_pre"])
    assert torch.equal(found["blocks.1.attn.mask"], alone["blocks.1.attn.mask"])
    assert torch.equal(alone["blocks.0.attn.mask"][0], named("causal", 4)[0])
    first_value = found["blocks.0.attn.v"].repeat_interleave(2, 1)[:, :, :1]
    torch.testing.assert_close(found["blocks.0.attn.mixed"], first_value.expand(-1, -1, 4, -1))


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (lambda x: x[..., :-1], r"shape \(1, 4, 3, 3\).*shape \(1, 4, 3, 2\)"),
        (lambda x: x[0], r"shape \(4, 3, 3\)"),
        (lambda x: x.double(), r"float32.*float64"),
        (lambda x: None, "NoneType"),
        (lambda x: 0.0, "float"),
        (lambda x: x.numpy(), "ndarray"),
    ],
)
def test_an_edit_that_does_not_fit_is_refused(function, said):
    model, ids = small_model(), random_ids(1, 3)
    refused = pytest.raises(EditError, match=f"blocks.1.attn.weights.*{said}")
    with refused, edit({"blocks.1.attn.weights": function}):
        model(ids)
    assert not wanted("blocks.1.attn.weights")


# --- edits change the output as the definition says ---


def attend_inputs():
    generator = torch.Generator().manual_seed(2)
    sizes = (2, 4, 5, 6), (2, 2, 5, 6), (2, 2, 5, 6)
    return tuple(torch.randn(size, generator=generator) for size in sizes)


def one_head_zero(tensor):
    return torch.cat((tensor[:, :1], torch.zeros_like(tensor[:, 1:2]), tensor[:, 2:]), 1)


def softmax(scores, mask):
    scores = np.where(mask, scores, -np.inf)
    exponentials = np.exp(scores - scores.max(-1, keepdims=True))
    return exponentials / exponentials.sum(-1, keepdims=True)


def mixed_of(weights, value):
    return np.einsum("bhts,bhsd->bhtd", weights, np.repeat(value, 2, 1))


@pytest.mark.parametrize("watched", [False, True], ids=["alone", "captured"])
@pytest.mark.parametrize("name", ["q", "k", "v", "mask", "raw", "scores", "weights", "mixed"])
def test_an_edit_changes_the_output_as_numpy_says(name, watched):
    tensors, mask = attend_inputs(), named("causal", 5)
    without_first_key = mask.clone()
    without_first_key[2:, 0] = False
    query, key, value = (tensor.double().numpy() for tensor in tensors)
    raw, scores, weights, mixed = attention(query, key, value, mask)
    functions = {
        "q": lambda x: x * 2,
        "k": lambda x: x.flip(2),
        "v": lambda x: x - 1,
        "mask": lambda x: x & without_first_key,
        "raw": lambda x: x.tril(-1) * 3,
        "scores": lambda x: x + torch.arange(5),
        "weights": one_head_zero,
        "mixed": one_head_zero,
    }
    expected = {
        "q": lambda: attention(query * 2, key, value, mask)[-1],
        "k": lambda: attention(query, key[:, :, ::-1], value, mask)[-1],
        "v": lambda: attention(query, key, value - 1, mask)[-1],
        "mask": lambda: attention(query, key, value, without_first_key)[-1],
        "raw": lambda: mixed_of(softmax(np.tril(raw, -1) * 3 / np.sqrt(6), mask.numpy()), value),
        "scores": lambda: mixed_of(softmax(scores + np.arange(5), mask.numpy()), value),
        "weights": lambda: mixed_of(weights * np.array([1, 0, 1, 1])[:, None, None], value),
        "mixed": lambda: mixed * np.array([1, 0, 1, 1])[:, None, None],
    }
    with capture(*(["*"] if watched else [])), edit({f"attn.{name}": functions[name]}):
        edited = attend(*tensors, mask=mask)
    assert np.abs(edited.numpy() - mixed).max() > 0.05
    np.testing.assert_allclose(edited, expected[name](), atol=1e-5)


def test_an_edit_of_the_mask_holds_where_the_layout_has_none():
    tensors, lower = attend_inputs(), named("causal", 5)
    with edit({"attn.mask": lambda mask: mask & lower}):
        edited = attend(*tensors)
    np.testing.assert_allclose(edited, attention(*tensors, lower)[-1], atol=1e-5)


def test_a_zeroed_head_is_a_head_without_output_weights():
    model, ids = small_model(), random_ids(2, 5)
    with edit({"blocks.1.attn.mixed": one_head_zero}):
        edited = model(ids, logits="all")
    assert (edited - model(ids, logits="all")).abs().max() > 0.01
    width = model.config.d_head
    model.blocks[1].attn.output.weight[:, width : 2 * width] = 0
    torch.testing.assert_close(edited, model(ids, logits="all"), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("name", ["embed", "blocks.0.resid_post", "blocks.1.attn.weights", "final_norm"])
def test_an_activation_swapped_in_from_another_run_carries_its_result(name):
    """All that comes after a swapped full state is the other run's (activation patching)."""
    model, ids, others = small_model(), random_ids(1, 6), random_ids(1, 6, seed=1)
    with capture(name) as found:
        target = model(others)
    with edit({name: lambda _: found[name]}):
        swapped = model(ids)
    assert not torch.allclose(swapped, model(ids), atol=1e-3)
    if not name.endswith("weights"):
        assert torch.equal(swapped, target)


# --- one model, many visitors ---


def passes(model, seed, count):
    """Weights, residual and logits of `count` passes over different prompts of different lengths."""
    for number in range(count):
        ids = random_ids(1, 3 + (seed + number) % 6, seed=1000 * seed + number)
        if (seed + number) % 4 == 0:
            with edit({"blocks.0.attn.mixed": one_head_zero}), capture("blocks.1.*") as found:
                logits = model(ids)
        else:
            with capture("*.attn.weights", "blocks.1.resid_pre") as found:
                logits = model(ids)
        yield [logits, *found.values()]


def equal(one, other):
    return len(one) == len(other) and all(torch.equal(a, b) for a, b in zip(one, other, strict=True))


def test_eight_threads_on_one_model_do_not_mix_up_their_captures():
    """Hooks registered on a shared model mixed up 70 of 320 captures, without any error."""
    threads, count, model = 8, 40, small_model()
    alone = [list(passes(model, seed, count)) for seed in range(threads)]
    start = Barrier(threads)

    def run(seed):
        start.wait()
        return list(passes(model, seed, count))

    with ThreadPoolExecutor(threads) as pool:
        together = list(pool.map(run, range(threads)))
    mixed_up = sum(
        not equal(one, other)
        for mine, theirs in zip(alone, together, strict=True)
        for one, other in zip(mine, theirs, strict=True)
    )
    assert mixed_up == 0
    assert len({tuple(found[0].flatten().tolist()) for run in alone for found in run}) > threads * count * 0.9


def test_who_follows_a_pass_hears_of_its_sites_in_their_order_and_changes_nothing():
    model, ids = small_model(), random_ids(1, 3)
    alone, heard = model(ids), []
    with follow(heard.append), capture("blocks.*", "logits") as found:
        model(ids)
    assert [name for name in heard if name in found] == list(found)
    assert len(set(heard)) == len(heard)
    fused = []
    with follow(fused.append):  # who only follows does not make the pass write out its weights
        assert torch.equal(model(ids), alone)
        assert not wanted("blocks.0.attn.weights")
        with unwatched():
            model(ids)
    assert fused == [name for name in heard if name.rpartition(".")[2] not in ("raw", "scores", "weights")]


def test_what_a_follower_raises_ends_the_pass_at_that_site():
    model, ids, heard = small_model(), random_ids(1, 3), []

    def told(name):
        heard.append(name)
        if name == "blocks.0.attn.mixed":
            raise KeyError(name)

    with pytest.raises(KeyError), follow(told):
        model(ids)
    assert heard[-1] == "blocks.0.attn.mixed"
    model(ids)
    assert heard[-1] == "blocks.0.attn.mixed"


def test_a_capture_is_invisible_to_another_thread():
    model, ids = small_model(), random_ids(1, 3)
    with capture("logits") as found, ThreadPoolExecutor(1) as pool:
        assert not pool.submit(wanted, "logits").result()
        pool.submit(model, ids).result()
        assert not found
        model(ids)
    assert found


def test_a_capture_is_local_to_an_asyncio_task():
    model = small_model()

    async def visitor(seed):
        ids = random_ids(1, 4, seed=seed)
        with capture("logits") as found:
            await asyncio.sleep(0)
            model(ids)
            await asyncio.sleep(0)
        return torch.equal(found["logits"], model(ids))

    async def visitors():
        return await asyncio.gather(*(visitor(seed) for seed in range(5)))

    assert apart(asyncio.run, visitors()) == [True] * 5


def test_a_capture_of_queries_and_residuals_takes_the_fused_path(monkeypatch):
    calls, real = [], F.scaled_dot_product_attention
    monkeypatch.setattr(F, "scaled_dot_product_attention", lambda *a, **o: calls.append(1) or real(*a, **o))
    model, ids = small_model(), random_ids(1, 4)
    with capture("*.attn.q", "*.attn.k", "*.attn.v", "*.attn.mixed", "*.resid_*"):
        model(ids)
    assert len(calls) == model.config.n_layers
    with capture("blocks.1.attn.weights"):
        model(ids)
    assert len(calls) == 2 * model.config.n_layers - 1
