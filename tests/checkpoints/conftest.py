from tests.support.reading import read_bundled_models_once

read_bundled_models_once()
