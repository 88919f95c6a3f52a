#!/bin/bash
set -uxo pipefail
cd /testbed
git config --global --add safe.directory /testbed
git checkout 89958f89a0c0aae57603456e0192ce47513c57bc tests/test_station.py
git apply -v - <<'EOF_114329324912'
diff --git a/tests/test_station.py b/tests/test_station.py
index 334fd3d..3b0087a 100644
--- a/tests/test_station.py
+++ b/tests/test_station.py
@@ -11,6 +11,10 @@ def test_peak_of_one_station():
     assert peak([Station(9)]) == 9
 
 
+def test_peak_is_the_warmest():
+    assert peak(SERIES) == 25
+
+
 def test_alarm_when_every_station_is_above():
     assert alarm(SERIES, 3)
 
EOF_114329324912
: '>>>>> Start Test Output'
python3 -m pytest -rA -p no:cacheprovider tests/test_station.py
: '>>>>> End Test Output'
git checkout 89958f89a0c0aae57603456e0192ce47513c57bc tests/test_station.py
