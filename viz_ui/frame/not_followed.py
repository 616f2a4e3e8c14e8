"""What a model's files ask for where it writes, and what is not done here: said wherever it writes by itself."""

import viz_model as vm


def not_followed(model: vm.Model) -> str:
    """A sentence with the settings by name; "" where there are none."""
    names = model.writing_rules.not_followed
    if not names:
        return ""
    settings, tell, them = ("settings", "tell", "them") if len(names) > 1 else ("setting", "tells", "it")
    listed = " and ".join(filter(None, (", ".join(f"`{name}`" for name in names[:-1]), f"`{names[-1]}`")))
    return (
        f"The files of this model hold the {settings} {listed}, which {tell} a program how to write with this model. "
        f"The app ignores {them}, so other programs may write another text."
    )
