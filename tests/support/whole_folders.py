"""Small model folders with a file of every format that is read: what damage is done to."""

import json
from pathlib import Path

import torch

from tests.support.small_models import make_model, small_config
from tests.support.small_tokenizers import small_tokenizer
from viz_model import checkpoints

TEXTS = ["the cat sat on the mat", "naïve 東京 🙂", "unbelievable, isn't it"] * 3
CHAT = "{% for m in messages %}<s>{{ m['role'] }}: {{ m['content'] }}{% endfor %}{{ '!' if add_generation_prompt }}"
SOURCE = {"name": "n", "source": "s", "licence": "l", "fetched": "f", "parameters": 1, "has_tokenizer": True}


def write_ours(folder: Path) -> Path:
    """config.json, model.safetensors, tokenizer.tiktoken, heads.json, examples.json, source.json."""
    tokenizer = small_tokenizer()
    config = small_config(vocab_size=tokenizer.vocab_size)
    checkpoints.save(folder, make_model(config), tokenizer)
    tables = {"induction": [[0.5] * config.n_heads] * config.n_layers}
    for name, content in (("heads", tables), ("examples", {"A king": "the king"}), ("source", SOURCE)):
        (folder / f"{name}.json").write_text(json.dumps(content))
    return folder


def write_library(folder: Path) -> dict[str, Path]:
    """Folders of the transformers library: a sharded Llama with tokenizer.json, a chat template and
    generation_config.json; one with an adapter; a BERT with vocab.txt; a GGUF file; one with tokenizer.model."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import (
        BertConfig,
        BertForMaskedLM,
        GenerationConfig,
        LlamaConfig,
        LlamaForCausalLM,
        PreTrainedTokenizerFast,
    )

    from tests.support.gguf_files import write_gguf

    torch.manual_seed(0)
    backend = Tokenizer(models.BPE())
    backend.pre_tokenizer, backend.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    backend.train_from_iterator(
        TEXTS, trainers.BpeTrainer(vocab_size=300, special_tokens=["<s>", "</s>"], initial_alphabet=alphabet)
    )
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=backend, bos_token="<s>", eos_token="</s>", chat_template=CHAT)
    sizes = {"num_hidden_layers": 2, "num_attention_heads": 4, "max_position_embeddings": 32}
    llama = LlamaForCausalLM(
        LlamaConfig(vocab_size=300, hidden_size=24, intermediate_size=20, num_key_value_heads=2, **sizes)
    )
    found = {name: folder / name for name in ("llama", "adapter", "bert", "gguf", "pieces")}
    for name in ("llama", "adapter", "pieces"):
        llama.save_pretrained(found[name], max_shard_size="40KB" if name == "llama" else "1GB")
        GenerationConfig(eos_token_id=1, bos_token_id=0).save_pretrained(found[name])
    tokenizer.save_pretrained(found["llama"])
    _write_adapter(found["adapter"])
    (found["pieces"] / "tokenizer.model").write_bytes(b"\n\x0e\n\x05<unk>\x15\0\0\0\0\x18\x02" * 20)
    BertForMaskedLM(
        BertConfig(vocab_size=60, hidden_size=24, intermediate_size=20, **sizes)
    ).save_pretrained(found["bert"])  # fmt: skip
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "##s", "cat", *map(chr, range(0x61, 0x7B))]
    (found["bert"] / "vocab.txt").write_text("\n".join(words))
    (found["bert"] / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "BertTokenizer"}))
    found["gguf"].mkdir()
    sizes |= {"vocab_size": 67, "hidden_size": 64, "intermediate_size": 96, "num_key_value_heads": 2}
    write_gguf(found["gguf"] / "small.gguf", LlamaForCausalLM(LlamaConfig(**sizes)))
    return found


def _write_adapter(folder: Path) -> None:
    from safetensors.torch import save_file

    name = "base_model.model.model.layers.0.self_attn.q_proj.lora_"
    tensors = {f"{name}A.weight": torch.ones(3, 24), f"{name}B.weight": torch.ones(24, 3)}
    save_file(tensors, folder / "adapter_model.safetensors")
    said = {"peft_type": "LORA", "r": 3, "lora_alpha": 6, "bias": "none", "base_model_name_or_path": "org/base"}
    (folder / "adapter_config.json").write_text(json.dumps(said))
