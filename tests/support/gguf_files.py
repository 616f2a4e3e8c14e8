"""A small GGUF file, as llama.cpp keeps a model."""

import gguf
import numpy as np


def write_gguf(path, library):
    """The model as llama.cpp keeps it: its names, and the rows of q and k permuted for neighbouring pairs."""
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_name("small")
    writer.add_block_count(2)
    writer.add_context_length(32)
    writer.add_embedding_length(64)
    writer.add_feed_forward_length(96)
    writer.add_head_count(4)
    writer.add_head_count_kv(2)
    writer.add_layer_norm_rms_eps(library.config.rms_norm_eps)
    writer.add_rope_freq_base(10000.0)
    writer.add_vocab_size(67)
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list(["<s>", "</s>", "Ġ", "ĠA", *(chr(ord("!") + place) for place in range(63))])
    writer.add_token_types([3, 3, *[1] * 65])
    writer.add_token_merges(["Ġ A"])
    writer.add_bos_token_id(0)
    writer.add_eos_token_id(1)
    names = {"input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm", "mlp.gate_proj": "ffn_gate",
             "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down", "self_attn.q_proj": "attn_q",
             "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output",
             "model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output"}  # fmt: skip
    for name, tensor in library.state_dict().items():
        numbers = tensor.numpy()
        for heads, letter in ((4, "q_proj"), (2, "k_proj")):
            if letter in name:
                numbers = numbers.reshape(heads, 2, -1, 64).swapaxes(1, 2).reshape(numbers.shape)
        name = name.replace("model.layers.", "blk.")
        for theirs, ours in names.items():
            name = name.replace(theirs, ours)
        writer.add_tensor(name, np.ascontiguousarray(numbers))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
