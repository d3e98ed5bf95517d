"""A class on one HTML page that needs nothing else. Whatever learners wrote is escaped."""

from __future__ import annotations

import html
import re
import statistics
from collections.abc import Iterable
from datetime import datetime

from ...course.verdicts import FAIL
from ..standing import FAILED, GRADED, MISSING, UNGRADED
from .facts import ClassFacts, LessonFacts, Row
from .similar import LEAST_SHARE, LEAST_STATEMENTS

LONGEST_TEXT = 700  # characters of a message
LONGEST_ANSWER = 8000
MOST_CAUSES, MOST_GROUPS, MOST_BESIDE = 15, 40, 6

_STYLE = """
:root{color-scheme:light dark;background:Canvas;color:CanvasText;--line:#8886;--soft:#8882;--bar:#3b7dc4}
body{font:16px/1.5 system-ui,sans-serif;max-width:76rem;margin:2rem auto;padding:0 1rem}
h1{font-size:1.6rem}h2{font-size:1.3rem;margin-top:2.8rem;border-top:2px solid var(--line);padding-top:.6rem}
h3{font-size:1.1rem;margin-top:1.8rem}h4{margin:1rem 0 .3rem}
nav ul{padding:0;list-style:none}nav li{display:inline-block;margin-right:1rem}
.wide{overflow-x:auto}
table{border-collapse:collapse;margin:.5rem 0;min-width:min(100%,44rem)}caption{text-align:left;padding:.3rem 0}
th,td{border-bottom:1px solid var(--line);padding:.3rem .6rem;text-align:left;vertical-align:top}
th.n{text-align:right}
td.n{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}
tbody th{font-weight:normal}td,th{overflow-wrap:anywhere}td.n,thead th{overflow-wrap:normal}
tbody th small,td small{display:block}
tfoot td,tfoot th{border-bottom:0;font-weight:bold}
.text{white-space:pre-wrap;min-width:16rem;max-width:60rem}
.who{min-width:9rem}.name{overflow-wrap:normal;white-space:nowrap}
.mine,.warn{border-left:.3rem solid #b7791f;padding:.4rem 1rem;background:var(--soft)}
.beside{display:grid;grid-template-columns:repeat(auto-fit,minmax(20rem,1fr));gap:1rem}
.beside>div{min-width:0}
figure{margin:1rem 0}code{font:.9em ui-monospace,monospace;background:var(--soft)}
pre{font:.82rem/1.4 ui-monospace,monospace;background:var(--soft);padding:.6rem;overflow-x:auto;margin:0;tab-size:4}
summary{cursor:pointer;padding:.3rem 0}
svg{max-width:100%;height:auto}svg text{fill:currentColor;font:14px system-ui,sans-serif}
:focus-visible{outline:.2rem solid var(--bar);outline-offset:.15rem}
@media (max-width:40rem){figure{overflow-x:auto}figure svg{min-width:40rem}}
@media print{body{max-width:none;margin:0;font-size:10pt}pre{white-space:pre-wrap}.wide{overflow:visible}nav{display:none}
h2{break-before:page}tr,figure{break-inside:avoid}thead{display:table-header-group}}
"""


def page(facts: ClassFacts, title: str, made: datetime, compared: bool = True) -> str:
    """The page, of text that can be encoded. ``title``: the course's name; ``made``: when."""
    heading = f"Class report: {_text(title)}"
    links = "".join(f'<li><a href="#{_anchor(each.id)}">{_text(each.id)}</a></li>' for each in facts.lessons)
    parts = [
        f'<header><h1>{heading}</h1><p class="mine"><strong>For the instructor only:</strong> this page has names, '
        "points, answers and the seeds of hidden inputs. Its file can be read by you only; do not put it where learners "
        f"can.</p><p>Made on {made:%Y-%m-%d %H:%M}. Points are those of the gradebook. The same figures are in the CSV "
        f"files "
        f'beside this page.</p></header><nav aria-label="Lessons"><ul>{links}</ul></nav><main>',
        _overview(facts),
    ]
    parts += [_lesson(each, compared) for each in facts.lessons]
    text = (
        f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>{heading}</title>'
        f'<meta name="viewport" content="width=device-width"><meta name="referrer" content="no-referrer">'
        f"<style>{_STYLE}</style></head><body>\n" + "\n".join(filter(None, parts)) + "\n</main></body></html>\n"
    )
    return text.encode("utf-8", "replace").decode("utf-8")


def number(value: float | None) -> str:
    """Points with as many digits as they have, up to two; a sign for none."""
    return "–" if value is None else f"{round(value, 2):g}"


def _text(value: object, longest: int = 200) -> str:
    """Escaped, cut where it is very long, without signs that no text has."""
    text = "".join(
        sign if sign in "\n\t" or sign.isprintable() or sign.isspace() else "\N{REPLACEMENT CHARACTER}"
        for sign in str(value)[: longest + 1]
    )
    return html.escape(text if len(text) <= longest else text[:longest] + " …")


def _prose(message: str) -> str:
    return re.sub(r"`([^`\n]+)`", r"<code>\1</code>", _text(message, LONGEST_TEXT))


def _anchor(lesson: str) -> str:
    return html.escape(f"lesson-{lesson}".replace(" ", "-"))


def _table(caption: str, head: str, rows: Iterable[str], foot: str = "") -> str:
    foot = f"<tfoot>{foot}</tfoot>" if foot else ""
    return (
        f'<div class="wide" tabindex="0" role="region" aria-label="{caption}"><table><caption>{caption}</caption><thead><tr>'
        f"{head}</tr></thead><tbody>{''.join(rows)}</tbody>{foot}</table></div>"
    )


def _head(*names: str, numbers: Iterable[str] = ()) -> str:
    return "".join(f'<th scope="col">{name}</th>' for name in names) + "".join(
        f'<th scope="col" class="n">{name}</th>' for name in numbers
    )


def _who(row: Row) -> str:
    name = f"<small>{_text(row.person.name)}</small>" if row.person.name else ""
    return f'<th scope="row">{_text(row.person.id)}{name}</th>'


def _cells(values: Iterable[str]) -> str:
    return "".join(f'<td class="n">{value}</td>' for value in values)


def _averages(columns: list[list[float]], before: int = 0, after: str = "") -> str:
    """Rows with the mean and the median of what there is in each column."""
    return "".join(
        f'<tr><th scope="row">{name}</th>{"<td></td>" * before}'
        + _cells(number(of(column)) if column else "–" for column in columns)
        + f"{after}</tr>"
        for name, of in (("mean", statistics.mean), ("median", statistics.median))
    )


# -- all lessons ----------------------------------------------------------------------------------


def _overview(facts: ClassFacts) -> str:
    rows = []
    for _, *each in zip(facts.people, *(lesson.rows for lesson in facts.lessons), strict=True):
        scores = [row.score for row in each]
        there = [score for score in scores if score is not None]
        total = number(sum(there)) if there else "–"
        shown = (
            ("" if score is None else number(score))
            + ("" if row.standing.state == GRADED and score is not None else f"<small>{_text(row.standing.state)}</small>")
            for row, score in zip(each, scores, strict=True)
        )
        rows.append(f"<tr>{_who(each[0])}{_cells([*shown, total])}</tr>")
    columns = [lesson.scores() for lesson in facts.lessons]
    totals = [
        sum(there)
        for each in zip(*(lesson.rows for lesson in facts.lessons), strict=True)
        if (there := [row.score for row in each if row.score is not None])
    ]
    head = _head(
        "student",
        numbers=[
            *(f"{_text(each.id)}<br>of {number(each.max_score)}" for each in facts.lessons),
            f"all<br>of {number(sum(each.max_score for each in facts.lessons))}",
        ],
    )
    warnings = (
        [f"In submitted/, and not in the gradebook: {_names(each.id for each in facts.people if not each.on_roster)}."]
        if any(not each.on_roster for each in facts.people)
        else []
    )
    nameless = [each.id for each in facts.people if each.on_roster and not (each.name or each.email or each.lms_id)]
    if nameless and len(nameless) < sum(each.on_roster for each in facts.people):
        warnings.append(
            "In the gradebook by an id alone, with neither name nor address, as grading adds those whom the roster "
            f"lacks: {_names(nameless)}."
        )
    if facts.left_out:
        warnings.append(f"Assignments of the gradebook that are no lessons, and not on this page: {_names(facts.left_out)}.")
    return (
        '<section aria-labelledby="all"><h2 id="all">The class</h2>'
        + "".join(map(_warning, warnings))
        + _table(
            "Points by student and lesson, penalties taken off. Where there is no score, or that of an earlier submission, "
            "the state stands there. Mean and median are of the scores that there are.",
            head,
            rows,
            _averages([*columns, totals]),
        )
        + "</section>"
    )


def _warning(words: str) -> str:
    return f'<p class="warn">{words}</p>'


def _names(ids: Iterable[str], most: int = 30) -> str:
    ids = list(ids)
    more = f" and {len(ids) - most} more" if len(ids) > most else ""
    return ", ".join(f"<strong>{_text(each, 80)}</strong>" for each in ids[:most]) + more


# -- one lesson -----------------------------------------------------------------------------------


def _lesson(facts: LessonFacts, compared: bool) -> str:
    count = {state: sum(row.standing.state == state for row in facts.rows) for state in (GRADED, FAILED, UNGRADED, MISSING)}
    late = sum(row.late_s > 0 for row in facts.rows)
    said = ", ".join(f"{how_many} {state}" for state, how_many in count.items() if how_many or state == GRADED)
    return (
        f'<section aria-labelledby="{_anchor(facts.id)}"><h2 id="{_anchor(facts.id)}">{_text(facts.id)}</h2>'
        f"<p>{said}{f', {late} late' if late else ''}.</p>"
        + _mixed(facts)
        + _problems(facts)
        + _points(facts)
        + _causes(facts)
        + (_alike(facts) if compared else "")
        + _gradings(facts)
        + "</section>"
    )


def _mixed(facts: LessonFacts) -> str:
    warnings = []
    for name, counted in facts.unlike().items():
        if len(counted) > 1:
            told = "; ".join(f"{_text(value)}: {many}" for value, many in counted.most_common())
            warnings.append(f"Not all were graded with the same {name} ({told}). Grade again with --force to compare them.")
    unconfined = [row.person.id for row in facts.rows if is_unconfined(row.grading)]
    if unconfined:
        warnings.append(
            "Graded without a sandbox, so that what they handed in could have changed files and scores: "
            f"{_names(unconfined)}."
        )
    return "".join(map(_warning, warnings))


def is_unconfined(grading: dict) -> bool:
    """Whether a grading says that nothing kept the learner's code in."""
    said = str(grading.get("confinement", "")).lower()
    return bool(grading) and (not said or said.startswith(("no ", "none", "unconfined")))


def _problems(facts: LessonFacts) -> str:
    rows = [row for row in facts.rows if row.standing.state != GRADED]
    if not rows:
        return ""
    shown = (
        f'<tr>{_who(row)}<td>{_text(row.standing.state)}</td>'
        f'<td class="text">{_text(row.standing.reason, LONGEST_TEXT)}</td>'
        f'<td class="n">{number(row.score)}</td></tr>'
        for row in sorted(rows, key=lambda row: row.standing.state)
    )
    return "<h3>Without a grading</h3>" + _table(
        "Score: the one of an earlier submission, which stays", _head("student", "state", "why", numbers=["score"]), shown
    )


def _late(row: Row) -> str:
    if row.late_s <= 0:
        return ""
    hours = row.late_s / 3600
    return f"{hours / 24:.1f} days" if hours >= 48 else f"{hours:.1f} h"


def _mark(row: Row, exercise: str) -> str:
    mark = row.marks.get(exercise)
    if mark is None or mark.score is None:
        return "–"
    return number(mark.score) + (f"<small>by hand, was {number(mark.auto)}</small>" if mark.by_hand else "")


def _points(facts: LessonFacts) -> str:
    rows = [row for row in facts.rows if row.raw is not None or any(mark.score is not None for mark in row.marks.values())]
    if not rows:
        return ""
    shown = (
        f"<tr>{_who(row)}"
        + _cells(
            [
                *(_mark(row, name) for name in facts.most),
                number(row.raw),
                _late(row),
                number(row.penalty) if row.penalty else "",
                number(row.score),
            ]
        )
        + "</tr>"
        for row in rows
    )
    columns = [
        [mark.score for row in rows if (mark := row.marks.get(name)) and mark.score is not None] for name in facts.most
    ]
    columns.append([row.raw for row in rows if row.raw is not None])
    foot = "".join(
        f'<tr><th scope="row">{name}</th>'
        + _cells(
            [
                *(number(of(each)) if each else "–" for each in columns),
                "",
                "",
                number(of(facts.scores())) if facts.scores() else "–",
            ]
        )
        + "</tr>"
        for name, of in (("mean", statistics.mean), ("median", statistics.median))
    )
    head = _head(
        "student",
        numbers=[
            *(f"{_text(name)}<br>of {number(points)}" for name, points in facts.most.items()),
            f"sum<br>of {number(facts.max_score)}",
            "late by",
            "penalty",
            "score",
        ],
    )
    return "<h3>Points</h3>" + _table(
        "By student and exercise; “by hand” where an instructor changed them", head, shown, foot
    )


def stumbled(facts: LessonFacts) -> dict[str, tuple[int, int]]:
    """Exercise → (how many have not all its points, of how many with points there)."""
    found = {}
    for name, most in facts.most.items():
        scores = [mark.score for row in facts.rows if (mark := row.marks.get(name)) and mark.score is not None]
        found[name] = sum(score < most for score in scores), len(scores)
    return found


def _picture(facts: LessonFacts) -> str:
    found = {name: each for name, each in stumbled(facts).items() if each[1]}
    if not found:
        return ""
    told = "; ".join(f"{_text(name)}: {count} of {of}" for name, (count, of) in found.items())
    height, left, width = 28, 230, 420
    bars = "".join(
        f'<text x="{left - 10}" y="{place * height + 19}" text-anchor="end">{_text(name, 28)}</text>'
        f'<rect x="{left}" y="{place * height + 5}" width="{width}" height="18" fill="none" stroke="var(--line)"/>'
        f'<rect x="{left}" y="{place * height + 5}" width="{width * count / of:.1f}" height="18" fill="var(--bar)"/>'
        f'<text x="{left + width + 10}" y="{place * height + 19}">{count} of {of}</text>'
        for place, (name, (count, of)) in enumerate(found.items())
    )
    size = f"{left + width + 110} {height * len(found)}"
    return (
        f'<figure tabindex="0"><figcaption>Students who lack points, by exercise</figcaption><svg viewBox="0 0 {size}" '
        f'width="{left + width + 110}" role="img" aria-label="Students who lack points, by exercise. {told}.">'
        f"{bars}</svg></figure>"
    )


def _causes(facts: LessonFacts) -> str:
    if not facts.causes:
        return ""
    shown = (
        f'<tr><td class="n">{len(each.who)}</td><td class="name">{_text(each.exercise)}</td>'
        f'<td class="text">{_prose(each.example)}</td>'
        f'<td class="who"><small>{_plain_names(each.who)}</small></td></tr>'
        for each in facts.causes[:MOST_CAUSES]
    )
    more = (
        f" The {MOST_CAUSES} most frequent of {len(facts.causes)}; the others are in the CSV."
        if len(facts.causes) > MOST_CAUSES
        else ""
    )
    return (
        "<h3>What most stumbled over</h3>"
        + _picture(facts)
        + _table(
            "What checks said where they gave no points. Messages that name the same mistake, or differ in numbers and "
            "quoted code "
            f"alone, are one; a student counts once in each.{more}",
            '<th scope="col" class="n">students</th>' + _head("exercise", "such as", "who"),
            shown,
        )
    )


def _plain_names(ids: tuple[str, ...], most: int = 12) -> str:
    return ", ".join(_text(each, 40) for each in ids[:most]) + (f" and {len(ids) - most} more" if len(ids) > most else "")


def _alike(facts: LessonFacts) -> str:
    groups = [(exercise, group) for exercise, each in facts.alike.items() for group in each]
    groups.sort(key=lambda each: -each[1].most)
    unread = f" {facts.unread} answers could not be compared: they are not Python, or far too long." if facts.unread else ""
    told = (
        f"<p>A hint to look, not a verdict. The comparison uses syntax trees without names, comments and layout. It "
        "leaves out everything that is in the handed-out text, in the solution or in many answers. Of the rest, two "
        f"answers share at least {LEAST_SHARE:.0%} and {LEAST_STATEMENTS} statements. Short answers have too little "
        f"left to distinguish them, and are never listed.{unread}</p>"
    )
    if not groups:
        return f"<h3>Answers that are nearly the same</h3><p>None.</p>{told}"
    shown = []
    for exercise, group in groups[:MOST_GROUPS]:
        share = f"{group.most:.0%}" if group.least == group.most else f"{group.least:.0%} to {group.most:.0%}"
        answers = "".join(
            f"<div><h4>{_text(who, 80)}</h4><pre tabindex=\"0\">"
            f"{_text(facts.answers.get((who, exercise), ''), LONGEST_ANSWER)}</pre></div>"
            for who in group.who[:MOST_BESIDE]
        )
        more = f"<p>And {_plain_names(group.who[MOST_BESIDE:])}.</p>" if len(group.who) > MOST_BESIDE else ""
        shown.append(
            f"<details><summary>{_text(exercise)}: {_names(group.who, MOST_BESIDE)} ({share} in common)</summary>"
            f'<div class="beside">{answers}</div>{more}</details>'
        )
    more = (
        f"<p>Shown are {MOST_GROUPS} of {len(groups)} groups; all are in the CSV.</p>" if len(groups) > MOST_GROUPS else ""
    )
    return "<h3>Answers that are nearly the same</h3>" + told + "".join(shown) + more


def _gradings(facts: LessonFacts) -> str:
    rows = [row for row in facts.rows if row.grading]
    if not rows:
        return ""

    def versions(row: Row) -> str:
        found = row.grading.get("versions")
        return (
            ", ".join(f"{name} {version}" for name, version in found.items()) if isinstance(found, dict) else "not recorded"
        )

    shown = (
        f"<tr>{_who(row)}<td class='name'>{_text(row.grading.get('device'))}</td>"
        f"<td>{_text(row.grading.get('confinement'))}</td>"
        f'<td>{_text(versions(row))}</td><td class="n">{_text(row.grading.get("seed"))}</td>'
        f'<td class="n">{sum(check.get("outcome") == FAIL for check in row.grading.get("checks", ()))}</td></tr>'
        for row in rows
    )
    return (
        "<details><summary>How each was graded: device, sandbox, versions, seed</summary>"
        + _table(
            "The last grading of each",
            _head("student", "device", "confinement", "versions", numbers=["seed", "checks failed"]),
            shown,
        )
        + "</details>"
    )
