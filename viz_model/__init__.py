"""The Transformer and all that is measured on it. This is the whole public interface.

Symbols: B batch, T queries, S keys (T unless cached or cross), C model width, H heads, G key/value heads,
D = C/H head width, L layers, V vocabulary, F feed-forward width.
"""

from viz_model.checkpoints import catalogue, load
from viz_model.circuit.circuits import circuits
from viz_model.errors import (
    CheckpointError,
    ConfigError,
    EditError,
    FetchError,
    MaskError,
    PromptError,
    SiteError,
    TrainingError,
    VizError,
)
from viz_model.heads.report import head_report
from viz_model.intervention.ablation import ablate
from viz_model.intervention.edits import AddVector, ScaleHead, SetValues, SetWeight, SwitchOff
from viz_model.intervention.patching import patch
from viz_model.intervention.paths import patch_paths
from viz_model.model import Model
from viz_model.model.generation import Step
from viz_model.model.trace import Trace
from viz_model.transformer import Transformer, TransformerConfig
from viz_model.transformer.attention import attend
from viz_model.transformer.cache import KVCache
from viz_model.transformer.hooks import capture, edit, site

__all__ = [
    "AddVector",
    "CheckpointError",
    "ConfigError",
    "EditError",
    "FetchError",
    "KVCache",
    "MaskError",
    "Model",
    "PromptError",
    "ScaleHead",
    "SetValues",
    "SetWeight",
    "SiteError",
    "Step",
    "SwitchOff",
    "Trace",
    "TrainingError",
    "Transformer",
    "TransformerConfig",
    "VizError",
    "ablate",
    "attend",
    "capture",
    "catalogue",
    "circuits",
    "edit",
    "head_report",
    "load",
    "patch",
    "patch_paths",
    "site",
]
