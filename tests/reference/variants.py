"""Families beyond those of `families`: other rotations, forced tokens, and families whose formulas alone are tested."""

from tests.reference.families import BART, BERT, CONTEXT, FAMILIES, LLAMA, T5, _causal, _masked, _pair

YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 5}
LONGROPE = {
    "rope_type": "longrope", "rope_theta": 10000.0, "short_factor": [1.0, 1.1, 1.3], "long_factor": [2.0, 3.0, 4.0],
    "original_max_position_embeddings": 10,
}  # fmt: skip
VARIANTS = FAMILIES | {  # and what the same family can be besides
    "Llama, YaRN": _causal("llama", LLAMA, rope_parameters={**YARN, "rope_theta": 10000.0}),
    "Llama, llama3": _causal("llama", LLAMA, rope_parameters={
        "rope_type": "llama3", "factor": 8.0, "rope_theta": 10000.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
        "original_max_position_embeddings": 8}),
    "Llama, linear": _causal("llama", LLAMA, rope_parameters={
        "rope_type": "linear", "factor": 4.0, "rope_theta": 10000.0}),
    "GPT-NeoX, a quarter": _causal("gpt_neox", {**BERT, "hidden_size": 48, "num_attention_heads": 3},
                                   rope_parameters={"rope_theta": 10000.0, "partial_rotary_factor": 0.25}),
    "gpt-oss, YaRN": _causal("gpt_oss", LLAMA, head_dim=10, sliding_window=5, num_local_experts=3,
                             num_experts_per_tok=2, rope_parameters={**YARN, "rope_theta": 150000.0, "truncate": False,
                                                                     "beta_fast": 32.0, "beta_slow": 1.0}),
    "OLMo": _causal("olmo", LLAMA),
    "Phi-3, longrope": _causal("phi3", LLAMA, original_max_position_embeddings=10, rope_parameters=LONGROPE),
    "T5, gated": _pair("t5", T5, feed_forward_proj="gated-gelu"),
    "M2M100": _pair("m2m_100", BART),
    "Llama 4": _causal("llama4_text", {**LLAMA, "head_dim": 6}, num_local_experts=3, num_experts_per_tok=1,
                       intermediate_size_mlp=44, interleave_moe_layer_step=1),
}  # fmt: skip

WINDOWS = {"sliding_window": 5, "layer_types": ["sliding_attention", "full_attention"]}
PARTLY = {"rope_parameters": {"rope_theta": 10000.0, "partial_rotary_factor": 0.7}}
SMALL_EXPERTS = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 12}
LATENT = {"kv_lora_rank": 12, "qk_rope_head_dim": 4, "qk_nope_head_dim": 6, "v_head_dim": 8}
ONE_LATER = {**BERT, "max_position_embeddings": CONTEXT + 1}  # RoBERTa's kin begin behind the padding token
MORE = {  # read here only; those before are compared with the library in many ways
    "Phi": _causal("phi", {**LLAMA, "num_key_value_heads": 6}, **PARTLY),
    "StableLM": _causal("stablelm", LLAMA, use_qkv_bias=True, **PARTLY),
    "BioGPT": _causal("biogpt", BERT),
    "Cohere 2": _causal("cohere2", LLAMA, **WINDOWS),
    "Nemotron": _causal("nemotron", LLAMA, head_dim=6),
    "Helium": _causal("helium", LLAMA, head_dim=6),
    "GLM": _causal("glm", LLAMA, head_dim=6),
    "GLM 4": _causal("glm4", LLAMA, head_dim=10),
    "EXAONE 4": _causal("exaone4", LLAMA, **WINDOWS),
    "OLMo 3": _causal("olmo3", LLAMA, **WINDOWS),
    "OLMoE": _causal("olmoe", LLAMA, num_experts=4, num_experts_per_tok=2),
    "Qwen2-MoE": _causal("qwen2_moe", LLAMA, shared_expert_intermediate_size=16, **SMALL_EXPERTS),
    "Qwen3-MoE": _causal("qwen3_moe", LLAMA, norm_topk_prob=True, head_dim=10, **SMALL_EXPERTS),
    "GraniteMoE": _causal("granitemoe", LLAMA, num_local_experts=3, num_experts_per_tok=2, residual_multiplier=0.3),
    "dots.llm1": _causal("dots1", LLAMA, n_routed_experts=4, moe_intermediate_size=12, num_experts_per_tok=2,
                         n_shared_experts=1, first_k_dense_replace=1),
    "DeepSeek-V2": _causal("deepseek_v2", {**LLAMA, "num_key_value_heads": 6}, q_lora_rank=None, **LATENT, n_group=1,
                           n_routed_experts=4, topk_group=1, num_experts_per_tok=2, first_k_dense_replace=1,
                           moe_intermediate_size=12),
    "Youtu": _causal("youtu", {**LLAMA, "num_key_value_heads": 6}, q_lora_rank=14, **LATENT),
    "Hunyuan": _causal("hunyuan_v1_dense", LLAMA, head_dim=6),
    "ERNIE 4.5": _causal("ernie4_5", LLAMA, head_dim=6),
    "Arcee": _causal("arcee", LLAMA),
    "Seed-OSS": _causal("seed_oss", LLAMA, head_dim=6),
    "VaultGemma": _causal("vaultgemma", LLAMA, head_dim=10, final_logit_softcapping=4.0, **WINDOWS),
    "ModernBERT, decoder": _causal("modernbert-decoder", BERT, local_attention=6),
    "XLM-RoBERTa": _masked("xlm-roberta", ONE_LATER),
    "CamemBERT": _masked("camembert", ONE_LATER),
    "data2vec": _masked("data2vec-text", ONE_LATER),
    "ERNIE": _masked("ernie", BERT),
    "EuroBERT": _masked("eurobert", LLAMA),
    "Nomic BERT": _masked("nomic_bert", BERT),
    "Blenderbot": _pair("blenderbot", BART),
    "PLBart": _pair("plbart", BART),
    "mT5": _pair("mt5", T5),
    "UMT5": _pair("umt5", T5),
}  # fmt: skip
ALL = VARIANTS | MORE
