#!/bin/bash
set -uxo pipefail
cd /testbed
git config --global --add safe.directory /testbed
git checkout 3a664b8fa28a3e757b464e541955ec916cc7f708 tests/test_route.py
git apply -v - <<'EOF_114329324912'
diff --git a/tests/test_route.py b/tests/test_route.py
index 8558c8a..9cc66d1 100644
--- a/tests/test_route.py
+++ b/tests/test_route.py
@@ -20,6 +20,10 @@ def test_stop_count_of_nothing():
     assert stop_count([]) == 0
 
 
+def test_stop_count_counts_every_stop():
+    assert stop_count(ROUTE) == 3
+
+
 def test_arrival_at_once():
     assert arrival(8, 0, 50) == 8
 
EOF_114329324912
: '>>>>> Start Test Output'
python3 -m pytest -rA -p no:cacheprovider tests/test_route.py
: '>>>>> End Test Output'
git checkout 3a664b8fa28a3e757b464e541955ec916cc7f708 tests/test_route.py
