#!/bin/bash
set -uxo pipefail
cd /testbed
git config --global --add safe.directory /testbed
git checkout 6721c29cbe2c97c7035894b332547b0f06b5e640 tests/test_stock.py
git apply -v - <<'EOF_114329324912'
diff --git a/tests/test_stock.py b/tests/test_stock.py
index 234af1a..70d4720 100644
--- a/tests/test_stock.py
+++ b/tests/test_stock.py
@@ -27,3 +27,7 @@ def test_stock_value_of_nothing():
 
 def test_ready_when_everything_is_there():
     assert ready(stock(1, 2))
+
+
+def test_ready_needs_every_item():
+    assert not ready(stock(1, 0))
EOF_114329324912
: '>>>>> Start Test Output'
python3 -m pytest -rA -p no:cacheprovider tests/test_stock.py
: '>>>>> End Test Output'
git checkout 6721c29cbe2c97c7035894b332547b0f06b5e640 tests/test_stock.py
