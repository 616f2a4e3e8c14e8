"""What can be said of a model of the transformers library before it is loaded: read from its config.json alone."""

import json
import re
from dataclasses import dataclass, replace
from pathlib import Path

from viz_model.errors import CheckpointError
from viz_model.hub.gguf_header import Array, read_header
from viz_model.transformer.facts import ModelFacts

CONFIG_FILE = "config.json"
ADAPTER_CONFIG, ADAPTER_WEIGHTS = "adapter_config.json", "adapter_model.safetensors"
TOKENIZER_FILES = ("tokenizer.json", "tokenizer.model", "vocab.txt", "vocab.json", "spiece.model", "source.spm")
TOKENIZER_FILES += ("sentencepiece.bpe.model",)

# The names under which configurations of the library say the same fact.
NAMES = {
    "n_layers": ("num_hidden_layers", "n_layer", "n_layers", "decoder_layers", "num_decoder_layers", "num_layers"),
    "n_encoder_layers": ("encoder_layers", "num_layers"),
    "n_heads": ("num_attention_heads", "n_head", "n_heads", "decoder_attention_heads", "num_heads", "attention_heads"),
    "n_kv_heads": ("num_key_value_heads", "num_kv_heads"),
    "d_model": ("hidden_size", "n_embd", "n_embed", "d_model", "dim"),
    "d_head": ("head_dim", "d_kv"),
    "d_still": ("qk_nope_head_dim",),
    "d_turned": ("qk_rope_head_dim",),
    "d_ff": ("intermediate_size", "n_inner", "decoder_ffn_dim", "ffn_dim", "d_ff", "hidden_dim", "ffn_hidden_size"),
    "vocab_size": ("vocab_size",),
    "context_length": ("max_position_embeddings", "n_positions", "max_seq_len", "n_ctx", "seq_length"),
    "n_experts": ("num_local_experts", "n_routed_experts", "num_experts", "moe_num_experts"),
    "n_chosen_experts": ("num_experts_per_tok", "num_experts_per_token", "moe_topk", "moe_k"),
}
# The same in GGUF, behind the name of the architecture.
GGUF_NAMES = {
    "num_hidden_layers": "block_count",
    "num_attention_heads": "attention.head_count",
    "num_key_value_heads": "attention.head_count_kv",
    "head_dim": "attention.key_length",
    "hidden_size": "embedding_length",
    "intermediate_size": "feed_forward_length",
    "max_position_embeddings": "context_length",
    "vocab_size": "vocab_size",
}
# Families of the library that have no attention to show, or another one than softmax(QKᵀ): what stands in its place.
WITHOUT_ATTENTION = {
    "mamba": "a state that is passed from token to token", "mamba2": "a state that is passed from token to token",
    "falcon_mamba": "a state that is passed from token to token", "rwkv": "a state that is passed from token to token",
    "xlstm": "a state that is passed from token to token", "fnet": "a Fourier transform",
}  # fmt: skip
IN_SOME_LAYERS = ("jamba", "bamba", "zamba", "zamba2", "nemotron_h", "falcon_h1", "recurrent_gemma", "lfm2")
READS_SOUND = ("whisper", "speech_to_text", "moonshine")


CAN_BE_0 = ("d_ff", "n_experts", "n_chosen_experts")
ACTIVATION_NAMES = ("hidden_act", "hidden_activation", "activation_function", "activation", "feed_forward_proj")
ACTIVATIONS = {"gelu_new": "gelu-tanh", "gelu_pytorch_tanh": "gelu-tanh", "gelu_fast": "gelu-tanh",
               "swish": "silu", "quick_gelu": "quick-gelu", "gelu_10": "gelu"}  # fmt: skip

# Of a model that measures distances between tokens (T5) no length is the last one; beyond this few computers follow.
LONGEST_WITHOUT_LIMIT = 8192


A_TRIFLE = 10**8  # numbers that any computer has room for; a size may have no weights (the library fills in defaults)


@dataclass(frozen=True)
class HubConfig(ModelFacts):
    """Facts of a model of the transformers library, by the names of TransformerConfig; None where not known.

    family: the name of its model class, such as "Llama". norm_place: None where norms stand elsewhere than before or
    after each half (OLMo 2). activation: one of ours, or the library's name; "gated …" has a third matrix.
    rotary_pairs: None also where the pairs turn otherwise than ours (scaled, or some only). checked: the largest
    difference between the logits under our attention and under the library's own for three tokens, when it was loaded.
    """

    is_skeleton = False

    family: str
    layout: str
    n_layers: int
    n_heads: int
    n_kv_heads: int
    d_model: int
    d_head: int
    d_ff: int
    vocab_size: int
    context_length: int
    n_encoder_layers: int = 0
    position: str | None = None
    norm: str | None = None
    norm_place: str | None = None
    activation: str | None = None
    bias: bool = False
    tied_unembedding: bool = False
    embedding_norm: bool = False
    embedding_factor: float | None = 1.0
    embedding_matrix: str = ""
    end_matrix: bool = False
    unembedding_factor: float | None = 1.0
    unembedding_softcap: float | None = None
    unembedding_hidden: str | None = None
    rotary_base: float | None = None
    rotary_pairs: str | None = None
    has_unembedding: bool = True
    shares_layers: bool = False
    expert_share: float = 1.0
    checked: float | None = None


def is_hub(path: Path) -> bool:
    """Whether this is a folder of the transformers library, a GGUF file, or a folder with one."""
    if path.is_file():
        return path.suffix == ".gguf"
    config = path / CONFIG_FILE
    if config.is_file():
        try:
            said = json.loads(config.read_text("utf-8"))
            return isinstance(said, dict) and "model_type" in said
        except (OSError, ValueError, RecursionError):
            return False
    return find_gguf(path) is not None


def find_gguf(path: Path) -> Path | None:
    """The GGUF file that holds the weights: the path itself, or the only one in a folder without safetensors."""
    if path.is_file():
        return path
    files = sorted(path.glob("*.gguf"))
    return files[0] if files and not list(path.glob("*.safetensors")) else None


def has_tokenizer(path: Path) -> bool:
    """Whether the model brings a tokenizer along; without one it is traced by ids."""
    return find_gguf(path) is not None or any((path / name).is_file() for name in TOKENIZER_FILES)


def refuse_adapter_alone(folder: Path) -> None:
    """Raises CheckpointError for a folder with an adapter and no model: the sentence says of which model it is."""
    if not (folder / ADAPTER_CONFIG).is_file():
        return
    has_weights = any(path.name != ADAPTER_WEIGHTS for path in folder.glob("*.safetensors"))
    if (has_weights and (folder / CONFIG_FILE).is_file()) or list(folder.glob("*.gguf")):
        return
    try:
        said = json.loads((folder / ADAPTER_CONFIG).read_text("utf-8"))
    except (OSError, ValueError, RecursionError):
        said = None
    said = said if isinstance(said, dict) else {}
    kind, base = (str(said.get(name) or "")[:120] for name in ("peft_type", "base_model_name_or_path"))
    raise CheckpointError(
        f"{folder} holds an adapter{f' of the kind {kind}' if kind else ''} and no model: it is a small change of "
        f"{base or 'another model, which its config does not name'}. Put its two files, {ADAPTER_CONFIG} and "
        f"{ADAPTER_WEIGHTS}, beside the config and the weights of that model."
    )


def read_config(folder: Path) -> dict:
    """config.json as it stands; of a model for several kinds of input, the part that reads text.

    Raises CheckpointError when it is missing or damaged.
    """
    path = folder / CONFIG_FILE
    try:
        config = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise CheckpointError(f"The file {path} cannot be read: {error}. Restore it and try again.") from error
    if not isinstance(config, dict) or not isinstance(config.get("model_type"), str):
        raise CheckpointError(
            f"The file {path} does not say the type of its model ('model_type'). Restore it and try again."
        )
    return config | config["text_config"] if isinstance(config.get("text_config"), dict) else config


def read_facts(path: Path) -> HubConfig:
    """The facts of a model in a folder or a GGUF file, without loading it or the library.

    What only a pass can tell is left out; see `load`. Raises CheckpointError for a file that is missing or damaged,
    or that does not say the sizes of a Transformer.
    """
    return facts_of(_config(path), path)


def facts_of(config: dict, path: Path) -> HubConfig:
    """The facts that a config.json says. `path` is named in errors."""
    architecture = _architecture(config)
    is_pair = bool(config.get("is_encoder_decoder"))
    _refuse_family(config, _family(architecture, config["model_type"]))
    found = {fact: _said(config, NAMES[fact])[1] for fact in NAMES}
    found["n_encoder_layers"] = (found["n_encoder_layers"] or 0) if is_pair else 0
    _refuse_nonsense(config, path)
    if config.get("multi_query") and not config.get("new_decoder_architecture"):
        found["n_kv_heads"] = 1  # one for all heads (GPT-BigCode, Falcon), whatever else its config says
    missing = [NAMES[fact][0] for fact in ("n_layers", "n_heads", "d_model", "vocab_size") if not found[fact]]
    if missing:
        raise CheckpointError(f"{path} does not say the sizes of a Transformer: {', '.join(missing)} is missing.")
    found["n_kv_heads"] = found["n_kv_heads"] or found["n_heads"]
    still, turned = found.pop("d_still"), found.pop("d_turned")
    if still and turned:  # DeepSeek: only some columns of a head are turned, and head_dim counts those alone
        found["d_head"] = still + turned
    found["d_head"] = found["d_head"] or found["d_model"] // found["n_heads"]
    found["d_ff"] = found["d_ff"] or 4 * found["d_model"]  # GPT-2 and its kin leave it out
    found["context_length"] = found["context_length"] or LONGEST_WITHOUT_LIMIT
    experts, chosen = found.pop("n_experts"), found.pop("n_chosen_experts")
    causal = architecture.endswith(("ForCausalLM", "LMHeadModel"))
    activation = str(_said(config, ACTIVATION_NAMES)[1] or "").removeprefix("gated-")
    return HubConfig(
        family=_family(architecture, config["model_type"]),
        layout="encoder-decoder" if is_pair else "decoder-only" if causal else "encoder-only",
        **found,
        activation=ACTIVATIONS.get(activation, activation) or None,
        expert_share=chosen / experts if experts and chosen else 1.0,
    )


def with_default_length(facts: HubConfig, said: dict) -> HubConfig:
    """The facts with the library's own longest text, where config.json is silent; `said` is all that it fills in."""
    _, length = _said(said, NAMES["context_length"])
    is_silent = facts.context_length == LONGEST_WITHOUT_LIMIT
    return replace(facts, context_length=length) if is_silent and isinstance(length, int) else facts


def _refuse_family(config: dict, family: str) -> None:
    """Raises CheckpointError for a family that is known to have no attention to show: its name and why."""
    kind = config["model_type"]
    if not isinstance(kind, str):
        return
    if kind in WITHOUT_ATTENTION:
        why = f"it has no attention. Its tokens reach one another through {WITHOUT_ATTENTION[kind]}"
    elif kind in IN_SOME_LAYERS:
        why = "only some of its layers have attention. The others pass a state from token to token"
    elif kind in READS_SOUND:
        why = "it reads sound, and a prompt here is text"
    else:
        return
    raise CheckpointError(f"{family} cannot be shown: {why}. Choose another model.")


def _architecture(config: dict) -> str:
    """The first model class that is named; "" where there is none, or something else stands there."""
    named = config.get("architectures")
    first = named[0] if isinstance(named, list) and named else ""
    return first if isinstance(first, str) else ""


def _refuse_nonsense(config: dict, path: Path) -> None:
    """A size that is no whole number, such as a list with one for each layer, is none that a page can count with."""
    for fact, names in NAMES.items():
        can_be_none = fact in CAN_BE_0 or (fact == "n_encoder_layers" and not config.get("is_encoder_decoder"))
        name, size = _said(config, names)
        if size is not None and (type(size) is not int or size < (0 if can_be_none else 1)):
            raise CheckpointError(
                f"{path} says that {name} is {str(size)[:40]!r}, but it must be a whole number"
                f"{'' if can_be_none else ', at least 1'}. Restore the file; a model whose sizes differ from layer to "
                "layer cannot be shown, choose another one."
            )


def refuse_beyond_weights(folder: Path, numbers: int, tensors: int) -> None:
    """Raises CheckpointError where a size asks for more than all weights are together, and for more than a trifle.

    The library takes the memory for what a config says before it compares that with the file, and makes all its
    layers first: a thousand take seconds.
    """
    config, facts = _config(folder), read_facts(folder)
    sizes = vars(facts)

    def refuse(fact: str, size: int, against: str) -> None:
        name, _ = _said(config, NAMES[fact])
        raise CheckpointError(
            f"The config in {folder} says that {name} is {size:,}{against}. The config and the weights do not "
            "belong together. Restore the config."
        )

    for fact in ("n_layers", "n_encoder_layers"):
        if sizes[fact] > tensors:
            refuse(fact, sizes[fact], f", but all its weights are {tensors:,} tensors, fewer than one a layer")
    for fact, width in (("vocab_size", 1), ("d_ff", 1), ("n_heads", facts.d_head), ("n_kv_heads", facts.d_head)):
        asked = sizes[fact] * width * facts.d_model
        if asked > max(numbers, A_TRIFLE):
            refuse(fact, sizes[fact], f": at least {asked:,} numbers, but all its weights are {numbers:,}")


def _family(architecture: str, model_type: str) -> str:
    """ "LlamaForCausalLM" -> "Llama", "GPT2LMHeadModel" -> "GPT2"; the type where no class is named."""
    return re.sub(r"(For[A-Z]\w*|LMHeadModel|MTModel|EncoderModel|Model)$", "", architecture) or model_type


def _said(config: dict, names: tuple[str, ...]) -> tuple[str, object]:
    """Under which of these names a config says something, and what; the first name and None where it is silent."""
    name = next((name for name in names if config.get(name) is not None), names[0])
    return name, config.get(name)


def _config(path: Path) -> dict:
    """What a folder or a GGUF file says of its model, under the names of config.json."""
    gguf = find_gguf(path)
    return _of_gguf(gguf) if gguf else read_config(path)


def _of_gguf(path: Path) -> dict:
    """What the header of a GGUF file says, under the names of config.json."""
    fields, tensors = read_header(path)
    kind, tokens = fields.get("general.architecture"), fields.get("tokenizer.ggml.tokens")
    if not isinstance(kind, str):
        raise CheckpointError(f"The file {path} does not say the architecture of its model. Fetch it again.")
    said = {fact: fields.get(f"{kind}.{name}") for fact, name in GGUF_NAMES.items()}
    layers = said["num_hidden_layers"]
    if isinstance(layers, int) and layers > len(tensors):
        raise CheckpointError(
            f"The file {path} declares {layers:,} layers, but it holds {len(tensors):,} tensors, fewer than one a "
            "layer. Fetch it again."
        )
    said["vocab_size"] = said["vocab_size"] or (tokens.count if isinstance(tokens, Array) else None)
    return said | {"model_type": kind, "architectures": [f"{kind.capitalize()}ForCausalLM"]}
