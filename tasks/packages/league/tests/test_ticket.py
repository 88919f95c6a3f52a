from league.ticket import Ticket, free, sale, seat_count


def test_seat_count_of_nothing():
    assert seat_count([]) == 0


def test_seat_count_counts_every_seat():
    assert seat_count(["a", "b", "c"]) == 3


def test_free_for_a_child_with_a_free_ticket():
    assert free(Ticket(0), 4)


def test_free_is_false_for_others():
    assert not free(Ticket(20), 30)


def test_free_for_a_child():
    assert free(Ticket(20), 4)


def test_free_by_price():
    assert free(Ticket(0), 30)


def test_sale_before_every_day():
    assert sale([Ticket(20, day=4), Ticket(20, day=5)], 2)


def test_sale_is_over_for_nothing():
    assert not sale([], 2)


def test_sale_needs_every_day_to_come():
    assert not sale([Ticket(20, day=4), Ticket(20, day=1)], 2)
