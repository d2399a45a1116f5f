"""A line chart as SVG, by hand: two lines need no library."""

WIDTH, HEIGHT, LEFT, TOP, RIGHT, BOTTOM = 760, 300, 56, 24, 16, 44
COLOURS = ("#1f6f8b", "#c8553d")


def draw_chart(lines, shaded, top, title):
    """Draw `lines` (name -> one value per second) on a scale from 0 to `top`; `shaded` (from, until) is marked."""
    seconds = max(len(values) for values in lines.values())
    across = (WIDTH - LEFT - RIGHT) / max(seconds - 1, 1)
    up = (HEIGHT - TOP - BOTTOM) / top

    def place(second, value):
        return f"{LEFT + second * across:.1f},{HEIGHT - BOTTOM - min(value, top) * up:.1f}"

    begin, end = (LEFT + second * across for second in shaded)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}">',
        "<style>text{font:12px sans-serif}</style>",
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>',
        f'<text x="{LEFT}" y="16" font-weight="bold">{title}</text>',
        f'<rect x="{begin:.1f}" y="{TOP}" width="{end - begin:.1f}" height="{HEIGHT - TOP - BOTTOM}" fill="#eee"/>',
    ]
    for mark in (0, 0.5, 1, 1.5, 2):
        if mark <= top:
            level = HEIGHT - BOTTOM - mark * up
            parts.append(
                f'<path d="M{LEFT} {level:.1f}H{WIDTH - RIGHT}" stroke="#ccc"/>'
                f'<text x="{LEFT - 8}" y="{level + 4:.1f}" text-anchor="end">{mark:.0%}</text>'
            )
    for second in range(0, seconds, 5):
        x = LEFT + second * across
        parts.append(f'<text x="{x:.1f}" y="{HEIGHT - BOTTOM + 16}" text-anchor="middle">{second} s</text>')
    for number, (name, values) in enumerate(lines.items()):
        points = " ".join(place(second, value) for second, value in enumerate(values))
        parts.append(f'<polyline points="{points}" fill="none" stroke="{COLOURS[number]}" stroke-width="2"/>')
        parts.append(f'<text x="{LEFT + 8 + number * 220}" y="{HEIGHT - 8}" fill="{COLOURS[number]}">{name}</text>')
    return "\n".join((*parts, "</svg>", ""))
