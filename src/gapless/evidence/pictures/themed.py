"""A matplotlib figure as a page shows it: in the page's own ink on the page's own ground, so light or dark.

What a figure draws in black is drawn in the page's text colour; its ground is left out. Other colours stay: choose some that
stand out from white and from near-black (a contrast of 3:1 to both is possible).
"""

from __future__ import annotations

import base64
import html
import io
import re

# Where a page takes no SVG from a notebook (one that is not trusted) it takes no style either, and the PNG is seen.
_HIDDEN = "<style>img.gapless-fallback{display:none}</style>"


def png(figure, alt: str, dpi: int = 110) -> bytes:
    """The figure as PNG on its own ground, with its alternative text inside."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=dpi, metadata={"Description": alt})
    return buffer.getvalue()


def svg(figure, alt: str) -> str:
    """The figure as SVG for a page, with ``currentColor`` for ink, no ground, and its alternative text."""
    import matplotlib

    buffer = io.StringIO()
    # Letters as outlines: where a page takes out the SVG's elements, it would leave their text behind.
    with matplotlib.rc_context({"svg.fonttype": "path"}):
        figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None})
    text = re.sub(r"<metadata>.*?</metadata>\s*|<!--.*?-->\s*", "", buffer.getvalue(), flags=re.DOTALL)
    text = _hatches_whole(text[text.index("<svg"):].replace("#000000", "currentColor"))
    head, inside = text.split(">", 1)
    box, = re.findall(r'viewBox="([^"]*)"', head)
    style = f"width:{float(box.split()[2]) / 72 * 96:.0f}px;max-width:100%;height:auto"  # points to the page's pixels
    # What matplotlib draws in black without saying so takes its colour from here.
    return (f'<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" viewBox="{box}" role="img" '
            f'aria-label="{html.escape(alt)}" fill="currentColor" style="{style}">{inside}')


def _hatches_whole(text: str) -> str:
    """The SVG with each face's opacity on the face alone: matplotlib gives it to the face's hatch too, which disappears."""
    for name, opacity in set(re.findall(r"fill: url\(#(\w+)\); fill-opacity: ([\d.]+)", text)):
        text = text.replace(f"fill: url(#{name}); fill-opacity: {opacity}", f"fill: url(#{name})")
        ground = re.compile(rf'(<pattern id="{name}"[^>]*>\s*<rect [^>]*)/>')
        text = ground.sub(rf'\1 fill-opacity="{opacity}"/>', text)
    return text


def mime_bundle(figure, alt: str, controls: str = "", html_too: bool = True) -> tuple[dict, dict]:
    """What a notebook shows: HTML with the SVG and the ``controls`` below it, a PNG where no HTML is shown, or the text."""
    image = base64.b64encode(png(figure, alt)).decode()
    if not html_too:
        return {"image/png": image, "text/plain": alt}, {"image/png": {"alt": alt}}
    fallback = (f'<img class="gapless-fallback" alt="{html.escape(alt)}" style="max-width:100%" '
                f'src="data:image/png;base64,{image}">')
    page = f"<div>{_HIDDEN}{svg(figure, alt)}{fallback}</div>"
    return ({"text/html": f"{page}\n{controls}" if controls else page, "image/png": image, "text/plain": alt},
            {"image/png": {"alt": alt}})
