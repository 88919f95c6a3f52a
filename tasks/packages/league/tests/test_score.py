from league.score import Score, ratio, rest, total


def test_total_without_a_bonus():
    assert total(Score(2)) == 6


def test_total_adds_the_bonus():
    assert total(Score(2, bonus=4)) == 10


def test_total_without_a_win():
    assert total(Score(0, bonus=4)) == 4


def test_ratio_of_whole_numbers():
    assert ratio(Score(4, 2)) == 2


def test_ratio_keeps_the_decimals():
    assert ratio(Score(5, 2)) == 2.5


def test_ratio_without_a_loss():
    assert ratio(Score(5)) == 5


def test_rest_at_the_limit():
    assert rest(Score(5), 5) == 0


def test_rest_below_the_limit():
    assert rest(Score(2), 5) == 3


def test_rest_is_never_negative():
    assert rest(Score(9), 5) == 0
