"""Two texts for a model with segments, against the library's own encoding of a pair under its own attention."""

import pytest
import torch
from transformers import BertConfig, BertForMaskedLM, BertTokenizer, RobertaConfig, RobertaForMaskedLM, RobertaTokenizer

import viz_model as vm

PIECES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "fox", "dog", "##s", "(", ")"]
SIZES = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 24,
         "max_position_embeddings": 32, "initializer_range": 0.5}  # fmt: skip


@pytest.fixture(scope="module")
def bert(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bert")
    torch.manual_seed(0)
    library = BertForMaskedLM(BertConfig(vocab_size=len(PIECES), **SIZES)).eval()
    library.save_pretrained(folder)
    tokenizer = BertTokenizer(vocab={piece: place for place, piece in enumerate(PIECES)})
    tokenizer.save_pretrained(folder)
    return vm.load(folder), BertForMaskedLM.from_pretrained(folder, attn_implementation="eager").eval(), tokenizer


@torch.inference_mode()
@pytest.mark.parametrize(("first", "second"), [("the fox", "the dogs"), ("fox", "(dog) the")])
def test_a_typed_separator_is_the_librarys_pair(first, second, bert):
    model, library, tokenizer = bert
    trace, pair = model.trace(f"{first} [SEP] {second}"), tokenizer(first, second, return_tensors="pt")
    known = library(**pair, output_attentions=True)
    assert [*trace.ids] == pair["input_ids"][0].tolist()
    assert model.segments(trace.ids) == pair["token_type_ids"][0].tolist()
    assert 1 in model.segments(trace.ids)
    torch.testing.assert_close(trace.logits, known.logits[0, -1], atol=1e-5, rtol=0)
    for layer, maps in enumerate(known.attentions):
        for head in range(2):
            torch.testing.assert_close(trace.weights(layer, head), maps[0, head], atol=1e-5, rtol=0)


@torch.inference_mode()
def test_a_batch_of_pairs(bert):
    model, library, tokenizer = bert
    batch = tokenizer([("the fox", "dog"), ("fox", "the dogs the")], padding=True, return_tensors="pt")
    padding = batch["attention_mask"] == 0
    known = library.bert(**batch).last_hidden_state
    ours = model.transformer.hidden(batch["input_ids"], padding=padding)
    torch.testing.assert_close(ours[~padding], known[~padding], atol=1e-5, rtol=0)


@torch.inference_mode()
def test_one_text_is_one_segment(bert):
    model, library, tokenizer = bert
    trace = model.trace("the fox")
    assert set(model.segments(trace.ids)) == {0}
    known = library(**tokenizer("the fox", return_tensors="pt")).logits[0, -1]
    torch.testing.assert_close(trace.logits, known, atol=1e-5, rtol=0)


def test_the_tokens_of_a_trace_are_the_text(bert):
    model, *_ = bert
    pieces = model.trace("The (foxs)  [SEP] dog").token_bytes
    assert pieces == (b"[CLS]", b"The", b" (", b"fox", b"s", b")", b"  [SEP]", b" dog", b"[SEP]")


def test_a_model_with_one_segment_has_no_second_text(tmp_path):
    pieces = ["<s>", "<pad>", "</s>", "<unk>", "a", "b", "<mask>"]
    RobertaForMaskedLM(RobertaConfig(vocab_size=7, type_vocab_size=1, **SIZES)).save_pretrained(tmp_path)
    RobertaTokenizer(vocab={piece: n for n, piece in enumerate(pieces)}, merges=[]).save_pretrained(tmp_path)
    model = vm.load(tmp_path)
    assert set(model.segments(model.encode("a</s></s>b"))) == {0}
