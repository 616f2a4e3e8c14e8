"""Products with quantized matrices, in place of those of a model's linear layers."""

from dataclasses import dataclass

from torch import Tensor, nn
from torch.nn import functional as F

from viz_model.quantization.codes import INT8_LARGEST, Int8Rows, QuantizedMatrix
from viz_model.transformer.hooks import site


@dataclass(frozen=True, eq=False)
class DequantizingProduct:
    """x·Ŵᵀ + b in the precision of x: every pass turns the codes back into the numbers they stand for.

    As QLoRA computes (Dettmers et al. 2023, eq. 5); only what is stored is small.
    """

    matrix: QuantizedMatrix
    bias: Tensor | None

    def __call__(self, x: Tensor) -> Tensor:
        return F.linear(x, self.matrix.dequantized().to(x.dtype), self.bias)


@dataclass(frozen=True, eq=False)
class MixedInt8Product:
    """LLM.int8(): products of int8 with int8 summed in int32, beside them the outlier columns in 16 bits.

    Dettmers et al. 2022, §3: a column of x is an outlier when any token of the pass has a number of at least
    `threshold` in it. What is left of each token is rounded to int8 by its largest absolute value, as the rows of W
    were. full_weight (R,N): W itself, for the outlier columns. The hook site `name`.largest is the largest absolute
    value of each column of x: (N,).
    """

    matrix: Int8Rows
    bias: Tensor | None
    full_weight: Tensor
    name: str
    threshold: float

    def __call__(self, x: Tensor) -> Tensor:
        tokens = x.flatten(0, -2)  # (…,N) -> (B·T,N)
        outliers = site(f"{self.name}.largest", tokens.abs().amax(0)) >= self.threshold
        rounded = Int8Rows.of(tokens.masked_fill(outliers, 0.0))
        products = rounded.stored.int() @ self.matrix.stored.int().T  # exact: at most 127² · N
        scales = rounded.absmax[:, None] * self.matrix.absmax  # (B·T,1) · (R,)
        result = products * (scales / INT8_LARGEST**2)
        if outliers.any():
            kept = self.full_weight[:, outliers].half().float()
            result = result + tokens[:, outliers].half().float() @ kept.T
        result = result.to(x.dtype).unflatten(0, x.shape[:-1])
        return result if self.bias is None else result + self.bias


def is_linear(module: nn.Module) -> bool:
    """Whether this is a matrix product: nn.Linear, or what GPT-2 of `transformers` has instead."""
    return isinstance(module, nn.Linear) or _is_conv1d(module)


def matrix_of(linear: nn.Module) -> Tensor:
    """The weights as (outputs, inputs), a view."""
    return linear.weight.T if _is_conv1d(linear) else linear.weight


def _is_conv1d(module: nn.Module) -> bool:
    """The Conv1D of `transformers`, x·W + b with W (inputs, outputs); told by its name, to import nothing."""
    return type(module).__name__ == "Conv1D" and module.weight.dim() == 2 and not isinstance(module, nn.Conv1d)
