"""What can go wrong, each as a sentence that a student understands and what to do next."""


class VizError(Exception):
    """The family of all errors that a person may meet; `str(error)` is fit for the screen."""


class PromptError(VizError):
    """A prompt that cannot be traced: empty, too long, or ids outside the vocabulary."""


class MaskError(VizError):
    """A mask of an unknown name, or of a shape that does not fit the pass."""


class ConfigError(VizError):
    """A configuration that contradicts itself; names the fields."""


class CheckpointError(VizError):
    """A checkpoint that is unknown, damaged or foreign; names the file and the tensor."""


class SiteError(VizError):
    """A hook site that does not exist, or that was visited twice within one capture."""


class EditError(VizError):
    """An edit that gave back something other than a tensor of the same shape."""


class TrainingError(VizError):
    """A training that cannot be started or resumed as asked."""


class FetchError(VizError):
    """A model that cannot be fetched; says from where, and what was wrong."""


class JobStopped(VizError):
    """Work that somebody stopped before its end."""
