"""Read the listings of ``ompi_info --parsable``, which describes an installation of Open MPI."""

import re


def components_in(text: str) -> dict[str, tuple[str, ...]]:
    """Return the components of each framework in a listing, each once and in the order of the listing."""
    components_of: dict[str, list[str]] = {}
    for framework, component in re.findall(r"^mca:(\w+):(\w+):version:", text, re.MULTILINE):
        components_of.setdefault(framework, []).append(component)
    return {framework: tuple(dict.fromkeys(names)) for framework, names in components_of.items()}
