"""A button that opens a trace in Perfetto's web page, for a notebook's output.

The trace is in the page; nothing leaves it until the button is pressed. Then the browser opens Perfetto and hands the
trace over from window to window: Perfetto's own protocol ("Deep linking to the Perfetto UI" in its documentation), in
which the page says PING until Perfetto, once loaded, says PONG.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json

ADDRESS = "https://ui.perfetto.dev"
MOST_BYTES = 4_000_000  # of a compressed trace in a page; a third more as text, and a notebook keeps every output

_STYLE = "margin:.3em 0;font:13px/1.5 system-ui,sans-serif"

# Controls are made by the script: where a page may run none (an untrusted notebook, a web view of one), there is no
# button that does nothing. All elements of this trace that have no controls yet get them: an output may be shown twice.
_PAGE = """<div data-gapless-trace="{key}" style="{style}"></div>
<script>
(() => {{
  const address = {address}, title = {title}, fileName = {file_name};
  const bytes = () => Uint8Array.from(atob("{data}"), c => c.charCodeAt(0));
  for (const place of document.querySelectorAll('[data-gapless-trace="{key}"]:empty')) {{
    const add = (kind, text) => Object.assign(place.appendChild(document.createElement(kind)), {{textContent: text}});
    const button = add("button", "Open this trace in Perfetto");
    add("span", " or ");
    const save = add("a", "save it");
    const status = add("span", "");
    status.setAttribute("role", "status");
    const say = text => {{ status.textContent = text ? " – " + text : ""; }};
    button.type = "button";
    button.title = "Opens " + address + " in a new tab and gives it the trace, which stays in your browser";
    button.onclick = () => {{
      const perfetto = window.open(address);
      if (!perfetto) {{
        say("the browser did not open a window: allow it for this page, or save the trace and open it at " + address);
        return;
      }}
      say("waiting for Perfetto …");
      const stop = text => {{
        clearInterval(ping);
        clearTimeout(end);
        removeEventListener("message", answer);
        say(text);
      }};
      const answer = event => {{
        if (event.source !== perfetto || event.data !== "PONG") return;
        const buffer = bytes().buffer;
        perfetto.postMessage({{perfetto: {{buffer, title, fileName}}}}, address);
        stop("");
      }};
      addEventListener("message", answer);
      const ping = setInterval(() => perfetto.postMessage("PING", address), 100);
      const end = setTimeout(() => stop("Perfetto did not answer: save the trace and open it at " + address), 60000);
    }};
    save.href = "#";
    save.download = fileName;
    save.onclick = () => {{
      save.href = URL.createObjectURL(new Blob([bytes()], {{type: "application/gzip"}}));
      setTimeout(() => URL.revokeObjectURL(save.href), 60000);
    }};
  }}
}})();
</script>"""


def button(trace: bytes, title: str, *, address: str = ADDRESS) -> str:
    """HTML for a button that opens ``trace`` (a trace file, gzip) in Perfetto under ``title``, and a link that saves it.

    A trace of more than ``MOST_BYTES`` is not put into the page: there is a note how to save and open it.
    """
    if len(trace) > MOST_BYTES:
        return _too_large(len(trace), address)
    return _PAGE.format(
        # The same trace gives the same page, so that a notebook that is run again does not change.
        key=hashlib.sha256(trace).hexdigest()[:16],
        style=_STYLE,
        address=_literal(address),
        title=_literal(title),
        file_name=_literal("trace.json.gz"),
        data=base64.b64encode(trace).decode(),
    )


def _too_large(nbytes: int, address: str) -> str:
    address = html.escape(address)
    return (
        f'<div style="{_STYLE}">This trace is too large to be kept in a page ({nbytes / 1e6:.0f} MB compressed, at most '
        f'{MOST_BYTES / 1e6:.0f} MB are). Save it with <code>report.trace.write("trace.json.gz")</code> and open the file '
        f'at <a href="{address}" target="_blank" rel="noopener">{address}</a>, or record fewer steps.</div>'
    )


def _literal(text: str) -> str:
    """``text`` as a JavaScript string that no HTML parser takes for the end of the script."""
    return json.dumps(text).replace("<", "\\u003c")
