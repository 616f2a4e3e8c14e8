"""A folder of small models of other layouts than tiny-gpt's, whose numbers `transformers` gives as well."""

import json
import shutil
from functools import cache
from pathlib import Path

import torch
from transformers import MarianConfig, MarianMTModel

from tests.reference.name_maps import MARIAN_NAMES, loaded, marian_config, marian_weights
from tests.support.small_models import make_model, randomise, small_config
from viz_model import checkpoints
from viz_model.model.tokenizer import Tokenizer

SOURCE, TARGET = "3 May 2024", "2024"
EXAMPLES = {"A date": "the 3rd of May", "Another": "5/3/24"}
START = 256  # the token that the decoder reads first
LAYERS = {"encoder": 2, "decoder": 3, "cross": 3}
HEADS = 5


def _marian(**changes) -> MarianMTModel:
    fields = {
        "vocab_size": 257,
        "activation_function": "relu",
        "scale_embedding": True,
        "decoder_start_token_id": START,
        "pad_token_id": 0,
        "eos_token_id": None,
        "forced_eos_token_id": None,
        "attn_implementation": "eager",
    }
    for stack, layers in (("encoder", LAYERS["encoder"]), ("decoder", LAYERS["decoder"])):
        fields |= {f"{stack}_layers": layers, f"{stack}_attention_heads": HEADS, f"{stack}_ffn_dim": 27}
    return MarianMTModel(MarianConfig(**(fields | {"d_model": 20, "max_position_embeddings": 48} | changes))).eval()


@cache
def marian() -> MarianMTModel:
    """An encoder-decoder over bytes with random weights, of 2 and 3 layers, as `transformers` runs it."""
    theirs = _marian()
    positions = {name: table.clone() for name, table in theirs.state_dict().items() if "embed_positions" in name}
    theirs = randomise(theirs, size=0.3)
    theirs.load_state_dict({name: tensor.half().float() for name, tensor in theirs.state_dict().items()})
    theirs.load_state_dict(positions, strict=False)  # they are sinusoids, which nothing learns
    return theirs


def marian_of(weights: dict[str, torch.Tensor]) -> MarianMTModel:
    """A `transformers` model with the weights of tiny-seq2seq, whose names are ours."""
    sizes = {"d_model": 96, "max_position_embeddings": 128}
    sizes |= {f"{stack}_{name}": n for stack in ("encoder", "decoder")
              for name, n in (("layers", 2), ("attention_heads", 4), ("ffn_dim", 384))}  # fmt: skip
    theirs = _marian(**sizes)
    width = sizes["d_model"]
    back = torch.arange(width).view(-1, 2).t().flatten()  # sines first, then cosines: see `marian_weights`
    state = {"model.shared.weight": weights["tokens.weight"][:, back]}
    for name, tensor in weights.items():
        if name == "tokens.weight":
            continue
        stack, _, layer, *parts, kind = name.split(".")
        his = f"model.{stack}.layers.{layer}.{MARIAN_NAMES['.'.join(parts)]}.{kind}"
        reads = parts[-1] in ("query", "key", "value", "up")
        if not reads:
            state[his] = tensor[back]
        else:
            state[his] = tensor[:, back] if kind == "weight" else tensor
    missing, unknown = theirs.load_state_dict(state, strict=False)
    assert not unknown
    assert all("embed_" in name or "lm_head" in name or "bias" in name.split("_")[-1] for name in missing), missing
    theirs.tie_weights()
    return theirs


def ids(text: str) -> list[int]:
    return list(text.encode())


@cache
def attentions(read: tuple[int, ...] = (START, *TARGET.encode())) -> dict[str, torch.Tensor]:
    """The weights (L,H,T,S) of each part by `transformers`, and the logits (T,V), when the decoder reads these ids."""
    with torch.inference_mode():
        found = marian()(torch.tensor([ids(SOURCE)]), decoder_input_ids=torch.tensor([read]), output_attentions=True)
    maps = {"encoder": found.encoder_attentions, "decoder": found.decoder_attentions, "cross": found.cross_attentions}
    return {part: torch.stack(layers)[:, 0] for part, layers in maps.items()} | {"logits": found.logits[0]}


def make_checkpoints(folder: Path) -> None:
    """tiny-gpt, "marian", an encoder "reader" and "bare", which is attention alone."""
    shutil.copytree(checkpoints.FOLDER / "tiny-gpt", folder / "tiny-gpt")
    tokenizer = Tokenizer.of_bytes()
    models = {
        "marian": loaded(marian_config(marian().config), marian_weights(marian())),
        "reader": make_model(small_config(layout="encoder-only", vocab_size=257, norm_place="post")),
        "bare": make_model(small_config(d_ff=0, vocab_size=257, n_kv_heads=2)),
    }
    for name, model in models.items():
        checkpoints.save(folder / name, model, tokenizer)
    (folder / "marian" / "examples.json").write_text(json.dumps(EXAMPLES))
