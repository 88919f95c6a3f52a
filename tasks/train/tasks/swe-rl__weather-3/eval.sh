#!/bin/bash
set -uxo pipefail
cd /testbed
git config --global --add safe.directory /testbed
git checkout c80ddcff816913bb87a08816012057417ebf11b5 tests/test_station.py
git apply -v - <<'EOF_114329324912'
diff --git a/tests/test_station.py b/tests/test_station.py
index c815b11..3b0087a 100644
--- a/tests/test_station.py
+++ b/tests/test_station.py
@@ -31,5 +31,9 @@ def test_chill_without_wind():
     assert chill(Station(12)) == 12
 
 
+def test_chill_wind_lowers_the_value():
+    assert chill(Station(12, 3)) == 6
+
+
 def test_chill_inside():
     assert chill(Station(12, 3, open=False)) == 12
EOF_114329324912
: '>>>>> Start Test Output'
python3 -m pytest -rA -p no:cacheprovider tests/test_station.py
: '>>>>> End Test Output'
git checkout c80ddcff816913bb87a08816012057417ebf11b5 tests/test_station.py
