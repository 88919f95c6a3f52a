#!/bin/bash
set -uxo pipefail
cd /testbed
git config --global --add safe.directory /testbed
git checkout 6f675fe4275ca95b3adb48621395eefe8194a9bc tests/test_grade.py
git apply -v - <<'EOF_114329324912'
diff --git a/tests/test_grade.py b/tests/test_grade.py
index cfac95c..7460bc2 100644
--- a/tests/test_grade.py
+++ b/tests/test_grade.py
@@ -33,3 +33,8 @@ def test_honor_needs_a_name():
 
 def test_rank_of_nobody():
     assert rank([]) == []
+
+
+def test_rank_starts_with_the_best():
+    group = [Student("ann", 70), Student("bob", 90)]
+    assert [student.name for student in rank(group)] == ["bob", "ann"]
EOF_114329324912
: '>>>>> Start Test Output'
python3 -m pytest -rA -p no:cacheprovider tests/test_grade.py
: '>>>>> End Test Output'
git checkout 6f675fe4275ca95b3adb48621395eefe8194a9bc tests/test_grade.py
