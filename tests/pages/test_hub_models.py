"""The pages on a Hub model: its chat template, its special tokens, its grouped heads; and one that reads ids only.

A small Llama with random weights and a byte-level tokenizer, both run by `transformers` itself for comparison.
"""

from functools import cache

import numpy as np
import pytest
import streamlit as st
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from transformers import (
    AlbertConfig,
    AlbertForMaskedLM,
    BertTokenizer,
    Gemma2Config,
    Gemma2ForCausalLM,
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedTokenizerFast,
)

import viz_model as vm
from tests.support.app import blobs_of, drawn_matrices, opened
from tests.support.blobs import received, received_generation
from viz_ui.components.shared.packing import unpack
from viz_ui.look.text import labels
from viz_ui.parts.special_tokens import shown_tokens

PROMPT, LAYERS, HEADS, GROUPS = "the cat sat", 2, 4, 2
WINDOW = 3
TEMPLATE = "{% for m in messages %}<s>{{ m['role'] }}: {{ m['content'] }}</s>{% endfor %}bot: "


@cache
def tokenizer() -> PreTrainedTokenizerFast:
    backend = Tokenizer(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=270, special_tokens=["<s>", "</s>"], initial_alphabet=alphabet)
    backend.train_from_iterator([PROMPT] * 3, trainer)
    backend.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 0)])
    return PreTrainedTokenizerFast(tokenizer_object=backend, bos_token="<s>", eos_token="</s>", chat_template=TEMPLATE)


@cache
def llama() -> LlamaForCausalLM:
    torch.manual_seed(0)
    sizes = {"vocab_size": 270, "hidden_size": 32, "intermediate_size": 48, "max_position_embeddings": 96}
    heads = {"num_hidden_layers": LAYERS, "num_attention_heads": HEADS, "num_key_value_heads": GROUPS}
    return LlamaForCausalLM(LlamaConfig(**sizes, **heads, initializer_range=0.3, attn_implementation="eager")).eval()


@cache
def windowed() -> Gemma2ForCausalLM:
    torch.manual_seed(0)
    sizes = {"vocab_size": 67, "hidden_size": 32, "intermediate_size": 48, "max_position_embeddings": 96, "head_dim": 8}
    heads = {"num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "sliding_window": WINDOW}
    return Gemma2ForCausalLM(Gemma2Config(**sizes, **heads, attn_implementation="eager")).eval()


@pytest.fixture(autouse=True, scope="module")
def models_here(tmp_path_factory):
    folder = tmp_path_factory.mktemp("checkpoints")
    for name in ("chatty", "nameless"):
        llama().save_pretrained(folder / name)
    tokenizer().save_pretrained(folder / "chatty")
    windowed().save_pretrained(folder / "windowed")
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(vm.checkpoints, "FOLDER", folder)
        st.cache_resource.clear()
        yield
    st.cache_resource.clear()


def app(page="heads", **address):
    return opened(page, **({"model": "chatty", "prompt": PROMPT} | address))


def blob(test, holding):
    [found] = [found for found in blobs_of(test) if holding in unpack(found)[0]]
    return found


def weights(ids, layer, head):
    """By `transformers`: (T,T)."""
    with torch.inference_mode():
        return llama()(torch.tensor([ids]), output_attentions=True).attentions[layer][0, head].numpy()


def words(test):
    return "\n".join(e.value for e in (*test.markdown, *test.caption, *test.info, *test.sidebar.caption))


def sent_as_chat():
    message = [{"role": "user", "content": PROMPT}]
    return tokenizer().apply_chat_template(message, add_generation_prompt=True)["input_ids"]


@pytest.mark.parametrize("sent", ["raw", "chat"])
def test_a_prompt_is_read_raw_or_in_the_chat_template(sent):
    ids = sent_as_chat() if sent == "chat" else tokenizer()(PROMPT)["input_ids"]
    test = app(layer=1, head=2, **({} if sent == "raw" else {"sent": sent}))
    header = unpack(blob(test, "items"))[0]
    np.testing.assert_allclose(received(blob(test, "items"))["weights"][0], weights(ids, 1, 2), atol=2e-5)
    tokens = tokenizer().convert_ids_to_tokens(ids)
    assert header["labels"][0] == labels(token.replace("Ġ", " ").encode() for token in tokens)
    assert f"{len(ids)} of 96 tokens" in words(test)


def test_a_prompt_that_the_model_reads_but_no_browser_draws_gets_a_sentence(monkeypatch):
    monkeypatch.setattr("viz_ui.frame.sidebar.LONGEST_DRAWN", 10)
    longer = PROMPT * 4
    count = len(tokenizer()(longer)["input_ids"])
    test = app(prompt=longer)
    assert f"The prompt has {count} tokens. chatty reads up to 96, but the pages draw at most 10," in words(test)
    assert f"Shorten the prompt by {count - 10} tokens." in words(test)
    assert not test.main.get("bidi_component")
    test.sidebar.text_area(key="prompt").set_value(PROMPT).run()
    assert weights(tokenizer()(PROMPT)["input_ids"], 0, 0).shape == received(blob(test, "items"))["weights"][0].shape


def test_a_chat_is_generated_from_and_the_switch_turns_it_back():
    test = app("generate", sent="chat", new=3, greedy="true", layer=0, head=1)
    ids = torch.tensor([sent_as_chat()])
    known = llama().generate(ids, max_new_tokens=3, do_sample=False)[0].tolist()
    header, _, _, _ = received_generation(blob(test, "of_source"))
    assert header["prompt_length"] == ids.shape[1]
    assert len(header["labels"]) == len(known)
    expected = vm.load("chatty").token_bytes(known)
    assert header["labels"] == labels(expected)
    test.segmented_control(key="sent").set_value("raw").run()
    assert unpack(blob(test, "of_source"))[0]["prompt_length"] == len(tokenizer()(PROMPT)["input_ids"])


@pytest.mark.parametrize("page", ["heads", "inside_a_head"])
@pytest.mark.parametrize("special", ["shown", "hidden", "renormalised"])
def test_special_tokens_are_hidden_and_rows_renormalised(page, special):
    ids = sent_as_chat()
    test = app(page, sent="chat", layer=1, head=3, query=4, key=2)
    test.selectbox(key="special").set_value(special).run()
    left = [at for at, token in enumerate(ids) if token not in tokenizer().all_special_ids or special == "shown"]
    assert len(left) == len(ids) - 2 * (special != "shown")
    expected = weights(ids, 1, 3)[np.ix_(left, left)]
    if special == "renormalised":
        expected = expected / expected.sum(1, keepdims=True)
    header = unpack(blob(test, "items"))[0]
    drawn, allowed = received(blob(test, "items"))["weights"]
    np.testing.assert_allclose(drawn, expected, atol=2e-5)
    np.testing.assert_array_equal(allowed, np.tri(len(left), dtype=bool))
    assert [int(label.split()[0]) for label in header["labels"][0]] == left
    assert header["selected"] == [left.index(4), left.index(2)]
    assert ("Hidden tokens: 0 \\<s\\>" in words(test)) == (special != "shown")
    assert "query 4" in words(test)
    if page == "heads":
        assert "pooled" not in words(test)
        thumbnail = unpack(blob(test, "heads"))[0]
        assert (thumbnail["rows"], thumbnail["columns"]) == (min(32, len(left)), min(32, len(left)))


def test_a_click_among_the_shown_tokens_chooses_the_token_of_the_pass():
    trace = vm.load("chatty").trace(PROMPT)
    shown = shown_tokens(vm.load("chatty"), trace, "hidden")
    assert shown.selected(0, 3) == (None, 2)
    with pytest.MonkeyPatch.context() as patched:
        clicked = {}
        patched.setattr("viz_ui.parts.special_tokens.choose_cell", clicked.update)
        shown.choose_cell({"panel": "weights", "query": 1, "key": None})
    assert clicked == {"query": 2, "key": None}
    whole = shown_tokens(vm.load("chatty"), vm.load("chatty").trace([0, 1]), "hidden")
    assert whole.is_whole  # there would be nothing left


def test_a_pair_of_texts_is_said_to_be_one(tmp_path):
    """And drawn as the library's own encoding of a pair, for ALBERT as for BERT."""
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "fox", "dog"]
    pair_reader = BertTokenizer(vocab={piece: place for place, piece in enumerate(pieces)})
    sizes = {"hidden_size": 16, "num_attention_heads": 2, "intermediate_size": 24, "initializer_range": 0.5}
    torch.manual_seed(0)
    library = AlbertForMaskedLM(
        AlbertConfig(vocab_size=len(pieces), embedding_size=8, num_hidden_layers=2, **sizes)
    ).eval()
    library.save_pretrained(tmp_path)
    pair_reader.save_pretrained(tmp_path)
    test = app("heads", model=str(tmp_path), prompt="the fox [SEP] dog", layer=1, head=1, mask="bidirectional")
    library.set_attn_implementation("eager")
    with torch.inference_mode():
        known = library(**pair_reader("the fox", "dog", return_tensors="pt"), output_attentions=True).attentions
    np.testing.assert_allclose(received(blob(test, "items"))["weights"][0], known[1][0, 1].numpy(), atol=2e-5)
    said = " ".join(caption.value for caption in test.sidebar.caption)
    assert "The model reads two texts" in said
    assert "Several layers have the same parameters" in said
    assert "two texts" not in words(app("heads", model=str(tmp_path), prompt="the fox dog", mask="bidirectional"))


def test_the_grid_says_which_heads_share_keys_and_values():
    header = unpack(blob(app(), "heads"))[0]
    projected = llama().model.layers[0].self_attn
    each = HEADS * projected.k_proj.out_features // projected.q_proj.out_features
    assert header["keyHeads"] == np.repeat(range(each), HEADS // each).tolist()  # repeat_kv of transformers
    assert f"The {HEADS} heads of a layer share {each} key/value heads." in words(app())


def test_a_model_without_tokenizer_reads_the_ids_that_are_typed():
    ids = [12, 7, 99, 7]
    test = app("inside_a_head", model="nameless", prompt="12 7, 99 7", layer=1, head=3)
    np.testing.assert_allclose(received(blob(test, "items"))["weights"][0], weights(ids, 1, 3), atol=2e-5)
    assert unpack(blob(test, "items"))[0]["labels"][0] == [f"{at} <{token}>" for at, token in enumerate(ids)]
    assert "4 of 96 tokens" in words(test)
    assert " 0 to 269 instead of text, for example " in words(test)
    test.text_area(key="prompt").set_value("the cat").run()
    assert "nameless has no tokenizer, so it cannot read text" in words(test)
    test.text_area(key="prompt").set_value("12 270").run()
    assert "There is no token 270: ids go from 0 to 269." in words(test)
    test.sidebar.selectbox(key="model").set_value("chatty").run()
    assert not test.exception


@pytest.mark.parametrize("layer", [0, 1])
def test_a_windowed_layer_is_compared_with_its_own_window(layer):
    """Gemma 2 looks through a window in every other layer; what it cannot read there, its eager attention weighs 0."""
    ids = [5, 44, 17, 8, 60, 12, 30]
    test = app("masks", model="windowed", prompt=" ".join(map(str, ids)), layer=layer, head=1, mask_b="bidirectional")
    with torch.inference_mode():
        known = windowed()(torch.tensor([ids]), output_attentions=True).attentions[layer][0, 1].numpy()
    drawn, allowed = drawn_matrices(test)["weights A"]
    np.testing.assert_allclose(drawn, known, atol=2e-5)
    np.testing.assert_array_equal(allowed, known > 0)
    is_narrow = known[-1, 0] == 0
    cells = f"{(known > 0).sum()} of 49 cells are open"
    assert f":green-badge[training mask] {cells}" in words(test)
    assert (f"in layer {layer} with a window of {WINDOW} tokens" in words(test)) == is_narrow
    assert f"opens **{(known == 0).sum()}** cells" in words(test)
    assert (
        f"In layer {layer} the mask is a sliding window: a query reads at most {WINDOW} keys" in words(test)
    ) == is_narrow


@pytest.mark.parametrize("layer", [0, 1])
@pytest.mark.parametrize(
    ("choice", "stays"),
    [
        ({"mask_b": "padding", "padding_b": "3"}, lambda rows, columns: columns != 3),
        ({"mask_b": "sliding window", "width_b": 4}, lambda rows, columns: rows - columns < 4),
    ],
    ids=["padding", "window"],
)
def test_what_a_mask_takes_away_it_takes_from_each_layers_own(choice, stays, layer):
    """Against Gemma 2's eager attention with the masks of both kinds of layers written out."""
    ids = [5, 44, 17, 8, 60, 12, 30]
    rows, columns = np.indices((7, 7))
    whole = (columns <= rows) & stays(rows, columns)
    masks = {"full_attention": whole, "sliding_attention": whole & (rows - columns < WINDOW)}
    added = {kind: torch.tensor(np.where(mask, 0, -np.inf), dtype=torch.float32) for kind, mask in masks.items()}
    with torch.inference_mode():
        given = {kind: numbers[None, None] for kind, numbers in added.items()}
        found = windowed()(torch.tensor([ids]), attention_mask=given, output_attentions=True)
    known = found.attentions[layer][0, 1].numpy()
    test = app("masks", model="windowed", prompt=" ".join(map(str, ids)), layer=layer, head=1, **choice)
    drawn, allowed = drawn_matrices(test)["weights B"]
    np.testing.assert_allclose(drawn, known, atol=2e-5)
    np.testing.assert_array_equal(allowed, masks[windowed().config.layer_types[layer]])
    assert "mask B opens" not in words(test)
