#!/bin/bash
set -uxo pipefail
cd /testbed
git config --global --add safe.directory /testbed
git checkout a7a36922e28e5c9190229c4f1418eca695df7c10 tests/test_forecast.py
git apply -v - <<'EOF_114329324912'
diff --git a/tests/test_forecast.py b/tests/test_forecast.py
index ab9e639..e75d595 100644
--- a/tests/test_forecast.py
+++ b/tests/test_forecast.py
@@ -33,3 +33,7 @@ def test_storm_needs_rain():
 
 def test_worst_cuts_the_list():
     assert len(worst(WEEK, 2)) == 2
+
+
+def test_worst_starts_with_most_rain():
+    assert [day.name for day in worst(WEEK, 2)] == ["tuesday", "friday"]
EOF_114329324912
: '>>>>> Start Test Output'
python3 -m pytest -rA -p no:cacheprovider tests/test_forecast.py
: '>>>>> End Test Output'
git checkout a7a36922e28e5c9190229c4f1418eca695df7c10 tests/test_forecast.py
