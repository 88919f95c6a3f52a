#!/bin/bash
set -uxo pipefail
cd /testbed
git config --global --add safe.directory /testbed
git checkout c89b1be03801063e3ea0dc26e6ef981490d7f6cf tests/test_route.py
git apply -v - <<'EOF_114329324912'
diff --git a/tests/test_route.py b/tests/test_route.py
index f5bf0bd..9cc66d1 100644
--- a/tests/test_route.py
+++ b/tests/test_route.py
@@ -12,6 +12,10 @@ def test_sort_route_keeps_every_stop():
     assert len(sort_route(ROUTE)) == 3
 
 
+def test_sort_route_starts_far_away():
+    assert [stop.name for stop in sort_route(ROUTE)] == ["c", "b", "a"]
+
+
 def test_stop_count_of_nothing():
     assert stop_count([]) == 0
 
EOF_114329324912
: '>>>>> Start Test Output'
python3 -m pytest -rA -p no:cacheprovider tests/test_route.py
: '>>>>> End Test Output'
git checkout c89b1be03801063e3ea0dc26e6ef981490d7f6cf tests/test_route.py
