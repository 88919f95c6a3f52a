from store.parcel import Parcel, bulk, charge_weight, cost_share


def test_charge_weight_of_an_even_parcel():
    assert charge_weight(Parcel(2)) == 2


def test_charge_weight_of_a_dense_parcel():
    assert charge_weight(Parcel(9)) == 9


def test_charge_weight_of_a_light_parcel():
    assert charge_weight(Parcel(1, 100, 10)) == 20


def test_cost_share_of_whole_numbers():
    assert cost_share(Parcel(1, cost=10), 2) == 5


def test_cost_share_keeps_the_decimals():
    assert cost_share(Parcel(1, cost=5), 2) == 2.5


def test_cost_share_of_nobody():
    assert cost_share(Parcel(1, cost=5), 0) == 0


def test_bulk_is_false_for_a_small_parcel():
    assert not bulk(Parcel(1), 20)


def test_bulk_is_true_for_a_long_and_heavy_parcel():
    assert bulk(Parcel(30, 120), 20)


def test_bulk_by_weight_alone():
    assert bulk(Parcel(30), 20)


def test_bulk_by_length_alone():
    assert bulk(Parcel(1, 120), 20)
