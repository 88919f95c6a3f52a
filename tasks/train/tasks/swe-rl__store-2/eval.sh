#!/bin/bash
set -uxo pipefail
cd /testbed
git config --global --add safe.directory /testbed
git checkout 68fbb5487c5785f999764864011890d17f7709f4 tests/test_stock.py
git apply -v - <<'EOF_114329324912'
diff --git a/tests/test_stock.py b/tests/test_stock.py
index cb0d07f..70d4720 100644
--- a/tests/test_stock.py
+++ b/tests/test_stock.py
@@ -17,6 +17,10 @@ def test_stock_value_without_deposit():
     assert stock_value(stock(2, 3), 0) == 10
 
 
+def test_stock_value_takes_the_deposit_away():
+    assert stock_value(stock(2, 3), 4) == 6
+
+
 def test_stock_value_of_nothing():
     assert stock_value([], 4) == 0
 
EOF_114329324912
: '>>>>> Start Test Output'
python3 -m pytest -rA -p no:cacheprovider tests/test_stock.py
: '>>>>> End Test Output'
git checkout 68fbb5487c5785f999764864011890d17f7709f4 tests/test_stock.py
