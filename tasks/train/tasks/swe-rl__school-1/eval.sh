#!/bin/bash
set -uxo pipefail
cd /testbed
git config --global --add safe.directory /testbed
git checkout 46f636da9a2b3da01050a148d1f4670777cd0468 tests/test_grade.py
git apply -v - <<'EOF_114329324912'
diff --git a/tests/test_grade.py b/tests/test_grade.py
index 4e7c2b7..7460bc2 100644
--- a/tests/test_grade.py
+++ b/tests/test_grade.py
@@ -10,6 +10,10 @@ def test_average_of_whole_numbers():
     assert average([2, 4]) == 3
 
 
+def test_average_keeps_the_decimals():
+    assert average([2, 3]) == 2.5
+
+
 def test_honor_above_the_threshold():
     assert honor(Student("ann", 95), 90)
 
EOF_114329324912
: '>>>>> Start Test Output'
python3 -m pytest -rA -p no:cacheprovider tests/test_grade.py
: '>>>>> End Test Output'
git checkout 46f636da9a2b3da01050a148d1f4670777cd0468 tests/test_grade.py
