"""Draw the pictures of docs/kernels/ that show how a kernel works.

python tools/kernel_pictures.py
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT)]

from runner.report.pictures import STYLE  # noqa: E402  # of the folder above

FOLDER = ROOT / "docs" / "kernels"
FONT = "system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', sans-serif"
MORE_STYLE = """rect, text { fill: currentColor; }
rect { stroke: currentColor; fill-opacity: 0.25; }
path { stroke: currentColor; }"""
OPACITY = 0.25


@dataclass
class Drawing:
    """Boxes, words and arrows; ``look`` is a class of the reports' style."""

    title: str
    width: int
    height: int
    parts: list[str] = field(default_factory=list)

    def words(
        self, x: float, y: float, text: str, look: str = "ink", anchor: str = "start"
    ) -> None:
        """Write a line whose baseline begins, is centred or ends at a point."""
        self.parts.append(
            f'<text class="{look}" x="{x:g}" y="{y:g}" text-anchor="{anchor}">{text}'
            "</text>"
        )

    def box(
        self,
        place: tuple[float, float, float, float],
        look: str,
        text: str = "",
        opacity: float = OPACITY,
    ) -> None:
        """Draw a box, left, top, width and height, with a text in its middle."""
        x, y, width, height = place
        style = "" if opacity == OPACITY else f' style="fill-opacity:{opacity:g}"'
        self.parts.append(
            f'<rect class="{look}" x="{x:g}" y="{y:g}" width="{width:g}" '
            f'height="{height:g}"{style}/>'
        )
        if text:
            self.words(x + width / 2, y + height / 2 + 4.5, text, anchor="middle")

    def arrow(
        self, start: tuple[float, float], end: tuple[float, float], dashed: bool = False
    ) -> None:
        """Draw an arrow."""
        (a, b), (c, d) = start, end
        dashes = ' stroke-dasharray="4 3"' if dashed else ""
        self.parts.append(
            f'<path class="faint" d="M{a:g} {b:g}L{c:g} {d:g}" '
            f'marker-end="url(#head)"{dashes}/>'
        )

    def svg(self) -> str:
        """Return the picture as the text of a file."""
        head = (
            f'<svg xmlns="http://www.w3.org/2000/svg" class="rai-picture" '
            f'viewBox="0 0 {self.width} {self.height}" width="{self.width}" '
            f'height="{self.height}" role="img" font-family="{FONT}" font-size="13">'
        )
        arrow = (
            '<marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" '
            'markerHeight="7" orient="auto"><path class="faint" d="M0 0L8 4L0 8z" '
            'fill="currentColor"/></marker>'
        )
        paper = (
            f'<rect class="paper" width="{self.width}" height="{self.height}" '
            'style="fill-opacity:1"/>'
        )
        title = f"<title>{self.title}</title>"
        style = f"<style>{STYLE.strip()}\n{MORE_STYLE}</style>"
        lines = (head, title, style, f"<defs>{arrow}</defs>", paper, *self.parts)
        return "\n".join((*lines, "</svg>\n"))


def toeplitz() -> Drawing:
    """Draw the product of one row of the window, for K = 5."""
    d = Drawing("A Toeplitz product: weights at four shifts times pixels", 900, 452)
    side, top, left, right = 20, 148, 60, 426
    d.words(
        left, 24, "A row of the image. Column j of the operand is pixels 4j to 4j + 7."
    )
    for pixel in range(36):
        look = "s0" if pixel < 8 else "s1" if pixel >= 28 else "s6"
        d.box((left + pixel * side, 52, side, side), look, str(pixel))
    for j, y in ((0, 46), (1, 90), (6, 46), (7, 90)):
        x = left + 4 * j * side
        d.parts.append(f'<path class="faint" d="M{x + 2} {y}H{x + 8 * side - 2}"/>')
        d.words(
            x + 4 * side, y + (-4 if y < 52 else 14), f"column {j}", "faint", "middle"
        )
    d.words(left, top - 12, "weights: 4 maps x 4 shifts, 8 deep")
    for row in range(16):
        m, shift = divmod(row, 4)
        for depth in range(8):
            tap = depth - shift
            text = str(tap) if 0 <= tap < 5 else ""
            place = (left + depth * side, top + row * side * 0.9, side, side * 0.9)
            d.box(place, f"s{(0, 1, 3, 5)[m]}" if text else "grid", text)
        if shift == 0:
            d.words(left - 8, top + (row + 2) * side * 0.9 + 4, f"m{m}", "faint", "end")
    d.words(left + 8 * side + 24, top + 150, "x", anchor="middle")
    d.words(right - 120, top - 12, "pixels: 8 deep, 8 columns")
    for depth in range(8):
        for j in range(8):
            look = "s0" if j == 0 else "s1" if j == 7 else "s6"
            place = (right - 120 + j * 26, top + depth * side, 26, side)
            d.box(place, look, str(4 * j + depth))
    d.words(right + 116, top + 150, "=", anchor="middle")
    d.words(right + 150, top - 12, "outputs: 4 maps x 4 shifts, 8 columns")
    for row in range(16):
        m, shift = divmod(row, 4)
        for j in range(8):
            place = (right + 150 + j * 26, top + row * side * 0.9, 26, side * 0.9)
            d.box(place, f"s{(0, 1, 3, 5)[m]}", str(4 * j + shift))
    d.words(right - 120, top + 200, "The same registers of pixels serve")
    d.words(right - 120, top + 218, "all 4 maps and, as the window moves")
    d.words(right - 120, top + 236, "down, K output rows.")
    return d


def schedule(images: int, groups: int) -> Iterator[tuple[str, str, int, float, float]]:
    """Yield what each role does, on which place, from when until when."""
    load, multiply, store = 118.0, 58.0, 50.0
    loaded = multiplied = stored = 0.0
    read: list[float] = []  # when the products with an image end
    copied: list[float] = []  # when a plane is in y
    for n in range(images):
        begin = max(loaded, read[n - 2] if n > 1 else 0)
        loaded = begin + load
        yield "load", f"image {n}", n % 2, begin, loaded
        for g in range(groups):
            item = n * groups + g
            free = copied[item - 2] if item > 1 else 0
            begin = max(multiplied, loaded, free)
            multiplied = begin + multiply
            yield "multiply", f"{n}.{g}", item % 2, begin, multiplied
            begin = max(stored, multiplied)
            stored = begin + store
            copied.append(stored)
            yield "store", f"{n}.{g}", item % 2, begin, stored
        read.append(multiplied)


def roles() -> Drawing:
    """Draw the roles of a block's warps over time."""
    d = Drawing(
        "The warps of a block over time, and the barriers between them", 900, 300
    )
    lanes = {"load": 60, "multiply": 140, "store": 220}
    names = {
        "load": "3 warps load",
        "multiply": "12 warps multiply",
        "store": "1 thread stores",
    }
    left, high = 136, 36
    for role, y in lanes.items():
        d.words(12, y + high / 2 + 5, names[role])
    ends: dict[tuple[str, str], float] = {}
    for role, what, place, begin, end in schedule(4, 3):
        if left + end > 890:
            continue
        box = (left + begin, lanes[role], end - begin, high)
        d.box(box, f"s{place if role == 'load' else 3 + 2 * place}", what)
        ends[role, what] = end
        if role == "multiply" and what.endswith(".0"):
            image = f"image {what[0]}"
            at = left + ends["load", image]
            d.arrow((at, 60 + high), (max(at, left + begin) + 3, 140))
        if role == "store":
            at = left + ends["multiply", what]
            d.arrow((at, 140 + high), (max(at, left + begin) + 3, 220))
        if role == "load" and what in {"image 2", "image 3"}:
            free = f"{int(what[-1]) - 2}.2"
            at = left + ends["multiply", free]
            d.arrow((at, 140), (left + begin + 4, 60 + high + 1), dashed=True)
    d.words(
        left,
        30,
        "colours: the two slots of images, the two stages of planes; 1.2: image 1, "
        "group 2 of 4 maps",
    )
    d.words(
        left,
        282,
        "whole arrows: the place is full (every giver arrives); dashed: the slot is "
        "empty (every taker arrives); so for stages",
        "faint",
    )
    return d


def ring() -> Drawing:
    """Draw which output rows an input row is added to, for K = 5."""
    d = Drawing("A ring of output rows: what an input row is added to", 900, 330)
    left, top, wide, high = 150, 66, 72, 38
    looks = ("s0", "s1", "s3", "s5", "s4")
    d.words(left, 24, "input row, one product of 64 pixels x (5 x 24 maps): read once")
    for row in range(10):
        d.words(left + row * wide + wide / 2, 52, f"x{row}", anchor="middle")
        for slot in range(5):
            output = row - (row - slot) % 5
            if output < 0:
                continue
            last = row - output == 4
            place = (left + row * wide, top + slot * high, wide - 3, high - 3)
            text = f"y{output} += k{row - output}"
            d.box(place, looks[slot], text, 0.6 if last else 0.2)
    for slot in range(5):
        d.words(left - 10, top + slot * high + 23, f"accumulator {slot}", anchor="end")
    d.words(
        left,
        282,
        "dark: the row is complete. It goes to a ring of rows in shared memory, "
        "from which bulk copies store it,",
    )
    d.words(
        left,
        300,
        "and its accumulator begins the row five further down. y2 += k1: row 1 of "
        "the weights, all columns and channels.",
    )
    return d


def bands() -> Drawing:
    """Draw how 100 images of 29 output rows are cut into bands of 22."""
    d = Drawing("The output rows of all images, cut into equal bands", 900, 312)
    left, scale = 20, 7.4
    d.words(left, 24, "output rows of the images, one after the other: 100 x 29 rows")
    for image in range(4):
        wide = min(29.0, 116 - 29 * image) * scale
        d.box((left + 29 * image * scale, 36, wide, 30), "s6", f"image {image}")
    d.words(left, 96, "bands of 22 rows, one for each of 132 multiprocessors")
    for band in range(6):
        rows = min(22, 116 - 22 * band)
        look = "s3" if band == 1 else "s0"
        text = f"block {band}" if rows == 22 else ".."
        d.box((left + 22 * band * scale, 108, rows * scale, 30), look, text)
    d.words(
        left,
        180,
        "block 1 computes rows 22 to 28 of image 0 and rows 0 to 14 of image 1, and "
        "loads what they depend on:",
    )
    d.box((left, 194, 11 * 18, 30), "s6", "x rows 22 to 32 of image 0")
    d.box((left + 11 * 18 + 8, 194, 19 * 18, 30), "s6", "x rows 0 to 18 of image 1")
    d.box((left, 240, 7 * 18, 30), "s3", "7 rows of y")
    d.box((left + 11 * 18 + 8, 240, 15 * 18, 30), "s3", "15 rows of y")
    d.words(
        left,
        296,
        "All loads are started at once; every block has the same work, and there is "
        "one round of blocks.",
        "faint",
    )
    return d


def addresses() -> Drawing:
    """Draw how the operand of a tap is found, for an image of 33 columns."""
    d = Drawing("The window moves by an address", 900, 372)
    left, top, side = 20, 66, 19
    d.words(
        left,
        24,
        "A pixel is a unit of 16 bytes: 8 channels as halves. The rows of an image "
        "follow each other.",
    )
    d.words(
        left,
        42,
        "tile: 64 units from a pixel on (blue); tap (1, 1): the 64 units that begin "
        "33 + 1 units further (pink)",
        "faint",
    )
    first, shift = 8, 34
    for pixel in range(4 * 33):
        row, column = divmod(pixel, 33)
        look, opacity = "grid", 0.2
        if first <= pixel < first + 64:
            look, opacity = "s0", 0.25
        if first + shift <= pixel < first + shift + 64:
            look, opacity = "s3", 0.5 if look == "s0" else 0.2
        d.box((left + column * side, top + row * side, side, side), look, "", opacity)
    d.words(left + 33 * side + 12, top + 14, "x row 0")
    d.words(left + 33 * side + 12, top + 3 * side + 14, "x row 3")
    d.words(left, 174, "one step of wgmma: two taps")
    d.box((left, 188, 130, 120), "s3", "pixels, tap (1, 1)")
    d.box((left + 134, 188, 130, 120), "s1", "pixels, tap (1, 2)")
    d.words(left + 284, 250, "x")
    d.box((left + 308, 188, 180, 58), "s5", "tap (1, 1): k high, k low")
    d.box((left + 308, 250, 180, 58), "s4", "tap (1, 2): k high, k low")
    d.words(left + 500, 250, "=")
    d.box((left + 524, 188, 90, 120), "s0", "high high")
    d.box((left + 618, 188, 90, 120), "s6", "high low")
    d.words(left + 524, 328, "64 pixels x 24 maps each, in registers", "faint")
    d.words(left, 328, "8 + 8 channels deep, in shared memory", "faint")
    d.words(
        left,
        356,
        "Low halves of x times the high ones of k are a second product, 24 columns "
        "wide. y = high high + (high low + low high) / 2048.",
    )
    return d


PICTURES = {
    "toeplitz": toeplitz,
    "roles": roles,
    "wgmma_split": addresses,
    "best_split": ring,
    "best_small": bands,
}


def drawn() -> dict[Path, str]:
    """Return the text of each picture by its path."""
    return {FOLDER / f"{name}.svg": draw().svg() for name, draw in PICTURES.items()}


if __name__ == "__main__":
    for path, text in drawn().items():
        path.write_text(text, encoding="utf-8")
