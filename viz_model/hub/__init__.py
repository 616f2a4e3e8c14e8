"""Any model of the transformers library: its own code runs it, and our attend() is its attention.

What reads facts is light; the library itself is imported when a model is loaded or converted.
"""

from pathlib import Path

from viz_model.hub.facts import (
    HubConfig,
    has_tokenizer,
    is_hub,
    read_facts,
    refuse_adapter_alone,
    refuse_beyond_weights,
)
from viz_model.hub.importing import import_library, undisturbed

__all__ = [
    "HubConfig",
    "convert_gguf",
    "has_tokenizer",
    "is_hub",
    "load",
    "read_facts",
    "refuse_adapter_alone",
    "refuse_beyond_weights",
]


def load(path: Path, name: str):
    """The Model of a folder or a GGUF file; see `viz_model.hub.loading.load`."""
    with undisturbed():
        import_library()
        from viz_model.hub import loading

        return loading.load(path, name)


def convert_gguf(path: Path, folder: Path) -> None:
    """Write a GGUF file as a folder of safetensors; see `viz_model.hub.loading.convert_gguf`."""
    import_library()
    from viz_model.hub import loading

    loading.convert_gguf(path, folder)
