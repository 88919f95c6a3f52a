from league.team import Player, lead, senior, weak

TEAM = [Player("ann", 5, 18), Player("bob", 9, 30), Player("eve", 7, 25)]


def test_lead_of_nobody():
    assert lead([]) == []


def test_lead_starts_with_the_most_skill():
    assert [player.name for player in lead(TEAM)] == ["bob", "eve", "ann"]


def test_weak_of_nobody():
    assert weak([]) == 0


def test_weak_of_one_player():
    assert weak([Player("ann", 5)]) == 5


def test_weak_is_the_smallest_skill():
    assert weak(TEAM) == 5


def test_senior_above_the_age():
    assert [player.name for player in senior(TEAM, 28)] == ["bob"]


def test_senior_exactly_at_the_age():
    assert [player.name for player in senior(TEAM, 30)] == ["bob"]
