"""The audit as one HTML page that needs nothing else: pictures and styles are in it."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence

from ..evidence.pictures import perfetto, picture
from ..evidence.pictures.memory import alt_text as memory_alt
from ..evidence.pictures.memory import memory_picture, short_bytes
from ..evidence.pictures.millisecond import draw_millisecond
from ..evidence.pictures.themed import svg
from .against import LINES, Comparison, rows, sentences
from .host_lines import HostLine
from .markdown import (
    FROM_BEFORE,
    HOST_LINES,
    PARTS,
    TRIED,
    bound,
    busy,
    clock,
    costs,
    heading,
    lesson_address,
    lesson_name,
    ms,
    now_and_then,
    others,
    overwritten,
    share,
    times,
    trials_in_words,
    watched,
    worst,
)
from .result import Audit, LineOfWaits

_STYLE = """
:root{color-scheme:light dark;background:Canvas;color:CanvasText;--line:#8885;--soft:#8881}
body{font:16px/1.5 system-ui,sans-serif;max-width:64rem;margin:2rem auto;padding:0 1rem}
h1{font-size:1.5rem}h2{font-size:1.2rem;margin-top:2.2rem}
table{border-collapse:collapse;width:100%}
th,td{border-bottom:1px solid var(--line);padding:.35rem .6rem;text-align:left;vertical-align:top}
.n{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}
code,pre{font:.9em ui-monospace,monospace}code{background:var(--soft);padding:0 .2em}
td:last-child{width:36%}h1,code{overflow-wrap:anywhere}pre,figure{overflow-x:auto}
.answer{border-left:.3rem solid #3b7dc4;padding:.4rem 1rem;background:var(--soft);font-size:1.1rem}
.bar{display:inline-block;height:.7em;background:#3b7dc4;vertical-align:middle}
figure{margin:1rem 0}svg{max-width:100%;height:auto}
@media (max-width:40rem){
figure svg{min-width:44rem}
thead{display:none}tr{display:block;border-bottom:1px solid var(--line);padding:.4rem 0}
td,td:last-child{display:block;width:auto;border:0;padding:.1rem 0;overflow-wrap:anywhere}
td.n{display:inline-block;margin-right:1rem;text-align:left}
td.n::before{content:attr(data-of) " ";font-size:.85em;opacity:.75}td:empty{display:none}
}
"""

_FIGURE = '<figure tabindex="0">'  # as for the kernels: what a narrow page scrolls sideways, it scrolls by keys too
_MILLISECOND = ("One millisecond of the above, in which each kernel is a bar: the one whose busy share of the GPU, and then "
                "whose kinds of work, are nearest to those of all the time shown.")


def page(audit: Audit, against: Comparison | None = None) -> str:
    """The page; on top what is better or worse than ``against``. Without matplotlib it has no pictures, and says so."""
    report, strong = audit.report, "<strong>{}</strong>".format if len(audit.bounds) == 1 else str
    title = f"Audit of {html.escape(audit.script)}"
    parts = [f"<h1>{title}</h1>", _against(against),
             f"<p>{report.steps} steps after {audit.facts.get('warm_up')} of warm-up on <strong>"
             f"{html.escape(heading(audit))}</strong>; torch {html.escape(str(audit.facts.get('torch')))}. A step "
             f"ends with <code>{html.escape(str(audit.facts.get('kind')))}</code>.</p>",
             f'<p class="answer">A step takes <strong>{ms(audit.step_ms)} ms</strong>. What bounds it: '
             f"{strong(html.escape(bound(audit)))}.{html.escape(others(audit))}</p>",
             _list("ol", [_text(text) for text in worst(audit)]),
             f"<p><strong>{html.escape(overwritten(audit))}</strong></p>" if overwritten(audit) else "",
             _parts(audit), *_pictures(audit), _waits(audit), _host(audit), _seldom(audit), _remarks(audit),
             _trials(audit), _memory(audit), _kernels(audit)]
    return _whole(title, parts)


def comparison_page(script: str, found: Comparison) -> str:
    """A page of the comparison alone."""
    title = f"Audit of {html.escape(script)}"
    return _whole(title, [f"<h1>{title}</h1>", _against(found)])


def _whole(title: str, parts: list[str]) -> str:
    return (f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
            f'<meta name="viewport" content="width=device-width,initial-scale=1"><style>{_STYLE}</style></head>\n'
            "<body><main>\n" + "\n".join(filter(None, parts)) + "\n</main></body></html>\n")


def _against(found: Comparison | None) -> str:
    if found is None:
        return ""
    said = _list("ul", [html.escape(each) for each in sentences(found)])
    body = [(html.escape(change), before, now, f"<strong>{html.escape(place)}</strong><br><code>{html.escape(line)}</code>")
            for change, before, now, place, line in rows(found)]
    return f"<h2>Against the audit of {html.escape(found.script)} before</h2>{said}{_table(LINES[:4], (1, 2), body)}"


def _table(names: Sequence[str], numbers: Sequence[int], rows: Iterable[Sequence[str]]) -> str:
    """A table of cells in HTML under these ``names``; nothing without rows. Columns ``numbers`` are aligned as such, and say
    what they are where a narrow page has no room for columns."""
    head = "".join(f'<th class="n">{name}</th>' if place in numbers else f"<th>{name}</th>" if name else "<td></td>"
                   for place, name in enumerate(names))
    body = "".join("<tr>" + "".join(
        f'<td class="n" data-of="{names[place]}">{cell}</td>' if place in numbers else f"<td>{cell}</td>"
        for place, cell in enumerate(row)) + "</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>" if body else ""


def _parts(audit: Audit) -> str:
    rows = [(PARTS[name], f"{ms(saved)} ms", share(audit, name),
             f'<span class="bar" style="width:{100 * min(saved / audit.step_ms, 1):.1f}%"></span>')
            for name, saved in audit.parts_ms.items()]
    report = audit.report
    return (f"<p>The GPU is busy for {busy(audit)} of a step, with {report.kernels:.0f} kernels; the host waits "
            f"{times(report.syncs_per_step)}; {short_bytes(report.bus_bytes)} go over the bus.</p>"
            f"{_table(('without', 'a step is shorter by', 'of it', ''), (1, 2), rows)}"
            "<p>Each row is the recorded steps played again without that one thing. What two rows have in common is in "
            "both. What can be left out (input, waits, communication) is said to bound a step from half of what the host or "
            f"the GPU costs on.</p><p>{html.escape(clock(audit))}</p>")


def _pictures(audit: Audit):
    report = audit.report
    try:
        figure = picture.draw(report)
    except ImportError:
        return ["<p>No pictures: matplotlib is not installed (<code>pip install 'gapless[plots]'</code>).</p>"]
    parts = ["<h2>The steps, one after the other</h2>", f"{_FIGURE}{svg(figure, figure.alt)}</figure>"]
    near = draw_millisecond(report)
    if near is not None:
        parts.append(f"{_FIGURE}{svg(near, near.alt)}<figcaption>{_MILLISECOND}</figcaption></figure>")
    return [*parts, perfetto.button(report.trace.to_bytes(compressed=True), heading(audit))]


def _lesson(number: str) -> str:
    address, name = lesson_address(number), lesson_name(number)
    return f"<small>({name}: <code>gapless lab</code>)</small>" if address is None else \
        f'<small>(gapless, <a href="{html.escape(address)}">{name}</a>)</small>'


def _text(words: str) -> str:
    """Prose with code between backquotes, as HTML."""
    pieces = html.escape(words, quote=False).split("`")
    return "".join(f"<code>{piece}</code>" if place % 2 else piece for place, piece in enumerate(pieces))


def _place(each: LineOfWaits | HostLine) -> str:
    """Where it is, what stands there, and who calls it."""
    line = f"<br><code>{html.escape(each.line)}</code>" if each.line else ""
    called = f"<br>called at {html.escape(each.called_at)}" if each.called_at else ""
    return f'<strong>{html.escape(each.location or "unknown line")}</strong>{line}{called}'


def _waits(audit: Audit) -> str:
    if not audit.waits:
        return "<h2>Waits, by line</h2><p>None: the host never waits for the GPU.</p>"
    rows = [(ms(each.costs_ms), ms(each.wait_ms), f"{each.times:.3g}",
             f"{_place(each)}<br>{html.escape(each.operator or each.call)}",
             f"{_text(each.advice.why)} {_text(each.advice.what)} {_lesson(each.advice.lesson)}") for each in audit.waits]
    names = "costs ms a step", "waits ms", "times", "where", "why, and what to do"
    return (f"<h2>Waits, by line</h2>{_table(names, (0, 1, 2), rows)}<p><em>Costs</em>: what a step would be shorter "
            "without the waits of that line, played again. A wait costs little while the GPU is behind anyway, and more "
            "than its own length where it keeps the host from queuing.</p>")


def _host(audit: Audit) -> str:
    if not audit.host:
        return ""
    rows = [(ms(each.own_ms), ms(each.operators_ms), f"{each.launches:.3g}", _place(each), _text(each.what or ""))
            for each in audit.host]
    names = "own ms a step", "operators ms", "launches", "where", "what to do"
    return f"<h2>The host's time, by line</h2>{_table(names, (0, 1, 2), rows)}<p>{HOST_LINES}</p>"


def _seldom(audit: Audit) -> str:
    rows = [f"<strong>{html.escape(each.location)}</strong>"
            f"{f' <code>{html.escape(each.line)}</code>' if each.line else ''}: {_text(now_and_then(each))}"
            for each in audit.seldom]
    return f"<h2>Now and then</h2><p>{watched(audit)}</p>{_list('ul', rows)}"


def _list(kind: str, rows: list[str]) -> str:
    return f"<{kind}>{''.join(f'<li>{row}</li>' for row in rows)}</{kind}>" if rows else ""


def _remarks(audit: Audit) -> str:
    if not audit.remarks:
        return ""
    rows = [f"<strong>{_text(each.title)}.</strong> {_text(each.what)}{costs(each)} {_lesson(each.lesson)}"
            for each in audit.remarks]
    return f"<h2>What else costs time</h2>{_list('ul', rows)}"


def _trials(audit: Audit) -> str:
    if not audit.trials:
        return ""
    rows = [(_text(what), html.escape(result), _lesson(number)) for what, result, number in trials_in_words(audit)]
    return f"<h2>Tried</h2>{_table(('with', 'a step takes', ''), (), rows)}<p>{TRIED}</p>"


def _memory(audit: Audit) -> str:
    view = audit.memory
    if view is None:
        return ""
    table = _table(("", "MiB at the peak", "its own most"), (1, 2), [
        (row.category, f"{row.at_peak_bytes / 2**20:.2f}", f"{row.most_bytes / 2**20:.2f}") for row in view.rows])
    try:
        figure = memory_picture(view)
    except ImportError:
        figure = None
    drawn = f"{_FIGURE}{svg(figure, memory_alt(view))}</figure>" if figure is not None else ""
    return f"<h2>Memory</h2><p>The peak of a step is {view.peak_bytes / 2**20:.1f} MiB. {_lesson('08')}</p>{drawn}{table}" \
           f"<p>{FROM_BEFORE}</p>"


def _kernels(audit: Audit) -> str:
    return f'<h2>The longest kernels</h2><pre tabindex="0">{html.escape(audit.report.kernel_table())}</pre>'
