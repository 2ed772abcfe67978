"""What a program printed, within bounds that a browser shows at once."""

from __future__ import annotations

from msgspec.structs import replace

from runner.report.blocks import ProgramOutput

MOST_CHARACTERS = 128 << 10
LONGEST_LINE = 4096


def bounded(output: ProgramOutput) -> ProgramOutput:
    """Return an output with its middle, and the ends of long lines, left out."""
    text, left_out = output.text, output.left_out
    if len(text) > MOST_CHARACTERS:
        half = MOST_CHARACTERS // 2
        middle = text[half : len(text) - half]
        left_out += _size(middle)
        text = f"{text[:half]}\n…\n{text[len(text) - half :]}"
    lines = text.split("\n")
    for place, line in enumerate(lines):
        if len(line) > LONGEST_LINE:
            left_out += _size(line[LONGEST_LINE:])
            lines[place] = f"{line[:LONGEST_LINE]} …"
    return replace(output, text="\n".join(lines), left_out=left_out)


def _size(text: str) -> int:
    return len(text.encode(errors="surrogatepass"))
