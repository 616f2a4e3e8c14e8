"""A model with quantized weights beside the one it came from: what is stored, what it costs, how far it is off.

The twin shares everything with the model but the chosen linear layers of its blocks, so it costs what the quantized
weights take. Schemes: see `quantized_matrix` and `quantized_linear`.
"""

import copy
import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from viz_model.errors import VizError
from viz_model.jobs import Tell, untold
from viz_model.latest import LatestOfEach
from viz_model.model import Model
from viz_model.model.trace import Trace
from viz_model.quantization.codes import Int8Rows, NF4Blocks, QuantizedMatrix
from viz_model.quantization.products import DequantizingProduct, MixedInt8Product, is_linear, matrix_of
from viz_model.transformer.hooks import capture
from viz_model.transformer.host import Host

INT8, LLM_INT8, NF4 = "int8", "LLM.int8", "NF4"
SCHEMES = (INT8, LLM_INT8, NF4)
ALL, ATTENTION, FEED_FORWARD, ONE_LAYER = "all", "attention", "feed-forward", "one layer"
WHICH = (ALL, ATTENTION, FEED_FORWARD, ONE_LAYER)
THRESHOLD = 6.0  # of LLM.int8, §3.2


@dataclass(frozen=True)
class Choice:
    """What is quantized, and how.

    scheme: of `SCHEMES`; "int8" rounds the weights alone, "LLM.int8" what enters them too, but for the columns that
    hold a number of at least `threshold`. which: of `WHICH`; layer, stack: the one, where it is one layer.
    """

    scheme: str = NF4
    which: str = ALL
    layer: int = 0
    stack: str = ""
    threshold: float = THRESHOLD

    def __post_init__(self):
        if self.scheme not in SCHEMES or self.which not in WHICH:
            raise VizError(f"There is no quantization {self.scheme!r} of {self.which!r}.")
        if not 0 < self.threshold < math.inf:
            raise VizError(f"The threshold of outliers is {self.threshold}; it must be a number greater than 0.")

    def takes(self, place: "WeightPlace") -> bool:
        """Whether the linear layer at this place is quantized."""
        if self.which == ONE_LAYER:
            return (place.layer, place.stack) == (self.layer, self.stack)
        return self.which == ALL or place.is_attention == (self.which == ATTENTION)


@dataclass(frozen=True)
class WeightPlace:
    """Where a linear layer of a block stands: its full name, "encoder", "decoder" or "" for one stack, the layer.

    reads_source: whether only the source of an encoder-decoder goes through it, once where there is a cache: layers of
    the encoder, and those that make K and V of cross-attention.
    """

    name: str
    stack: str
    layer: int
    is_attention: bool
    reads_source: bool = False

    @property
    def local(self) -> str:
        """Its name within the block, as "attn.query"."""
        return self.name.split(f".{self.layer}.", 1)[1]


@dataclass(frozen=True, eq=False)
class QuantizedTensor:
    """One matrix before and after: `before` (R,N), shared with the model, and `after`, as it is stored.

    norm: ‖W‖ (Frobenius); relative_error: ‖Ŵ − W‖ / ‖W‖; largest_error: the largest |ŵ − w|.
    """

    place: WeightPlace
    before: Tensor
    after: QuantizedMatrix
    norm: float
    relative_error: float
    largest_error: float

    @property
    def bytes_before(self) -> int:
        return self.before.nbytes

    @property
    def bytes_after(self) -> int:
        """Codes and constants."""
        return self.after.code_bytes + self.after.constant_bytes

    @property
    def bits_per_weight(self) -> float:
        return 8 * self.bytes_after / self.before.numel()


@dataclass(frozen=True, eq=False)
class Quantized:
    """A model's twin, and every matrix of it that was quantized, by full name.

    Layers that share their parameters (ALBERT) share these tensors' `after`, too, which counts once.
    """

    choice: Choice
    model: Model
    tensors: dict[str, QuantizedTensor]

    def under_edits_of(self, model: Model) -> "Quantized":
        """The same twin with the edits of the model: the very tensors that these put into the passes of the model."""
        return replace(self, model=self.model.under_edits_of(model))

    @property
    def stored(self) -> list[QuantizedTensor]:
        """Each matrix that is stored, once."""
        return list({id(tensor.after): tensor for tensor in self.tensors.values()}.values())

    @property
    def n_weights(self) -> int:
        return sum(tensor.before.numel() for tensor in self.stored)

    @property
    def bytes_before(self) -> int:
        """Bytes of the matrices as the model holds them."""
        return sum(tensor.bytes_before for tensor in self.stored)

    @property
    def bytes_after(self) -> int:
        """Bytes of codes and constants."""
        return sum(tensor.bytes_after for tensor in self.stored)

    @property
    def relative_error(self) -> float:
        """‖W − Ŵ‖ / ‖W‖ over all of them together."""
        errors = math.hypot(*(tensor.relative_error * tensor.norm for tensor in self.stored))
        return errors / (math.hypot(*(tensor.norm for tensor in self.stored)) or 1.0)


def places(host: Host) -> list[WeightPlace]:
    """Every linear layer of the blocks, in their order.

    A block is a member of a list of modules, as in our skeleton and in the models of `transformers`; its attention is
    what stands within a module whose class says so.
    """
    modules = dict(host.network.named_modules())
    return [
        place
        for name, module in modules.items()
        if is_linear(module) and (place := _place(name, host, modules)) is not None
    ]


@torch.inference_mode()
def quantize(model: Model, choice: Choice, tell: Tell = untold) -> Quantized:
    """The twin of a model under this choice. The model itself is left as it is.

    tell: told after each matrix how many numbers are rounded, of how many.
    Raises VizError where the model has no linear layer that was chosen.
    """
    weights = {place: model.transformer.network.get_submodule(place.name).weight for place in places(model.transformer)}
    taken = {id(weight) for place, weight in weights.items() if choice.takes(place)}
    chosen = [
        place for place, weight in weights.items() if id(weight) in taken
    ]  # and all that share a matrix with them
    if not chosen:
        raise VizError(f"{model.name} has no {choice.which} weights in its blocks. Choose other weights to quantize.")
    twin = model.transformer.sharing_copy()
    linears = {place: twin.network.get_submodule(place.name) for place in chosen}
    total, done, tensors, made = sum(linear.weight.numel() for linear in linears.values()), 0, {}, {}
    for place, linear in linears.items():
        if id(linear.weight) not in made:
            made[id(linear.weight)] = _quantized_tensor(place, matrix_of(linear), choice.scheme)
        tensor = replace(made[id(linear.weight)], place=place)
        # The module stays where it is, with the hooks and facts that others have put on it; its product is another.
        if choice.scheme == LLM_INT8:
            linear.forward = MixedInt8Product(tensor.after, linear.bias, tensor.before, place.name, choice.threshold)
        else:
            linear.forward = DequantizingProduct(tensor.after, linear.bias)
        tensors[place.name] = tensor
        done += tensor.before.numel()
        tell(done, total)
    model = copy.copy(model)
    model.transformer = twin
    return Quantized(choice, model, tensors)


class Twins:
    """The twins that were made, by model and choice: of each model the latest `most`. Safe to be used by any thread.

    They go when the model goes.
    """

    def __init__(self, most: int = 2):
        self._made = LatestOfEach[Model, Choice, Quantized](most)

    def made(self, model: Model, choice: Choice) -> bool:
        """Whether it is there, so that `get` takes no time."""
        return self._made.holds(model, choice)

    def get(self, model: Model, choice: Choice, tell: Tell = untold) -> Quantized:
        """The twin of this model under this choice, made where it is not there; see `quantize`."""
        return self._made.get(model, choice, lambda: quantize(model, choice, tell))


def trace_quantized(quantized: Quantized, trace: Trace) -> tuple[Trace, dict[str, Tensor]]:
    """The same pass as that of `trace`, by the twin, and what entered its int8 matrices.

    Of the latter the largest absolute value of each column, (N,) by the full name of the matrix; those that reach the
    threshold are the outliers of this pass. None but for LLM.int8.
    """
    if quantized.choice.scheme != LLM_INT8:
        return _same_pass(quantized.model, trace), {}
    with capture("*.largest") as found:
        twins = _same_pass(quantized.model, trace)
    return twins, {name.removesuffix(".largest"): largest for name, largest in found.items()}


def outlier_bytes(quantized: Quantized, largest: dict[str, Tensor]) -> int:
    """What the outlier columns of a pass take in 16 bits, beside their int8 codes."""
    return sum(
        2 * len(quantized.tensors[name].before) * int((values >= quantized.choice.threshold).sum())
        for name, values in largest.items()
    )


def _same_pass(model: Model, trace: Trace) -> Trace:
    own = {part: None if name == trace.config.mask_of(part) else name for part, name in trace.mask_names.items()}
    if trace.source is None:
        twins = model.trace(trace.read.ids, mask=own)
    else:
        twins = model.trace(trace.source.ids, mask=own, target=trace.read.ids)
    return twins.of(trace.part)


def weight_bytes(host: Host) -> int:
    """Bytes of all parameters of a model; tied ones count once."""
    return sum(parameter.nbytes for parameter in host.network.parameters())


def source_weight_bytes(host: Host) -> int:
    """Bytes of what only the source goes through: the encoder, and the matrices of cross-attention for K and V."""
    of_others, of_source = set(), {}
    for name, parameter in host.network.named_parameters(remove_duplicate=False):
        if name.rpartition(".")[0] in host.source_modules:
            of_source[id(parameter)] = parameter.nbytes
        else:
            of_others.add(id(parameter))  # a table of tokens may have a name in both stacks
    return sum(nbytes for one, nbytes in of_source.items() if one not in of_others)


def _place(name: str, host: Host, modules: dict[str, nn.Module]) -> WeightPlace | None:
    """What its name and the modules around it say of a linear layer; None outside the blocks."""
    words = name.split(".")
    around = [modules[".".join(words[:end])] for end in range(1, len(words))]
    lists = [end for end, module in enumerate(around, 1) if isinstance(module, nn.ModuleList)]
    if not lists:
        return None
    return WeightPlace(
        name=name,
        stack=next((word for word in words if word in host.config.stacks), ""),
        layer=int(words[lists[0]]),
        is_attention=any("attention" in type(module).__name__.lower() for module in around),
        reads_source=name in host.source_modules,
    )


def _quantized_tensor(place: WeightPlace, before: Tensor, scheme: str) -> QuantizedTensor:
    after = NF4Blocks.of(before) if scheme == NF4 else Int8Rows.of(before)
    error = after.dequantized() - before
    norm = before.float().norm().item()
    return QuantizedTensor(
        place=place,
        before=before,
        after=after,
        norm=norm,
        relative_error=error.norm().item() / (norm or 1.0),
        largest_error=error.abs().max().item(),
    )
