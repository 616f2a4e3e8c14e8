"""What a child process asks of the Hugging Face Hub, so that it can be ended at any time.

    python ask_hub.py plan ORG/NAME                    prints the files of a model as JSON
    python ask_hub.py download ORG/NAME REVISION FOLDER FILE …

Knows nothing of this project, so that it starts fast. A failure is one sentence on stderr.
"""

import json
import os
import sys

os.environ["HF_HUB_DISABLE_PROGRESS_BARS"] = "1"
os.environ["HF_HUB_DISABLE_XET"] = "1"  # it keeps a cache of its own, which would outlive a broken fetch

from huggingface_hub import HfApi, hf_hub_download
from huggingface_hub.errors import GatedRepoError, RepositoryNotFoundError


def plan(name: str) -> dict:
    """Revision, licence, number of parameters where it is told, and for each file its size and checksum."""
    info = HfApi().model_info(name, files_metadata=True, timeout=15)
    card = info.card_data or {}
    return {
        "revision": info.sha,
        "licence": card.get("license") or "licence not stated",
        "parameters": info.safetensors.total if info.safetensors else None,
        "files": [
            {
                "name": file.rfilename,
                "size": file.size,
                "sha256": file.lfs.sha256 if file.lfs else None,
                "git": file.blob_id,
            }
            for file in info.siblings
        ],
    }


def main(command: str, name: str, *rest: str) -> None:
    if command == "plan":
        json.dump(plan(name), sys.stdout)
        return
    revision, folder, *files = rest
    for file in files:
        hf_hub_download(name, file, revision=revision, local_dir=folder, etag_timeout=15)


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except GatedRepoError:
        sys.exit(
            f"{sys.argv[2]} is only for people who agreed to its terms. Agree on its page on the Hub, run `hf "
            "auth login` here, and try again."
        )
    except RepositoryNotFoundError:
        sys.exit(f"There is no model {sys.argv[2]} on the Hub, or it is private. Check how it is spelled.")
    except Exception as error:  # whatever the network or the library makes of it: the child ends here
        said = str(error).strip().splitlines() or [type(error).__name__]
        sys.exit(f"The Hub could not be asked for {sys.argv[2]}. Check the network and try again. It says: {said[0]}")
