#!/bin/bash
set -uxo pipefail
cd /testbed
git config --global --add safe.directory /testbed
git checkout 7c4209332fcb565ae3978b1d6bcdbd80641d5f57 tests/test_route.py
git apply -v - <<'EOF_114329324912'
diff --git a/tests/test_route.py b/tests/test_route.py
index d39ccdf..9cc66d1 100644
--- a/tests/test_route.py
+++ b/tests/test_route.py
@@ -28,6 +28,10 @@ def test_arrival_at_once():
     assert arrival(8, 0, 50) == 8
 
 
+def test_arrival_later():
+    assert arrival(8, 100, 50) == 10
+
+
 def test_arrival_needs_speed():
     with pytest.raises(ValueError):
         arrival(8, 100, 0)
EOF_114329324912
: '>>>>> Start Test Output'
python3 -m pytest -rA -p no:cacheprovider tests/test_route.py
: '>>>>> End Test Output'
git checkout 7c4209332fcb565ae3978b1d6bcdbd80641d5f57 tests/test_route.py
