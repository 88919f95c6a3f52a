#!/bin/bash
set -uxo pipefail
cd /testbed
git config --global --add safe.directory /testbed
git checkout 9247a99871883358f1f3db72fa994e5778221a4d tests/test_course.py
git apply -v - <<'EOF_114329324912'
diff --git a/tests/test_course.py b/tests/test_course.py
index 3a442ed..28d9712 100644
--- a/tests/test_course.py
+++ b/tests/test_course.py
@@ -23,3 +23,7 @@ def test_crowd_in_every_course():
 
 def test_crowd_in_no_school():
     assert not crowd([], 25)
+
+
+def test_crowd_in_one_course_is_enough():
+    assert crowd([Course(30, 30), Course(8, 30)], 25)
EOF_114329324912
: '>>>>> Start Test Output'
python3 -m pytest -rA -p no:cacheprovider tests/test_course.py
: '>>>>> End Test Output'
git checkout 9247a99871883358f1f3db72fa994e5778221a4d tests/test_course.py
