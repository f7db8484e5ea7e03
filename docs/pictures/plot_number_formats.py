#!/usr/bin/env python3
"""Draws docs/pictures/number_formats.svg: the bits of fp32, tf32, fp16 and bf16, with the range and the precision that follow from them.

    python3 docs/pictures/plot_number_formats.py [OUTPUT.svg]
"""
import pathlib
import sys

# Name, bits of the exponent, bits of the mantissa, and how many bits a number takes in memory.
FORMATS = (("fp32", 8, 23, 32), ("tf32", 8, 10, 32), ("fp16", 5, 10, 16), ("bf16", 8, 7, 16))
WIDTH, ROW, LEFT, TOP, CELL = 800, 74, 64, 52, 18
SIGN, EXPONENT, MANTISSA, UNUSED, TEXT = "#c9ced6", "#2ca02c", "#1f77b4", "#ffffff", "#24292f"
SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def largest(exponent, mantissa):
    """Returns the largest finite number."""
    return (2.0 - 2.0**-mantissa) * 2.0 ** (2 ** (exponent - 1) - 1)


def smallest_normal(exponent):
    return 2.0 ** (2 - 2 ** (exponent - 1))


def number(value):
    """Formats a number with three digits, as 3.40 x 10^38."""
    if 1e-3 <= value < 1e6:
        return f"{value:.0f}"
    digits, power = f"{value:.2e}".split("e")
    return f"{digits} × 10{str(int(power)).translate(SUPERSCRIPTS)}"


def text(x, y, words, anchor="start", size=12, weight="normal", color=TEXT):
    return (f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" font-weight="{weight}" text-anchor="{anchor}" '
            f'fill="{color}">{words}</text>')


def cells(x, y, count, color, dash=""):
    return "".join(f'<rect x="{x + CELL * i}" y="{y}" width="{CELL}" height="24" fill="{color}" stroke="{TEXT}" '
                   f'stroke-width="0.8"{dash}/>' for i in range(count))


def legend(x, color, words, dash=""):
    return (f'<rect x="{x}" y="16" width="12" height="12" fill="{color}" stroke="{TEXT}" stroke-width="0.8"{dash}/>' +
            text(x + 18, 26.5, words))


def row(index, name, exponent, mantissa, stored):
    y = TOP + ROW * index
    unused = stored - 1 - exponent - mantissa
    steps = -mantissa
    facts = (f"largest {number(largest(exponent, mantissa))}, smallest normal {number(smallest_normal(exponent))}, "
             f"step at 1: 2{str(steps).translate(SUPERSCRIPTS)} (about {mantissa * 0.30103 + 0.30103:.1f} decimal digits)")
    parts = [text(LEFT - 12, y + 17, name, "end", 14, "bold"), cells(LEFT, y, 1, SIGN),
             cells(LEFT + CELL, y, exponent, EXPONENT), cells(LEFT + CELL * (1 + exponent), y, mantissa, MANTISSA),
             text(LEFT + CELL * (1 + exponent / 2), y + 17, str(exponent), "middle", 13, "bold", "#ffffff"),
             text(LEFT + CELL * (1 + exponent + mantissa / 2), y + 17, str(mantissa), "middle", 13, "bold", "#ffffff"),
             text(LEFT, y + 42, facts, size=11.5)]
    if unused > 0:
        parts.append(cells(LEFT + CELL * (1 + exponent + mantissa), y, unused, UNUSED, ' stroke-dasharray="2 2"'))
    parts.append(text(LEFT + CELL * 32 + 16, y + 17, f"{stored // 8} bytes in memory"))
    return parts


def picture():
    height = TOP + ROW * len(FORMATS)
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}" '
             'font-family="Helvetica, Arial, sans-serif">', f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>',
             legend(LEFT, SIGN, "sign"), legend(LEFT + 80, EXPONENT, "exponent: the range"),
             legend(LEFT + 250, MANTISSA, "mantissa: the precision"),
             legend(LEFT + 440, UNUSED, "stored, but not multiplied", ' stroke-dasharray="2 2"')]
    for index, values in enumerate(FORMATS):
        parts += row(index, *values)
    return "\n".join(parts + ["</svg>"]) + "\n"


if __name__ == "__main__":
    target = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else pathlib.Path(__file__).with_name("number_formats.svg")
    target.write_text(picture(), encoding="utf-8")
