#!/usr/bin/env python3
"""Draws docs/internals/architecture.svg: which top folder includes which and, within each, the folders in the order
that scripts/check_includes.py holds. A folder includes those below it in its column; core/cpu and core/cuda also include the
first column of core.

usage: draw_architecture.py            writes the file
       draw_architecture.py --check    exit code 1 when the file is not what would be written
"""
import html
import pathlib
import sys

import check_includes

TARGET = check_includes.ROOT / "docs/internals/architecture.svg"
WIDTH, MARGIN, GAP, LINE, TITLE, CHARACTER = 960, 24, 34, 30, 34, 7.0
# Top to bottom; folders of one row do not include each other.
ROWS = [["apps"], ["train"], ["layers", "optim", "data"], ["core"]]
COLUMN_SHARES = [0.38, 0.18, 0.44]  # of core's width
FILLS = {"apps": "#e8eefc", "train": "#e3f4ea", "layers": "#fdf3dc", "optim": "#fdf3dc", "data": "#fdf3dc",
         "core": "#fbe6e4"}


def owners_of(words):
    """For each word of a line of ORDER the last one without brackets."""
    owner = ""
    for word in words:
        owner = owner if word.startswith("(") else word
        yield owner


def columns_of(top):
    """Lines of ORDER, highest first, as lists of names without the top folder's; core/cpu and core/cuda apart."""
    columns = {"": [], "cpu": [], "cuda": []}
    for line in reversed(check_includes.ORDER[top].strip().splitlines()):
        words = line.split()
        names = [check_includes.full_name(word, owner).removeprefix(top).strip("/")
                 for word, owner in zip(words, owners_of(words))]
        device = names[0].split("/")[0] if top == "core" else ""
        columns[device if device in columns else ""].append(names)
    return [column for column in columns.values() if column]


def rows_of(column, width, top):
    """Rows of (label, width), broken where they are too wide."""
    rows = []
    for names in column:
        row, used = [], 0.0
        for name in names:
            label = name or f"{top}/"
            wide = CHARACTER * len(label) + 26
            if row and used + wide > width:
                rows.append(row)
                row, used = [], 0.0
            row.append((label, wide))
            used += wide
        rows.append(row)
    return rows


def text(x, y, label, size=13, weight="normal", anchor="start"):
    return (f'<text x="{x:.0f}" y="{y:.0f}" font-size="{size}" font-weight="{weight}" '
            f'text-anchor="{anchor}">{html.escape(label)}</text>')


def draw():
    out, y, boxes = [], MARGIN, {}
    for row in ROWS:
        width = (WIDTH - 2 * MARGIN - GAP * (len(row) - 1)) / len(row)
        inside = {}
        for top in row:
            columns = columns_of(top)
            shares = COLUMN_SHARES if len(columns) > 1 else [1.0]
            inside[top] = [(rows_of(column, share * (width - 24), top), share)
                           for column, share in zip(columns, shares)]
        height = TITLE + LINE * max(len(rows) for columns in inside.values() for rows, _ in columns) + 10
        for number, top in enumerate(row):
            x = MARGIN + number * (width + GAP)
            boxes[top] = (x, y, width, height)
            out.append(f'<rect x="{x:.0f}" y="{y:.0f}" width="{width:.0f}" height="{height:.0f}" rx="8" '
                       f'fill="{FILLS[top]}" stroke="#667"/>')
            out.append(text(x + 12, y + 23, top + "/", 16, "bold"))
            column_x = x + 12
            for rows, share in inside[top]:
                for line, labels in enumerate(rows):
                    left, line_y = column_x, y + height - 10 - (len(rows) - line) * LINE
                    for label, wide in labels:
                        out.append(f'<rect x="{left:.0f}" y="{line_y:.0f}" width="{wide - 8:.0f}" height="22" rx="4" '
                                   f'fill="white" stroke="#99a"/>')
                        out.append(text(left + (wide - 8) / 2, line_y + 15.5, label, 12, anchor="middle"))
                        left += wide
                column_x += share * (width - 24)
        y += height + GAP
    for above, below in zip(ROWS, ROWS[1:]):
        for top in above:
            for target in below:
                if target in check_includes.MAY_INCLUDE[top]:
                    (ax, ay, aw, ah), (bx, by, bw, _) = boxes[top], boxes[target]
                    x = (bx + bw / 2) if len(below) > 1 else (ax + aw / 2)
                    out.append(f'<line x1="{x:.0f}" y1="{ay + ah:.0f}" x2="{x:.0f}" y2="{by - 3:.0f}" stroke="#445" '
                               f'stroke-width="1.6" marker-end="url(#arrow)"/>')
    head = (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {y - GAP + MARGIN:.0f}" '
            'font-family="Helvetica, Arial, sans-serif" fill="#223">\n<title>Which folder includes which</title>\n'
            '<defs><marker id="arrow" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" markerHeight="7" '
            'orient="auto"><path d="M0 0L10 5L0 10z" fill="#445"/></marker></defs>\n'
            f'<rect width="{WIDTH}" height="{y - GAP + MARGIN:.0f}" fill="white"/>')
    return head + "\n" + "\n".join(out) + "\n</svg>\n"


def main():
    drawn = draw()
    if sys.argv[1:] == ["--check"]:
        if TARGET.read_text(encoding="utf-8") != drawn:
            print(f"{TARGET.relative_to(check_includes.ROOT)} is out of date: run scripts/draw_architecture.py")
            return 1
        return 0
    if sys.argv[1:]:
        print(__doc__, file=sys.stderr)
        return 2
    TARGET.parent.mkdir(exist_ok=True)
    TARGET.write_text(drawn, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
