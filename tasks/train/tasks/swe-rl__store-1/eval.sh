#!/bin/bash
set -uxo pipefail
cd /testbed
git config --global --add safe.directory /testbed
git checkout 7b694733a5b65c513ebfdd34edb844ca97990f30 tests/test_stock.py
git apply -v - <<'EOF_114329324912'
diff --git a/tests/test_stock.py b/tests/test_stock.py
index d12f7a5..70d4720 100644
--- a/tests/test_stock.py
+++ b/tests/test_stock.py
@@ -9,6 +9,10 @@ def test_low_stock_finds_short_items():
     assert [item.level for item in low_stock(stock(1, 9), 5)] == [1]
 
 
+def test_low_stock_includes_the_minimum():
+    assert [item.level for item in low_stock(stock(5, 6), 5)] == [5]
+
+
 def test_stock_value_without_deposit():
     assert stock_value(stock(2, 3), 0) == 10
 
EOF_114329324912
: '>>>>> Start Test Output'
python3 -m pytest -rA -p no:cacheprovider tests/test_stock.py
: '>>>>> End Test Output'
git checkout 7b694733a5b65c513ebfdd34edb844ca97990f30 tests/test_stock.py
