"""What a package offers: its public functions, and the methods and properties of whatever they give, by inspection."""

import inspect
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, is_dataclass
from inspect import Parameter
from itertools import islice
from typing import Any

from torch import nn

from viz_model.errors import VizError
from viz_model.model.generation import generate
from viz_model.transformer import changes, linear_maps
from viz_model.transformer.host import ToLogits

SPECIAL = ("__call__", "__getitem__", "__contains__")
PACKAGE = "viz_model"


@dataclass(frozen=True)
class Use:
    """A callable and its parameters. within: what is run within the context managers that it gives."""

    call: Callable
    parameters: tuple[Parameter, ...]
    within: Callable[[], Any]

    def __call__(self, given: Mapping[str, Any]) -> Any:
        """What it gives for these arguments, by their names; of a generator the first two."""
        arguments, named = [], {}
        for parameter in self.parameters:
            if parameter.name in given:
                value = given[parameter.name]
                if parameter.kind == Parameter.VAR_POSITIONAL:
                    arguments += value
                elif parameter.kind == Parameter.POSITIONAL_ONLY:
                    arguments.append(value)
                else:
                    named[parameter.name] = value
        result = self.call(*arguments, **named)
        if isinstance(result, AbstractContextManager):
            with result as result:
                self.within()
        return [*islice(result, 2)] if inspect.isgenerator(result) else result


def uses(roots: Mapping[str, object], good: Callable[[Parameter], Any], within: Callable[[], Any]) -> dict[str, Use]:
    """Every public callable that is reached from the roots, by name; each kind of object is looked at once.

    good: a value that fits a parameter: a callable is called with such, so that what it gives is looked at too.
    """
    found: dict[str, Use] = {}
    seen: set[type] = set()
    waiting = list(roots.items())
    while waiting:
        name, thing = waiting.pop(0)
        if isinstance(thing, list | tuple) and thing:
            waiting.append((f"{name}[0]", thing[0]))
        elif isinstance(thing, type) and (issubclass(thing, BaseException) or _only_holds(thing)):
            continue
        elif _is_ours(type(thing)):
            if type(thing) not in seen:
                seen.add(type(thing))
                waiting += [(f"{name}.{member}", value) for member, value in _members(thing)]
        elif callable(thing) and _is_ours(thing) and name not in found:
            use = found[name] = Use(thing, _parameters(thing), within)
            needed = [parameter for parameter in use.parameters if parameter.default is Parameter.empty]
            try:
                waiting.append((f"{name}()", use({parameter.name: good(parameter) for parameter in needed})))
            except VizError:  # a model of this kind cannot do it
                continue
    return found


def _members(thing: object) -> Iterator[tuple[str, object]]:
    """The public attributes that this project wrote; not of the parts that a network is put together of, nor of
    what happens inside its passes."""
    is_part = isinstance(thing, nn.Module) and not isinstance(thing, ToLogits)
    if is_part or type(thing).__module__ in (linear_maps.__name__, changes.__name__):
        return
    for member in (*dir(type(thing)), *vars(thing)):
        owner = next((kind for kind in type(thing).__mro__ if member in vars(kind)), type(thing))
        if _is_ours(owner) and (member in SPECIAL or not member.startswith("_")):
            try:
                yield member, getattr(thing, member)
            except VizError:
                continue


def _only_holds(kind: type) -> bool:
    """Whether it asks nothing of what it is made of."""
    return is_dataclass(kind) and not hasattr(kind, "__post_init__")


def _is_ours(thing: object) -> bool:
    return (getattr(thing, "__module__", None) or "").partition(".")[0] == PACKAGE


def _parameters(call: Callable) -> tuple[Parameter, ...]:
    """Those by name, and those of the function that it passes `**choices` on to."""
    known = inspect.signature(call).parameters.values()
    own = tuple(parameter for parameter in known if parameter.kind != Parameter.VAR_KEYWORD)
    if len(own) == len(known):
        return own
    names = {parameter.name for parameter in own}
    passed_on = generate if call.__name__ == "generate" else call.__self__.hidden
    return own + tuple(further for further in _parameters(passed_on) if further.name not in {"model", *names})
