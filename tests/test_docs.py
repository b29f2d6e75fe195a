"""The documentation stays true: what it names exists, its links lead somewhere, its tables are those of the code."""

import itertools
import re
from pathlib import Path

import pytest

import pystorm_spark.runtime
from tests.test_layers import BASE, MAY_IMPORT

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "pystorm_spark"
INTERNALS = ROOT / "docs/internals.md"
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/**/*.md")])

FENCED = re.compile(r"^```.*?^```$", re.DOTALL | re.MULTILINE)
LINK_TARGET = re.compile(r"\]\([^)\s]+\)")
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
TEST = re.compile(r"(tests/[\w/]+\.py)::(?:\w+::)?(test_\w+)")
PLACE = re.compile(r"`((?:pystorm_spark|tests|examples|benchmarks|docs)/[\w/.-]*)`")

every_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))


def text_of(page):
    return page.read_text(encoding="utf-8")


def prose_of(page):
    """The page without its blocks of code, in which brackets are no links and `#` is no heading."""
    return FENCED.sub("", text_of(page))


def anchors_of(page):
    """What `#…` may follow a link to the page: its headings as GitHub spells them."""
    headings = re.findall(r"^#+ (.+)$", prose_of(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def rows_of(text):
    """The rows of all tables in `text`, each a list of cells."""
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line[:1] == "|"]


def section(page, heading):
    return text_of(page).split(f"\n## {heading}\n")[1].split("\n## ")[0]


@every_page
def test_a_test_that_is_named_exists(page):
    named = set(TEST.findall(text_of(page)))
    missing = [(file, test) for file, test in named if f"def {test}(" not in text_of(ROOT / file)]
    assert missing == []


@every_page
def test_a_link_leads_to_a_file(page):
    targets = [link.partition("#")[0] for link in LINK.findall(prose_of(page)) if "://" not in link]
    assert [target for target in targets if not (page.parent / target).exists()] == []


@every_page
def test_a_link_into_a_page_leads_to_a_heading(page):
    links = [link.partition("#") for link in LINK.findall(prose_of(page)) if "#" in link and "://" not in link]
    ends = [(page.parent / target if target else page, anchor) for target, _, anchor in links]
    assert [end for end in ends if end[1] not in anchors_of(end[0])] == []


@every_page
def test_a_place_in_the_code_that_is_named_exists(page):
    assert [place for place in PLACE.findall(prose_of(page)) if not (ROOT / place).exists()] == []


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md"])
def test_what_make_is_asked_for_is_in_the_makefile(name):
    targets = set(re.findall(r"^([a-z-]+):", text_of(ROOT / "Makefile"), re.MULTILINE))
    asked = re.findall(r"(?:^|`)make ([a-z-]+)", text_of(ROOT / name), re.MULTILINE)
    assert asked
    assert set(asked) <= targets


def test_each_of_the_forty_points_has_a_test_or_says_that_it_is_to_come():
    points = [row for row in rows_of(text_of(ROOT / "docs/storm-differences.md")) if row[0].isdigit()]
    assert [int(number) for number, *_ in points] == list(range(1, 41))
    for _, _, here, shown_by in points:
        assert shown_by.startswith("comes with ") if here == "Not there yet." else TEST.search(shown_by)


def test_the_way_of_a_tuple_passes_all_files_of_the_map_of_the_runtime():
    steps = rows_of(pystorm_spark.runtime.__doc__.split("\n\nBeside them")[0])[2:]
    passed = {re.findall(r"\w+", file)[-2] for file, *_ in ways()["tuple"]}
    assert len(steps) > 5
    assert {name for _, where, _ in steps for name in re.findall(r"\w+", where)} - passed == set()


def ways():
    """{way: its steps}, each (file, functions, what happens)."""
    text = text_of(INTERNALS)
    names = re.findall(r"^## The way of a (\w+)$", text, re.MULTILINE)
    return {name: rows_of(section(INTERNALS, f"The way of a {name}"))[2:] for name in names}


def test_what_internals_says_to_be_in_a_file_is_defined_there():
    places = [place for steps in ways().values() for place in steps]
    places += [(file, there, "") for _, file, there in rows_of(section(INTERNALS, "Where is it?"))[2:]]
    assert len(places) > 80
    for file, there, _ in places:
        source = text_of(PACKAGE / file.strip("`"))
        for name in re.findall(r"\w+", there):
            assert re.search(rf"^ *(?:def|class) {name}\b", source, re.MULTILINE), f"{file} has no {name}"


@pytest.mark.parametrize("way", ["tuple", "commit", "recovery", "row"])
def test_a_way_says_how_often_it_changes_folders(way):
    folders = [Path(file.strip("`")).parent for file, *_ in ways()[way]]
    changes = sum(one != other for one, other in itertools.pairwise(folders))
    assert f"{changes} changes of folder." in section(INTERNALS, f"The way of a {way}")


def test_each_file_that_internals_names_exists():
    named = set(re.findall(r"`([\w/]+(?:\.py|\.c|/))`", prose_of(INTERNALS)))
    modules = {path.name for path in PACKAGE.rglob("*.py")}
    assert [name for name in named - modules if not ((PACKAGE / name).exists() or (ROOT / name).exists())] == []


def test_the_layers_shown_are_those_that_are_held():
    shown = {}
    for parts, imports in rows_of(section(ROOT / "CONTRIBUTING.md", "Who may import whom"))[2:]:
        shown.update({part: set(re.findall(r"\w+", imports)) for part in re.findall(r"\w+", parts)})
    assert shown == {part: imports - BASE for part, imports in MAY_IMPORT.items()}


@every_page
def test_a_line_of_prose_has_at_most_120_characters(page):
    lines = prose_of(page).splitlines()
    long = [line for line in lines if len(line) > 120 and not line.startswith(("|", "<!--"))]
    assert [line for line in long if len(LINK_TARGET.sub("", line)) > 120] == []
