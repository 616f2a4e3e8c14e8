"""Two real models, fetched, against the transformers library with its own attention, on real prompts."""

import pytest
import torch
from transformers import AutoModel, AutoModelForCausalLM, AutoTokenizer

import viz_model as vm

STORY = (
    "When the ship reached the harbour, the captain counted the crates twice: 128 of them, as the letter had said. "
    "“Somebody,” she told the mate, “has packed these in a hurry – look at the ropes.” He looked, and said nothing."
)
PROMPTS = ["The capital of France is", "def fibonacci(n):\n    if n < 2:\n        return n\n", STORY]


@pytest.fixture(scope="module")
def smollm2(real_model):
    folder = real_model("SmolLM2-135M-Instruct")
    return vm.load(folder), AutoModelForCausalLM.from_pretrained(folder, attn_implementation="eager").eval()


@pytest.fixture(scope="module")
def minilm(real_model):
    folder = real_model("all-MiniLM-L6-v2")
    return vm.load(folder), AutoModel.from_pretrained(folder, attn_implementation="eager").eval()


@torch.inference_mode()
@pytest.mark.parametrize("prompt", PROMPTS)
def test_smollm2_logits_and_every_map(prompt, smollm2):
    model, library = smollm2
    trace = model.trace(prompt)
    known = library(torch.tensor([trace.ids]), output_attentions=True)
    assert (model.config.n_layers, model.config.n_heads, model.config.n_kv_heads) == (30, 9, 3)
    for layer, maps in enumerate(known.attentions):
        ours = torch.stack([trace.weights(layer, head) for head in range(9)])
        torch.testing.assert_close(ours, maps[0], atol=1e-4, rtol=0)
    torch.testing.assert_close(trace.logits, known.logits[0, -1], atol=1e-3, rtol=0)  # they go up to 30


def test_smollm2_writes_the_same_32_tokens(smollm2):
    """Greedy, with our cache and without, as the library's own generate."""
    model, library = smollm2
    ids = model.encode(model.chat("What is the capital of France, and what is it known for?"))
    known = library.generate(torch.tensor([ids]), max_new_tokens=32, do_sample=False)[0, len(ids) :].tolist()
    for cache in (True, False):
        steps = list(model.generate(ids, max_new_tokens=len(known), temperature=0.0, cache=cache))
        assert [step.token_id for step in steps] == known
    assert "Paris" in model.tokenizer.decode(known)


def test_smollm2_answers(smollm2):
    model, _ = smollm2
    first = next(iter(model.generate("The capital of France is", max_new_tokens=1, temperature=0.0)))
    assert first.token == b" Paris"


def test_smollm2_tokens_are_the_text(smollm2):
    model, _ = smollm2
    for prompt in (*PROMPTS, "naïve 東京 🙂\tend"):
        assert b"".join(model.trace(prompt).token_bytes).decode() == prompt


@torch.inference_mode()
def test_minilm_vectors_and_every_map(minilm):
    model, library = minilm
    tokenizer = AutoTokenizer.from_pretrained(library.config.name_or_path)
    batch = tokenizer(PROMPTS, padding=True, return_tensors="pt")
    known = library(**batch, output_attentions=True)
    padding = batch["attention_mask"] == 0
    with vm.capture("*.weights") as found:
        hidden = model.transformer.hidden(batch["input_ids"], padding=padding)
    torch.testing.assert_close(hidden[~padding], known.last_hidden_state[~padding], atol=1e-4, rtol=0)
    for layer, maps in enumerate(known.attentions):
        ours = found[f"blocks.{layer}.attn.weights"].transpose(1, 2)[~padding]
        torch.testing.assert_close(ours, maps.transpose(1, 2)[~padding], atol=1e-4, rtol=0)


def test_minilm_says_what_it_has_not(minilm):
    model, _ = minilm
    trace = model.trace("Unbelievable weather!")
    assert trace.tokens == ("[CLS]", "Unbelievable", " weather", "!", "[SEP]")
    assert {trace.ids[0], trace.ids[-1]} <= model.tokenizer.special_ids
    with pytest.raises(vm.VizError, match="predicts no token"):
        trace.logits_at(0)
    with pytest.raises(vm.PromptError, match="both directions"):
        model.generate("Unbelievable weather!")
