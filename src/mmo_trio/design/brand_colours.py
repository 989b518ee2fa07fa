"""Makes the colour of a brand readable: surfaces keep it, under black or white text; links and thin
lines are darker on light pages and lighter on dark ones, as far as contrast needs it."""

from __future__ import annotations

# WCAG 2.2, success criterion 1.4.3 (AA).
CONTRAST_MIN = 4.5

# The surfaces of the stylesheet between which all others lie: --sunk with --on, and --sunk with
# --bg.
_LIGHT_SURFACES, _DARK_SURFACES = ("#eef0f4", "#ffffff"), ("#20252e", "#0f1217")

_STEP = 0.04
_TINT = 0.12


def brand_stylesheet(colour: str) -> str:
    """Return the tokens of the stylesheet that have another value for this colour, which is
    `#rrggbb`."""
    light, light_tint = _readable(colour, _LIGHT_SURFACES, "#000000")
    dark, dark_tint = _readable(colour, _DARK_SURFACES, "#ffffff")
    on = (
        "#ffffff" if contrast("#ffffff", colour) >= CONTRAST_MIN else "#000000"
    )  # One of them reaches it on any colour.
    return (
        f":root{{--fill:{colour};--on:{on};--accent:{light};--info:{light_tint}}}"
        f"@media(prefers-color-scheme:dark){{:root{{--accent:{dark};--info:{dark_tint}}}}}"
    )


def contrast(one: str, other: str) -> float:
    """Return the contrast of two colours as WCAG defines it, from 1 to 21."""
    low, high = sorted((_luminance(one), _luminance(other)))
    return (high + 0.05) / (low + 0.05)


def _readable(colour: str, surfaces: tuple[str, str], towards: str) -> tuple[str, str]:
    """Return the colour, mixed with another one until it can be read on all surfaces, and its tint
    of the last one."""
    tint, found = _mix(surfaces[1], colour, _TINT), colour
    for step in range(round(1 / _STEP) + 1):
        found = _mix(colour, towards, step * _STEP)
        if all(contrast(found, surface) >= CONTRAST_MIN for surface in (*surfaces, tint)):
            break
    return found, tint


def _mix(one: str, other: str, share: float) -> str:
    share = min(share, 1.0)
    mixed = (
        round(a + (b - a) * share) for a, b in zip(_channels(one), _channels(other), strict=True)
    )
    return "#" + "".join(f"{part:02x}" for part in mixed)


def _channels(colour: str) -> tuple[int, ...]:
    return tuple(int(colour[at : at + 2], 16) for at in (1, 3, 5))


def _luminance(colour: str) -> float:
    shares = (channel / 255 for channel in _channels(colour))
    red, green, blue = (
        share / 12.92 if share <= 0.04045 else ((share + 0.055) / 1.055) ** 2.4 for share in shares
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue
