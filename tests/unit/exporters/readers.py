"""Which row of a file is for a call, as the libraries that read it look it up, after their sources."""

from autotune_formats import ucc_grammar as ucc


def chosen_by_ucc(value, collective, message_bytes, team_size=0):
    """The algorithm that a map of scores gives to a call; empty: the component's own.

    ``collective`` is MPI's name, and ``message_bytes`` is counted as UCC does; later tokens win, as they
    overwrite what stands before them.
    """
    answer = ""
    for token in ucc.tokens(value):
        fits = not token.collectives or ucc.COLLECTIVES[collective].name in token.collectives
        in_team = not team_size or any(low <= team_size <= high for low, high in token.teams)
        if fits and in_team and any(low <= message_bytes < high for low, high in token.ranges):
            answer = token.algorithm or answer
    return answer


def holds(section, **team):
    """Whether a team of this ``team_size``, ``ppn`` and ``nnodes`` meets all that a section asks of them."""
    numbers = ((n, r) for n, r in section.conditions.items() if isinstance(r, tuple))
    return all(low <= team[name] <= high for name, (low, high) in numbers if name in team)
