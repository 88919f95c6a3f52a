#!/bin/bash
set -uxo pipefail
cd /testbed
git config --global --add safe.directory /testbed
git checkout b900b578509dffc25498a732391d01e1fc2d4b7c tests/test_course.py
git apply -v - <<'EOF_114329324912'
diff --git a/tests/test_course.py b/tests/test_course.py
index fb5130d..28d9712 100644
--- a/tests/test_course.py
+++ b/tests/test_course.py
@@ -5,6 +5,10 @@ def test_lesson_count_of_an_empty_course():
     assert lesson_count(Course(0, 20), 10) == 0
 
 
+def test_lesson_count_of_ten_weeks():
+    assert lesson_count(Course(5, 20), 10) == 20
+
+
 def test_seat_left_in_an_empty_course():
     assert seat_left(Course(0, 20)) == 20
 
EOF_114329324912
: '>>>>> Start Test Output'
python3 -m pytest -rA -p no:cacheprovider tests/test_course.py
: '>>>>> End Test Output'
git checkout b900b578509dffc25498a732391d01e1fc2d4b7c tests/test_course.py
