"""How many callers the server takes at a time."""

from __future__ import annotations

import resource

from producer.http.serve import allow_callers


def test_it_may_open_as_many_files_as_the_system_lets() -> None:
    """Of 1,500 callers at a time, each of whom is one, all were refused under the usual limit of 1,024."""
    before, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(before, 1024), most))
        allow_callers()
        assert resource.getrlimit(resource.RLIMIT_NOFILE) == (most, most)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (before, most))
