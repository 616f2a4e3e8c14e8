"""A model that computes on another device, or in bfloat16, with the face of one that computes in float32 on the CPU.

Its passes run there. What whoever looks on gets or gives (ids, masks, tensors at hook sites, logits) is on the CPU and
in float32, as of any model; what is read of the weights alone is read of the float32 ones.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor, nn

from viz_model.arguments import of_type, said
from viz_model.arguments import text as argument
from viz_model.errors import VizError
from viz_model.transformer.changes import under_changes, with_changes
from viz_model.transformer.hooks import as_seen, unwatched
from viz_model.transformer.host import Host, ToLogits, refuse_no_vectors

DEVICES, PRECISIONS = ("cpu", "cuda", "mps"), {"float32": torch.float32, "bfloat16": torch.bfloat16}
CALLED = {"cpu": "processor", "cuda": "NVIDIA graphics card", "mps": "Apple graphics chip"}


@dataclass(frozen=True)
class ComputePlace:
    """Where a model computes, and in which precision. As a text: "cuda bfloat16", "cuda:1", "bfloat16"."""

    device: str = "cpu"
    precision: str = "float32"

    @classmethod
    def of(cls, text: str) -> Self:
        """Read from a text; raises VizError for what is no such place."""
        found: dict[str, str] = {}
        for word in argument("A place", text).lower().replace(",", " ").split():
            kind = "precision" if word in PRECISIONS else "device"
            name, _, number = word.partition(":")
            is_device = name in DEVICES and (not number or (name == "cuda" and number.isdecimal() and len(number) < 4))
            if kind in found or (kind == "device" and not is_device):
                raise VizError(
                    f"{said(text)} does not say where a model computes. Give a device (cpu, cuda, cuda:1 or mps), a "
                    "precision (float32 or bfloat16), or both, such as “cuda bfloat16”."
                )
            found[kind] = word
        return cls(**found)

    def __str__(self) -> str:
        return f"{self.device} {self.precision}"

    @property
    def is_plain(self) -> bool:
        return self == ComputePlace()

    @property
    def words(self) -> str:
        return f"on the {CALLED[self.device.partition(':')[0]]} ({self.device}) in {self.precision}"

    def refuse_missing(self) -> None:
        """Raise VizError where this computer has no such device, or torch cannot use it."""
        kind, _, number = self.device.partition(":")
        there = {"cpu": 1, "cuda": torch.cuda.device_count(), "mps": int(torch.backends.mps.is_available())}[kind]
        if int(number or 0) >= there:
            numbered = f" number {number}" if number else ""
            raise VizError(
                f"There is no {CALLED[kind]}{numbered} here that torch can use, so {self.device} cannot compute. "
                "Set VIZ_DEVICE to cpu, or choose cpu on the page Models."
            )

    def put(self, tensor: Tensor) -> Tensor:
        """The tensor there; one of floating-point numbers in this precision. Raises VizError for what is no tensor."""
        of_type("tensor", tensor, Tensor, "a tensor")
        kind = PRECISIONS[self.precision] if tensor.is_floating_point() else tensor.dtype
        return tensor.to(self.device, kind)


def places_here() -> list[ComputePlace]:
    """Those that this computer has."""
    found = []
    for device in DEVICES:
        try:
            ComputePlace(device).refuse_missing()
        except VizError:
            continue
        found += [ComputePlace(device, precision) for precision in PRECISIONS]
    return found


def placed(host: Host, place: ComputePlace) -> Host:
    """The model as it computes at a place; itself at the plain one. Raises VizError where the place is not there, or
    has no room for it."""
    place.refuse_missing()
    if place.is_plain:
        return host
    try:
        there, ids = PlacedHost(host, place), torch.zeros(1, 3, dtype=torch.long)
        with torch.inference_mode(), unwatched():  # the code of a model may not be made for it
            there.hidden(ids, **({"source": ids} if host.config.layout == "encoder-decoder" else {}))
    except torch.OutOfMemoryError as error:
        raise VizError(
            f"The memory of {place.device} has no room for this model. Choose a smaller model, bfloat16, or cpu."
        ) from error
    except RuntimeError as error:
        raise VizError(
            f"The code of this model cannot compute {place.words} (“{str(error).splitlines()[0][:200]}”). Choose "
            "float32 on the processor."
        ) from error
    return there


class PlacedHost(ToLogits):
    """reference: the model with its weights in float32 on the CPU, of which everything but a pass is asked."""

    def __init__(self, reference: Host, place: ComputePlace):
        self.reference, self.place = reference, place
        self._there = _copied(reference, place)

    def __getattr__(self, name: str):
        if name.startswith("__") or name in ("reference", "_there"):  # a copy asks before these are set
            raise AttributeError(name)
        return getattr(self.reference, name)

    __call__ = ToLogits.forward

    @under_changes
    def hidden(self, ids: Tensor, **choices) -> Tensor:
        """As `hidden` of the reference, and as precise as the place. Raises VizError as it, and where the memory of the
        device ends."""
        moved = {name: self._moved(choice) for name, choice in choices.items()}
        return self._run(lambda: self._there.hidden(self._moved(ids), **moved))

    def unembed(self, hidden: Tensor) -> Tensor:
        """(…,C) -> logits (…,V), computed there. Raises VizError for what is no such tensor."""
        refuse_no_vectors(hidden, hidden.shape[-1] if isinstance(hidden, Tensor) else 0, self.embedding_rows())
        return self._run(lambda: self._there.unembed(self.place.put(hidden)))

    def sharing_copy(self) -> Host:
        """That of the reference, which computes in float32 on the CPU."""
        return self.reference.sharing_copy()

    def difference(self, ids: Tensor, **choices) -> float:
        """The largest difference of a logit of the last token (of the final hidden state, where there are none) from
        float32 on the CPU."""
        with torch.inference_mode(), unwatched():
            reference = with_changes(self.reference, self.changes)
            return (self(ids, **choices) - reference(ids, **choices)).abs().max().item()

    def _moved(self, choice: object) -> object:
        if isinstance(choice, Mapping):
            return {name: self._moved(one) for name, one in choice.items()}
        is_plain = isinstance(choice, Tensor) and choice.layout == torch.strided and not choice.is_meta
        return choice.to(self.place.device) if is_plain else choice

    def _run(self, compute) -> Tensor:
        try:
            return as_seen(compute())
        except torch.OutOfMemoryError as error:
            raise VizError(
                f"The memory of {self.place.device} ended in this pass. Choose a shorter prompt, or a smaller model."
            ) from error


def _copied(host: Host, place: ComputePlace) -> Host:
    """A copy whose numbers are at the place. Frequencies of rotations stay in float32, as in every library."""
    twin, copies = host.sharing_copy(), {}
    for module in twin.network.modules():
        for name, parameter in module._parameters.items():
            if parameter is not None:
                if parameter not in copies:
                    copies[parameter] = nn.Parameter(place.put(parameter.detach()), requires_grad=False)
                module._parameters[name] = copies[parameter]
        for name, buffer in module._buffers.items():
            if buffer is not None:
                module._buffers[name] = buffer.to(place.device) if "inv_freq" in name else place.put(buffer)
    return twin
