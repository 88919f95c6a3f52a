#!/bin/bash
set -uxo pipefail
cd /testbed
git config --global --add safe.directory /testbed
git checkout 3008914c7c32b4a54fd8983e4b7a3ad55436c094 tests/test_forecast.py
git apply -v - <<'EOF_114329324912'
diff --git a/tests/test_forecast.py b/tests/test_forecast.py
index 9ed1a94..e75d595 100644
--- a/tests/test_forecast.py
+++ b/tests/test_forecast.py
@@ -7,6 +7,10 @@ def test_speed_of_whole_numbers():
     assert speed(60, 2) == 30
 
 
+def test_speed_keeps_the_decimals():
+    assert speed(5, 2) == 2.5
+
+
 def test_speed_without_time():
     assert speed(5, 0) == 0
 
EOF_114329324912
: '>>>>> Start Test Output'
python3 -m pytest -rA -p no:cacheprovider tests/test_forecast.py
: '>>>>> End Test Output'
git checkout 3008914c7c32b4a54fd8983e4b7a3ad55436c094 tests/test_forecast.py
