"""`rai config`."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Annotated

import typer
from msgspec import Struct

from runner.cli import common, suggestions
from runner.core import LIMITS
from runner.core.errors import UsageError
from runner.core.policy import Policy
from runner.execution.prepare import NONE_GIVEN, Options
from runner.store import policy
from runner.store import settings as stored
from runner.terminal.streams import say

DEFAULT = "default"


def config(
    key: Annotated[
        str | None,
        typer.Argument(
            metavar="[KEY]",
            help="Only this setting's value.",
            show_default=False,
            autocompletion=suggestions.settings,
        ),
    ] = None,
    show_origin: Annotated[
        bool,
        typer.Option(
            "--show-origin",
            help="Show where each value comes from, and what the site's policy says.",
        ),
    ] = False,
    engine: common.Engine = None,
    profile: common.Profile = None,
    as_json: common.JsonFlag = False,
) -> None:
    """List the settings, each with its value.

    The origin of a value is an option, a variable, a file and its line, or the default.
    """
    options = Options(engine=engine, profile=profile)
    found = listed(options)
    if show_origin or as_json or (key or "").startswith("policy."):
        found += tuple(_of_policy(policy.read()))
    if key is not None:
        found = tuple(entry for entry in found if entry.key == key)
        if not found:
            text = f"there is no setting {key!r}; `rai config` lists all"
            raise UsageError(text)
    if as_json:
        common.print_json(found)
        return
    for entry in found:
        line = f"{entry.key}={entry.value}" if key is None else entry.value
        say(f"{entry.origin}\t{line}" if show_origin else line)


class ConfigEntry(Struct, frozen=True):
    """One line of a configuration: its key, its value as text, and what says it."""

    key: str
    value: str
    origin: str


def listed(options: Options = NONE_GIVEN) -> tuple[ConfigEntry, ...]:
    """List the settings in their order, then the images in place of others.

    Raises:
        ConfigError: a file, a variable or an option is wrong; carries all problems.
    """
    files = stored.settings_files()
    found = stored.find(os.environ, files, options.settings)
    values = {s.key: s.of(found.settings) for s in stored.SETTINGS}
    rules = (
        ConfigEntry(f"{stored.IMAGES}.{r.pattern}", r.image, policy.origin(r.place))
        for r in found.settings.images
    )
    return (*_entries(values, found.origins), *rules)


def _entries(
    values: Mapping[str, object], origins: Mapping[str, str]
) -> Iterator[ConfigEntry]:
    for setting in stored.SETTINGS:
        text = stored.written(setting, values[setting.key])
        yield ConfigEntry(setting.key, text, origins.get(setting.key, DEFAULT))


def _of_policy(rules: Policy) -> Iterator[ConfigEntry]:
    """List what the site's policy says, each key beginning with `policy.`."""
    for limit in LIMITS:
        if ceiling := rules.ceilings.get(limit.field):
            text = limit.kind.write(ceiling.most)
            where = policy.origin(ceiling.place)
            yield ConfigEntry(f"policy.limits.{limit.key}", text, where)
    for key, text, place in (
        ("profile", "strict", rules.strict),
        ("strict_limits", "true", rules.strict_limits),
    ):
        if place:
            yield ConfigEntry(f"policy.{key}", text, policy.origin(place))
    lists = [("images", names) for names in rules.images]
    for key, names in (*lists, ("data", rules.data_hosts)):
        if names:
            text = ", ".join(names.patterns)
            yield ConfigEntry(f"policy.{key}", text, policy.origin(names.place))
    for one in rules.private:
        yield ConfigEntry("policy.private", one.name, policy.origin(one.place))
