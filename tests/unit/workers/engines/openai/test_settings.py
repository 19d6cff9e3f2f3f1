"""Settings of a server that are refused, and what no setting shows."""

from __future__ import annotations

import pytest

from contract import load_settings
from contract.errors import SettingsError
from contract.settings import OpenAiSettings
from tests.unit.workers.engines.openai.server import Script, serving, settings_for, started
from workers.engines import make_engine

pytestmark = pytest.mark.usefixtures("short_pauses")


def test_a_model_that_the_server_does_not_have_is_told_with_the_nearest_it_has() -> None:
    with serving(Script(chat=False, plain=False)) as url:
        engine = make_engine(settings_for(url, model="grater"))
        with pytest.raises(SettingsError, match="Did you mean 'grader'"):
            engine.start()
        engine.close()


def test_the_key_is_in_no_description_and_no_setting_that_is_shown() -> None:
    script = Script()
    with started(script, api_key="s3cret") as engine:
        assert "s3cret" not in f"{engine.describe()} {engine.settings!r} {engine.settings.model_dump()}"


@pytest.mark.parametrize(
    ("overrides", "says"),
    [
        (["engine=openai"], "asks one server: either openai.url and openai.model, or boot_local"),
        (["engine=openai", "boot_local=true", "openai.url=http://x", "openai.model=m"], "asks one server"),
        (["boot_local=true"], "boot_local has no effect with engine vllm"),
        (["engine=simulated", "boot_local=true"], "boot_local has no effect with engine simulated"),
        (["engine=openai", "openai.url=http://x"], "openai.url and openai.model belong together"),
        (["openai.url=http://u:s3cret@x", "openai.model=m"], "give the key as openai.api_key"),
        (["openai.url=u:s3cret@x", "openai.model=m"], "give the key as openai.api_key"),
        (["openai.url=x", "openai.model=m"], "expected http://host or https://host"),
        # Clients raise an error of their own for these, in `workers check` and at every request.
        (["openai.url=http://x:80a/v1", "openai.model=m"], "expected http://host or https://host"),
        (["openai.url=http://x:99999", "openai.model=m"], "expected http://host or https://host"),
        (["openai.url=http://[::1", "openai.model=m"], "expected http://host or https://host"),
        (['openai.url="http://x/v1\\n"', "openai.model=m"], "expected http://host or https://host"),
        (["openai.api_key=[s3cret]"], "api_key"),
        (["openai=s3cret"], "openai"),
    ],
)
def test_settings_that_cannot_be_are_refused_without_showing_a_key(overrides: list[str], says: str) -> None:
    with pytest.raises(SettingsError) as caught:
        load_settings(None, overrides)
    assert says in str(caught.value)
    assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize(
    ("url", "base"),
    [
        ("http://h:1", "http://h:1/v1"),
        ("http://h:1/", "http://h:1/v1"),
        ("http://h/v1/", "http://h/v1"),
        ("https://h/v1beta/openai", "https://h/v1beta/openai"),
    ],
)
def test_a_url_without_a_path_means_v1(url: str, base: str) -> None:
    assert OpenAiSettings(url=url, model="m").base_url == base
