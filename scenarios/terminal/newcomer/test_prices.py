import unittest

from prices import total


class TotalTest(unittest.TestCase):
    def test_total_is_price_times_quantity(self):
        self.assertEqual(total(2.5, 4), 10.0)


if __name__ == "__main__":
    unittest.main()
