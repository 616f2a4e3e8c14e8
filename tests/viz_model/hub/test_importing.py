"""Loading a model imports the library, and nothing that it would only quantize, train or draft with."""

import subprocess
import sys

import pytest
from transformers import LlamaConfig, LlamaForCausalLM

from tests.support.waiting import PATIENCE

FRESH = """
import gc, importlib.util, sys
from viz_model.hub.importing import UNASKED
here = [package for package in UNASKED if importlib.util.find_spec(package)]
import viz_model as vm
vm.load(sys.argv[1])
assert "transformers" in sys.modules and gc.isenabled()
assert not [package for package in UNASKED if package in sys.modules], "imported, or still hidden"
for package in here:
    assert importlib.util.find_spec(package), package
print("as it was")
"""


# The library looks once for what is installed, and goes by that later on.
IN_PART = """
import sys
import transformers
assert transformers.utils.is_scipy_available() and transformers.utils.is_bitsandbytes_available()
assert "transformers.modeling_utils" not in sys.modules
import viz_model as vm
vm.load(sys.argv[1])
import scipy, bitsandbytes
print("as it was")
"""


@pytest.mark.parametrize(
    "script", [pytest.param(FRESH, id="fresh"), pytest.param(IN_PART, id="in part", marks=pytest.mark.slow)]
)
def test_what_is_not_asked_for_is_not_imported_and_still_there(script, tmp_path):
    sizes = {"vocab_size": 67, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 1}
    LlamaForCausalLM(LlamaConfig(**sizes, num_attention_heads=2)).save_pretrained(tmp_path)
    done = subprocess.run([sys.executable, "-c", script, tmp_path], capture_output=True, text=True, timeout=PATIENCE)
    assert done.stdout.strip() == "as it was", done.stderr
