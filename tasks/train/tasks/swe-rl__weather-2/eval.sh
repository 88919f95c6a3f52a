#!/bin/bash
set -uxo pipefail
cd /testbed
git config --global --add safe.directory /testbed
git checkout 5fc9def49a01fa948416e4879e1873b269fd86be tests/test_station.py
git apply -v - <<'EOF_114329324912'
diff --git a/tests/test_station.py b/tests/test_station.py
index 4ea01db..3b0087a 100644
--- a/tests/test_station.py
+++ b/tests/test_station.py
@@ -23,6 +23,10 @@ def test_alarm_is_quiet_for_nothing():
     assert not alarm([], 3)
 
 
+def test_alarm_by_one_station():
+    assert alarm(SERIES, 20)
+
+
 def test_chill_without_wind():
     assert chill(Station(12)) == 12
 
EOF_114329324912
: '>>>>> Start Test Output'
python3 -m pytest -rA -p no:cacheprovider tests/test_station.py
: '>>>>> End Test Output'
git checkout 5fc9def49a01fa948416e4879e1873b269fd86be tests/test_station.py
