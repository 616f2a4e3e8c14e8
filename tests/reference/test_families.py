"""Models of the transformers library under our attention, against the same models under their own."""

import math
import re
import threading
from functools import cache

import numpy as np
import pytest
import torch
from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForMaskedLM, AutoModelForSeq2SeqLM

import viz_model as vm
from tests.reference.families import BERT, CONTEXT, FAMILIES, GPT2, LLAMA, TOKENS, compare, library_model, save_small
from tests.support.score_sums import summed_scores
from viz_model.attribution.components import components
from viz_model.heads.cell_arithmetic import cell_arithmetic
from viz_ui.parts.written_arithmetic import lines

PAIRS = [name for name, family in FAMILIES.items() if family.kind is AutoModelForSeq2SeqLM]
CAUSAL = [name for name, family in FAMILIES.items() if family.kind is AutoModelForCausalLM]
IDS = [5, 44, 17, 8, 60, 23, 23, 9, 31, 12]
SOURCE = [9, 30, 4, 55, 21, 7, 13]


@pytest.fixture(scope="module")
def folder_of(tmp_path_factory):
    @cache
    def get(name):
        folder = tmp_path_factory.mktemp("family")
        save_small(FAMILIES[name], folder)
        return folder

    return get


@pytest.fixture(scope="module")
def ours(folder_of):
    return cache(lambda name: vm.load(folder_of(name)))


@pytest.fixture(scope="module")
def theirs(folder_of):
    return lambda name: library_model(FAMILIES[name], folder_of(name))


def agree(found, expected, tolerance=1e-4):
    torch.testing.assert_close(found, expected, atol=tolerance, rtol=0)


@pytest.mark.parametrize("name", FAMILIES)
def test_logits_and_every_attention_map(name, folder_of):
    met = compare(FAMILIES[name], folder_of(name))
    assert met.cases == 5
    assert met.logits <= 1e-4
    assert met.weights <= 1e-4


@torch.inference_mode()
@pytest.mark.parametrize("name", FAMILIES)
def test_derived_weights_and_the_stream(name, ours, theirs):
    """A trace that holds no weights derives them from q, k, mask, bias, softcap and sinks; and holds the stream."""
    model = ours(name)
    given = {"target": IDS} if name in PAIRS else {}
    trace = model.trace(SOURCE if name in PAIRS else IDS, stored_weights_bytes=0, **given)
    assert not trace.stored
    known = _known(theirs(name), name)
    maps = {"self": "attentions", "encoder": "encoder_attentions", "decoder": "decoder_attentions",
            "cross": "cross_attentions"}  # fmt: skip
    streams = {"self": "hidden_states", "encoder": "encoder_hidden_states", "decoder": "decoder_hidden_states"}
    for part in trace.config.parts:
        view = trace.of(part)
        for layer in range(view.n_layers):
            own = torch.stack([view.weights(layer, head) for head in range(trace.config.n_heads)])
            agree(own, known[maps[part]][layer][0])
            agree(view.weights_of(layer, [2, 0]), known[maps[part]][layer][0][:, [2, 0]])
            if part in streams:
                agree(view[view.site("resid_pre", layer)], known[streams[part]][layer][0])
        if part in streams:
            agree(view[view.site("final_norm")] if name != "OPT" else known[streams[part]][-1][0],
                  known[streams[part]][-1][0])  # fmt: skip
    agree(trace.logits, known.logits[0, -1])
    agree(trace.logits_at(2), known.logits[0, 2])


def _known(model, name):
    options = {"output_attentions": True, "output_hidden_states": True}
    if name in PAIRS:
        return model(torch.tensor([SOURCE]), decoder_input_ids=torch.tensor([IDS]), **options)
    return model(torch.tensor([IDS]), **options)


@torch.inference_mode()
@pytest.mark.parametrize("name", [*CAUSAL, *PAIRS])
def test_the_cache_changes_nothing(name, ours, theirs):
    """Greedy steps with our cache: the library's logits and the rows of its maps over the whole text."""
    if name == "DeepSeek-V3":
        pytest.skip("its keys and values differ in width, so there is no cache for it; see the refusal below")
    model, library = ours(name), theirs(name)
    options = {"target": IDS[:6]} if name in PAIRS else {}
    prompt = SOURCE if name in PAIRS else IDS[:6]
    for step in model.generate(prompt, max_new_tokens=5, temperature=0.0, compare=True, **options):
        assert step.largest_difference <= 1e-4
        read = torch.tensor([step.ids[:-1]])
        given = {"input_ids": read}
        if name in PAIRS:
            given = {"input_ids": torch.tensor([SOURCE]), "decoder_input_ids": read}
        known = library(**given, output_attentions=True)
        agree(step.sampled.logits, known.logits[0, -1])
        for layer in range(model.config.n_layers):
            maps = known.decoder_attentions if name in PAIRS else known.attentions
            agree(step.weights(layer, 1), maps[layer][0, 1, -step.queries :])
            if name in PAIRS:
                agree(step.weights(layer, 1, "cross"), known.cross_attentions[layer][0, 1, -step.queries :])


def test_keys_and_values_of_unequal_width_are_not_cached(ours):
    model = ours("DeepSeek-V3")
    with pytest.raises(vm.VizError, match="differ in width"):
        next(model.generate(IDS))
    assert len(list(model.generate(IDS, max_new_tokens=2, cache=False))) == 2


@torch.inference_mode()
@pytest.mark.parametrize("name", ["Llama", "GPT-2", "Mistral", "Gemma 2", "Falcon"])
def test_a_mask_of_the_readers_choice_replaces_all_own_ones(name, ours, theirs):
    """Windows too: the library gets the same mask as numbers to add, which it takes as it is."""
    generator = torch.Generator().manual_seed(3)
    mask = torch.rand(len(IDS), len(IDS), generator=generator) < 0.4
    mask |= torch.eye(len(IDS), dtype=torch.bool)
    added = torch.zeros(1, 1, *mask.shape).masked_fill(~mask, torch.finfo(torch.float32).min)
    prepared = {"full_attention": added, "sliding_attention": added} if name == "Gemma 2" else added
    known = theirs(name)(torch.tensor([IDS]), attention_mask=prepared, output_attentions=True)
    trace = ours(name).trace(IDS, mask)
    agree(trace.logits, known.logits[0, -1])
    for layer, weights in enumerate(known.attentions):
        agree(torch.stack([trace.weights(layer, head) for head in range(6)]), weights[0])


@torch.inference_mode()
@pytest.mark.parametrize(
    ("name", "projection", "width"),
    [("Llama", "model.layers.1.self_attn.o_proj", 6), ("BERT", "bert.encoder.layer.1.attention.output.dense", 6),
     ("GPT-J", "transformer.h.1.attn.out_proj", 6), ("Falcon, grouped", "transformer.h.1.self_attention.dense", 6),
     ("MPNet", "mpnet.encoder.layer.1.attention.attn.o", 6)],
)  # fmt: skip
def test_an_edited_head_is_a_head_taken_out(name, projection, width, ours, theirs):
    """Head 2 set to 0 is the library's model with that head's columns before the output projection set to 0."""

    def without_head(module, arguments):
        joined = arguments[0].clone()
        joined[..., 2 * width : 3 * width] = 0
        return (joined,)

    def zero_head(mixed):
        mixed[:, 2] = 0
        return mixed

    model, library = ours(name), theirs(name)
    before = model.transformer(torch.tensor([IDS]), logits="all")
    with vm.edit({"blocks.1.attn.mixed": zero_head}):
        edited = model.transformer(torch.tensor([IDS]), logits="all")
    library.get_submodule(projection).register_forward_pre_hook(without_head)
    agree(edited, library(torch.tensor([IDS])).logits)
    assert (edited - before).abs().max() > 1e-2


@torch.inference_mode()
@pytest.mark.parametrize("name", ["Llama", "Qwen3", "Phi-3", "GPT-NeoX", "ModernBERT", "Cohere", "Falcon"])
def test_queries_and_keys_before_their_rotation(name, ours, theirs, monkeypatch):
    library = theirs(name)
    modeling = __import__(type(library).__module__, fromlist=["_"])
    real, rotations = modeling.apply_rotary_pos_emb, []

    def spy(query, key, *angles, **options):
        rotations.append((query, key))
        return real(query, key, *angles, **options)

    with monkeypatch.context() as patched:
        patched.setattr(modeling, "apply_rotary_pos_emb", spy)
        library(torch.tensor([IDS]))
    with vm.capture("*.q_pre", "*.k_pre") as found:
        ours(name).transformer(torch.tensor([IDS]))
    assert len(rotations) == ours(name).config.n_layers
    for layer, (query, key) in enumerate(rotations):
        agree(found[f"blocks.{layer}.attn.q_pre"], query, 1e-5)
        agree(found[f"blocks.{layer}.attn.k_pre"], key, 1e-5)


@torch.inference_mode()
def test_sites_are_edited_where_they_can_be(ours):
    """What a block gives can be replaced; what only a module inside it reads can not, and says so."""
    model, ids = ours("Llama"), torch.tensor([IDS])
    other = model.trace([7, *IDS[1:]])
    with vm.edit({"blocks.0.resid_post": lambda x: other["blocks.0.resid_post"][None].clone()}):
        logits = model.transformer(ids)[0]
    agree(logits, other.logits)
    with vm.edit({"blocks.1.attn.q_pre": torch.zeros_like}), vm.capture("blocks.1.attn.raw") as found:
        model.transformer(ids)
    assert found["blocks.1.attn.raw"].eq(0).all()
    with vm.edit({"blocks.0.resid_mid": torch.zeros_like}), pytest.raises(vm.EditError, match="not replaced"):
        model.transformer(ids)


@torch.inference_mode()
def test_threads_on_one_model_see_their_own_passes(ours):
    model = ours("Mistral")
    texts = [[(7 * n + 3 * place) % 60 + 3 for place in range(4 + n)] for n in range(6)]
    alone = [model.trace(ids) for ids in texts]
    mixed_up = []

    def run(n):
        torch.set_num_threads(1)
        mask = torch.ones(len(texts[n]), len(texts[n]), dtype=torch.bool) if n % 2 else None
        expected = model.trace(texts[n], mask) if n % 2 else alone[n]
        for _ in range(8):
            trace = model.trace(texts[n], mask)
            if not all(torch.equal(tensor, expected[name]) for name, tensor in trace.tensors.items()):
                mixed_up.append(n)

    threads = [threading.Thread(target=run, args=(n,)) for n in range(len(texts))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not mixed_up


@torch.inference_mode()
@pytest.mark.parametrize(
    ("name", "part", "words"),
    [("GPT-2", "self", "divided by √D|times this model's scale"), ("Gemma 2", "self", "capped"),
     ("gpt-oss", "self", "exp of the sink, part of the row's sum"), ("T5", "encoder", "plus the bias"),
     ("T5", "cross", "times this model's scale")],
)  # fmt: skip
def test_the_arithmetic_of_a_cell(name, part, words, ours, theirs):
    """From q·k to the weight, with what a model does to its scores as steps of their own."""
    given = {"target": IDS} if name in PAIRS else {}
    trace = ours(name).trace(SOURCE if name in PAIRS else IDS, **given).of(part)
    known = _known(theirs(name), name)[{"self": "attentions", "encoder": "encoder_attentions",
                                        "cross": "cross_attentions"}[part]]  # fmt: skip
    for layer, head, i, j in [(0, 1, 6, 2), (1, 0, 4, 4), (1, 3, 5, 0)]:
        cell = cell_arithmetic(trace, layer, head, i, j)
        assert cell.weight == pytest.approx(known[layer][0, head, i, j].item(), abs=1e-5)
        assert cell.drawn_weight == pytest.approx(cell.weight, abs=1e-5)
        entering = cell.raw * cell.scale
        if cell.softcap is not None:
            entering = cell.softcap * math.tanh(entering / cell.softcap)
        assert cell.capped == pytest.approx(entering, abs=1e-9)
        assert cell.entering == pytest.approx(entering + (cell.bias or 0.0), abs=1e-9)
        said = [step for step, _ in lines(cell, i, j)]
        assert any(re.fullmatch(words, step) for step in said) or not cell.allowed, said


@torch.inference_mode()
def test_falcon_adds_its_alibi_once(ours, folder_of):
    """As the library does by default; its plain attention adds it twice."""
    name, ids = "Falcon, ALiBi", torch.tensor([IDS])
    kind = FAMILIES[name].kind
    default = kind.from_pretrained(folder_of(name), dtype=torch.float32).eval()
    assert default.config._attn_implementation == "sdpa"
    agree(ours(name).transformer(ids, logits="all"), default(ids).logits)
    plain = kind.from_pretrained(folder_of(name), attn_implementation="eager", dtype=torch.float32).eval()
    assert (plain(ids).logits - default(ids).logits).abs().max() > 0.1  # once this fails, compare with it again


@torch.inference_mode()
@pytest.mark.parametrize("name", ["Falcon", "Falcon, grouped", "Cohere", "BLOOM"])
def test_what_is_captured_is_not_overwritten_later(name, ours):
    """Falcon adds attention into the very tensor that its feed-forward gave."""
    model = ours(name)
    with vm.capture("blocks.*") as found:
        model.transformer(torch.tensor([IDS]))
    for layer in range(model.config.n_layers):
        stream, attention, ffn, end = (found[f"blocks.{layer}.{site}"] for site in
                                       ("resid_pre", "attn.out", "ffn.out", "resid_post"))  # fmt: skip
        agree(stream + attention + ffn, end)


def test_layers_with_the_same_parameters(ours, theirs):
    """ALBERT's two groups of two layers: an attention for each layer, and every number counted once."""
    model, library = ours("ALBERT"), theirs("ALBERT")
    assert (model.config.n_layers, model.config.shares_layers) == (4, True)
    assert model.transformer.n_parameters() == sum(one.numel() for one in library.parameters())
    assert not ours("BERT").config.shares_layers
    with vm.edit({"blocks.1.attn.mixed": torch.zeros_like}), vm.capture("blocks.*.attn.mixed") as found:
        model.transformer(torch.tensor([IDS]))
    assert [bool(found[f"blocks.{layer}.attn.mixed"].any()) for layer in range(4)] == [True, False, True, True]


REFUSED = {
    "deberta-v2": (AutoModelForMaskedLM, BERT, "in its own code"),
    "albert": (AutoModelForMaskedLM, {**BERT, "inner_group_num": 2}, "Each layer must have an attention of its own"),
    "diffllama": (AutoModelForCausalLM, LLAMA, "which is called once"),
    "layoutlm": (AutoModelForMaskedLM, BERT, "no mask can be read from these numbers"),
    "gemma4_text": (AutoModelForCausalLM, {**LLAMA, "hidden_size_per_layer_input": 8, "vocab_size_per_layer_input": 67},
                    "number or width of their heads"),
    "lfm2": (AutoModelForCausalLM, {**LLAMA, "layer_types": ["conv", "full_attention"]},
             "only some of its layers"),
}  # fmt: skip


@pytest.mark.parametrize("model_type", REFUSED)
def test_what_cannot_be_shown_is_refused_by_name(model_type, tmp_path):
    kind, sizes, sentence = REFUSED[model_type]
    kind.from_config(AutoConfig.for_model(model_type, **TOKENS, **sizes)).save_pretrained(tmp_path)
    with pytest.raises(vm.CheckpointError, match=sentence):
        vm.load(tmp_path)


def test_contexts_and_facts(ours):
    """What the pages say of a model is what its config says."""
    for name in ("GPT-2", "RoBERTa", "BART", "T5", "Mistral"):
        assert ours(name).config.context_length == CONTEXT, name
    config = ours("Mistral").config
    assert (config.n_heads, config.n_kv_heads, config.d_head, config.d_model) == (6, 2, 10, LLAMA["hidden_size"])
    assert (config.n_layers, config.d_ff, config.layout, config.position) == (2, 44, "decoder-only", "rotary")
    assert (config.norm, config.norm_place, config.activation, config.bias) == ("rms", "pre", "swiglu", False)
    config = ours("BART").config
    assert (config.layout, config.n_encoder_layers, config.n_layers) == ("encoder-decoder", 3, 2)
    config = ours("GPT-2").config
    assert (config.n_layers, config.d_ff, config.position, config.norm) == (GPT2["n_layer"], 144, "learned", "layer")
    for name in ("BLOOM", "MPT", "Falcon, ALiBi"):
        assert ours(name).config.position == "alibi", name
    config = ours("MPNet").config
    assert (config.position, config.context_length) == ("learned", CONTEXT)
    assert [ours(name).config.activation for name in ("BLOOM", "MPT", "Falcon")] == ["gelu-tanh", "gelu", "gelu"]
    assert [ours(name).config.n_kv_heads for name in ("Falcon", "Falcon, grouped", "GPT-BigCode")] == [1, 3, 1]
    assert ours("Cohere").config.rotary_pairs == "neighbours"
    assert ours("Llama").config.rotary_pairs == "halves"


@pytest.mark.parametrize("name", FAMILIES)
def test_scores_and_logits_are_the_sums_of_what_their_components_add(name, ours):
    whole = ours(name).trace(SOURCE if name in PAIRS else IDS)
    for trace in (whole.of(part) for part in whole.config.parts):
        for layer in range(trace.n_layers):
            if trace.part != "cross":
                stream, found = trace[trace.site("resid_pre", layer)], components(trace, range(trace.length), layer)
                assert (found.parts.sum(0) - stream).abs().max() <= 1e-5 * stream.abs().max()
            for head in range(trace.config.n_heads):
                found = trace.score_terms(layer, head, trace.length - 1, 2)
                assert abs(found.remainder) <= 1e-5 * max(1, float(found.terms.abs().sum()))
                scores = trace.scores(layer, head).double()
                close = 1e-5 * max(1, float(scores.abs().max()))
                torch.testing.assert_close(summed_scores(trace, layer, head), scores, atol=close, rtol=0)
    last = whole.lens(whole.config.n_layers - 1)
    agree(last.softmax(-1), whole.logits.softmax(-1), 1e-6)
    agree(last, whole.logits, 1e-6 * float(whole.logits.abs().max()))
    token = int(whole.logits.argmax())
    for than, less in (("mean", whole.logits.mean()), (5, whole.logits[5]), (None, 0.0)):
        found = whole.logit_terms(token, than=than)
        assert abs(found.remainder) <= 1e-5 * max(1, float(found.terms.abs().sum()))
        if found.softcap is None:
            assert found.logit == pytest.approx(float(whole.logits[token] - less), abs=1e-4)
    logit, cap = found.logit, found.softcap
    assert whole.logits[token] == pytest.approx(logit if cap is None else cap * math.tanh(logit / cap), abs=1e-4)
    for part in {whole.config.self_part, whole.config.parts[-1]}:
        split = whole.of(part).logit_sources(token)
        heads = found.terms[[found.components.index(component) for component in split.components]]
        agree(split.of_heads, heads, 1e-6 * float(heads.abs().max()))
        assert len(split.components) == whole.n_layers * whole.config.n_heads


@torch.inference_mode()
def test_a_logit_behind_an_activation_is_taken_apart_as_numpy_does(ours, theirs):
    """BERT's norm(φ(x·W)): what one head adds, with φ(x)/x of the pass as a factor of each number."""
    trace, head = ours("BERT").trace(IDS), theirs("BERT").cls.predictions
    token, position, layer, number, width = 7, 4, 1, 3, 6
    wrote = torch.zeros(6 * width)
    wrote[number * width : (number + 1) * width] = trace.mixed(layer)[number, position]
    block = theirs("BERT").bert.encoder.layer[layer]
    streams = trace["blocks.1.resid_pre"], trace["blocks.1.resid_mid"], trace["final_norm"]
    read, middle, end = (stream[position].double().numpy() for stream in streams)

    def weights(module):
        return module.weight.double().numpy(), module.bias.double().numpy()

    def behind_norm(module, whole, part):
        gain, _ = weights(module)
        return gain * (part - part.mean()) / np.sqrt(whole.var() + module.eps)

    matrix, bias = weights(block.attention.output.dense)
    joined = trace.mixed(layer)[:, position].flatten().double().numpy()
    part = behind_norm(block.attention.output.LayerNorm, read + matrix @ joined + bias, matrix @ wrote.double().numpy())
    gave = block.output.dense(block.intermediate(torch.tensor(middle).float()[None]))[0].double().numpy()
    part = behind_norm(block.output.LayerNorm, middle + gave, part)
    matrix, bias = weights(head.transform.dense)
    entering = matrix @ end + bias
    active = head.transform.transform_act_fn(torch.tensor(entering)).numpy()
    part = behind_norm(head.transform.LayerNorm, active, matrix @ part * active / entering)
    found = trace.logit_terms(token, position, than=5)
    rows = head.decoder.weight.double().numpy()
    at = found.names.index(f"layer {layer}, head {number}")
    assert float(found.terms[at]) == pytest.approx(float((rows[token] - rows[5]) @ part), rel=1e-4)
    assert found.activation == "gelu"
