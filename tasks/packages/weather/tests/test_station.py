from weather.station import Station, alarm, chill, peak

SERIES = [Station(12, 30), Station(25, 5), Station(8, 10)]


def test_peak_of_nothing():
    assert peak([]) == 0


def test_peak_of_one_station():
    assert peak([Station(9)]) == 9


def test_peak_is_the_warmest():
    assert peak(SERIES) == 25


def test_alarm_when_every_station_is_above():
    assert alarm(SERIES, 3)


def test_alarm_is_quiet_for_nothing():
    assert not alarm([], 3)


def test_alarm_by_one_station():
    assert alarm(SERIES, 20)


def test_chill_without_wind():
    assert chill(Station(12)) == 12


def test_chill_wind_lowers_the_value():
    assert chill(Station(12, 3)) == 6


def test_chill_inside():
    assert chill(Station(12, 3, open=False)) == 12
