"""Tables for spreadsheets."""

import pytest

from gapless.grading.spreadsheet import harmless, written


@pytest.mark.parametrize("value, safe", [("=1+1", "'=1+1"), ("+1", "'+1"), ("-1", "'-1"), ("@a", "'@a"), ("\t=1", "'\t=1"),
                                         (" =1", "' =1"), ("Ann", "Ann"), (-1.5, -1.5), (None, ""), ("1=1", "1=1")])
def test_no_cell_is_a_formula(value, safe):
    assert harmless(value) == safe


def test_a_table_is_csv_in_utf_8_whatever_is_in_it():
    assert written([("name", "points"), ("=Ann\0", None), ("Émile, B", 1.5)]).decode() == (
        "name,points\n'=Ann\N{REPLACEMENT CHARACTER},\n\"Émile, B\",1.5\n")
