#!/usr/bin/python3
"""The rules of check_models.py, on outputs made up here."""
import unittest

try:
    import numpy as np
except ImportError:
    print('skipped: python3-numpy is missing')
    raise SystemExit(0)
from check_models import difference, distance, judge, judge_run, make_input, parse_arguments


class Plain:
    is_narrow = has_halves = False


class Half:
    is_narrow = has_halves = True


TRUTH = np.linspace(1, 2, 1000)


def verdict(model, got, truth=TRUTH, wanted=()):
    return judge(model, 'y', got, truth, list(wanted)).wrong


class Rules(unittest.TestCase):
    def test_the_truth_agrees_and_noise_does_not(self):
        self.assertIsNone(verdict(Plain, TRUTH.astype('f4')))
        self.assertIsNone(verdict(Plain, TRUTH * (1 + 0.9e-5)))
        self.assertIn('too far', verdict(Plain, TRUTH * (1 + 1.1e-5)))
        self.assertIsNone(verdict(Half, TRUTH * (1 + 1.9e-3)))
        self.assertIn('too far', verdict(Half, TRUTH * (1 + 2.1e-3)))

    def test_one_wrong_element_is_seen(self):
        got = TRUTH.copy()
        got[77] = 1.5
        self.assertIn('too far', verdict(Plain, got))
        self.assertIn('too far', verdict(Plain, np.zeros_like(TRUTH)))

    def test_a_worse_peer_widens_the_limit_by_half(self):
        peers = [TRUTH * (1 + 1e-5), TRUTH * (1 + 1e-4)]
        self.assertIsNone(verdict(Plain, TRUTH * (1 + 1.4e-4), wanted=peers))
        self.assertIn('too far', verdict(Plain, TRUTH * (1 + 1.6e-4), wanted=peers))
        self.assertIn('too far', verdict(Plain, TRUTH * (1 + 1.4e-4), wanted=peers[:1]))

    def test_an_element_apart_from_the_peer_is_excused_where_the_peer_is_as_far_off(self):
        # Small elements of a large output: no norm sees them, and the peer is exact.
        truth = np.concatenate([TRUTH * 1e6, [1e-2]])
        got = truth.copy()
        got[-1] = 2e-2
        judged = judge(Plain, 'y', got, truth, [truth])
        self.assertEqual((judged.apart, judged.unexcused), (1, 1))
        self.assertIn('apart', judged.wrong)
        self.assertIsNone(verdict(Half, got, truth, [truth]))
        peer = truth.copy()
        peer[0] += 7e-3
        self.assertIsNone(verdict(Plain, got, truth, [peer]))
        # One of the peer's runs within the tolerance is enough.
        self.assertEqual(judge(Plain, 'y', got, truth, [truth, got]).apart, 0)

    def test_integers_are_equal_or_wrong(self):
        truth = np.arange(10)
        self.assertIsNone(verdict(Plain, truth.copy(), truth))
        got = truth.copy()
        got[3] = 4
        self.assertIn('1 of 10', verdict(Plain, got, truth))
        self.assertIn('extents', verdict(Plain, truth[:9], truth))

    def test_infinities_and_nan_have_their_places(self):
        truth = np.array([1.0, np.inf, -np.inf, np.nan])
        self.assertIsNone(verdict(Plain, truth.copy(), truth))
        self.assertIsNotNone(verdict(Plain, np.array([1.0, np.inf, np.inf, np.nan]), truth))
        self.assertIsNotNone(verdict(Plain, np.array([1.0, np.inf, -np.inf, 0.0]), truth))
        self.assertIsNotNone(verdict(Plain, np.array([np.nan, np.inf, -np.inf, np.nan]), truth))
        self.assertEqual(distance(truth, truth), 0)
        self.assertEqual(list(difference(truth, truth)), [0, 0, 0, 0])

    def test_a_run_is_as_wrong_as_its_worst_output(self):
        truth = {'a': TRUTH, 'b': np.arange(3)}
        self.assertIsNone(judge_run(Plain, dict(truth), truth, []).wrong)
        self.assertIsNotNone(judge_run(Plain, {'a': TRUTH, 'b': np.arange(3) + 1}, truth, []).wrong)
        self.assertIsNotNone(judge_run(Plain, {'a': TRUTH * 2, 'b': np.arange(3)}, truth, []).wrong)
        self.assertIsNotNone(judge_run(Plain, {'a': TRUTH}, truth, []).wrong)


class Inputs(unittest.TestCase):
    def test_follow_their_rules(self):
        given = parse_arguments('--dim batch=3 --shape a:0=2x3 --fill ids=randint:0:5')
        self.assertEqual(given, {'--dim': {'batch': '3'}, '--shape': {'a:0': '2x3'}, '--fill': {'ids': 'randint:0:5'}})
        ids = make_input('ids', 'i64', [100], 'randint:0:5', 1)
        self.assertEqual((ids.min(), ids.max(), ids.dtype), (0, 4, np.int64))
        self.assertEqual(make_input('attention_mask', 'i64', [2, 2], None, 1).tolist(), [[1, 1], [1, 1]])
        self.assertEqual(make_input('position', 'i32', [2, 3], None, 1).tolist(), [[0, 1, 2], [0, 1, 2]])
        self.assertEqual(make_input('x', 'f32', [3], 'const:20', 1).tolist(), [20, 20, 20])
        self.assertTrue((make_input('x', 'f16', [50], None, 1) == make_input('x', 'f16', [50], None, 1)).all())
        self.assertFalse((make_input('x', 'f32', [50], None, 1) == make_input('x', 'f32', [50], None, 2)).all())


if __name__ == '__main__':
    unittest.main()
