"""Families of models of the transformers library, each as a small odd config; and how one is compared with itself.

    python -m tests.reference.families          compares all of them, and writes checkpoints/compared.json

Every family is made from its config with random weights, saved as a folder, and loaded twice: by `vm.load`, and by the
library with its own plain ("eager") attention, which is what logits and attention maps are compared with.
"""

import json
import sys
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest import mock

import torch
import transformers
from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForMaskedLM, AutoModelForSeq2SeqLM
from transformers.models.falcon import modeling_falcon

import viz_model as vm
from viz_model.checkpoints.compared import COMPARED_FILE
from viz_model.transformer.hooks import capture

CONTEXT = 20
TOKENS = {"vocab_size": 67, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
LLAMA = {
    "hidden_size": 36, "num_hidden_layers": 2, "num_attention_heads": 6, "num_key_value_heads": 2,
    "intermediate_size": 44, "max_position_embeddings": CONTEXT,
}  # fmt: skip
GPT2 = {"n_embd": 36, "n_layer": 3, "n_head": 6, "n_positions": CONTEXT}
BERT = {key: value for key, value in LLAMA.items() if key != "num_key_value_heads"}
NEO = {"hidden_size": 36, "num_layers": 2, "num_heads": 6, "max_position_embeddings": CONTEXT}
FALCON = {"hidden_size": 36, "num_hidden_layers": 2, "num_attention_heads": 6, "max_position_embeddings": CONTEXT}
BLOOM = {"hidden_size": 36, "n_layer": 2, "n_head": 6}
BART = {
    "d_model": 24, "encoder_layers": 3, "decoder_layers": 2, "encoder_attention_heads": 4,
    "decoder_attention_heads": 4, "encoder_ffn_dim": 28, "decoder_ffn_dim": 28,
    "max_position_embeddings": CONTEXT, "decoder_start_token_id": 2,
}  # fmt: skip
T5 = {
    "d_model": 24, "d_kv": 10, "d_ff": 28, "num_layers": 3, "num_decoder_layers": 2, "num_heads": 4,
    "relative_attention_num_buckets": 8, "relative_attention_max_distance": 12, "n_positions": CONTEXT,
    "decoder_start_token_id": 0,
}  # fmt: skip
MIXED_WINDOWS = {"sliding_window": 5, "head_dim": 10, "layer_types": ["sliding_attention", "full_attention"]}


@dataclass(frozen=True)
class Family:
    """kind: which class reads it. own_positions: whether it counts positions itself, whatever it is told."""

    kind: type
    model_type: str
    sizes: dict
    own_positions: bool = False
    options: dict = field(default_factory=dict)


def _causal(model_type, sizes, own_positions=False, **options):
    return Family(AutoModelForCausalLM, model_type, sizes, own_positions, options)


def _masked(model_type, sizes, own_positions=False, **options):
    return Family(AutoModelForMaskedLM, model_type, sizes, own_positions, options)


def _pair(model_type, sizes, **options):
    return Family(AutoModelForSeq2SeqLM, model_type, sizes, True, options)


FAMILIES = {
    "GPT-2": _causal("gpt2", GPT2, scale_attn_by_inverse_layer_idx=True),
    "DistilGPT-2": _causal("gpt2", {**GPT2, "n_layer": 1, "n_embd": 24, "n_head": 12}),
    "GPT-J": _causal("gptj", GPT2, rotary_dim=4),
    "GPT-NeoX": _causal("gpt_neox", BERT, rope_parameters={"rope_theta": 500.0, "partial_rotary_factor": 0.7}),
    "GPT-BigCode": _causal("gpt_bigcode", GPT2),
    "OPT": _causal("opt", {**BERT, "ffn_dim": 44, "word_embed_proj_dim": 20}, own_positions=True),
    "Llama": _causal("llama", LLAMA),
    "SmolLM2": _causal("llama", {**LLAMA, "num_attention_heads": 9, "num_key_value_heads": 3},
                       rope_parameters={"rope_theta": 100000.0}, tie_word_embeddings=True),
    "SmolLM3": _causal("smollm3", LLAMA, no_rope_layers=[1, 0]),
    "Mistral": _causal("mistral", LLAMA, sliding_window=5, head_dim=10),
    "Mixtral": _causal("mixtral", LLAMA, num_local_experts=3, num_experts_per_tok=2),
    "Qwen2": _causal("qwen2", LLAMA),
    "Qwen3": _causal("qwen3", LLAMA, head_dim=10),
    "Gemma": _causal("gemma", LLAMA, head_dim=10),
    "Gemma 2": _causal("gemma2", LLAMA, **MIXED_WINDOWS, attn_logit_softcapping=3.0, query_pre_attn_scalar=7),
    "Gemma 3": _causal("gemma3_text", LLAMA, **MIXED_WINDOWS, query_pre_attn_scalar=7),
    "Phi-3": _causal("phi3", LLAMA, sliding_window=6),
    "OLMo 2": _causal("olmo2", LLAMA),
    "Granite": _causal("granite", LLAMA, attention_multiplier=0.2, residual_multiplier=0.5, logits_scaling=3.0),
    "Cohere": _causal("cohere", LLAMA, logit_scale=0.3),
    "StarCoder2": _causal("starcoder2", LLAMA, sliding_window=5),
    "gpt-oss": _causal("gpt_oss", LLAMA, head_dim=10, sliding_window=5, num_local_experts=3, num_experts_per_tok=2,
                       rope_parameters={"rope_theta": 150000.0, "rope_type": "default"}),
    "DeepSeek-V3": _causal("deepseek_v3", {**LLAMA, "num_key_value_heads": 6}, q_lora_rank=14, kv_lora_rank=12,
                           qk_rope_head_dim=4, qk_nope_head_dim=6, v_head_dim=8, n_routed_experts=4, n_group=2,
                           topk_group=1, num_experts_per_tok=2, first_k_dense_replace=1, moe_intermediate_size=12),
    "GPT-Neo": _causal("gpt_neo", NEO, attention_types=[[["global", "local"], 1]], window_size=5),
    "Falcon": _causal("falcon", FALCON),
    "Falcon, grouped": _causal("falcon", FALCON, new_decoder_architecture=True, num_kv_heads=3, bias=True),
    "Falcon, ALiBi": _causal("falcon", FALCON, alibi=True, parallel_attn=False, multi_query=False, bias=True),
    "BLOOM": _causal("bloom", BLOOM),
    "MPT": _causal("mpt", {"d_model": 36, "n_layers": 2, "n_heads": 6, "max_seq_len": CONTEXT}),
    "BERT": _masked("bert", BERT),
    "DistilBERT": _masked("distilbert", {"dim": 36, "n_layers": 2, "n_heads": 6, "hidden_dim": 44,
                                         "max_position_embeddings": CONTEXT}),
    "RoBERTa": _masked("roberta", {**BERT, "max_position_embeddings": CONTEXT + 1}, own_positions=True),
    "ELECTRA": _masked("electra", {**BERT, "embedding_size": 20}),
    "ModernBERT": _masked("modernbert", BERT, local_attention=6, global_attn_every_n_layers=2, cls_token_id=1,
                          sep_token_id=2),
    "ALBERT": _masked("albert", {**BERT, "embedding_size": 20, "num_hidden_layers": 4, "num_hidden_groups": 2}),
    "MPNet": _masked("mpnet", {**BERT, "max_position_embeddings": CONTEXT + 2}, own_positions=True),
    "T5": _pair("t5", T5),
    "BART": _pair("bart", BART),
    "Marian": _pair("marian", {**BART, "decoder_start_token_id": 0}),
    "mBART": _pair("mbart", BART),
    "Pegasus": _pair("pegasus", {**BART, "decoder_start_token_id": 0}),
}  # fmt: skip


def library_model(family: Family, folder: Path):
    """The library's own model under its plain attention, which gives its weights.

    Falcon's plain attention adds ALiBi to the scores and again in the mask, so here half of it is added twice; that
    this is its logits under the library's default attention, a test holds.
    """
    model = family.kind.from_pretrained(folder, attn_implementation="eager", dtype=torch.float32).eval()
    if getattr(model.config, "alibi", False):
        whole = modeling_falcon.build_alibi_tensor
        run = model.transformer.forward

        def half(*given, **options):
            return whole(*given, **options) / 2

        def with_half(*arguments, **options):
            with mock.patch.object(modeling_falcon, "build_alibi_tensor", half):
                return run(*arguments, **options)

        model.transformer.forward = with_half
    return model


def save_small(family: Family, folder: Path, seed: int = 0) -> None:
    """A folder with random weights, far enough from 0 that heads differ and attend to few keys."""
    torch.manual_seed(seed)
    config = AutoConfig.for_model(family.model_type, **TOKENS, **family.sizes, **family.options)
    model = family.kind.from_config(config)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += torch.randn_like(parameter) * (0.25 if parameter.dim() > 1 else 0.1)
    model.save_pretrained(folder)


@dataclass
class Comparison:
    """The largest differences met so far, and in how many cases."""

    logits: float = 0.0
    weights: float = 0.0
    cases: int = 0

    def meet(self, what: str, ours: torch.Tensor, theirs: torch.Tensor) -> None:
        assert ours.shape == theirs.shape, (what, ours.shape, theirs.shape)
        assert torch.isfinite(theirs).all(), what
        setattr(self, what, max(getattr(self, what), (ours - theirs).abs().max().item()))


@torch.inference_mode()
def compare(family: Family, folder: Path) -> Comparison:
    """Logits and every attention map against the library's own, over lengths and padding on both sides."""
    model = vm.load(folder)
    theirs = library_model(family, folder)
    met = Comparison()
    generator = torch.Generator().manual_seed(1)
    for length, padded, left in ((1, 0, False), (7, 0, False), (CONTEXT, 0, False), (7, 3, True), (7, 3, False)):
        ids = torch.randint(3, 67, (2, length), generator=generator)
        padding = None
        if padded:
            padding = torch.zeros(2, length, dtype=torch.bool)
            padding[1, slice(None, padded) if left else slice(-padded, None)] = True
            ids = ids.masked_fill(padding, 0)
        if family.kind is AutoModelForSeq2SeqLM:
            _compare_pair(model, theirs, ids, padding, generator, met)
        else:
            _compare_stack(model, theirs, family, ids, padding, met)
        met.cases += 1
    return met


def _compare_stack(model, theirs, family, ids, padding, met) -> None:
    real = torch.ones_like(ids) if padding is None else (~padding).long()
    given = {} if padding is None else {"attention_mask": real}
    if padding is not None and not family.own_positions:
        given["position_ids"] = (real.cumsum(-1) - 1).clamp(min=0)
    known = theirs(ids, output_attentions=True, **given)
    with capture("*.weights") as found:
        logits = model.transformer(ids, padding=padding, logits="all")
    rows = real.bool()
    for path in (logits, model.transformer(ids, padding=padding, logits="all")):  # written out, and fused
        met.meet("logits", path[rows], known.logits[rows])
    assert len(found) == len(known.attentions) == model.config.n_layers
    for layer, weights in enumerate(known.attentions):
        _meet_weights(met, found[f"blocks.{layer}.attn.weights"], weights, rows)


def _compare_pair(model, theirs, source, padding, generator, met) -> None:
    ids = torch.randint(3, 67, (2, max(1, source.shape[1] - 2)), generator=generator)
    real = torch.ones_like(source) if padding is None else (~padding).long()
    known = theirs(source, attention_mask=real, decoder_input_ids=ids, output_attentions=True)
    given = {"source": source, "source_padding": padding, "logits": "all"}
    with capture("*.weights") as found:
        logits = model.transformer(ids, **given)
    for path in (logits, model.transformer(ids, **given)):  # written out, and fused
        met.meet("logits", path, known.logits)
    rows = real.bool()
    every = torch.ones_like(ids).bool()
    parts = {"encoder.blocks.{}.attn": (known.encoder_attentions, rows),
             "decoder.blocks.{}.attn": (known.decoder_attentions, every),
             "decoder.blocks.{}.cross": (known.cross_attentions, every)}  # fmt: skip
    assert len(found) == sum(len(maps) for maps, _ in parts.values())
    for name, (maps, rows_of_part) in parts.items():
        for layer, weights in enumerate(maps):
            _meet_weights(met, found[f"{name.format(layer)}.weights"], weights, rows_of_part)


def _meet_weights(met, ours, theirs, rows) -> None:
    """(B,H,T,S) each; rows (B,T): the queries that are no padding."""
    met.meet("weights", ours.transpose(1, 2)[rows], theirs.transpose(1, 2)[rows])


def main() -> None:
    told = {}
    for name, family in FAMILIES.items():
        with TemporaryDirectory() as folder:
            save_small(family, Path(folder))
            met = compare(family, Path(folder))
        largest = max(met.logits, met.weights)
        told[name] = {
            "date": f"{date.today():%Y-%m-%d}",
            "largest_difference": float(f"{largest:.3g}"),
            "cases": met.cases,
            "transformers": transformers.__version__,
        }
        print(f"{name:14} {largest:.2g}", flush=True)
    (vm.checkpoints.FOLDER / COMPARED_FILE).write_text(json.dumps(told, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    sys.exit(main())
