"""Read the options by which `rai history` chooses, sorts and shows runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path

from msgspec import Struct

from runner.cli.corrections import alike
from runner.core import Problem, Reason, moments
from runner.core.errors import UsageError
from runner.store.query import RunOrder, RunQuery

FORMATS = ("table", "json", "csv")
FAILED = "failed"
"""Stands for every reason but these."""
NOT_FAILED = frozenset({Reason.DONE, Reason.CANCELLED})


class HistoryForm(Struct, frozen=True):
    """The options that say how runs are shown, as they were given."""

    sort: str
    reverse: bool
    as_format: str | None
    as_json: bool
    plot: bool
    output: Path | None


class HistoryChoice(Struct, frozen=True):
    """Which runs are wanted, in which order and form."""

    query: RunQuery
    by: RunOrder
    reverse: bool
    form: str
    drawn: bool


def chosen(
    given: Mapping[str, str | None], reasons: Sequence[str], shown: HistoryForm
) -> HistoryChoice:
    """Return what the options ask for.

    Raises:
        UsageError: some are wrong, or contradict; carries all of these problems.
    """
    problems: list[Problem] = []
    for name, value in given.items():
        if value == "":
            problems.append(Problem(f"--{name} is empty"))
    now = datetime.now().astimezone()
    since, until = (_moment(name, given[name], now, problems) for name in _BOUNDS)
    if since is not None and until is not None and since >= until:
        problems.append(
            Problem(
                f"no run began since {given['since']} and before {given['until']}",
                hint="--since names the earlier time",
            )
        )
    found = [_reasons(word, problems) for word in reasons]
    by = _one_of("--sort", shown.sort, [*RunOrder], problems)
    form = _form(shown, problems)
    _check_plot(shown, problems)
    if problems:
        raise UsageError(*problems)
    query = RunQuery(
        active=False,
        branch=given["branch"],
        tag=given["tag"],
        reasons=frozenset[Reason]().union(*found),
        since=since,
        until=until,
        command=given["command"],
        **_project(given["project"]),
    )
    return HistoryChoice(query, RunOrder(by), shown.reverse, form, shown.plot)


_BOUNDS = ("since", "until")


def _moment(
    name: str, text: str | None, now: datetime, problems: list[Problem]
) -> float | None:
    found = moments.moment(text, now) if text else None
    if text and found is None:
        problems.append(Problem(f"--{name} {text!r} is not a time: {moments.EXAMPLES}"))
    return found


def _reasons(word: str, problems: list[Problem]) -> frozenset[Reason]:
    name = word.strip().lower().replace("-", "_").replace(" ", "_")
    if name == FAILED:
        return frozenset(Reason) - NOT_FAILED
    _one_of("--reason", name, [*Reason, FAILED], problems)
    return frozenset(reason for reason in Reason if reason.value == name)


def _one_of(
    option: str, word: str, words: Sequence[str], problems: list[Problem]
) -> str:
    """Return a word; add a problem if it is none of these."""
    if word not in words:
        meant = [f"`{one}`" for one in alike(word, words)] if word else []
        offered = f"did you mean {' or '.join(meant)}?" if meant else ""
        every = f"one of {', '.join(words)}"
        text = f"{option} is {word!r}; expected {every}"
        problems.append(Problem(text, hint=offered))
        return words[0]
    return word


def _form(shown: HistoryForm, problems: list[Problem]) -> str:
    form = shown.as_format or ("json" if shown.as_json else "table")
    if shown.as_json and form != "json":
        problems.append(Problem(f"--json contradicts --format {form}"))
    return _one_of("--format", form, FORMATS, problems)


def _check_plot(shown: HistoryForm, problems: list[Problem]) -> None:
    if shown.output is not None and not shown.plot:
        problems.append(Problem("-o is the file of a plot", hint="add --plot"))
    if shown.output is not None and shown.output.suffix.lower() != ".svg":
        text = f"-o {shown.output}: a plot is drawn as SVG"
        problems.append(Problem(text, hint="give a file whose name ends with .svg"))
    if shown.plot and (shown.as_json or shown.as_format):
        text = "--plot draws a picture; --format and --json list the runs"
        problems.append(Problem(text, hint="give one of them"))
    if shown.plot and (shown.sort != RunOrder.WHEN or shown.reverse):
        text = "--plot draws commits in the order of time"
        problems.append(Problem(text, hint="leave out --sort and --reverse"))


def _project(text: str | None) -> dict[str, str]:
    """Return the project's path if a folder is given, else the word of its name."""
    if not text:
        return {}
    if text in (".", "..") or "/" in text:
        return {"project": str(Path(text).resolve())}
    return {"project_word": text}
