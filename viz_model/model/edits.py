"""Edits: what a person changed in the passes of a model, as data; `viz_model.intervention.edits` has the kinds."""

from viz_model.arguments import of_type
from viz_model.attribution.components import Pass
from viz_model.errors import EditError
from viz_model.model.prompts import PromptReader
from viz_model.transformer.changes import Change

MOST_EDITS = 100


class Edit:
    """One edit. Two with equal fields are equal, and stand for each other as keys of what is kept.

    part: the attention or the stack that it is in, "self" in a model of one stack.
    """

    part: str

    @property
    def words(self) -> str:
        """What it does, as a whole sentence."""
        raise NotImplementedError

    @property
    def written(self) -> str:
        """It in a few letters, for an address."""
        raise NotImplementedError

    def changes(self, model: PromptReader) -> tuple[Change, ...]:
        """What it does in every pass of this model. Raises VizError where it does not fit the model."""
        raise NotImplementedError

    def refuse_pass(self, trace: Pass) -> None:
        """Raise VizError where it does not fit the pass that it was made in, as it is of a token that is not there."""

    def refuse_writing(self) -> None:
        """Raise VizError where it cannot be made while a model writes, one token after the other."""


def edits_of(value: object) -> tuple[Edit, ...]:
    """The argument as edits; raises EditError for what are none."""
    several = of_type("The edits", value, list | tuple, "a list of edits, such as [vm.SwitchOff(1, 0)]", EditError)
    if len(several) > MOST_EDITS:
        raise EditError(f"There are {len(several):,} edits. Give at most {MOST_EDITS}.")
    for edit in several:
        of_type("An edit", edit, Edit, "one of vm.SwitchOff, ScaleHead, SetWeight, SetValues, AddVector", EditError)
    return tuple(several)
