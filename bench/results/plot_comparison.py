#!/usr/bin/env python3
"""Draws docs/pictures/comparison.svg from the comparison table of README.md, so that the picture always shows the table.

    python3 bench/results/plot_comparison.py [OUTPUT.svg]
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
WIDTH, ROW, LEFT, GAP, TOP = 980, 34, 410, 40, 64
PLIMSOLL, TRAINER, TEXT = "#1f77b4", "#c9ced6", "#24292f"


def rows():
    """Returns a tuple (name, speed ratio, Plimsoll's MiB, Trainer's MiB) for each row of README.md's comparison table."""
    found = []
    for line in (ROOT / "README.md").read_text().splitlines():
        cells = [cell.strip() for cell in line.split("|")[1:-1]]
        if len(cells) == 7 and re.fullmatch(r"[\d.]+x", cells[3]):
            found.append((cells[0], float(cells[3][:-1]), float(cells[4].split()[0]), float(cells[5])))
    if not found:
        sys.exit("plot_comparison: README.md has no comparison table")
    return found


def text(x, y, words, anchor="start", size=12, weight="normal"):
    return (f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" font-weight="{weight}" text-anchor="{anchor}" '
            f'fill="{TEXT}">{words}</text>')


def bar(x, y, width, height, color):
    return f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height}" fill="{color}"/>'


def picture(table):
    panel = (WIDTH - LEFT - GAP - 20) / 2
    memory_x, speed_x = LEFT, LEFT + panel + GAP
    top_speed = max(row[1] for row in table)
    height = TOP + ROW * len(table) + 12
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}" '
             'font-family="Helvetica, Arial, sans-serif">', bar(0, 0, WIDTH, height, "#ffffff"),
             text(memory_x, 22, "Memory, Trainer = 100 %", weight="bold"),
             text(speed_x, 22, "Speed, Trainer = 1", weight="bold"),
             bar(memory_x, 34, 12, 12, PLIMSOLL), text(memory_x + 17, 44.5, "Plimsoll"),
             bar(memory_x + 84, 34, 12, 12, TRAINER), text(memory_x + 101, 44.5, "Trainer")]
    for i, (work, speed, held, trainer) in enumerate(table):
        y = TOP + ROW * i
        bar_space = panel - 60
        parts += [text(LEFT - 12, y + 17, work, "end", 11.5),
                  bar(memory_x, y + 2, bar_space * held / trainer, 11, PLIMSOLL),
                  text(memory_x + bar_space * held / trainer + 5, y + 12, f"{100 * held / trainer:.0f} %", size=11),
                  bar(memory_x, y + 14, bar_space, 8, TRAINER),
                  bar(speed_x, y + 2, bar_space * speed / top_speed, 11, PLIMSOLL),
                  text(speed_x + bar_space * speed / top_speed + 5, y + 12, f"{speed:.3g}", size=11),
                  bar(speed_x, y + 14, bar_space / top_speed, 8, TRAINER)]
    return "\n".join(parts + ["</svg>"]) + "\n"


if __name__ == "__main__":
    target = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "docs/pictures/comparison.svg"
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(picture(rows()))
