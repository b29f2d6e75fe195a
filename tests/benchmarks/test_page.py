"""Both pages of the benchmarks show the kept results, and the HTML page needs no other file."""

import re
from html.parser import HTMLParser

import pytest

from benchmarks import charts, page, report

ENVIRONMENT = {
    "cpu": "a fast one",
    "cores": 2,
    "memory_gib": 4.0,
    "system": "Linux",
    "python": "CPython",
    "packages": {"pystorm-spark": "1.0"},
    "core": "compiled",
    "commit": "abc",
    "date": "2020-01-01",
}
SPREAD = {"median": 20_000.0, "low": 10_000.0, "high": 30_000.0, "samples": 3}


class Reader(HTMLParser):
    """The elements of a page, all of which must be closed, and its text."""

    def __init__(self, text):
        super().__init__()
        self.elements, self.open, self.words = [], [], []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag != "meta":
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words.append(data)

    def tags(self):
        return {tag for tag, _ in self.elements}


@pytest.fixture
def results(tmp_path, monkeypatch):
    monkeypatch.setattr(report, "RESULTS", tmp_path)
    monkeypatch.setattr(report, "PAGE", tmp_path / "performance.md")
    markers = [f"<!-- begin {name} -->\n<!-- end {name} -->\n" for name in ("yahoo", "join")]
    report.PAGE.write_text("".join(markers), encoding="utf-8")
    table = report.Table(["", "rate", "bar"], [["a < b", "20 k (1–2)", "≥ 1: met"], ["c", "10 k", "≥ 9: MISSED"]])
    chart = report.Chart("ms, by size", ["1", "2"], [1.0, 2.5])
    figures = dict.fromkeys([*page.PANELS, "p50_ms", "p99_ms"], SPREAD)
    report.Result("yahoo", "How `many`?", "In *rounds*.", [table], figures, [chart], ENVIRONMENT).write()
    drawn = report.Picture("in parts", tmp_path / "parts.svg", charts.stacked({"now": {"first": 1.0}}, "ms"))
    peers = {page.PEERS: {"it": SPREAD, page.ENGINE: SPREAD}, "bars": {"it": 0.5}}
    report.Result("join", "How long?", "So.", [table], peers, (), ENVIRONMENT, [drawn]).write()
    return page.kept_results(tmp_path)


def test_the_page_shows_tables_charts_and_where_they_were_measured(results):
    seen = Reader(page.html(results))
    shown = ("a < b", "20 k (1–2)", "≥ 9: MISSED", "many", "ms", "size", "2.5", "10 k", "words/s", "in parts", "first")
    for words in shown:
        assert words in seen.words
    assert any("a fast one" in words for words in seen.words)
    assert {"table", "svg", "rect", "circle", "code", "em"} <= seen.tags()


def test_the_page_needs_nothing_from_outside(results):
    seen = Reader(page.html(results))
    assert not {"script", "link", "img", "iframe"} & seen.tags()
    links = [attrs["href"] for tag, attrs in seen.elements if tag == "a"]
    assert links == ["#yahoo", "#join"]
    assert {attrs["id"] for tag, attrs in seen.elements if "id" in attrs} == {"yahoo", "join"}


def test_a_picture_stands_in_a_file_beside_the_page_too(results, tmp_path):
    assert (tmp_path / "parts.svg").read_text(encoding="utf-8") in page.html(results)


def test_bars_are_as_long_as_their_figures_are_large(results):
    seen = Reader(page.html({"yahoo": results["yahoo"]}))
    widths = [attrs["width"] for tag, attrs in seen.elements if tag == "rect" and attrs["height"] == "4"]
    assert widths == ["80.0", "40.0"]


@pytest.mark.parametrize(
    ("text", "number"),
    [("407 k (380–429)", 407_000), ("1,902", 1902), ("+447", 447), ("0.2 ms", 0.2), ("≥ 0.6: met", None), ("", None)],
)
def test_a_cell_has_the_number_it_begins_with(text, number):
    assert page.figure(text) == number


def test_a_page_can_be_made_of_the_results_that_are_published():
    published = page.kept_results(report.RESULTS)
    assert published
    Reader(page.html(published))


def test_a_result_is_written_between_its_markers(results):
    text = report.PAGE.read_text(encoding="utf-8")
    assert "| a < b | 20 k (1–2) | ≥ 1: met |" in text
    assert "line [1.00, 2.50]" in text
    assert "![in parts](parts.svg)" in text
    assert "Measured on a fast one, 2 cores" in text


def test_a_result_without_markers_is_refused(results):
    with pytest.raises(ValueError, match="begin top_k"):
        report.put("top_k", results["yahoo"])


def test_prose_on_the_page_is_wrapped(results):
    kept = {**results["yahoo"], "method": "word " * 100}
    lines = report.as_markdown(kept).splitlines()
    assert max(len(line) for line in lines if "word" in line) <= report.WIDTH


def test_the_figures_in_the_documentation_are_those_that_are_kept():
    published = page.kept_results(report.RESULTS)
    blocks = dict(re.findall(r"<!-- begin (\w+) -->\n(.*?)\n<!-- end \1 -->", text_of_page(), re.DOTALL))
    assert sorted(blocks) == sorted(published)
    for name, kept in published.items():
        assert blocks[name] == report.as_markdown(kept), f"run python -m benchmarks.page to write {name} again"


def text_of_page():
    return report.PAGE.read_text(encoding="utf-8")
