from store.stock import Item, low_stock, ready, stock_value


def stock(*levels):
    return [Item(f"item {level}", level, 2.0) for level in levels]


def test_low_stock_finds_short_items():
    assert [item.level for item in low_stock(stock(1, 9), 5)] == [1]


def test_low_stock_includes_the_minimum():
    assert [item.level for item in low_stock(stock(5, 6), 5)] == [5]


def test_stock_value_without_deposit():
    assert stock_value(stock(2, 3), 0) == 10


def test_stock_value_takes_the_deposit_away():
    assert stock_value(stock(2, 3), 4) == 6


def test_stock_value_of_nothing():
    assert stock_value([], 4) == 0


def test_ready_when_everything_is_there():
    assert ready(stock(1, 2))


def test_ready_needs_every_item():
    assert not ready(stock(1, 0))
