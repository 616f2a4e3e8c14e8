"""The Python of the README, run as it stands; what its comments promise, against the files of the checkpoints."""

import json
import re
from pathlib import Path

import pytest
import torch
import transformers
from safetensors.torch import load_file
from torch.nn import functional as F

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text()
PLACEHOLDER = "path/to/a/transformers/folder"


@pytest.fixture(scope="module")
def names(tmp_path_factory):
    """All names that the example leaves behind. Its last line, of a folder of one's own, is given one."""
    [code] = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)
    assert code.count(PLACEHOLDER) == 1
    folder = tmp_path_factory.mktemp("mine")
    config = transformers.GPT2Config(vocab_size=50, n_positions=16, n_embd=8, n_layer=1, n_head=2, eos_token_id=0)
    transformers.GPT2LMHeadModel(config).save_pretrained(folder)
    left = {}
    code = code.replace(f'"{PLACEHOLDER}").trace("Hello")', f"{str(folder)!r}).trace([1, 2])")
    exec(compile(code, "README.md", "exec"), left)
    return left


def written(name):
    return json.loads((ROOT / "checkpoints" / name / "config.json").read_text())


def test_shapes_are_those_that_its_comments_promise(names):
    trace, config = names["trace"], written("tiny-gpt")
    length = len(names["model"].tokenizer.encode("Once upon a time"))
    assert trace.weights(layer=1, head=0).shape == (length, length)
    assert trace["blocks.2.resid_mid"].shape == (length, config["d_model"])
    assert trace.logits.shape == trace.logits_at(0).shape == (config["vocab_size"],)
    cross = names["translator"].of("cross").weights(layer=1, head=0)
    assert cross.shape == (len("2024-05-03") + 1, len("the 3rd of May 2024"))


def test_its_edit_takes_attention_out_of_the_first_block(names):
    """With weights of 0 only a bias is left of attention; the rest of the block is worked out by torch here."""
    found, length = names["found"], names["trace"].length
    assert len(found) == written("tiny-gpt")["n_layers"]
    p = {name: t.float() for name, t in load_file(ROOT / "checkpoints/tiny-gpt/model.safetensors").items()}
    stream = names["trace"]["blocks.0.resid_pre"] + p["blocks.0.attn.output.bias"]
    normed = F.layer_norm(stream, (stream.shape[-1],), p["blocks.0.norm2.weight"], p["blocks.0.norm2.bias"])
    up = F.gelu(F.linear(normed, p["blocks.0.ffn.up.weight"], p["blocks.0.ffn.up.bias"]), approximate="tanh")
    stream = stream + F.linear(up, p["blocks.0.ffn.down.weight"], p["blocks.0.ffn.down.bias"])
    assert found["blocks.0.resid_post"].shape == (1, length, stream.shape[-1])
    torch.testing.assert_close(found["blocks.0.resid_post"][0], stream, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md", "docs/streamlit.md"])
def test_every_path_that_it_names_is_there(page):
    named = re.findall(
        r"(?:\.ci|benchmarks|checkpoints|docs|pages|tests|viz_model|viz_ui)/[\w./-]*\w", (ROOT / page).read_text()
    )
    paths = {path for path in named if not {"fetched", "my-gpt"} & set(Path(path).parts)}
    assert paths
    missing = sorted(path for path in paths if not (ROOT / path).exists())
    assert not missing, f"{page} names what is not there: {missing}"
