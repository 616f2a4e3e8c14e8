"""Why all is computed in float32: no half precision keeps to what pages and tests promise of a number."""

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

TOLERANCE = 1e-4


@pytest.fixture(scope="module")
def llama():
    """Its numbers fit into bfloat16, so what follows is not the rounding of the weights."""
    torch.manual_seed(0)
    sizes = {"vocab_size": 97, "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2}
    config = LlamaConfig(**sizes, num_attention_heads=4, initializer_range=0.2, attn_implementation="eager")
    return LlamaForCausalLM(config).eval().to(torch.bfloat16)


@torch.inference_mode()
def passed(model):
    """Logits and weights of attention, in float32."""
    found = model(torch.tensor([[5, 44, 17, 8, 60, 12]]), output_attentions=True)
    return found.logits.float(), torch.stack(found.attentions).float()


@pytest.mark.parametrize("half", [torch.bfloat16, torch.float16])
def test_half_precision_is_beyond_the_tolerance(llama, half):
    exact, again, coarse = (passed(llama.to(kind)) for kind in (torch.float64, torch.float32, half))
    for known, single, rounded in zip(exact, again, coarse, strict=True):
        assert (single - known).abs().max() < TOLERANCE < (rounded - known).abs().max()
