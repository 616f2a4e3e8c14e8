"""The steps of a generation as strips, with the candidates of each."""

from viz_ui.components.generation.generation import CandidatePicture, StepPicture, checked, generation, pack_generation

__all__ = ["CandidatePicture", "StepPicture", "checked", "generation", "pack_generation"]
