"""The time of matrix products: hand-worked cases, and what must hold for every shape and card."""

import itertools

import pytest

from gapless.vgpu.hardware.cards.fitted import constants
from gapless.vgpu.hardware.cards.specs import CARDS
from gapless.vgpu.hardware.times import products
from gapless.vgpu.hardware.times.products import Product, seconds

# One FLOP in 1 ns per SM, no losses, no memory: waves can be counted by hand.
PLAIN = {"start_s": 0.0, "rate_share": 1.0, "tile_loss": 0.0, "tn_loss": 0.0, **dict.fromkeys(("exposed_7", "exposed_8", "exposed_9"), 0.0), "lone_flops": 0.0,
         "tail": 1.0, "reread": 0.0, "memory_share": 1e9, "odd_bytes": 0.0, "overlap": 2.0, "split_s": 1.0, "burst": 0.0,
         "power_average_s": 1.0, "fed_share_64": 1.0, "fed_share_128": 1.0}


def waves(card, product, known=PLAIN):
    """In units of one tile of 128 × 128 on one SM."""
    _, busy = products.start_and_busy_s(product, card, known, product.matrices > 1)
    return busy / (2 * 128 * 128 * product.depth * card.sm_count / card.peak_flops["float32"])


def test_tiles_run_in_waves_over_the_multiprocessors():
    a100 = CARDS["a100_pcie"]  # 108 SMs; a batch has tiles of 128 × 128 only
    assert waves(a100, Product(108, 128, 128, 64)) == pytest.approx(1)
    assert waves(a100, Product(109, 128, 128, 64)) == pytest.approx(2)
    assert waves(a100, Product(54, 129, 128, 64)) == pytest.approx(1)  # a row too many is a tile more in each
    assert waves(a100, Product(108, 129, 128, 64)) == pytest.approx(2)


def test_of_the_tiles_the_fastest_is_taken():
    a100 = CARDS["a100_pcie"]
    # 54 tiles of 128 × 128 fill half of the SMs; 108 of 128 × 64 fill all, in half the time.
    assert waves(a100, Product(1, 54 * 128, 128, 4096)) == pytest.approx(0.5)


def test_a_deep_sum_of_few_tiles_is_split_where_the_partial_sums_are_few():
    a100, known = CARDS["a100_pcie"], {**PLAIN, "split_s": 0.0, "memory_share": 1.0}
    small, large = Product(1, 32, 32, 2**16), Product(1, 1024, 1024, 2**16)
    unsplit = {**known, "split_s": 1.0}
    assert waves(a100, small, known) < 0.2 * waves(a100, small, unsplit)
    assert waves(a100, large, known) == waves(a100, large, unsplit)  # 4 MB for one part: more than the workspace


def test_a_product_with_a_vector_reads_everything_once():
    card = CARDS["t4"]
    for product in (Product(1, 1, 4096, 4096), Product(1, 4096, 1, 4096)):
        start, busy = product.start_and_busy_s(card, "float32")
        assert busy == pytest.approx(4 * (4096**2 + 2 * 4096) / (320e9 * card.memory_share("matmul")))
        assert start == constants("products", "t4")["start_s"]


@pytest.mark.parametrize("key", CARDS)
def test_a_larger_product_never_takes_less(key):
    sizes = (2, 3, 31, 64, 100, 257, 1000, 4096)
    for matrices, fixed, other in itertools.product((1, 7, 500), sizes, sizes):
        for shape in ((None, fixed, other), (fixed, None, other), (fixed, other, None)):
            times = [seconds(Product(matrices, *(size if s is None else s for s in shape)), CARDS[key]) for size in sizes]
            # Rows inside a sector are cheaper: an aligned depth may undercut a shorter one, by that much.
            slack = 1 / (1 + constants("products")["odd_bytes"])
            assert all(later >= slack * earlier for earlier, later in itertools.pairwise(times)), (key, shape)


@pytest.mark.parametrize("key", CARDS)
def test_large_products_run_below_the_peak_and_above_a_fifth_of_it(key):
    card = CARDS[key]
    for product in (Product(1, 4096, 4096, 4096), Product(96, 1024, 1024, 128)):
        rate = 2 * product.matrices * product.rows * product.columns * product.depth / seconds(product, card)
        assert 0.2 < rate / card.peak_flops["float32"] < 1.02


def test_a_card_half_as_fast_takes_twice_as_long():
    for key, product in itertools.product(("t4", "h100"), (Product(1, 2048, 2048, 2048), Product(64, 512, 512, 64))):
        assert seconds(product, CARDS[key].slowed(2)) == pytest.approx(2 * seconds(product, CARDS[key]), rel=0.02)


def test_what_power_pays_for_holds_small_boards_back():
    known = constants("products")
    share = {key: products.sustained_share(card, known) for key, card in CARDS.items()}
    assert max(share["t4"], share["l4"]) < 0.6 < min(value for key, value in share.items() if key not in ("t4", "l4"))
    assert share["v100_pcie"] > share["h100"]  # 64 lanes an SM are fed better than 128


def test_a_short_product_on_a_small_board_is_faster_than_a_long_one():
    card = CARDS["t4"]
    short, long = Product(1, 1280, 1024, 2048), Product(1, 12800, 10240, 2048)
    assert 100 * seconds(short, card) < 0.95 * seconds(long, card)


def test_a_problem_is_a_key():
    assert {Product(1, 2, 3, 4): 1}[Product(1, 2, 3, 4, 4)] == 1
    assert Product(1, 2, 3, 4, 2) != Product(1, 2, 3, 4)


def test_a_linear_layers_layout_is_slower():
    for key in CARDS:
        assert seconds(Product(1, 4096, 4096, 4096, layout="tn"), CARDS[key]) > seconds(Product(1, 4096, 4096, 4096), CARDS[key])
