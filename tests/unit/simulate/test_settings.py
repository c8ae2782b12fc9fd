from math import inf

import pytest

from autotune.errors import SpaceError
from autotune.simulate.settings import JobSettings, settings_from


def test_nothing_set_is_the_stack_as_it_is() -> None:
    assert settings_from({}) == JobSettings(component="han")


def test_values_are_read_by_the_names_of_the_search_space() -> None:
    point = {
        "UCX_TLS": "self,sm,ud",
        "UCX_RNDV_THRESH_INTRA": "16k",
        "UCX_RNDV_THRESH_INTER": "inf",
        "UCX_ZCOPY_THRESH": 4096,
        "component": "hcoll",
        "mapping": "cyclic",
        "NPS": 2,
        "coll_tuned_allreduce_algorithm": "ring",
    }
    assert settings_from(point) == JobSettings(
        tls="self,sm,ud",
        rndv_intra_bytes=16384,
        rndv_inter_bytes=inf,
        zcopy_bytes=4096,
        component="hcoll",
        mapping="cyclic",
        numa_per_socket=2,
    )


def test_an_unknown_value_is_named() -> None:
    wrong = {"UCX_TLS": "rc", "component": "magic", "mapping": "random", "NPS": 3, "UCX_ZCOPY_THRESH": "big"}
    for name, value in wrong.items():
        with pytest.raises(SpaceError, match=str(value)):
            settings_from({name: value})
