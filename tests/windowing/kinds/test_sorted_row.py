"""SortedRow against a plain list."""

from hypothesis import given
from hypothesis import strategies as st

from pystorm_spark.windowing.kinds import sorted_row
from pystorm_spark.windowing.kinds.sorted_row import SortedRow


@given(
    st.lists(st.tuples(st.sampled_from(["add", "remove", "front"]), st.integers(0, 30), st.integers(0, 5)), max_size=60)
)
def test_a_sorted_row_is_a_sorted_list(steps):
    row, model = SortedRow(), []
    for step, number, count in steps:
        if step == "add":
            row.add(number)
            model = sorted([*model, number])
        else:
            start = min(number, len(model)) if step == "remove" else 0
            end = min(start + count, len(model))
            row.remove(start, end)
            del model[start:end]
        assert len(row) == len(model)
        assert row.between(0, len(row)) == model
        assert [row[at] for at in range(len(row))] == model
        assert row.find(number) == sum(each < number for each in model)
        if model:
            assert row[-1] == model[-1]


def test_what_has_left_is_let_go_of():
    row = SortedRow()
    for number in range(10 * sorted_row.FEWEST_GONE):
        row.add(number)
        if number >= 10:
            row.remove(0, 1)
    assert len(row) == 10
    assert len(row._items) <= sorted_row.FEWEST_GONE + 20
