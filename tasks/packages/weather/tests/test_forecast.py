from weather.forecast import Day, speed, storm, worst

WEEK = [Day("monday", 4), Day("tuesday", 30), Day("friday", 12)]


def test_speed_of_whole_numbers():
    assert speed(60, 2) == 30


def test_speed_keeps_the_decimals():
    assert speed(5, 2) == 2.5


def test_speed_without_time():
    assert speed(5, 0) == 0


def test_storm_with_rain_and_wind():
    assert storm(30, 70)


def test_storm_is_false_on_a_calm_day():
    assert not storm(0, 5)


def test_storm_needs_wind():
    assert not storm(30, 5)


def test_storm_needs_rain():
    assert not storm(0, 70)


def test_worst_cuts_the_list():
    assert len(worst(WEEK, 2)) == 2


def test_worst_starts_with_most_rain():
    assert [day.name for day in worst(WEEK, 2)] == ["tuesday", "friday"]
