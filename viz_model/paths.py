"""Where the project's own files are."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]  # the folder that viz_model, pages and checkpoints are in
