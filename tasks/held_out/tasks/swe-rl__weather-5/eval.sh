#!/bin/bash
set -uxo pipefail
cd /testbed
git config --global --add safe.directory /testbed
git checkout 7c3e9b09148db1c2c0d70db96dc604c29953de4e tests/test_forecast.py
git apply -v - <<'EOF_114329324912'
diff --git a/tests/test_forecast.py b/tests/test_forecast.py
index 8dd5ed0..e75d595 100644
--- a/tests/test_forecast.py
+++ b/tests/test_forecast.py
@@ -23,6 +23,14 @@ def test_storm_is_false_on_a_calm_day():
     assert not storm(0, 5)
 
 
+def test_storm_needs_wind():
+    assert not storm(30, 5)
+
+
+def test_storm_needs_rain():
+    assert not storm(0, 70)
+
+
 def test_worst_cuts_the_list():
     assert len(worst(WEEK, 2)) == 2
 
EOF_114329324912
: '>>>>> Start Test Output'
python3 -m pytest -rA -p no:cacheprovider tests/test_forecast.py
: '>>>>> End Test Output'
git checkout 7c3e9b09148db1c2c0d70db96dc604c29953de4e tests/test_forecast.py
