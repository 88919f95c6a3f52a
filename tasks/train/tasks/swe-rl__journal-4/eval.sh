#!/bin/bash
set -uxo pipefail
cd /testbed
git config --global --add safe.directory /testbed
git checkout 9921623812f34583222b5098fd195f9c049945c0 tests/test_page.py
git apply -v - <<'EOF_114329324912'
diff --git a/tests/test_page.py b/tests/test_page.py
index c0db667..b982ecd 100644
--- a/tests/test_page.py
+++ b/tests/test_page.py
@@ -5,6 +5,10 @@ def test_line_height_of_whole_numbers():
     assert line_height(Page(1), 20) == 3
 
 
+def test_line_height_keeps_the_decimals():
+    assert line_height(Page(1), 24) == 2.5
+
+
 def test_line_height_of_an_empty_page():
     assert line_height(Page(1), 0) == 60
 
EOF_114329324912
: '>>>>> Start Test Output'
python3 -m pytest -rA -p no:cacheprovider tests/test_page.py
: '>>>>> End Test Output'
git checkout 9921623812f34583222b5098fd195f9c049945c0 tests/test_page.py
