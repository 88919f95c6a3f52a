#!/bin/bash
set -uxo pipefail
cd /testbed
git config --global --add safe.directory /testbed
git checkout c494af23294d53880ade0e3f60e748c7e6107a10 tests/test_course.py
git apply -v - <<'EOF_114329324912'
diff --git a/tests/test_course.py b/tests/test_course.py
index 60906ad..28d9712 100644
--- a/tests/test_course.py
+++ b/tests/test_course.py
@@ -13,6 +13,10 @@ def test_seat_left_in_an_empty_course():
     assert seat_left(Course(0, 20)) == 20
 
 
+def test_seat_left_takes_students_away():
+    assert seat_left(Course(5, 20)) == 15
+
+
 def test_crowd_in_every_course():
     assert crowd([Course(30, 30), Course(28, 30)], 25)
 
EOF_114329324912
: '>>>>> Start Test Output'
python3 -m pytest -rA -p no:cacheprovider tests/test_course.py
: '>>>>> End Test Output'
git checkout c494af23294d53880ade0e3f60e748c7e6107a10 tests/test_course.py
