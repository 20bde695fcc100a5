"""Pages of a list that changes between them."""

import pytest

from namesrv_stream.answers.model import paged


@pytest.mark.parametrize("reverse", [False, True])
def test_a_list_goes_on_behind_a_place_whose_item_has_left(reverse):
    items = [(number // 3, f"a-{number}") for number in range(10)]
    order, name = (lambda each: each[0]), (lambda each: each[1])
    whole, _ = paged(items, order, name, None, reverse=reverse)
    page, following = paged(items, order, name, 4, reverse=reverse)
    rest, end = paged([each for each in items if each != page[-1]], order, name, 10, following, reverse=reverse)
    assert (page + rest, end) == (whole, None)
