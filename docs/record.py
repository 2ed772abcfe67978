"""Run a command in a terminal of 80 columns and draw what it shows, as docs/run.svg.

    RAI_HOME=/tmp/rai python docs/record.py rai run -p . --engine local

Of more lines than --lines the middle is left out. Needs pyte, of the extra `dev`.
"""

from __future__ import annotations

import argparse
import fcntl
import os
import pty
import re
import shlex
import struct
import sys
import termios
from collections.abc import Iterator, Sequence
from html import escape
from itertools import groupby
from pathlib import Path

import pyte
from pyte.screens import Char

WIDTH, MOST = 80, 2000
CELL, LINE, EDGE, BAR = 8.4, 19, 18, 34
DARK = "#0d1117"
TEXT, FAINT = "#d1d7e0", "#8b949e"
COLOURS = {
    "default": TEXT,
    "black": "#6e7681",
    "red": "#ff7b72",
    "green": "#56d364",
    "brown": "#e3b341",
    "blue": "#79c0ff",
    "magenta": "#d2a8ff",
    "cyan": "#56d4dd",
    "white": "#ffffff",
}
FONT = "ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace"

Row = list[Char]


def screen(command: Sequence[str]) -> tuple[list[Row], int]:
    """Run a command in a terminal; return the lines that it shows, and its status."""
    environ = {k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "CI")}
    environ |= {"TERM": "xterm-256color", "COLUMNS": str(WIDTH)}
    pid, terminal = pty.fork()
    if pid == 0:
        try:
            os.execvpe(command[0], list(command), environ)
        except OSError as error:
            print(f"{command[0]}: {error.strerror}", file=sys.stderr)
            os._exit(127)
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 50, WIDTH, 0, 0))
    shown = pyte.Screen(WIDTH, MOST)
    stream = pyte.ByteStream(shown)
    while data := _read(terminal):
        stream.feed(data)
    _, status = os.waitpid(pid, 0)
    rows = [[shown.buffer[y][x] for x in range(WIDTH)] for y in range(MOST)]
    while rows and not _text(rows[-1]):
        rows.pop()
    return rows, os.waitstatus_to_exitcode(status)


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 1 << 16)
    except OSError:  # Linux's way of telling that the program has ended
        return b""


def _text(row: Row) -> str:
    return "".join(char.data for char in row).rstrip()


def svg(prompt: str, rows: Sequence[Row], most: int) -> str:
    """Return a picture; of more than ``most`` lines it has the first and the last."""
    lines = [_line(f"$ {prompt}", TEXT)]
    if len(rows) > most:
        first = most // 2
        last = most - first - 1
        left_out = f"… {len(rows) - first - last} more lines"
        lines += [_spans(row) for row in rows[:first]]
        lines += [_line(left_out, FAINT)]
        lines += [_spans(row) for row in rows[len(rows) - last :]]
    else:
        lines += [_spans(row) for row in rows]
    width = WIDTH * CELL + 2 * EDGE
    height = len(lines) * LINE + BAR + EDGE
    dots = "".join(
        f'<circle cx="{EDGE + 4 + 18 * n}" cy="17" r="5.5" fill="{colour}"/>'
        for n, colour in enumerate(("#ff5f57", "#febc2e", "#28c840"))
    )
    drawn = "\n".join(
        f'<g transform="translate({EDGE} {BAR + (n + 1) * LINE - 5})">{line}</g>'
        for n, line in enumerate(lines)
        if line
    )
    return f"""\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" \
width="{width:g}" role="img" aria-label="{escape(prompt)}">
<style>text{{font-family:{FONT};font-size:14px}}</style>
<rect width="100%" height="100%" rx="8" fill="{DARK}"/>
<rect x=".5" y=".5" width="{width - 1:g}" height="{height - 1:g}" rx="8" fill="none" \
stroke="#30363d"/>
{dots}
{drawn}
</svg>
"""


def _spans(row: Row) -> str:
    """Return a line's texts: one for all words beside each other, painted alike."""
    drawn, column = [], 0
    for (colour, bold), chars in groupby(_ended(row), lambda c: (c.fg, c.bold)):
        cells = list(chars)
        fill = COLOURS.get(colour.removeprefix("bright"), f"#{colour}")
        # A picture does not keep several spaces, so what follows them stands alone.
        for first, last in _words(cells):
            text = "".join(char.data for char in cells[first:last])
            drawn.append(_line(text, fill, column + first, last - first, bold=bold))
        column += len(cells)
    return "".join(drawn)


def _words(cells: Row) -> Iterator[tuple[int, int]]:
    """Yield where texts without two spaces in a row begin and end."""
    marks = "".join("x" if char.data != " " else " " for char in cells)
    return (found.span() for found in re.finditer(r"x+( x+)*", marks))


def _ended(row: Row) -> Iterator[Char]:
    last = max((x for x, char in enumerate(row) if char.data.strip()), default=-1)
    # What follows a wide character has no text.
    end = last + 1 + (last + 1 < len(row) and not row[last + 1].data)
    return iter(row[:end])


def _line(
    text: str,
    fill: str,
    column: int = 0,
    cells: int | None = None,
    *,
    bold: bool = False,
) -> str:
    """Return a text that takes its columns with whatever font there is."""
    width = (len(text) if cells is None else cells) * CELL
    weight = ' font-weight="bold"' if bold else ""
    place = f' x="{column * CELL:g}"' if column else ""
    return (
        f'<text{place} textLength="{width:g}" lengthAdjust="spacingAndGlyphs"'
        f' fill="{fill}"{weight}>{escape(text)}</text>'
    )


def main() -> int:
    """Record, write the picture, and return the command's status."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--out", type=Path, default=Path(__file__).with_name("run.svg"))
    parser.add_argument("--lines", type=int, default=38, help="the most that are drawn")
    parser.add_argument("--prompt", help="the command line that is drawn")
    parser.add_argument("command", nargs=argparse.REMAINDER)
    given = parser.parse_args()
    if not given.command:
        parser.error("name a command")
    rows, status = screen(given.command)
    prompt = given.prompt or shlex.join(given.command)
    given.out.write_text(svg(prompt, rows, given.lines))
    print(f"{given.out}: {len(rows)} lines; the command's status is {status}")
    return status


if __name__ == "__main__":
    sys.exit(main())
