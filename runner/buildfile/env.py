"""``env``: the variables of all commands, or of one."""

from __future__ import annotations

import re

from runner.buildfile import pairs
from runner.core import variables
from runner.yamlfile import Fields

_REFERENCE = re.compile(r"\$(?:\w|\{)")


def read(fields: Fields) -> tuple[tuple[str, str], ...]:
    """Parse ``env``, a mapping or a list of ``NAME=value``; values are literal."""
    found = pairs.read(fields, "env", "a variable")
    for pair in found:
        where = f"{fields.name('env')}.{pair.name}"
        if why := variables.wrong_name(pair.name):
            fields.problems.error(f"{where} cannot be set: {why}", pair.place)
        elif pair.value is None:
            fields.problems.error(
                f"{where} has no value",
                pair.value_place,
                f'write `{pair.name}: ""` for an empty one;'
                f" `rai run -e {pair.name}` takes it from where you run that",
            )
        elif why := variables.wrong_value(pair.value):
            fields.problems.error(f"{where} cannot be set: {why}", pair.value_place)
        elif _REFERENCE.search(pair.value):
            fields.problems.warn(
                f"{where}: nothing is expanded in a value; `$` stays as it is written",
                pair.value_place,
                "a command can expand it: `NAME=$OTHER ./program`",
            )
    return tuple((pair.name, pair.value or "") for pair in found)
