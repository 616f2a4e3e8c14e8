"""Reading a model of the transformers library from a folder or a GGUF file; weights are never unpickled."""

import math
from collections.abc import Iterable, Sequence
from pathlib import Path

import torch
import transformers
from safetensors import SafetensorError
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedConfig, PreTrainedModel
from transformers.models.auto import modeling_auto

from viz_model.errors import CheckpointError
from viz_model.hub.adapters import merge_adapter
from viz_model.hub.attention import NAME, register
from viz_model.hub.facts import (
    find_gguf,
    has_tokenizer,
    read_config,
    read_facts,
    refuse_beyond_weights,
    with_default_length,
)
from viz_model.hub.headers import StoredTensor, stored_tensors
from viz_model.hub.host import HubTransformer
from viz_model.hub.own_attention import adapt, made_with
from viz_model.hub.prepare import prepare
from viz_model.hub.tokenizer import HubTokenizer, load_tokenizer
from viz_model.memory_limits import why_not_written
from viz_model.model import Model
from viz_model.model.writing_rules import NOT_FOLLOWED, WritingRules
from viz_model.transformer.hooks import unwatched

# What a model's files say of its writing: ids, one or several, and whole numbers.
CONTROL_TOKENS = ("bos_token_id", "decoder_start_token_id", "eos_token_id", "forced_bos_token_id",
                  "forced_eos_token_id", "suppress_tokens", "begin_suppress_tokens")  # fmt: skip
LENGTHS = ("max_length", "min_length", "no_repeat_ngram_size")
PICKLED = ("*.bin", "*.pt", "*.pth", "*.ckpt", "*.h5", "*.msgpack")

# What a model is loaded as, the first that its config names; without a head in any of these it has no unembedding.
HEADS = (
    modeling_auto.MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES,
    modeling_auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES,
    modeling_auto.MODEL_FOR_MASKED_LM_MAPPING_NAMES,
)


class HubModel(Model):
    """A model of the transformers library; which tokens begin and end a text, its own files say."""

    @property
    def end_tokens(self) -> frozenset[int]:
        return _ids(self.transformer.model, "eos_token_id")

    @property
    def end_token(self) -> int | None:
        return min(self.end_tokens, default=None)

    @property
    def writing_rules(self) -> WritingRules:
        model = self.transformer.model
        never = [(token,) for token in sorted(_several(_said(model, "suppress_tokens")))]
        bad = [tuple(run) for run in _said(model, "bad_words_ids") or ()]
        never += [run for run in bad if run and not (len(run) == 1 and run[0] in self.end_tokens)]
        return WritingRules(
            first=min(_several(_said(model, "forced_bos_token_id")), default=None),
            longest=_said(model, "max_length"),
            last=min(_several(_said(model, "forced_eos_token_id")), default=None),
            never=tuple(never),
            never_first=_several(_said(model, "begin_suppress_tokens")),
            no_repeat=_said(model, "no_repeat_ngram_size") or 0,
            shortest=_said(model, "min_length") or 0,
            not_followed=tuple(name for name, same in NOT_FOLLOWED.items() if _said(model, name) not in (None, *same)),
        )

    @property
    def start_token(self) -> int:
        named = (_ids(self.transformer.model, name) for name in ("decoder_start_token_id", "bos_token_id"))
        return min(next(filter(None, named), self.end_tokens), default=0)

    def segments(self, ids: Sequence[int]) -> list[int]:
        return self.transformer.segments(torch.tensor(self.ids(ids), dtype=torch.long)).tolist()


def load(path: Path, name: str) -> HubModel:
    """The model of a folder or a GGUF file, in eval mode, computed in float32.

    Half precision rounds to 8 or 11 bits: weights of attention and logits would differ by more than the 10⁻⁴ that
    they are compared to (tests/reference/test_half_precision.py). float32 holds its numbers exactly, so nothing of
    what is stored is lost.

    Raises CheckpointError, which names the file and what is wrong; and what was found in a model whose attention
    cannot be shown, see `prepare`.
    """
    facts, gguf = read_facts(path), find_gguf(path)
    folder = path.parent if path.is_file() else path
    with unwatched():
        model = _read_model(folder, gguf)
        adapter = merge_adapter(model, folder)
        adapt(model)
        facts = with_default_length(facts, model.config.get_text_config().to_dict())
        host = HubTransformer(model, bool(model.config.is_encoder_decoder))
        prepare(host, facts)
    _refuse_strange_rules(model, folder)
    tokenizer = None
    if has_tokenizer(path):
        tokenizer = load_tokenizer(folder, gguf, host.config.vocab_size, _ids(model, "eos_token_id"))
        _find_separator(host, tokenizer)
    loaded = HubModel(name, host, tokenizer)
    loaded.has_adapter = adapter
    return loaded


def _find_separator(host: HubTransformer, tokenizer: HubTokenizer) -> None:
    """Once, when the model is loaded: tell the host where a second text begins, if it knows a second segment."""
    if getattr(host.model.config, "type_vocab_size", 0) < 2 or host.is_pair:
        return
    host.separator = tokenizer.separator
    if not tokenizer.is_separator(lambda ids: host.segments(torch.tensor(ids)).tolist()):
        host.separator = None


def convert_gguf(path: Path, folder: Path) -> None:
    """Write a GGUF file's model and tokenizer as a folder of safetensors, which loads in a tenth of the time.

    Raises CheckpointError, see `load`, and where the folder cannot be written.
    """
    stored = stored_tensors(path)
    refuse_beyond_weights(path, sum(math.prod(tensor.shape) for tensor in stored.values()), len(stored))
    model = _read_model(path.parent, path)
    tokenizer = transformers.AutoTokenizer.from_pretrained(path.parent, gguf_file=path.name, local_files_only=True)
    model.config.dtype = model.dtype
    try:
        model.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
    except (OSError, SafetensorError) as error:
        raise CheckpointError(f"The model cannot be written to {folder}. {why_not_written(error)}") from error


def _read_model(folder: Path, gguf: Path | None) -> PreTrainedModel:
    """The model with its weights in float32 and our attention, of a folder or of its GGUF file."""
    register()
    transformers.utils.logging.disable_progress_bar()
    options = {"local_files_only": True, "trust_remote_code": False} | ({"gguf_file": gguf.name} if gguf else {})
    if gguf is None:
        _refuse_without_safetensors(folder)
    try:
        config = AutoConfig.from_pretrained(folder, **options)
    except Exception as error:  # an unknown type, a field that says nonsense
        raise CheckpointError(
            f"The configuration in {gguf or folder} cannot be read by transformers {transformers.__version__}: "
            f"{_in_short(error)}"
        ) from error
    _refuse_quantized(config, folder)
    own = {"attn_implementation": made_with(config), "dtype": torch.float32}
    try:
        if gguf is not None:
            return _of_gguf(gguf, config, own)
        _refuse_larger(_class_of(config), config, own, folder)
        asked = {"config": config, "output_loading_info": True, "ignore_mismatched_sizes": True, **own, **options}
        model, told = _class_of(config).from_pretrained(folder, **asked)
        if told["missing_keys"] and _is_stack_alone(model, folder):
            model, told = transformers.AutoModel.from_pretrained(folder, **asked)
    except CheckpointError:
        raise
    except Exception as error:  # the file, its shapes, or an attention that cannot be chosen
        if NAME in str(error):  # the library has no such attention for this family
            raise CheckpointError(
                f"{read_facts(gguf or folder).family} cannot be shown: it computes attention in its own code and not "
                "through the attention interface of the transformers library. Choose another model."
            ) from error
        raise CheckpointError(f"The model in {gguf or folder} cannot be read: {_in_short(error)}") from error
    for name, found, asked in told["mismatched_keys"]:
        raise _of_another_shape(name, folder, found, asked)
    _refuse_misfit(model, told["missing_keys"], folder)
    return model.eval().requires_grad_(False)


def _is_stack_alone(model: PreTrainedModel, folder: Path) -> bool:
    """Whether an encoder was saved without any of the head that its config names, as those that read sentences are."""
    head = {name for name in model.state_dict() if not name.startswith(f"{model.base_model_prefix}.")}
    return type(model).__name__.endswith("ForMaskedLM") and not head & set(stored_tensors(folder))


def _of_gguf(path: Path, config: PreTrainedConfig, own: dict) -> PreTrainedModel:
    """The library's names and numbers of what is in the file; its own loader would ask for one more package."""
    from transformers.modeling_gguf_pytorch_utils import load_gguf_checkpoint  # only where there is such a file

    model = AutoModelForCausalLM.from_config(config, **own)
    tensors = load_gguf_checkpoint(str(path), return_tensors=True, model_to_load=model)["tensors"]
    told = model.load_state_dict({name: tensor.float() for name, tensor in tensors.items()}, strict=False)
    model.tie_weights()
    tied = model.all_tied_weights_keys
    _refuse_misfit(model, set(told.missing_keys) - set(tied), path)
    return model.eval().requires_grad_(False)


def _class_of(config: PreTrainedConfig) -> type[PreTrainedModel]:
    """The class that its config names if this predicts tokens, else the bare model."""
    named = next(iter(config.architectures or ()), "")
    text = config.get_text_config()
    for mapping in HEADS:
        for one in (config, text):
            classes = mapping.get(one.model_type, ())
            if named in ((classes,) if isinstance(classes, str) else classes):
                return getattr(transformers, named)
    return transformers.AutoModel


def _refuse_without_safetensors(folder: Path) -> None:
    if list(folder.glob("*.safetensors")):
        return
    pickled = sorted(path.name for pattern in PICKLED for path in folder.glob(pattern))
    if pickled:
        raise CheckpointError(
            f"The weights in {folder} are in {pickled[0]}, a format that can run code when it is read, so it is "
            "not read here. Save the model as safetensors: model.save_pretrained(folder)."
        )
    raise CheckpointError(f"There are no weights in {folder}: no file ends with .safetensors or .gguf.")


def _refuse_quantized(config: PreTrainedConfig, folder: Path) -> None:
    quantized = getattr(config, "quantization_config", None)
    if quantized:
        how = quantized.get("quant_method") if isinstance(quantized, dict) else getattr(quantized, "quant_method", "")
        raise CheckpointError(
            f"The weights in {folder} are quantized by {getattr(how, 'value', how)}, which cannot be read here. "
            "Choose the model that it was made from, or a GGUF file of it."
        )


def _refuse_larger(model_class: type[PreTrainedModel], config: PreTrainedConfig, own: dict, folder: Path) -> None:
    """Compare the shapes before they take memory: the library fills a tensor of any size, and only then compares."""
    stored = stored_tensors(folder)
    if _stands_in(stored, folder):
        return  # an empty model to compare with takes a tenth of a second
    is_bare = model_class is transformers.AutoModel  # it finds the class by the config
    with torch.device("meta"):
        empty = model_class.from_config(config, **own) if is_bare else model_class._from_config(config, **own)
    start = f"{empty.base_model_prefix}."  # a file may name its tensors with or without it
    asked = {name.removeprefix(start): tensor.shape for name, tensor in empty.state_dict().items()}
    for name, (_, shape) in stored.items():
        wanted = asked.get(name.removeprefix(start), shape)
        if math.prod(wanted) > math.prod(shape):
            raise _of_another_shape(name, folder, shape, wanted)


def _stands_in(stored: dict[str, StoredTensor], folder: Path) -> bool:
    """Whether the sizes that a config says are those of stored tensors, and no number in it is larger than all."""
    facts, sizes = read_facts(folder), {size for _, shape in stored.values() for size in shape}
    heads = facts.d_head * facts.n_heads, facts.d_head * facts.n_kv_heads
    numbers = (value for value in read_config(folder).values() if isinstance(value, int))
    return {facts.d_model, facts.d_ff, facts.vocab_size, *heads} <= sizes and max(numbers) <= max(sizes)


def _of_another_shape(name: str, folder: Path, found: Iterable[int], asked: Iterable[int]) -> CheckpointError:
    return CheckpointError(
        f"The tensor '{name}' in {folder} has the shape {tuple(found)}, but the config asks for {tuple(asked)}."
    )


def _refuse_misfit(model: PreTrainedModel, missing: Iterable[str], where: Path) -> None:
    """Every tensor that a pass needs must have been there, and finite."""
    needed = sorted(name for name in missing if "pooler" not in name)
    if needed:
        raise CheckpointError(
            f"The tensor '{needed[0]}' is missing in {where}, so the weights do not belong to the config. Restore "
            "the folder."
        )
    for name, tensor in model.state_dict().items():
        # a sum is not finite if a number is not; only then is each looked at
        if tensor.is_floating_point() and not tensor.sum().isfinite() and not tensor.isfinite().all():
            raise CheckpointError(f"The tensor '{name}' in {where} holds something other than finite numbers.")


def _in_short(error: Exception) -> str:
    """The first lines of the library's message."""
    return " ".join(str(error).split())[:400] or type(error).__name__


def _refuse_strange_rules(model: PreTrainedModel, folder: Path) -> None:
    """Raises CheckpointError where the files say of the model's writing what is no id or number.

    The library reads them without a word, and fails when a text is at its end.
    """

    def are_ids(found: object) -> bool:
        return all(type(token) is int for token in (found if isinstance(found, list | tuple) else [found]))

    def are_runs(found: object) -> bool:
        return isinstance(found, list) and all(isinstance(run, list) and are_ids(run) for run in found)

    def is_length(found: object) -> bool:
        return type(found) is int and found >= 0

    wanted = dict.fromkeys(CONTROL_TOKENS, (are_ids, "the id of a token, or several"))
    wanted |= dict.fromkeys(LENGTHS, (is_length, "a whole number of at least 0"))
    wanted["bad_words_ids"] = (are_runs, "a list of lists of ids")
    for name, (is_right, words) in wanted.items():
        for found in (_said(model, name), vars(model.config).get(name)):
            if found is not None and not is_right(found):
                raise CheckpointError(
                    f"The files in {folder} say that {name} is {str(found)[:40]}, but it must be {words}. Restore "
                    "config.json and generation_config.json."
                )


def _ids(model: PreTrainedModel, name: str) -> frozenset[int]:
    """The ids that a model's files give a control token: one, several, or none."""
    said = _said(model, name)
    return _several(vars(model.config).get(name) if said is None else said)


def _several(said: int | Iterable[int] | None) -> frozenset[int]:
    return frozenset() if said is None else frozenset(said if isinstance(said, list | tuple) else [said])


def _said(model: PreTrainedModel, name: str):
    """What a model's files set for its writing, or None."""
    return getattr(model.generation_config, name, None) if model.can_generate() else None
