"""The model of bench/suite/scaling_model.py against cases that are worked out
by hand."""

import pathlib
import random
import sys
import unittest

sys.path.insert(
    0, str(pathlib.Path(__file__).absolute().parents[2] / "bench/suite"))

import scaling_model as model  # noqa: E402: in bench/suite

MB = 1_000_000
# Sums take half of their time of a core.
LINK = model.Link(latency=.001, bandwidth=100 * MB, cpu_hop=.0005,
                  cpu_byte=.5 / (100 * MB))


def step(finals, gradient_bytes=8 * MB):
    return model.Step(forward=.5, backward=1.0, update=.1, rest=.05,
                      gradient_bytes=gradient_bytes, finals=finals)


class ScalingModelTest(unittest.TestCase):

    def test_a_ring_sends_its_share_of_the_bytes_in_as_many_hops(self):
        self.assertAlmostEqual(LINK.sum_seconds(8 * MB, 2), .002 + .08)
        self.assertAlmostEqual(LINK.sum_seconds(8 * MB, 4), .006 + .12)
        self.assertAlmostEqual(LINK.cpu_seconds(8 * MB, 4), .003 + .06)

    def test_a_network_is_never_faster_than_the_core_that_feeds_it(self):
        fast = LINK.over(latency=0, bandwidth=1e15)
        self.assertAlmostEqual(fast.sum_seconds(8 * MB, 4),
                               LINK.cpu_seconds(8 * MB, 4))

    def test_a_link_is_found_again_in_the_sums_that_it_makes(self):
        seed = random.randrange(1 << 32)
        numbers = random.Random(seed)
        link = model.Link(*(numbers.uniform(1e-6, 1e-5) for _ in range(4)))
        link.cpu_hop /= 100
        link.cpu_byte, link.bandwidth = 1e-10, numbers.uniform(1e9, 5e9)
        for ranks in (2, 3, 8):
            found = model.fit(
                [(size, link.sum_seconds(size, ranks),
                  link.cpu_seconds(size, ranks))
                 for size in (1 << 14, 1 << 17, 1 << 20, 1 << 23)], ranks)
            for name in ("latency", "bandwidth", "cpu_hop", "cpu_byte"):
                one, other = getattr(link, name), getattr(found, name)
                self.assertAlmostEqual(other / one, 1, places=6,
                                       msg=f"{name}, seed {seed}")

    def test_times_that_fall_with_size_make_no_negative_latency(self):
        link = model.fit([(1000, 1e-6, 1e-6), (100_000, 3e-3, 3e-3)], 2)
        self.assertEqual(link.latency, 0)
        self.assertGreater(link.bandwidth, 0)

    def test_buckets_close_when_they_are_full_and_at_the_first_gradient(self):
        finals = [(7 * MB, .1), (5 * MB, .2), (1 * MB, .5), (0, 1.0)]
        self.assertEqual(model.buckets(step(finals), 2 * MB),
                         [(3 * MB, .2), (4 * MB, .5), (1 * MB, 1.0)])
        self.assertEqual(model.buckets(step(finals), 100 * MB),
                         [(8 * MB, 1.0)])

    def test_one_rank_communicates_nothing(self):
        alone = model.predict(step([(0, 1.0)]), LINK, 1, MB)
        self.assertAlmostEqual(alone.step_seconds, 1.65)
        self.assertEqual(alone.communication_seconds, 0)

    def test_what_becomes_final_at_the_end_is_paid_in_full(self):
        predicted = model.predict(step([(0, 1.0)]), LINK, 2, MB)
        self.assertAlmostEqual(predicted.cost_seconds, .082)
        self.assertAlmostEqual(predicted.step_seconds, 1.65 + .082)

    def test_what_is_final_early_costs_its_cpu_time_or_nothing(self):
        early = step([(MB, .1), (0, .2)])
        # Two sums: 7 MB, then 1 MB, .002 + .07 and .002 + .01.
        shared = model.predict(early, LINK, 2, MB)
        self.assertAlmostEqual(shared.communication_seconds, .084)
        self.assertAlmostEqual(shared.cost_seconds, .042)
        spare = model.predict(early, LINK, 2, MB, spare_core=True)
        self.assertAlmostEqual(spare.cost_seconds, 0)

    def test_sums_that_outlast_backward_are_paid_from_its_end(self):
        slow = LINK.over(latency=0, bandwidth=4 * MB)  # 8 MB in 2 s
        predicted = model.predict(step([(0, .5)]), slow, 2, MB,
                                  spare_core=True)
        self.assertAlmostEqual(predicted.cost_seconds, 1.5)

    def test_buckets_wait_for_those_before_them(self):
        slow = LINK.over(latency=0, bandwidth=4 * MB)
        queued = model.predict(step([(4 * MB, .5), (0, .6)]), slow, 2, MB,
                               spare_core=True)
        self.assertAlmostEqual(queued.cost_seconds, 1.5)


if __name__ == "__main__":
    unittest.main()
