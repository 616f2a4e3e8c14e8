"""Circuits of heads, against numpy written out from the weights as transformers and torch name them."""

from functools import cache

import numpy as np
import pytest
import torch

import viz_model as vm
from tests.reference.families import FAMILIES, library_model, save_small
from tests.support.small_models import make_model, small_config
from viz_model.circuit.circuits import KINDS, RANDOM_HEADS
from viz_model.model import Model

HEADS, GROUPS, V = 6, {"GPT-2": 6, "Llama": 2, "Gemma": 2}, 67
PLACES = [(0, 0, 1, 0), (0, 5, 1, 3), (0, 2, 1, 5)]  # a head that writes, and one of the next layer


@cache
def folder_of(name, base):
    folder = base / name.replace(" ", "-")
    save_small(FAMILIES[name], folder)
    return folder


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    """A function: the name of a family -> the model, and the weights of the library's own by their names."""
    base = tmp_path_factory.getbasetemp() / "circuits"

    @cache
    def loaded(name):
        folder = folder_of(name, base)
        weights = library_model(FAMILIES[name], folder).state_dict()
        return vm.load(folder), {key: tensor.double().numpy() for key, tensor in weights.items()}

    return loaded


class WrittenOut:
    """Weights of a model in numpy: W_E (V,C), W_U (C,V), and of a head W_Q, W_K, W_V (C,D), W_O (D,C), gains of norms
    folded in."""

    def __init__(self, name, weights):
        if name == "GPT-2":
            root, self.table = "transformer.", weights["transformer.wte.weight"]
            width = self.table.shape[1]
            centre = np.eye(width) - 1 / width
            self.end = centre @ np.diag(weights[f"{root}ln_f.weight"])
        else:
            self.table, one = weights["model.embed_tokens.weight"], float(name == "Gemma")
            width = self.table.shape[1]
            self.end = np.diag(weights["model.norm.weight"] + one)
        self.unembedding = self.end @ weights["lm_head.weight"].T
        self.name, self.weights, self.width = name, weights, width

    def head(self, layer, head):
        get, name = self.weights.__getitem__, self.name
        if name == "GPT-2":
            block = f"transformer.h.{layer}."
            centre = np.eye(self.width) - 1 / self.width
            norm = centre @ np.diag(get(block + "ln_1.weight"))
            query, key, value = np.split(get(block + "attn.c_attn.weight"), 3, axis=1)
            output, group = get(block + "attn.c_proj.weight"), head
        else:
            block, group = f"model.layers.{layer}.", head // (HEADS // GROUPS[name])
            norm = np.diag(get(block + "input_layernorm.weight") + float(name == "Gemma"))
            query, key, value = (get(block + f"self_attn.{one}_proj.weight").T for one in "qkv")
            output = get(block + "self_attn.o_proj.weight").T
        d = output.shape[0] // HEADS
        own, shared = slice(head * d, (head + 1) * d), slice(group * d, (group + 1) * d)
        return norm @ query[:, own], norm @ key[:, shared], norm @ value[:, shared], output[own]


def score(matrix):
    values = np.linalg.eigvals(matrix)
    return values.real.sum() / np.abs(values).sum()


@pytest.mark.parametrize("name", GROUPS)
def test_copying_scores_are_those_of_all_eigenvalues_of_tokens_by_tokens(name, both):
    model, weights = both(name)
    out, found = WrittenOut(name, weights), vm.circuits(model).copying
    assert found.shape == (model.config.n_layers, HEADS)
    for layer, head in np.ndindex(*found.shape):
        _, _, value, output = out.head(layer, head)
        whole = out.table @ value @ output @ out.unembedding
        assert whole.shape == (V, V)
        assert float(found[layer, head]) == pytest.approx(score(whole), abs=1e-6)  # Gemma rounds its 1 + w


@pytest.mark.parametrize("name", GROUPS)
@pytest.mark.parametrize("kind", KINDS)
def test_composition_is_the_norm_of_the_product_of_two_matrices_of_the_model(name, kind, both):
    model, weights = both(name)
    out, circuits = WrittenOut(name, weights), vm.circuits(model)
    found, baseline = circuits.composition(kind), circuits.baseline(kind)
    for layer, head, later, other in PLACES:
        value, output = out.head(layer, head)[2:]
        query, key, value_of_other, output_of_other = out.head(later, other)
        read = {"query": query @ key.T, "key": key @ query.T, "value": value_of_other @ output_of_other}[kind]
        written = value @ output
        share = np.linalg.norm(written @ read) / np.linalg.norm(written) / np.linalg.norm(read)
        assert float(found[layer, head, later, other]) + baseline == pytest.approx(share, rel=1e-5)
    layers = np.arange(model.config.n_layers)
    has_path = layers[:, None] < layers
    assert (np.isfinite(found.numpy()).all(axis=(1, 3)) == has_path).all()
    assert (np.isnan(found.numpy()).all(axis=(1, 3)) == ~has_path).all()


def turned(rows, distance, base=10000.0):
    """Rows (n,D) turned by the rotation of Llama at a position: pairs i with i + D/2."""
    half = rows.shape[-1] // 2
    angles = distance * base ** (-np.arange(half) / half)
    first, second = rows[:, :half], rows[:, half:]
    cos, sin = np.cos(angles), np.sin(angles)
    return np.concatenate((first * cos - second * sin, second * cos + first * sin), -1)


@pytest.mark.parametrize("name", GROUPS)
def test_what_a_head_writes_and_looks_for_of_a_token(name, both):
    model, weights = both(name)
    out, circuits, token, (layer, head) = WrittenOut(name, weights), vm.circuits(model), 9, (1, 4)
    query, key, value, output = out.head(layer, head)
    factor = 36**0.5 if name == "Gemma" else 1.0  # Gemma's rows of tokens are multiplied with √C
    row = out.table[token] * factor
    logits = row @ value @ output @ out.unembedding
    np.testing.assert_allclose(circuits.writes(layer, head, token), logits - logits.mean(), atol=2e-5)
    for distance in (0, 3):
        asked = row[None] @ query
        asked = asked if name == "GPT-2" else turned(asked, distance)
        scale = 1 / np.sqrt(query.shape[1])
        scale = scale / (layer + 1) if name == "GPT-2" else scale  # of scale_attn_by_inverse_layer_idx
        scores = ((asked @ key.T) @ out.table.T)[0] * factor * scale
        found = circuits.looks_for(layer, head, token, distance)
        np.testing.assert_allclose(found, scores - scores.mean(), atol=2e-5)
        if name != "GPT-2":
            curve = circuits.distance_scores(layer, head, token, 5)
            assert float(curve[distance]) == pytest.approx(scores.mean(), abs=1e-5)
            curve = circuits.distance_scores(layer, head, token, 5, other=11)
            assert float(curve[distance]) == pytest.approx(scores[11], abs=1e-5)


@pytest.mark.parametrize("name", GROUPS)
def test_the_share_of_tokens_that_a_head_raises_when_it_reads_them(name, both):
    model, weights = both(name)
    out, circuits = WrittenOut(name, weights), vm.circuits(model)
    for layer, head in ((0, 2), (1, 5)):
        _, _, value, output = out.head(layer, head)
        logits = out.table @ value @ output @ out.unembedding
        share = (logits.diagonal() > logits.mean(axis=1)).mean()
        assert 0 < share < 1
        assert circuits.raises_itself(layer, head) == pytest.approx(share, abs=1e-9)


def test_scores_of_positions_alone(both):
    model, weights = both("GPT-2")
    query, key, _, _ = WrittenOut("GPT-2", weights).head(1, 2)
    rows = weights["transformer.wpe.weight"][:7]
    expected = rows @ query @ key.T @ rows.T / np.sqrt(6) / 2
    np.testing.assert_allclose(vm.circuits(model).position_scores(1, 2, 7), expected, atol=1e-9)
    assert vm.circuits(model).position_scores(1, 2, 999).shape == (20, 20)


def norm_matrix(weights, name):
    gain = weights[f"{name}.weight"]
    return (np.eye(len(gain)) - 1 / len(gain)) @ np.diag(gain)


def test_norms_on_the_stream_stand_between_two_heads(both):
    """BERT: what a head of layer 0 writes goes through both norms of its layer."""
    model, weights = both("BERT")
    block, own = "bert.encoder.layer.{}.", slice(6, 12)
    first, second = block.format(0), block.format(1)
    value = weights[first + "attention.self.value.weight"][own].T
    output = weights[first + "attention.output.dense.weight"][:, own].T
    norms = norm_matrix(weights, first + "attention.output.LayerNorm") @ norm_matrix(
        weights, first + "output.LayerNorm"
    )
    written = value @ output @ norms
    query, key = (weights[f"{second}attention.self.{one}.weight"][own].T for one in ("query", "key"))
    share = np.linalg.norm(written @ query @ key.T) / np.linalg.norm(written) / np.linalg.norm(query @ key.T)
    circuits = vm.circuits(model)
    assert float(circuits.composition("query")[0, 1, 1, 1]) + circuits.baseline("query") == pytest.approx(
        share, rel=1e-5
    )
    entered = weights["bert.embeddings.word_embeddings.weight"] @ norm_matrix(weights, "bert.embeddings.LayerNorm")
    scores = (entered @ norms @ query)[9] @ (entered @ norms @ key).T / np.sqrt(6)
    np.testing.assert_allclose(circuits.looks_for(1, 1, 9), scores - scores.mean(), atol=2e-5)


def test_copying_of_a_post_norm_model_goes_through_every_norm_behind_the_head():
    torch.manual_seed(0)
    model = make_model(small_config(norm_place="post", embedding_norm=True, n_kv_heads=4))
    weights = {name: tensor.double().numpy() for name, tensor in model.state_dict().items()}
    block = [f"blocks.{layer}." for layer in range(2)]
    table = weights["tokens.weight"] @ norm_matrix(weights, "embedding_norm")
    for layer, head in ((0, 3), (1, 1)):
        own = slice(6 * head, 6 * head + 6)
        value = weights[block[layer] + "attn.value.weight"][own].T
        output = weights[block[layer] + "attn.output.weight"][:, own].T
        whole = table
        for earlier in block[:layer]:
            whole = whole @ norm_matrix(weights, earlier + "norm1") @ norm_matrix(weights, earlier + "norm2")
        whole = whole @ value @ output
        for later in block[layer:]:
            whole = whole @ norm_matrix(weights, later + "norm1") @ norm_matrix(weights, later + "norm2")
        unembedding = weights.get("unembedding.weight", weights["tokens.weight"])
        found = vm.circuits(Model("small", model)).copying[layer, head]
        assert float(found) == pytest.approx(score(whole @ unembedding.T), abs=1e-8)


def test_cross_attention_reads_the_encoder_and_is_asked_by_the_decoder(both):
    model, weights = both("T5")
    circuits, d = vm.circuits(model, "cross"), 10
    own, gain = slice(2 * d, 3 * d), lambda name: np.diag(weights[f"{name}.weight"])
    cross = "decoder.block.1.layer.1."
    query, key, value = (weights[f"{cross}EncDecAttention.{one}.weight"][own].T for one in "qkv")
    output = weights[f"{cross}EncDecAttention.o.weight"][:, own].T
    query = gain(f"{cross}layer_norm") @ query
    end = gain("decoder.final_layer_norm") @ weights["lm_head.weight"].T
    table = weights["shared.weight"] @ gain("encoder.final_layer_norm")
    assert float(circuits.copying[1, 2]) == pytest.approx(score(table @ value @ output @ end), abs=1e-8)
    before = {
        "query": ("decoder.block.1.layer.0.", np.eye(24), query @ key.T, "decoder"),
        "key": ("encoder.block.2.layer.0.", gain("encoder.final_layer_norm"), key @ query.T, "encoder"),
    }
    for kind, (name, between, read, source) in before.items():
        first = slice(0, d)
        written = gain(f"{name}layer_norm") @ weights[f"{name}SelfAttention.v.weight"][first].T
        written = written @ weights[f"{name}SelfAttention.o.weight"][:, first].T @ between
        share = np.linalg.norm(written @ read) / np.linalg.norm(written) / np.linalg.norm(read)
        found = circuits.measure_composition(kind)
        assert found.source == source
        assert float(found.over[1 if kind == "query" else 2, 0, 1, 2]) + found.baseline == pytest.approx(
            share, rel=1e-5
        )
    assert circuits.composition("key").isfinite().all()
    assert circuits.composition("query")[1, :, 0].isnan().all()


def built(sign):
    """A model of one layer whose two heads write ±what they read, in halves of the stream."""
    model = make_model(small_config(n_layers=1, n_heads=2, n_kv_heads=2, norm="rms", bias=False, d_ff=0))
    with torch.no_grad():
        attention, size = model.blocks[0].attn, model.config.d_model
        for norm in (model.blocks[0].norm1, model.final_norm):
            norm.weight.fill_(1.0)
        attention.value.weight.copy_(torch.eye(size))
        attention.output.weight.copy_(sign * torch.eye(size))
    return Model("built", model)


@pytest.mark.parametrize("sign", [1, -1])
def test_a_head_that_writes_what_it_reads_has_the_score_1_and_one_that_takes_it_away_minus_1(sign):
    circuits = vm.circuits(built(sign))
    assert circuits.copying.tolist() == [pytest.approx([sign, sign], abs=1e-9)]
    for token in (0, 7, 28):
        written = sign * circuits.writes(0, 0, token) + sign * circuits.writes(0, 1, token)
        assert int(written.argmax()) == token or written.max() < 1.5 * written[token]


def test_random_heads_score_0_on_average_and_random_pairs_have_no_composition_above_the_baseline():
    model = make_model(small_config(n_layers=4, n_heads=8, n_kv_heads=8, d_model=64, vocab_size=300, norm="rms"))
    circuits = vm.circuits(Model("random", model))
    found = circuits.measure_copying()
    assert found.random.shape == (4, RANDOM_HEADS)
    spread = float(found.random.std())
    assert abs(float(found.random[0].mean())) < 3 * spread / RANDOM_HEADS**0.5
    assert abs(float(found.scores.mean())) < 3 * spread / 32**0.5
    assert 0.5 * spread < float(found.scores.std()) < 2 * spread
    for kind in KINDS:
        over = circuits.composition(kind)
        assert abs(float(over[~over.isnan()].mean())) < 0.1 * circuits.baseline(kind)


@pytest.mark.parametrize(("name", "least"), [("tiny-gpt", 0.99), ("tiny-llama", 0.99), ("induction", 0.94)])
def test_the_induction_heads_of_the_bundled_models_are_found_without_a_prompt(name, least):
    """They copy, and of all heads before them they read most in their keys of those that look at the token before."""
    model = vm.load(name)
    circuits = vm.circuits(model)
    tables = {key: np.array(table) for key, table in model.measured_heads.items()}
    induction, previous = (
        np.unravel_index(table.argmax(), table.shape) for table in (tables["induction"], tables["previous_random"])
    )
    copying = circuits.copying
    assert float(copying[induction]) >= least
    assert int((copying > copying[induction]).sum()) <= 1, "one of the two that copy most"
    read = circuits.composition("key")[:, :, *map(int, induction)].nan_to_num(-1)
    assert float(read[previous]) > 0.05
    assert int((read > read[previous]).sum()) <= 1


def test_a_previous_token_head_is_seen_in_the_scores_of_positions():
    model = vm.load("tiny-gpt")
    previous = np.array(model.measured_heads["previous_text"])
    layer, head = np.unravel_index(previous.argmax(), previous.shape)
    scores = vm.circuits(model).position_scores(int(layer), int(head), 40).tril()
    scores = scores.masked_fill(~torch.ones_like(scores).bool().tril(), -torch.inf)
    assert float((scores.argmax(-1)[1:] == torch.arange(39)).double().mean()) > 0.9


def test_progress_is_told_and_ends_the_work():
    circuits, told = vm.circuits(vm.load("induction")), []
    circuits.measure_copying(tell=lambda done, total: told.append(done / total))
    circuits.measure_composition("key", tell=lambda done, total: told.append(done / total))
    assert told[0] == 0.0
    assert max(told) < 1.0
    assert len(set(told)) >= 3

    def stop(done, total):
        raise RuntimeError("stopped")

    with pytest.raises(RuntimeError, match="stopped"):
        circuits.measure_copying(tell=stop)


@pytest.mark.parametrize(
    ("name", "part", "ask", "words"),
    [
        ("DeepSeek-V3", None, lambda c: c.copying, "DeepseekV3"),
        ("DeepSeek-V3", None, lambda c: c.composition("query"), "DeepseekV3"),
        ("BERT", None, lambda c: c.copying, "Bert"),
        ("BERT", None, lambda c: c.writes(0, 0, 5), "Bert"),
        ("T5", "encoder", lambda c: c.copying, "encoder"),
        ("T5", "decoder", lambda c: c.position_scores(0, 0, 5), "T5"),
        ("T5", "cross", lambda c: c.distance_scores(0, 0, 5, 5), "T5"),
        ("Llama", None, lambda c: c.position_scores(0, 0, 5), "Llama"),
        ("GPT-2", None, lambda c: c.distance_scores(0, 0, 5, 5), "GPT2"),
        ("GPT-2", "cross", lambda c: c.copying, "self"),
        ("GPT-2", None, lambda c: c.composition("score"), "query, key, value"),
        ("GPT-2", None, lambda c: c.composition("query", -1), "distance"),
        ("GPT-2", None, lambda c: c.writes(3, 0, 5), "layer"),
        ("GPT-2", None, lambda c: c.looks_for(0, 6, 5), "head"),
        ("GPT-2", None, lambda c: c.looks_for(0, 0, 67), "token"),
    ],
)
def test_what_cannot_be_taken_apart_or_is_not_there_is_said(name, part, ask, words, both):
    with pytest.raises(vm.VizError, match=words):
        ask(vm.circuits(both(name)[0], part))
